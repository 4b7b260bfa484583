/* SPDX-License-Identifier: ISC */
/* Each result counts once, whenever all is lost: results of two logs for the same
 * destinations, processes that are killed at any time, a journal that is cut anywhere. */
#include "tests/unit/test.h"
#include "tests/unit/engine/journal/journal_site.h"
#include "tests/unit/random.h"

#define LOGS		2
#define NAMES		12
#define LINES		400	/* of each log */
#define ROUNDS		60

/* What each line of a log tells: whose it is, and whether it went. */
static struct {
	uint8_t name;
	bool ok;
} lines[LOGS][LINES];
static uint32_t records[LOGS];
static struct feed_position at[LOGS];

static void name_of(unsigned number, char out[32]) {
	snprintf(out, 32, "d%u.example", number);
}

static void write_logs(struct random *random) {
	for (unsigned log = 0; log < LOGS; log++)
		for (unsigned i = 0; i < LINES; i++) {
			lines[log][i].name = (uint8_t)random_below(random, NAMES);
			lines[log][i].ok = random_below(random, 4) != 0;
		}
}

/* As a feed that starts finds them, or begins them. */
static void find_places(void) {
	for (unsigned log = 0; log < LOGS; log++) {
		struct feed_position found[FEED_FILES_MAX];
		uint32_t numbers[FEED_FILES_MAX];
		unsigned count = feed_positions(site.segment, 100 + log, found, numbers);

		assert_in_range(count, 0, 1);
		at[log] = count == 1 ? found[0] : (struct feed_position){ .log = 100 + log,
			.device = 5, .inode = 10 + log };
		records[log] = count == 1 ? numbers[0] :
		    feed_position_begin(site.segment, &at[log]);
	}
}

static void feed_one(unsigned log) {
	unsigned i = (unsigned)at[log].spot.offset;
	struct state_lock lock;
	struct state_origin origin = { feed_origin_id(&at[log]), i + 1 };
	char name[32];

	if (i >= LINES)
		return;
	name_of(lines[log][i].name, name);
	assert_true(states_aim(site.segment, name, strlen(name), &lock));
	assert_int_equal(states_lock(&lock, now_ns, STATES_CREATE), STATES_HELD);
	if (!states_was_applied(&lock, &origin)) {
		if (!lock.state.begun)
			window_begin(&lock.state.window, &window_defaults);
		lock.state.begun = true;
		lock.state.ok += lines[log][i].ok;
		lock.state.failed += !lines[log][i].ok;
		lock.origin = origin;
		states_store(&lock);
	}
	states_unlock(&lock);
	at[log].spot.offset = i + 1;
	feed_position_move(site.segment, records[log], &at[log].spot);
}

static void feed_some(struct random *random, unsigned most) {
	for (unsigned i = random_below(random, most); i > 0; i--)
		feed_one(random_below(random, LOGS));
}

/* Of the file that is written now, as a crash of the machine may. */
static void cut_journal(struct random *random) {
	char directory[160], path[420], last[420] = "";
	const struct dirent *entry;
	struct stat status;
	DIR *list;

	room_path("feed", directory);
	list = opendir(directory);
	assert_non_null(list);
	while ((entry = readdir(list)) != NULL) {
		if (strstr(entry->d_name, ".log") == NULL)
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		if (strcmp(path, last) > 0)
			snprintf(last, sizeof(last), "%s", path);
	}
	closedir(list);
	assert_int_equal(stat(last, &status), 0);
	assert_int_equal(truncate(last, status.st_size - (off_t)random_below(random,
	    1 + (uint32_t)(status.st_size < 2000 ? status.st_size : 2000))), 0);
}

static void lose(struct random *random) {
	bool machine = random_below(random, 2) == 0;

	close_journals();
	if (machine)
		cut_journal(random);
	/* without: only the roles died, and the segment is adopted */
	if (machine || random_below(random, 2) == 0) {
		remove_state();
		site_restart(&site, 64, JOURNAL_SITE);
		restore();
	} else {
		site_restart(&site, 64, JOURNAL_SITE);
	}
	find_places();
	open_journals();
}

static void assert_counts(void) {
	unsigned ok[NAMES] = { 0 }, not_ok[NAMES] = { 0 };
	struct destination_window is;
	char name[32];

	for (unsigned log = 0; log < LOGS; log++)
		for (unsigned i = 0; i < LINES; i++) {
			ok[lines[log][i].name] += lines[log][i].ok;
			not_ok[lines[log][i].name] += !lines[log][i].ok;
		}
	for (unsigned i = 0; i < NAMES; i++) {
		name_of(i, name);
		assert_true(find_state(name, &is));
		assert_int_equal(is.state.ok, ok[i]);
		assert_int_equal(is.state.failed, not_ok[i]);
	}
}

TEST(each_result_counts_once) {
	struct random random = random_seeded("t_journal_state_once");

	for (unsigned round = 0; round < ROUNDS; round++) {
		open_site(NULL);
		write_logs(&random);
		find_places();
		for (unsigned life = 0; life < 6; life++) {
			for (unsigned i = random_below(&random, 6); i > 0; i--) {
				feed_some(&random, 40);
				turn();
			}
			feed_some(&random, 20);
			lose(&random);
		}
		for (unsigned i = 0; i < LINES; i++)
			for (unsigned log = 0; log < LOGS; log++)
				feed_one(log);
		assert_counts();
		close_site(NULL);
	}
}

static void feed_line_of(unsigned log, const char *name) {
	struct state_origin origin = { feed_origin_id(&at[log]), at[log].spot.offset + 1 };
	struct state_lock lock;

	assert_true(states_aim(site.segment, name, strlen(name), &lock));
	assert_int_equal(states_lock(&lock, now_ns, STATES_CREATE), STATES_HELD);
	if (!states_was_applied(&lock, &origin)) {
		if (!lock.state.begun)
			window_begin(&lock.state.window, &window_defaults);
		lock.state.begun = true;
		lock.state.ok++;
		lock.origin = origin;
		states_store(&lock);
	}
	states_unlock(&lock);
	at[log].spot.offset++;
	feed_position_move(site.segment, records[log], &at[log].spot);
}

/* More than are written in a turn: meanwhile more comes, of both logs to the same ones. */
TEST(a_group_of_several_turns_is_of_one_moment) {
	struct destination_window is;
	unsigned counted_before = 0;
	char name[32];

	site_open_sized(&site, 64, 65536, JOURNAL_SITE);
	now_ns = clock_now_ns();
	wall_ns = clock_wall_ns();
	make_rooms();
	find_places();
	for (unsigned i = 0; i < 30000; i++) {
		name_of(i, name);
		feed_line_of(0, name);
	}
	open_journals();
	for (unsigned i = 0; i < 2; i++) {
		turn();
		/* some that were written, and some that were not */
		for (unsigned k = 0; k < 30000; k += 500) {
			name_of(k, name);
			feed_line_of(0, name);
			feed_line_of(1, name);
		}
	}
	turns(3);
	lose_and_restore();
	find_places();
	/* both logs are at the lines that were dealt with */
	assert_int_equal(at[0].spot.offset, 30000 + 2 * 60);
	assert_int_equal(at[1].spot.offset, 2 * 60);
	for (unsigned i = 0; i < 30000; i++) {
		name_of(i, name);
		assert_true(find_state(name, &is));
		counted_before += is.state.ok;
	}
	assert_int_equal(counted_before, 30000 + 4 * 60);
	site_close(&site);
}
