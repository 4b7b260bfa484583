/* SPDX-License-Identifier: ISC */
/* Sources that are warmed up, over the loss of processes, of the state, of the boot, and with a wall
 * clock that steps: never one above the plan. */
#include <sys/stat.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/destination/sources.h"
#include "engine/hints/hints.h"
#include "engine/journal/journal_keep.h"
#include "engine/journal/journal_manual.h"
#include "engine/journal/journal_restore.h"
#include "engine/journal/journal_sources.h"
#include "segment/file/internal.h"
#include "segment/hints/hints.h"
#include "segment/hints/sources.h"
#include "tests/unit/own_site.h"
#include "tests/unit/random.h"

#define S	NS_PER_SECOND
#define HOUR	(3600 * S)
#define DAY	WARM_DAY_NS
#define SITE \
	"classes = ();\n" \
	"mta = ( { name = \"out\"; kind = \"postfix\"; log = \"\"; } );\n" \
	"hints = { group = \"root\"; };\n" \
	"sources = ( { name = \"ip2\"; transport = \"smtp-ip2\"; warm = { plan = [ 50, 100, 200, 400 ];\n" \
	"  per = \"source\"; grow_if = { used = \"60%\"; throttled = \"2%\"; };\n" \
	"  back_if = { throttled = \"8%\"; }; }; } );\n"

static int64_t now_ns, wall_ns;
static struct journal_manual_log *journal;
static struct engine_hints *hints;
static struct hints_reader *reader;
static unsigned damaged;

static void note_news(void *context, const struct journal_news *one) {
	damaged += one->kind == JOURNAL_NEWS_DAMAGED;
}

static const struct journal_listener listener = { note_news, NULL };

static void open_keeper(void) {
	static const struct hints_calls calls = { .context = NULL };
	struct diag diag;

	assert_int_equal(journal_manual_open(&journal, site.engine, site.generation, &listener,
	    now_ns, &diag), 0);
	assert_non_null(journal);
	assert_int_equal(engine_hints_open(&hints, site.engine, (gid_t)-1, &calls, &diag), 0);
}

static void close_keeper(void) {
	engine_hints_close(&hints);
	journal_manual_close(&journal);
}

static void open_reader(void) {
	char path[160];

	snprintf(path, sizeof(path), "%s/state.hints", site.directory);
	reader = hints_reader_open(path);
	assert_non_null(reader);
}

static int begin(void **state) {
	char path[160];

	site_open(&site, 64, SITE);
	snprintf(path, sizeof(path), "%s/journal", site.directory);
	(void)mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/journal/keeper", site.directory);
	(void)mkdir(path, 0700);
	now_ns = clock_now_ns();
	wall_ns = clock_wall_ns();
	damaged = 0;
	open_keeper();
	open_reader();
	return 0;
}

static int end(void **state) {
	close_keeper();
	hints_reader_close(&reader);
	site_close(&site);
	return 0;
}

static void pass(int64_t ns) {
	now_ns += ns;
	wall_ns += ns;
}

static void turn(void) {
	struct diag diag;

	assert_int_equal(engine_hints_turn(hints, now_ns, &diag), 0);
}

/* Seconds of the keeper: its journal, and the thread of its hints. */
static void turns(unsigned count) {
	while (count-- > 0) {
		pass(S);
		turn();
		journal_manual_turn(journal, now_ns, wall_ns);
		usleep(2000);	/* its thread syncs meanwhile */
	}
}

static bool has_any(const void *context, uint64_t transport) {
	(void)context, (void)transport;
	return true;
}

static struct source_view look(void) {
	struct source_view view;

	engine_source_look(site.engine, site.generation, 0, SOURCE_OTHERS, now_ns, &view);
	return view;
}

/* The thread of the journal syncs when the machine lets it. */
static void wait_for_left(uint32_t count) {
	for (int i = 0; i < 20000 && look().left < count; i++) {
		usleep(500);
		journal_manual_hurry(journal, now_ns, wall_ns);
		turn();
	}
	assert_in_range(look().left, count, UINT32_MAX);
}

