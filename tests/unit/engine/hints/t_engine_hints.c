/* SPDX-License-Identifier: ISC */
/* LINT-SIZE: one world for all: a Postfix, its lanes and its hints file */
#include <sys/stat.h>
#include "tests/unit/test.h"
#include "base/clock.h"
#include "config/compile/compile.h"
#include "engine/hints/hints.h"
#include "engine/hints/hints_internal.h"
#include "engine/destination/windows.h"
#include "segment/decision/decisions.h"
#include "segment/hints/hints.h"
#include "segment/file/internal.h"
#include "segment/hints/lane_uses.h"
#include "segment/destination/states.h"
#include "tests/unit/random.h"
#include "tests/unit/site.h"

#define CLASSES	"classes = ( " \
	"{ name = \"slow\"; match = [ \"*.slow.example\" ]; hold_at = 2; }, " \
	"{ name = \"seen\"; match = [ \"seen.example\" ]; hold_at = 1; observe = true; }, " \
	"{ name = \"rate\"; match = [ \"rate.example\" ]; rate = \"9/1m\"; } );\n"

struct place {
	struct site site;
	char file[160], facts[160];
	struct engine_hints *hints;
	struct hints_reader *reader;
	struct generation *generation;	/* a copy, to be spoiled */
	bool may_reload;		/* of the next publication */
	const char *more;		/* settings of it */
};

static struct place *place;	/* of the test that runs */

static void write_file(const char *path, const char *text) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* Publishes a configuration with a Postfix whose site file holds `facts`. */
static void publish(const char *facts) {
	const struct site *site = &place->site;
	struct config_messages messages;
	struct generation *generation;
	char text[1024];
	struct diag diag;

	write_file(place->facts, facts);
	snprintf(text, sizeof(text), "version = 1; state = { path = \"%s/state\"; "
	    "sessions = \"1k\"; };\n" CLASSES "mta = ( { name = \"other\"; kind = "
	    "\"sendmail\"; }, { name = \"out\"; kind = \"postfix\"; site = \"%s\"; "
	    "reload = %s; } );\n%s", site->directory, place->facts,
	    place->may_reload ? "true" : "false", place->more == NULL ? "" : place->more);
	write_file(place->file, text);
	generation = config_compile(place->file, &messages);
	if (generation == NULL)
		fail_msg("%s", messages.list[0].text);
	config_messages_free(&messages);
	assert_int_equal(segment_publish(site->segment, generation, &diag), 0);
	free(place->generation);
	place->generation = generation;
}

static unsigned reloads;
static bool reload_is_refused;

static bool note_reload(void *context, unsigned mta, uint64_t generation) {
	assert_int_equal(mta, 1);
	assert_true(generation > 0);
	reloads++;
	return !reload_is_refused;
}

static const struct hints_calls calls = { note_reload, NULL };

static int set_up(void **state) {
	static struct place opened;
	char path[200];
	struct diag diag;

	memset(&opened, 0, sizeof(opened));
	place = &opened;
	site_open(&opened.site, 1024, CLASSES);
	snprintf(opened.file, sizeof(opened.file), "%s/conf", opened.site.directory);
	snprintf(opened.facts, sizeof(opened.facts), "%s/facts", opened.site.directory);
	snprintf(path, sizeof(path), "%s.hints", segment_path(opened.site.segment));
	opened.reader = hints_reader_open(path);
	assert_int_equal(engine_hints_open(&opened.hints, opened.site.engine,
	    (gid_t)-1, &calls, &diag), 0);
	return 0;
}

static int tear_down(void **state) {
	engine_hints_close(&place->hints);
	hints_reader_close(&place->reader);
	free(place->generation);
	site_close(&place->site);
	return 0;
}

static void see(const char *name, uint8_t mta, bool cloned) {
	const struct delivery_seen seen = { .name = name, .name_length = strlen(name),
		.mta = mta, .cloned = cloned };

	assert_true(destinations_note(place->site.segment, &seen, clock_now_ns()));
}

static enum hint_doubt doubt(const char *name) {
	const char *detail;
	struct destination_seen seen;
	bool found = destinations_find(place->site.segment, name, strlen(name), &seen);

	return hint_destination_doubt(place->generation, 1, name, strlen(name),
	    found ? &seen : NULL, &detail);
}

TEST_IN(set_up, tear_down, whatever_is_in_doubt_is_not_held) {
	const char *detail;

	publish("postern-site 1\nmta out\nexclude *.mine.example relay_domains\n");
	see("a.slow.example", 1, true);
	see("x.mine.example", 1, true);
	see("both.example", 1, true);
	see("both.example", 1, false);
	see("sendmail.example", 0, true);
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_NONE);
	assert_int_equal(doubt("never.example"), HINT_DOUBT_NEVER_SEEN);
	assert_int_equal(doubt("sendmail.example"), HINT_DOUBT_NEVER_SEEN);
	assert_int_equal(doubt("x.mine.example"), HINT_DOUBT_EXCLUDED);
	assert_int_equal(doubt("both.example"), HINT_DOUBT_OTHER_TRANSPORT);
	assert_int_equal(doubt("[192.0.2.1]"), HINT_DOUBT_ODD_NAME);
	assert_int_equal(doubt("192.0.2.1"), HINT_DOUBT_ODD_NAME);
	assert_int_equal(doubt(""), HINT_DOUBT_ODD_NAME);
	assert_int_equal(doubt("k\xc3\xa4se.example"), HINT_DOUBT_ODD_NAME);
	assert_int_equal(hint_destination_doubt(place->generation, 0, "a", 1, NULL,
	    &detail), HINT_DOUBT_NOT_POSTFIX);
	publish("postern-site 1\nmta out\nonly-listed\nlist b.slow.example\n");
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_NOT_LISTED);
	publish("postern-site 1\nmta out\nrefuse relayhost all goes there\n");
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_SITE_REFUSED);
	publish("postern-site 2\n");
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_SITE_UNKNOWN);
}

TEST_IN(set_up, tear_down, classes_without_a_limit_hold_nothing) {
	publish("postern-site 1\nmta out\n");
	assert_int_equal(hint_class_doubt(place->generation, 0), HINT_DOUBT_NONE);
	assert_int_equal(hint_class_doubt(place->generation, 1), HINT_DOUBT_OBSERVED);
	assert_int_equal(hint_class_doubt(place->generation, 2), HINT_DOUBT_NO_LIMIT);
	assert_int_equal(hint_class_doubt(place->generation, CLASS_NO_RULE),
	    HINT_DOUBT_NO_CLASS);
}

static void turn(int64_t now_ns) {
	struct diag diag;

	assert_int_equal(engine_hints_turn(place->hints, now_ns, &diag), 0);
}

static const struct hints_answer *look_up(const char *domain,
    int64_t now_ns) {
	static struct hints_answer answer;
	char address[300];

	snprintf(address, sizeof(address), "u@%s", domain);
	hints_reader_ask(place->reader, "out", address, strlen(address), now_ns, &answer);
	return &answer;
}

/* Why postern-lookup would hold it after a turn at that time; NULL: it does not. */
static const char *ask(const char *domain, int64_t now_ns) {
	const struct hints_answer *answer;

	turn(now_ns);
	answer = look_up(domain, now_ns);
	return answer->kind == HINTS_HELD ? answer->text : NULL;
}

/* The text but for the " (ID)" in it. */
static const char *without_id(const char *text, uint64_t *id) {
	static char plain[HINTS_TEXT_MAX + 1];
	const char *open = text == NULL ? NULL : strstr(text, " (");
	const char *close = open == NULL ? NULL : strchr(open, ')');

	assert_non_null(close);
	assert_true(decision_id_parse(open + 2, (size_t)(close - open) - 2, id));
	snprintf(plain, sizeof(plain), "%.*s%s", (int)(open - text), text, close + 1);
	return plain;
}

/* Is the journal to keep it, however many others come? */
static bool is_kept(uint64_t id) {
	struct decisions_cursor cursor = { .begun = false };
	struct decided decided;
	uint64_t lost = 0;
	bool logged;

	while (decisions_next(place->site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &decided,
	    &logged, &lost))
		if (decided.id == id)
			return logged;
	return false;
}

TEST_IN(set_up, tear_down, turns_rest_until_something_is_due) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND, began_ns;
	unsigned number = 0;
	char name[32];

	/* there is no Postfix that anything could be told */
	turn(now_ns);
	assert_true(engine_hints_rest_ns(place->hints, now_ns) > 10 * second);
	publish("postern-site 1\nmta out\n");
	see("a.slow.example", 1, true);
	turn(now_ns += second);
	/* the file has to say that we live */
	assert_in_range(engine_hints_rest_ns(place->hints, now_ns), 1, second);
	do {	/* after one that takes longer than usual others wait longer, too */
		snprintf(name, sizeof(name), "%u.slow.example", number++);
		see(name, 1, true);
		began_ns = clock_now_ns();
		turn(now_ns += 10 * second);
	} while (clock_now_ns() - began_ns > 5 * NS_PER_MS);
	assert_int_equal(engine_hints_rest_ns(place->hints, now_ns), second);
	/* a look at a destination that is new comes when it may */
	see("new.example", 1, true);
	turn(now_ns += 1);
	assert_in_range(engine_hints_rest_ns(place->hints, now_ns), 1, second / 4);
	turn(now_ns += second);
	assert_int_equal(engine_hints_rest_ns(place->hints, now_ns), second);
}

TEST_IN(set_up, tear_down, a_full_class_is_held_until_it_has_room) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	uint64_t full = 0, again = 0;
	struct class_record *record;
	struct decided decided;

	assert_null(ask("a.slow.example", now_ns));
	publish("postern-site 1\nmta out\n");
	see("a.slow.example", 1, true);
	see("seen.example", 1, true);
	assert_null(ask("a.slow.example", now_ns += second));
	record = site_class(&place->site, "slow");
	atomic_store(&record->open, 2);
	atomic_store(&site_class(&place->site, "seen")->open, 9);
	assert_string_equal(without_id(ask("a.slow.example", now_ns += second), &full),
	    "Postern: class slow has 2 of 2 sessions");
	assert_true(decisions_find(place->site.segment, full, &decided));
	assert_int_equal(decided.reason, REASON_CLASS_SESSIONS);
	assert_string_equal(decided_text(&decided, DECIDED_CLASS), "slow");
	assert_true(is_kept(full));
	assert_null(ask("seen.example", now_ns));
	assert_null(ask("b.slow.example", now_ns));
	see("b.slow.example", 1, true);
	assert_non_null(ask("b.slow.example", now_ns += second));
	atomic_store(&record->open, 3);
	assert_string_equal(without_id(ask("a.slow.example", now_ns), &again),
	    "Postern: class slow has 3 of 2 sessions");
	assert_true(again == full);
	atomic_store(&record->open, 1);
	assert_null(ask("a.slow.example", now_ns));
	atomic_store(&record->open, 2);
	assert_non_null(ask("a.slow.example", now_ns));
	publish("postern-site 1\nmta out\nexclude *.slow.example\n");
	assert_null(ask("a.slow.example", now_ns += second));
	atomic_store(&record->open, 0);
	atomic_store(&site_class(&place->site, "seen")->open, 0);
}

/* A doubt may come when the key, and its class, are in the file already. */
TEST_IN(set_up, tear_down, a_doubt_frees_from_a_full_class) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish("postern-site 1\nmta out\n");
	see("a.slow.example", 1, true);
	atomic_store(&site_class(&place->site, "slow")->open, 2);
	assert_non_null(ask("a.slow.example", now_ns += second));
	see("a.slow.example", 1, false);
	assert_int_equal(doubt("a.slow.example"), HINT_DOUBT_OTHER_TRANSPORT);
	assert_null(ask("a.slow.example", now_ns += 10 * second));
	atomic_store(&site_class(&place->site, "slow")->open, 0);
}

TEST_IN(set_up, tear_down, what_cannot_be_written_is_told_once) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	char path[200];
	struct diag diag;

	snprintf(path, sizeof(path), "%s.hints.new", segment_path(place->site.segment));
	for (int i = 0; i < 2; i++) {
		publish("postern-site 1\nmta out\n");
		assert_int_equal(mkdir(path, 0700), 0);
		assert_int_equal(engine_hints_turn(place->hints, now_ns += second, &diag), -1);
		/* between two tries, and at the next one */
		assert_int_equal(engine_hints_turn(place->hints, now_ns + 1, &diag), 0);
		assert_int_equal(engine_hints_turn(place->hints, now_ns += second, &diag), 0);
		assert_int_equal(rmdir(path), 0);
		assert_int_equal(engine_hints_turn(place->hints, now_ns += second, &diag), 0);
	}
}