static unsigned sent(unsigned questions) {
	struct hints_answer answer;
	unsigned count = 0;

	for (unsigned i = 0; i < questions; i++) {
		hints_reader_allow_sources(reader, has_any, NULL);
		hints_reader_ask(reader, "out", "u@a.example", 11, false, now_ns, &answer);
		count += answer.kind == HINTS_SOURCE;
	}
	return count;
}

/* The state file is lost, and all processes; with the boot's clock, where that is moved. */
static void lose_all(int64_t clock_moves_ns, int64_t wall_moves_ns, bool boots) {
	static const char *const names[] = { "state", "state.sessions", "state.hints",
		"state.hints.given" };
	char path[160];

	close_keeper();
	hints_reader_close(&reader);
	for (unsigned i = 0; i < (boots ? 4 : 2); i++) {
		snprintf(path, sizeof(path), "%s/%s", site.directory, names[i]);
		(void)unlink(path);
	}
	site_restart(&site, 64, SITE);
	now_ns += clock_moves_ns;
	wall_ns += wall_moves_ns;
	if (boots)
		site.segment->header->boot_id[0] ^= 1;
	assert_true(engine_journal_restore(site.engine, site.generation, &listener, now_ns,
	    wall_ns));
	segment_has_learned(site.segment, true);
	open_keeper();
	open_reader();
}

static void reboot(int64_t took_ns, int64_t wall_moves_ns) {
	lose_all(-now_ns + 30 * S, took_ns + wall_moves_ns, true);
}

TEST_IN(begin, end, nothing_is_released_before_the_journal_has_it) {
	turn();
	turn();
	assert_int_equal(sent(100), 0);
	turns(8);
	wait_for_left(25);
	assert_int_equal(sent(100), 25);
	turn();
	assert_int_equal(sent(100), 0);
	turns(8);
	wait_for_left(16);
	assert_int_equal(sent(100), 16);
}

TEST_IN(begin, end, counts_survive_a_reboot) {
	turns(8);
	wait_for_left(20);
	assert_int_equal(sent(20), 20);
	turns(4);
	assert_int_equal(look().warm.sent, 20);
	/* ten minutes without power; 16 of the 30 left were taken ahead, and may have been used */
	reboot(600 * S, 0);
	assert_int_equal(damaged, 0);
	turns(4);
	assert_int_equal(look().warm.sent, 20 + 16);
	assert_in_range(look().warm.ends_ns - now_ns, DAY - 640 * S, DAY - 600 * S);
	for (unsigned i = 0; i < 10 || (i < 200 && look().warm.sent < 50); i++) {
		(void)sent(100);
		turns(3);
	}
	assert_int_equal(look().warm.sent, 50);
	/* 100 the next day */
	for (unsigned i = 0; i < 13; i++)
		engine_source_result(site.engine, site.generation, 0, SOURCE_OTHERS,
		    &(struct source_result){ .counts = true }, now_ns);
	pass(DAY);
	turns(8);
	wait_for_left(3);
	assert_int_equal(sent(3), 3);
	turns(1);
	assert_int_equal(look().warm.number, 100);
}

TEST_IN(begin, end, what_was_taken_and_not_counted_yet_survives_a_reboot) {
	turns(8);
	wait_for_left(25);
	assert_int_equal(sent(25), 25);
	reboot(0, 0);
	turns(4);
	assert_int_equal(look().warm.sent, 25);
	assert_int_equal(look().left, 25);
}

TEST_IN(begin, end, a_clock_that_was_set_back_ends_no_day) {
	turns(8);
	wait_for_left(20);
	assert_int_equal(sent(20), 20);
	turns(4);
	reboot(2 * HOUR, -1000 * DAY);
	turns(4);
	assert_in_range(look().warm.ends_ns - now_ns, DAY - 20 * S, DAY);
	assert_in_range(look().warm.sent, 20, 50);
	/* it is set right while we run */
	wall_ns += 1000 * DAY;
	turns(4);
	assert_in_range(look().warm.ends_ns - now_ns, DAY - 40 * S, DAY);
}