/* Each try, four times a second, noted the class once more, and washed out the other decisions. */
TEST_IN(set_up, tear_down, a_file_that_cannot_be_built_notes_a_full_class_once) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	struct decisions_cursor cursor = { .begun = false };
	char path[200];
	struct decided decided;
	struct diag diag;
	unsigned noted = 0;
	uint64_t lost = 0;
	bool logged;

	publish("postern-site 1\nmta out\n");
	see("a.slow.example", 1, true);
	atomic_store(&site_class(&place->site, "slow")->open, 2);
	snprintf(path, sizeof(path), "%s.hints.new", segment_path(place->site.segment));
	assert_int_equal(mkdir(path, 0700), 0);
	while (decisions_next(place->site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &decided,
	    &logged, &lost))
		continue;
	for (unsigned i = 0; i < 8; i++)
		(void)engine_hints_turn(place->hints, now_ns += second, &diag);
	while (decisions_next(place->site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &decided,
	    &logged, &lost))
		noted += decided.reason == REASON_CLASS_SESSIONS;
	assert_int_equal(noted, 1);
	assert_int_equal(rmdir(path), 0);
	assert_non_null(ask("a.slow.example", now_ns += second));
	assert_false(decisions_next(place->site.segment, DECIDED_OF_SESSIONS, &cursor, 0, &decided,
	    &logged, &lost));
	atomic_store(&site_class(&place->site, "slow")->open, 0);
}

/* --- windows and lanes ---------------------------------------------------------- */

#define LANES	"postern-site 1\nmta out\nclone-limit 20\nlane 1\nlane 2\nlane 3\n" \
	"lane 5\nlane 10\nlane 20\n"

/* The lanes that mail for the domain goes by, as "5+2"; "-": as without us; "held". */
static const char *lanes(const char *domain, int64_t now_ns) {
	static char text[64];
	bool seen[32] = { false };
	size_t used = 0;

	for (unsigned i = 0; i < 200; i++) {
		const struct hints_answer *answer = look_up(domain, now_ns);

		if (answer->kind != HINTS_LANE)
			return answer->kind == HINTS_HELD ? "held" : "-";
		/* as postern-lookup, which asks root's file */
		if (answer->unknown && doubt(domain) != HINT_DOUBT_NEVER_SEEN)
			return "-";
		assert_in_range(answer->width, 1, 31);
		seen[answer->width] = true;
	}
	for (unsigned width = 31; width > 0; width--)
		if (seen[width])
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u",
			    used == 0 ? "" : "+", width);
	return text;
}

static const char *lanes_after(const char *domain, int64_t now_ns) {
	turn(now_ns);
	return lanes(domain, now_ns);
}

/* A result of a delivery of 200 ms by a lane, or (0) the transport itself. */
static void result(const char *domain, uint16_t width,
    uint32_t waited_ms, int64_t now_ns) {
	const struct lane_use use = { .ended_ns = now_ns, .waited_ms = waited_ms,
		.took_ms = 200, .width = width, .mta = 1, .tried = true,
		.domain = lane_uses_hash(place->site.segment, domain, strlen(domain)) };

	lane_uses_note(place->site.segment, &use);
}

static void by_hand(enum manual_verb verb, const char *name,
    uint32_t window, uint32_t ceiling, int64_t now_ns) {
	const struct by_hand request = { .verb = verb, .name = name,
		.name_length = strlen(name), .window = window, .ceiling = ceiling,
		.for_ns = verb == MANUAL_SUSPEND ? 60 * NS_PER_SECOND : 0 };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(place->site.engine, place->generation, &request,
	    now_ns, &owner), BY_HAND_DONE);
}

static void set_window(const char *name, uint32_t window,
    int64_t now_ns) {
	by_hand(MANUAL_LIMIT, name, window, window, now_ns);
}

TEST_IN(set_up, tear_down, windows_are_carried_by_lanes) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish(LANES);
	see("a.example", 1, true);
	/* nobody knows it: the window begins with 5 */
	assert_string_equal(lanes_after("a.example", now_ns += second), "5");
	assert_string_equal(lanes("b.example", now_ns), "5");
	set_window("a.example", 8, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "5+3");
	set_window("a.example", 20, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "20");
	/* a site without them gets none, and goes on being held */
	publish("postern-site 1\nmta out\n");
	assert_string_equal(lanes_after("a.example", now_ns += second), "-");
	by_hand(MANUAL_HOLD, "a.example", BY_HAND_UNSET, BY_HAND_UNSET, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "held");
	/* lanes that are configured and not there */
	publish("postern-site 1\nmta out\nlane 3\nlane 7\n");
	by_hand(MANUAL_RESUME, "a.example", 9, BY_HAND_UNSET, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "3");
}

/* A class of 2. */
TEST_IN(set_up, tear_down, a_class_bounds_the_lanes_of_all_its_destinations) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	struct class_record *record;

	publish(LANES);
	for (char name[] = "a.slow.example"; name[0] <= 'c'; name[0]++)
		see(name, 1, true);
	see("wide.example", 1, true);
	turn(now_ns += 20 * second);
	record = site_class(&place->site, "slow");
	assert_string_equal(lanes_after("wide.example", now_ns), "5");
	/* nothing is under way: one may begin, and then no other one */
	assert_string_equal(lanes_after("a.slow.example", now_ns += 20 * second), "2");
	assert_string_equal(lanes("b.slow.example", now_ns), "held");
	assert_string_equal(look_up("b.slow.example", now_ns)->text,
	    "Postern: class slow has 2 sessions, and other destinations use them");
	/* mail waits in its lane: it has both */
	result("a.slow.example", 2, 900, now_ns += second);
	assert_string_equal(lanes_after("a.slow.example", now_ns), "2");
	assert_string_equal(lanes("b.slow.example", now_ns += 2 * second), "held");
	/* an incoming session takes one: the lane of 2 is left, and waits until it is empty */
	atomic_store(&record->open, 1);
	atomic_store(&record->open_inbound, 1);
	assert_string_equal(lanes_after("a.slow.example", now_ns += 50 * NS_PER_MS), "held");
	assert_string_equal(lanes_after("a.slow.example", now_ns += 20 * second), "held");
	atomic_store(&record->open, 0);
	atomic_store(&record->open_inbound, 0);
	assert_string_equal(lanes_after("b.slow.example", now_ns += 2 * second), "2");
	/* no window is wider than without a class, and others are as ever */
	assert_string_equal(lanes_after("wide.example", now_ns), "5");
}

#define BOUNDED		7u	/* destinations of the class of 2, */
#define MOST_LANES	6u	/* with so many lanes each */
#define MOST_WAITING	64u

static const uint16_t lane_widths[MOST_LANES] = { 1, 2, 3, 5, 10, 20 };

/* A lane of the queue manager: messages that wait, and when those that are delivered end. */
struct model_lane {
	int64_t came_ns[MOST_WAITING];
	unsigned waiting, running;
	int64_t began_ns[20], ends_ns[20];
};

static void deliver(const char *name, struct model_lane *lane,
    uint16_t width, struct random *random, int64_t now_ns) {
	for (unsigned i = 0; i < lane->running; i++) {
		if (lane->ends_ns[i] > now_ns)
			continue;
		result(name, width, (uint32_t)(lane->began_ns[i] / NS_PER_MS),
		    lane->ends_ns[i]);
		lane->running--;
		lane->ends_ns[i] = lane->ends_ns[lane->running];
		lane->began_ns[i] = lane->began_ns[lane->running];
		i--;
	}
	while (lane->running < width && lane->waiting > 0) {
		/* how long it waited */
		lane->began_ns[lane->running] = now_ns - lane->came_ns[0];
		lane->ends_ns[lane->running++] = now_ns +
		    (int64_t)(1 + random_below(random, 3000)) * NS_PER_MS;
		memmove(lane->came_ns, lane->came_ns + 1,
		    --lane->waiting * sizeof(lane->came_ns[0]));
	}
}

static unsigned lane_place(uint16_t width) {
	for (unsigned i = 0; i < MOST_LANES; i++)
		if (lane_widths[i] == width)
			return i;
	fail();
	return 0;
}

/* Mail comes at random, in floods and alone, and takes up to 3 s.  A queue that is full has all
 * its lanes, so that where fewer run a delivery of another one is taken for one of them: then
 * there may be more than the class's 2 (in 120 runs with other seeds: 3). */
TEST_IN(set_up, tear_down, lanes_of_a_class_run_at_most_two_more_than_its_places) {
	static struct model_lane all[BOUNDED][MOST_LANES];
	int64_t now_ns = clock_now_ns();
	struct random random = { random_seed() };
	unsigned went = 0, most = 0, above = 0;

	memset(all, 0, sizeof(all));
	publish(LANES);
	for (char name[] = "a.slow.example"; name[0] < 'a' + (char)BOUNDED; name[0]++)
		see(name, 1, true);
	turn(now_ns += 60 * NS_PER_SECOND);
	for (unsigned step = 0; step < 6000; step++) {
		char name[] = "a.slow.example";
		unsigned open = 0, which, asked;

		now_ns += (int64_t)(1 + random_below(&random, step % 500 < 20 ? 2000 : 100)) *
		    NS_PER_MS;
		for (unsigned i = 0; i < BOUNDED; i++)
			for (unsigned j = 0; j < MOST_LANES; j++) {
				name[0] = (char)('a' + i);
				deliver(name, &all[i][j], lane_widths[j], &random, now_ns);
				open += all[i][j].running;
			}
		above += open > 2;
		most = open > most ? open : most;
		atomic_store(&site_class(&place->site, "slow")->open, open);
		turn(now_ns);
		which = random_below(&random, BOUNDED);
		name[0] = (char)('a' + which);
		asked = random_below(&random, 10) == 0 ? 20 : random_below(&random, 2);
		for (; asked > 0; asked--) {
			const struct hints_answer *answer = look_up(name, now_ns);
			struct model_lane *lane;

			assert_true(answer->kind != HINTS_NOTHING);
			if (answer->kind != HINTS_LANE)
				continue;
			lane = &all[which][lane_place(answer->width)];
			if (lane->waiting < MOST_WAITING)
				lane->came_ns[lane->waiting++] = now_ns;
			went++;
		}
	}
	assert_in_range(most, 2, 4);
	/* of 6000; most seeds: none */
	assert_in_range(above, 0, 120);
	/* 3 s each for 2 at once would be 300 */
	assert_true(went > 250);
	atomic_store(&site_class(&place->site, "slow")->open, 0);
}

TEST_IN(set_up, tear_down, who_is_suspended_is_held_for_its_reason) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	struct decided decided;
	const char *text;
	uint64_t id;

	publish(LANES);
	see("a.example", 1, true);
	assert_null(ask("a.example", now_ns += second));
	by_hand(MANUAL_SUSPEND, "a.example", BY_HAND_UNSET, BY_HAND_UNSET, now_ns);
	text = ask("a.example", now_ns);
	assert_non_null(text);
	assert_memory_equal(text, "Postern: a.example is suspended until 20", 40);
	by_hand(MANUAL_RESUME, "a.example", BY_HAND_UNSET, BY_HAND_UNSET, now_ns);
	assert_null(ask("a.example", now_ns));
	by_hand(MANUAL_HOLD, "u@a.example", BY_HAND_UNSET, BY_HAND_UNSET, now_ns);
	assert_string_equal(without_id(ask("a.example", now_ns), &id),
	    "Postern: recipient is held: held by an administrator");
	assert_true(decisions_find(place->site.segment, id, &decided));
	assert_string_equal(decided_text(&decided, DECIDED_NAME), "u@a.example");
	by_hand(MANUAL_RESUME, "u@a.example", BY_HAND_UNSET, BY_HAND_UNSET, now_ns);
	assert_null(ask("a.example", now_ns));
}

/* Wherever there is a doubt about the domain, its recipients are the site's own matter. */
TEST_IN(set_up, tear_down, recipients_in_doubt_are_not_held) {
	static const char *const domains[] = { "x.mine.example", "never.example",
		"both.example", "sure.example" };
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	char address[64];

	publish(LANES "exclude *.mine.example relay_domains\n");
	see("x.mine.example", 1, true);
	see("both.example", 1, true);
	see("both.example", 1, false);
	see("sure.example", 1, true);
	for (unsigned i = 0; i < 4; i++) {
		snprintf(address, sizeof(address), "u@%s", domains[i]);
		by_hand(MANUAL_HOLD, address, BY_HAND_UNSET, BY_HAND_UNSET, now_ns);
	}
	for (unsigned i = 0; i < 3; i++)
		assert_null(ask(domains[i], now_ns += second));
	assert_non_null(ask("sure.example", now_ns += second));
	/* it comes, and goes */
	see("never.example", 1, true);
	assert_non_null(ask("never.example", now_ns += 10 * second));
	see("never.example", 1, false);
	assert_null(ask("never.example", now_ns += 10 * second));
	publish(LANES "refuse sender_dependent_relayhost_maps is set\n");
	assert_null(ask("sure.example", now_ns += second));
}