TEST_IN(begin, end, a_state_that_was_lost_alone) {
	turns(8);
	wait_for_left(20);
	assert_int_equal(sent(20), 20);
	/* what was not released yet would count */
	do
		turns(4);
	while (journal_sources_wait(site.engine));
	wall_ns -= 30 * DAY;
	lose_all(0, 0, false);
	turns(4);
	/* the clock of the boot tells the day; what is left of the file is known yet */
	assert_in_range(look().warm.ends_ns - now_ns, DAY - HOUR, DAY);
	assert_int_equal(look().warm.sent, 20);
}

/* What was really sent in the day that the source thinks it is. */
struct day {
	int64_t begin_ns;	/* by the clock of now */
	uint32_t sent;
};

static void count(struct day *day, uint32_t went) {
	struct source_view view = look();
	int64_t begin_ns = view.warm.ends_ns - DAY;

	if (view.warm.ends_ns == 0)
		begin_ns = now_ns;
	/* those went since the last turn */
	if (begin_ns - day->begin_ns > S || day->begin_ns - begin_ns > 365 * DAY)
		day->sent = 0;
	day->begin_ns = begin_ns;
	day->sent += went;
	/* each is counted, and no more go than the number */
	assert_true(view.warm.sent >= day->sent);
	if (view.warm.number != 0)
		assert_true(day->sent <= view.warm.number);
}

static void kill_something(struct random *random, struct day *day) {
	int64_t took_ns = (int64_t)random_below(random, 60) * 60 * S, before_ns = now_ns;

	static char boot_id[sizeof(site.segment->header->boot_id)];

	if (boot_id[0] == '\0')
		assert_true(clock_boot_id(boot_id));
	switch (random_below(random, 5)) {
	case 0:
		close_keeper();
		open_keeper();
		break;
	case 1:
		hints_reader_close(&reader);
		open_reader();
		break;
	case 2:
		/* the state of a boot that was made up would not be taken over */
		if (memcmp(site.segment->header->boot_id, boot_id, sizeof(boot_id)) == 0) {
			close_keeper();
			site_restart(&site, 64, SITE);
			open_keeper();
			break;
		}
		__attribute__((fallthrough));
	case 3:
		lose_all(0, 0, false);
		break;
	default:
		reboot(took_ns, random_below(random, 2) == 0 ? 0 : -(int64_t)random_below(random, 90) * DAY);
		/* the day is that of before, or seems to have begun later: never sooner */
		day->begin_ns += now_ns - before_ns - took_ns;
		if (look().warm.ends_ns - DAY > day->begin_ns)
			day->begin_ns = look().warm.ends_ns - DAY;
		break;
	}
}

static void result_of(struct random *random, uint32_t went) {
	struct source_result result = { .counts = true, .sent_ns = now_ns };

	for (uint32_t i = 0; i < went; i++) {
		result.throttled = random_below(random, 20) == 0;
		engine_source_result(site.engine, site.generation, 0, SOURCE_OTHERS, &result,
		    now_ns);
	}
}

TEST_IN(begin, end, never_one_above_the_plan_through_kills_and_reboots) {
	struct random random = random_seeded("sources_kills");
	struct day day = { .begin_ns = now_ns };
	uint64_t all = 0;

	turns(4);
	for (unsigned i = 0; i < 400; i++) {
		uint32_t went = sent(random_below(&random, 60));

		if (i % 20 == 19)
			kill_something(&random, &day);
		else
			pass((int64_t)random_below(&random, 4) * HOUR);
		turns(1 + random_below(&random, 4));
		count(&day, went);
		if (random_below(&random, 8) > 0)
			result_of(&random, went);
		all += went;
	}
	assert_int_equal(damaged, 0);
	/* about 25 days: it is used all the same */
	assert_true(all > 700);
}