TEST_IN(set_up, tear_down, a_queue_moves_as_its_lanes_drain) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 8, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "5+3");
	result("a.example", 5, 900, now_ns);
	result("a.example", 3, 900, now_ns);
	turn(now_ns);
	set_window("a.example", 7, now_ns);
	/* 3 may still have mail; 2 has no room beside it */
	assert_string_equal(lanes_after("a.example", now_ns), "5");
	result("a.example", 3, 900, now_ns += second);
	result("a.example", 5, 900, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "5");
	/* 2.5 s and half as much again as its longest delivery after its last result */
	assert_string_equal(lanes_after("a.example", now_ns + 2799 * NS_PER_MS), "5");
	assert_string_equal(lanes_after("a.example", now_ns + 2801 * NS_PER_MS),
	    "5+2");
}

TEST_IN(set_up, tear_down, one_wide_lane_is_waited_for) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 10, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "10");
	result("a.example", 10, 900, now_ns);
	turn(now_ns);
	set_window("a.example", 9, now_ns);
	/* not for a moment only */
	assert_string_equal(lanes_after("a.example", now_ns), "10");
	result("a.example", 10, 900, now_ns += second);
	assert_string_equal(ask("a.example", now_ns),
	    "Postern: a.example: deliveries in flight go first");
	assert_string_equal(lanes_after("a.example", now_ns += 3 * second), "5+3+1");
	assert_int_equal(reloads, 0);
}

TEST_IN(set_up, tear_down, the_transport_itself_drains_first) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish(LANES "route a.example [relay.example]\n");
	turn(now_ns);
	/* a burst for somebody new, whose next hop may be another's: by no lane so far */
	see("a.example", 1, true);
	result("a.example", 0, 900, now_ns += second);
	assert_string_equal(lanes_after("a.example", now_ns), "-");
	/* more than 3 is refused: its mail waits */
	set_window("a.example", 3, now_ns);
	turn(now_ns);
	result("a.example", 0, 900, now_ns += second);
	assert_string_equal(lanes_after("a.example", now_ns), "held");
	/* what waited there goes on, and counts */
	for (unsigned i = 0; i < 5; i++) {
		result("a.example", 0, 900, now_ns += second);
		assert_string_equal(lanes_after("a.example", now_ns), "held");
	}
	assert_string_equal(lanes_after("a.example", now_ns += 3 * second), "3");
}

/* From its first message on: what the transport itself had, up to 20 at once, had to drain. */
TEST_IN(set_up, tear_down, a_domain_never_seen_goes_by_the_lanes_of_a_new_window) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish(LANES);
	assert_string_equal(lanes_after("new.example", now_ns += second), "5");
	assert_true(look_up("new.example", now_ns)->unknown);
	/* its first result: the lanes it went by are known, and stay */
	see("new.example", 1, true);
	result("new.example", 5, 900, now_ns);
	assert_string_equal(lanes_after("new.example", now_ns += second), "5");
	assert_false(look_up("new.example", now_ns)->unknown);
	set_window("new.example", 8, now_ns);
	assert_string_equal(lanes_after("new.example", now_ns), "5+3");
	/* no more at once than the site allows its transport */
	publish("postern-site 1\nmta out\nclone-limit 4\nlane 1\nlane 3\nlane 5\n");
	assert_string_equal(lanes_after("other.example", now_ns += second), "3+1");
	place->more = "window = { initial_destination_concurrency = 2; };\n";
	publish(LANES);
	assert_string_equal(lanes_after("other.example", now_ns += second), "2");
	place->more = "outbound = { observe = true; };\n";
	publish(LANES);
	place->more = NULL;
	assert_string_equal(lanes_after("other.example", now_ns += second), "-");
	publish(LANES "refuse relayhost all goes there\n");
	assert_int_equal((turn(now_ns += second), look_up("other.example",
	    now_ns)->kind), HINTS_NOTHING);
}

/* It went by another transport: it is not unknown, in this file and in the next. */
TEST_IN(set_up, tear_down, a_domain_of_another_transport_is_no_unknown_one) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish(LANES);
	assert_int_equal((turn(now_ns), look_up("other.example", now_ns)->kind),
	    HINTS_LANE);
	see("other.example", 1, false);
	assert_int_equal((turn(now_ns += 10 * second),
	    look_up("other.example", now_ns)->kind), HINTS_NOTHING);
	publish(LANES);
	assert_int_equal((turn(now_ns += second), look_up("other.example",
	    now_ns)->kind), HINTS_NOTHING);
}

/* Until ten minutes after it: as long as results came its length was forgotten. */
TEST_IN(set_up, tear_down, one_long_delivery_does_not_hold_a_silent_queue) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	struct lane_use use = { .took_ms = 400000, .waited_ms = 900, .width = 10, .mta = 1,
		.tried = true };

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 10, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += 200 * second), "10");
	use.domain = lane_uses_hash(place->site.segment, "a.example", 9);
	use.ended_ns = now_ns;
	lane_uses_note(place->site.segment, &use);
	turn(now_ns);
	set_window("a.example", 3, now_ns);
	turn(now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += 2 * second), "held");
	/* another one may go on for as long */
	assert_string_equal(lanes_after("a.example", now_ns += 110 * second), "held");
	assert_string_equal(lanes_after("a.example", now_ns += 70 * second), "3");
}

TEST_IN(set_up, tear_down, what_is_slow_to_drain_is_filled_up_by_single_messages) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	unsigned widths[32];
	struct lane_use use = { .took_ms = 10, .width = 5, .mta = 1, .tried = true,
		.failed = true };

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 3, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "3");
	result("a.example", 3, 90000, now_ns);
	turn(now_ns);
	set_window("a.example", 5, now_ns);
	/* the lane of 3 is slow, and stays */
	assert_string_equal(lanes_after("a.example", now_ns += second), "3+2");
	for (unsigned i = 0; i < 3; i++) {
		result("a.example", 3, 90000, now_ns += second);
		result("a.example", 2, 900, now_ns);
		turn(now_ns);
	}
	set_window("a.example", 7, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "3+2+1");
	result("a.example", 1, 900, now_ns);
	/* the one that is missing goes alone, by a lane that is wider */
	for (unsigned i = 0; i < 3; i++) {
		turn(now_ns += 50 * NS_PER_MS);
		memset(widths, 0, sizeof(widths));
		for (unsigned j = 0; j < 50; j++)
			widths[look_up("a.example", now_ns)->width]++;
		assert_int_equal(widths[5], i == 0 ? 1 : 0);
	}
	/* its result makes room for the next one */
	result("a.example", 5, 0, now_ns);
	turn(now_ns += 50 * NS_PER_MS);
	memset(widths, 0, sizeof(widths));
	for (unsigned j = 0; j < 50; j++)
		widths[look_up("a.example", now_ns)->width]++;
	assert_int_equal(widths[5], 1);
	/* one that was refused makes it later */
	use.domain = lane_uses_hash(place->site.segment, "a.example", 9);
	use.ended_ns = now_ns;
	lane_uses_note(place->site.segment, &use);
	for (unsigned i = 0; i < 4; i++) {
		turn(now_ns += 400 * NS_PER_MS);
		memset(widths, 0, sizeof(widths));
		for (unsigned j = 0; j < 50; j++)
			widths[look_up("a.example", now_ns)->width]++;
		assert_int_equal(widths[5], i == 2 ? 1 : 0);
	}
}

static void fails(uint16_t width, int64_t now_ns) {
	const struct lane_use use = { .took_ms = 10, .width = width, .mta = 1,
		.tried = true, .failed = true, .ended_ns = now_ns,
		.domain = lane_uses_hash(place->site.segment, "a.example", 9) };

	for (unsigned i = 0; i < width; i++)
		lane_uses_note(place->site.segment, &use);
}

/* How many of the next questions get the lane of 10. */
static unsigned ask_for_singles(int64_t *now_ns) {
	unsigned singles = 0;

	result("a.example", 5, 900, *now_ns);
	result("a.example", 1, 900, *now_ns);
	for (unsigned i = 0; i < 10; i++)
		turn(*now_ns += 50 * NS_PER_MS);
	for (unsigned i = 0; i < 20; i++)
		singles += look_up("a.example", *now_ns)->width == 10;
	return singles;
}

/* Three fit beside, and no mail comes for a while: all go.  When one is lost that is found
 * out, though there are always others. */
TEST_IN(set_up, tear_down, single_messages_that_wait_for_mail_are_not_lost) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	unsigned out;

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 9, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "5+3+1");
	fails(3, now_ns);
	fails(2, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "5+1");
	assert_int_equal(ask_for_singles(&now_ns), 3);
	out = 2;
	for (unsigned i = 0; i < 50; i++) {
		while (out-- > 0)
			result("a.example", 10, 0, now_ns);
		out = ask_for_singles(&now_ns);
		assert_int_equal(out, 2);
		now_ns += second / 2;
	}
	for (unsigned i = 0; i < 20; i++) {
		while (out-- > 0)
			result("a.example", 10, 0, now_ns);
		out = ask_for_singles(&now_ns);
		assert_in_range(out, 0, 3);
		now_ns += second / 2;
	}
	assert_int_equal(out, 3);
}

TEST_IN(set_up, tear_down, lanes_that_postfix_suspends_are_passed_over) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	struct lane_use use = { .took_ms = 10, .width = 3, .mta = 1, .tried = true,
		.failed = true };

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 3, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "3");
	use.domain = lane_uses_hash(place->site.segment, "a.example", 9);
	use.ended_ns = now_ns;
	/* two failures, a success, two failures: not yet a cohort */
	for (unsigned i = 0; i < 5; i++) {
		use.failed = i != 2;
		lane_uses_note(place->site.segment, &use);
	}
	assert_string_equal(lanes_after("a.example", now_ns), "3");
	lane_uses_note(place->site.segment, &use);
	assert_string_equal(lanes_after("a.example", now_ns), "2+1");
	assert_string_equal(lanes_after("a.example", now_ns + 299 * second), "2+1");
	assert_string_equal(lanes_after("a.example", now_ns + 301 * second), "3");
}

/* `cohorts`: failed, with nothing accepted since. */
static void window_fell(const char *name, uint16_t window, double cohorts,
    int64_t now_ns) {
	struct state_lock lock;

	assert_true(states_aim(place->site.segment, name, strlen(name), &lock));
	assert_int_equal(states_lock(&lock, now_ns, STATES_CREATE), STATES_HELD);
	if (!lock.state.begun)
		window_begin(&lock.state.window, &window_defaults);
	lock.state.begun = true;
	lock.state.window.concurrency = window;
	lock.state.window.fail_cohorts = cohorts;
	states_store(&lock);
	states_unlock(&lock);
}

/* A burst found the site full: Postfix suspends the lane, and others of it run still, which the
 * log has not told of.  Mail waits until it has, or for 2.5 s and 1.5 times the longest.  (Each
 * round begins without the lanes of the one before: after 600 s.) */
TEST_IN(set_up, tear_down, a_lane_that_was_full_counts_until_something_is_heard) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish(LANES);
	see("a.example", 1, true);
	for (unsigned i = 0; i < 2; i++) {
		window_fell("a.example", 5, 0, now_ns);
		assert_string_equal(lanes_after("a.example", now_ns += 700 * second), "5");
		fails(5, now_ns);
		window_fell("a.example", 3, 0.2, now_ns);
		turn(now_ns += second / 10);
		assert_int_equal(look_up("a.example", now_ns)->kind, HINTS_HELD);
		if (i == 0) {
			turn(now_ns += 2 * second);
			assert_int_equal(look_up("a.example", now_ns)->kind, HINTS_HELD);
			now_ns += second;
		} else {
			window_fell("a.example", 3, 0, now_ns += second);
			result("a.example", 5, 0, now_ns);
		}
		assert_string_equal(lanes_after("a.example", now_ns), "3");
	}
}

/* Each message that went by it was refused, up to 15 a second, until the window fell. */
TEST_IN(set_up, tear_down, a_lane_of_1_that_the_site_refuses_gets_no_more_mail) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 5, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "5");
	result("a.example", 5, 0, now_ns);
	turn(now_ns);
	set_window("a.example", 6, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "5+1");
	/* one may be chance; and where nothing else is accepted the site is down, not full */
	fails(1, now_ns += second / 10);
	assert_string_equal(lanes_after("a.example", now_ns), "5+1");
	fails(1, now_ns += second / 10);
	assert_string_equal(lanes_after("a.example", now_ns), "5+1");
	result("a.example", 5, 0, now_ns += second / 10);
	fails(1, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "5");
	assert_string_equal(lanes_after("a.example", now_ns + 9 * second), "5");
	assert_string_equal(lanes_after("a.example", now_ns += 11 * second), "5+1");
	/* one that is accepted ends the row */
	fails(1, now_ns);
	result("a.example", 1, 0, now_ns);
	result("a.example", 5, 0, now_ns);
	fails(1, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "5+1");
}

/* More failures than we saw, in another order: its own word counts. */
TEST_IN(set_up, tear_down, a_suspension_is_told_by_mail_that_was_not_tried) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	struct lane_use use = { .took_ms = 10, .width = 5, .mta = 1, .tried = true,
		.failed = true }, untried = { .mta = 1, .suspended = true };

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 7, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "5+2");
	untried.domain = use.domain = lane_uses_hash(place->site.segment, "a.example", 9);
	untried.ended_ns = use.ended_ns = now_ns;
	lane_uses_note(place->site.segment, &untried);
	/* nothing has failed: it says nothing */
	assert_string_equal(lanes_after("a.example", now_ns), "5+2");
	lane_uses_note(place->site.segment, &use);
	assert_string_equal(lanes_after("a.example", now_ns), "5+2");
	lane_uses_note(place->site.segment, &untried);
	assert_string_equal(lanes_after("a.example", now_ns), "3+2+1");
	/* the rest of its mail, told within moments, says no more */
	use.width = 2;
	lane_uses_note(place->site.segment, &use);
	lane_uses_note(place->site.segment, &untried);
	assert_string_equal(lanes_after("a.example", now_ns), "3+2+1");
	assert_string_equal(lanes_after("a.example", now_ns + 299 * second), "3+2+1");
}

/* A reload ends what Postfix suspended. */
TEST_IN(set_up, tear_down, suspended_lanes_that_are_missed_are_worth_a_reload) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	struct lane_use use = { .took_ms = 10, .width = 10, .mta = 1, .tried = true,
		.failed = true };

	reloads = 0;
	place->may_reload = true;
	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 10, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "10");
	use.domain = lane_uses_hash(place->site.segment, "a.example", 9);
	use.ended_ns = now_ns;
	for (unsigned i = 0; i < 10; i++)
		lane_uses_note(place->site.segment, &use);
	/* it does without */
	assert_string_equal(lanes_after("a.example", now_ns), "5+3+2");
	assert_string_equal(lanes_after("a.example", now_ns += 2 * second), "5+3+2");
	assert_int_equal(reloads, 0);
	use.width = 5;
	use.ended_ns = now_ns;
	for (unsigned i = 0; i < 5; i++)
		lane_uses_note(place->site.segment, &use);
	turn(now_ns);
	turn(now_ns += 2 * second);
	assert_int_equal(reloads, 0);	/* 6 of 10: single messages do the rest */
	result("a.example", 2, 900, now_ns);
	use.width = 3;
	use.ended_ns = now_ns;
	for (unsigned i = 0; i < 3; i++)
		lane_uses_note(place->site.segment, &use);
	turn(now_ns);
	turn(now_ns += 2 * second);
	assert_int_equal(reloads, 1);
	/* what is on its way has to end first: the new queue manager knows nothing of it */
	assert_string_equal(lanes("a.example", now_ns), "held");
	engine_hints_reloaded(place->hints, 1, true, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "held");
	assert_string_equal(lanes_after("a.example", now_ns += 4 * second), "10");
	place->may_reload = false;
}

/* The supervisor may be gone. */
TEST_IN(set_up, tear_down, a_reload_that_nobody_answers_holds_no_mail_for_long) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	reloads = 0;
	place->may_reload = true;
	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 10, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "10");
	result("a.example", 10, 9000, now_ns);
	turn(now_ns);
	set_window("a.example", 9, now_ns);
	for (unsigned i = 0; i < 3; i++) {
		turn(now_ns);
		result("a.example", 10, 9000, now_ns += second);
	}
	turn(now_ns);
	assert_int_equal(reloads, 1);
	assert_string_equal(lanes_after("a.example", now_ns += 19 * second), "held");
	turn(now_ns += 2 * second);
	assert_string_equal(lanes_after("a.example", now_ns), "5+3+1");
	place->may_reload = false;
}

/* The first `count` answers, by width. */
static void count_widths(const char *domain, int64_t now_ns,
    unsigned count, unsigned widths[32]) {
	memset(widths, 0, 32 * sizeof(*widths));
	for (unsigned i = 0; i < count; i++)
		widths[look_up(domain, now_ns)->width]++;
}

/* Less mail comes than the window takes, and the widest lane is far behind. */
TEST_IN(set_up, tear_down, a_narrow_lane_does_not_run_dry_beside_a_full_one) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	unsigned widths[32];

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 12, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "10+2");
	result("a.example", 10, 30000, now_ns);
	result("a.example", 2, 0, now_ns);
	turn(now_ns);
	count_widths("a.example", now_ns, 120, widths);
	assert_in_range(widths[2], 18, 22);
	for (unsigned i = 0; i < 10; i++) {
		result("a.example", 10, 30000, now_ns += second / 2);
		result("a.example", 2, 0, now_ns);
		turn(now_ns);
	}
	/* four times its part: 8 of 18 */
	count_widths("a.example", now_ns, 180, widths);
	assert_in_range(widths[2], 75, 85);
	for (unsigned i = 0; i < 20; i++) {
		result("a.example", 10, 30000, now_ns += second / 2);
		result("a.example", 2, 15000, now_ns);
		turn(now_ns);
	}
	/* and where mail waits in it for long it falls, slowly */
	count_widths("a.example", now_ns, 120, widths);
	assert_in_range(widths[2], 20, 60);
}

TEST_IN(set_up, tear_down, a_canary_goes_by_a_lane_of_its_own) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	unsigned widths[32] = { 0 };
	const struct window_owner owner = { .kind = DESTINATION_DOMAIN,
		.name = "a.example", .provider = JUDGE_NONE };
	struct window_view view;

	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 6, now_ns);
	turn(now_ns += second);
	/* nothing waits: it would not be above the window */
	turn(now_ns += 700 * second);
	assert_string_equal(lanes("a.example", now_ns), "5+1");
	result("a.example", 5, 900, now_ns);
	result("a.example", 1, 900, now_ns);
	turn(now_ns);
	(void)windows_view(place->site.engine, place->generation, &owner, now_ns, &view);
	assert_true(view.canary_out);
	for (unsigned i = 0; i < 70; i++)
		widths[look_up("a.example", now_ns)->width]++;
	assert_int_equal(widths[2], 1);
	assert_in_range(widths[1], 10, 13);
	assert_int_equal(widths[1] + widths[2] + widths[5], 70);
	/* offered for 5 s only; its own result is not mail of lane 2 */
	result("a.example", 2, 0, now_ns += 6 * second);
	for (unsigned i = 0; i < 9; i++) {	/* and nothing waits any more */
		result("a.example", 1, 0, now_ns);
		result("a.example", 5, 0, now_ns);
	}
	assert_string_equal(lanes_after("a.example", now_ns), "5+1");
	set_window("a.example", 7, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "5");
	assert_string_equal(lanes_after("a.example", now_ns += 3 * second), "5+2");
}

TEST_IN(set_up, tear_down, a_reload_takes_mail_out_of_a_wide_lane) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	reloads = 0;
	place->may_reload = true;
	publish(LANES);
	see("a.example", 1, true);
	set_window("a.example", 10, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "10");
	result("a.example", 10, 9000, now_ns);
	turn(now_ns);
	set_window("a.example", 9, now_ns);
	turn(now_ns);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(reloads, 0);
		result("a.example", 10, 9000, now_ns += second);
		turn(now_ns);
	}
	/* it has not come to rest at 10 again */
	assert_int_equal(reloads, 1);
	assert_string_equal(lanes("a.example", now_ns), "held");
	engine_hints_reloaded(place->hints, 1, true, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += second), "held");
	/* what was being delivered then has ended */
	assert_string_equal(lanes_after("a.example", now_ns += 2 * second), "5+3+1");
	/* once a minute, and whether it was done or not */
	result("a.example", 5, 9000, now_ns);
	set_window("a.example", 1, now_ns);
	for (unsigned i = 0; i < 57; i++) {
		result("a.example", 5, 9000, now_ns += second);
		turn(now_ns);
	}
	assert_int_equal(reloads, 1);
	for (unsigned i = 0; i < 5; i++) {
		result("a.example", 5, 9000, now_ns += second);
		turn(now_ns);
	}
	assert_int_equal(reloads, 2);
	engine_hints_reloaded(place->hints, 1, false, now_ns);
	result("a.example", 5, 9000, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "1");
	assert_int_equal(reloads, 2);
	place->may_reload = false;
}

TEST_IN(set_up, tear_down, next_hops_share_a_queue) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	publish(LANES "route a.example [relay.example]:25\n"
	    "route b.example [relay.example]:25\n");
	see("a.example", 1, true);
	see("b.example", 1, true);
	see("c.example", 1, true);
	turn(now_ns += second);
	set_window("a.example", 10, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns), "10");
	result("a.example", 10, 900, now_ns);
	turn(now_ns);
	/* the lane of the one is full of mail: so is the other's */
	assert_string_equal(lanes("b.example", now_ns), "10");
}

TEST_IN(set_up, tear_down, what_is_gone_from_the_disk_comes_back) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	char path[200];

	snprintf(path, sizeof(path), "%s.hints", segment_path(place->site.segment));
	publish(LANES);
	see("a.example", 1, true);
	assert_string_equal(lanes_after("a.example", now_ns += second), "5");
	assert_int_equal(unlink(path), 0);
	hints_reader_close(&place->reader);
	place->reader = hints_reader_open(path);
	assert_string_equal(lanes("a.example", now_ns), "-");
	turn(now_ns += 2 * second);
	assert_string_equal(lanes("a.example", now_ns), "5");
}

TEST_IN(set_up, tear_down, what_is_cut_short_is_made_anew) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	char path[200];

	snprintf(path, sizeof(path), "%s.hints", segment_path(place->site.segment));
	publish(LANES);
	see("a.example", 1, true);
	assert_string_equal(lanes_after("a.example", now_ns += second), "5");
	assert_int_equal(truncate(path, 0), 0);
	assert_string_equal(lanes("a.example", now_ns + HINTS_LOOK_NS), "-");
	turn(now_ns += second);
	assert_string_equal(lanes("a.example", now_ns), "5");
	result("a.example", 5, 0, now_ns);
	set_window("a.example", 8, now_ns);
	assert_string_equal(lanes_after("a.example", now_ns += 3 * second), "5+3");
}

TEST_IN(set_up, tear_down, observed_is_as_without_us) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;

	place->more = "outbound = { observe = true; };\n";
	publish(LANES);
	place->more = NULL;
	see("a.slow.example", 1, true);
	by_hand(MANUAL_HOLD, "a.slow.example", BY_HAND_UNSET, BY_HAND_UNSET, now_ns);
	by_hand(MANUAL_HOLD, "u@a.slow.example", BY_HAND_UNSET, BY_HAND_UNSET,
	    now_ns);
	assert_string_equal(lanes_after("a.slow.example", now_ns += second), "-");
}

/* Many come and go; what is told is what a new file would tell. */
TEST_IN(set_up, tear_down, keys_that_came_are_as_those_of_a_new_file) {
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	char name[32];

	publish(LANES "exclude *.no.example\n");
	turn(now_ns);
	for (unsigned i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "d%u.%sexample", i, i % 7 == 0 ? "no." : "");
		see(name, 1, true);
		if (i % 5 == 0)
			set_window(name, 3, now_ns);
		if (i % 20 == 0)
			turn(now_ns += second);
	}
	turn(now_ns += second);
	turn(now_ns += 700 * second);
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 100; i++) {
			snprintf(name, sizeof(name), "d%u.%sexample", i,
			    i % 7 == 0 ? "no." : "");
			assert_string_equal(lanes(name, now_ns), i % 7 == 0 ? "-" :
			    i % 5 == 0 ? "3" : "5");
		}
		publish(LANES "exclude *.no.example\n");
		turn(now_ns += second);
	}
}
