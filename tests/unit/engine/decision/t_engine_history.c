/* SPDX-License-Identifier: ISC */
/* What the keeper notes each second and each minute, with a clock of the test's own; and what
 * people read of it: rates, the verdict, history. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/decision/history.h"
#include "engine/destination/windows.h"
#include "segment/decision/history.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"
#include "view/history.h"
#include "view/verdict.h"

#define MINUTE_NS	(60 * NS_PER_SECOND)
#define CONFIGURATION \
	"classes = (\n" \
	"{ name = \"few\"; match = \"192.0.2.0/24\"; hold_at = 4; refuse_at = 2; },\n" \
	"{ name = \"seen\"; match = \"198.51.100.0/24\"; refuse_at = 1; observe = true; },\n" \
	"{ name = \"many\"; match = \"*\"; hold_at = 100; } );"

static struct engine_history *history;
static struct history *file;
static int64_t now_ns, wall_ns;

static int begin(void **state) {
	site_open(&site, 64, CONFIGURATION);
	history = engine_history_new(site.segment);
	assert_non_null(history);
	now_ns = clock_now_ns();
	/* the start of a minute */
	wall_ns = clock_wall_ns() / MINUTE_NS * MINUTE_NS;
	return 0;
}

static int end(void **state) {
	char path[160];

	history_close(&file);
	engine_history_free(&history);
	snprintf(path, sizeof(path), "%s/state.history", site.directory);
	(void)unlink(path);
	site_close(&site);
	return 0;
}

static void turn(int64_t later_ns) {
	const char *what;

	now_ns += later_ns;
	wall_ns += later_ns;
	assert_int_equal(engine_history_turn(history, site.generation, now_ns, wall_ns, &what), 0);
}

static struct history_values of(enum history_kind kind, const char *name, int64_t at_ns) {
	uint32_t minute = (uint32_t)(at_ns / MINUTE_NS);
	uint8_t known[HISTORY_MINUTES];
	struct history_values out;
	struct diag diag;
	char path[160];
	int series;

	snprintf(path, sizeof(path), "%s/state", site.directory);
	history_close(&file);
	assert_int_equal(history_look(&file, path, &diag), 0);
	series = history_find(file, kind, name);
	memset(&out, 0xff, sizeof(out));
	if (series < 0 || !history_minutes(file, minute, known))
		return out;
	assert_true(history_read(file, (unsigned)series, minute, known, 1, &out));
	return out;
}

static void refuse(const char *net, unsigned count) {
	static uint16_t port = 1000;
	char client[32];

	snprintf(client, sizeof(client), "%s.1", net);
	for (unsigned i = 0; i < count; i++)
		(void)site_inbound(&site, client, port++, NULL, NULL);
}

/* A second with 12 refusals: the rate goes 1/6 of the way, as 1 / (1 + 5). */
TEST_IN(begin, end, how_fast_a_class_refuses) {
	struct class_record *few = site_class(&site, "few");

	turn(0);
	refuse("192.0.2", 2);
	turn(NS_PER_SECOND);
	assert_int_equal(few->refusing, 0);
	refuse("192.0.2", 12);
	turn(NS_PER_SECOND);
	assert_int_equal(few->refusing, 2000);
	refuse("192.0.2", 12);
	turn(NS_PER_SECOND);
	assert_int_equal(few->refusing, 3666);	/* 2 + (12 - 2) / 6 */
	/* too early: another second begins where that one ended */
	turn(NS_PER_SECOND / 10);
	assert_int_equal(few->refusing, 3666);
	for (unsigned i = 0; i < 60; i++)
		turn(NS_PER_SECOND);
	assert_int_equal(few->refusing, 0);
}

TEST_IN(begin, end, minutes_of_classes_and_totals) {
	struct history_values one;

	turn(0);
	refuse("192.0.2", 5);			/* 2 of them are let in */
	turn(MINUTE_NS);
	/* it had no series: it is given one, and has been known since */
	assert_int_equal(of(HISTORY_CLASS, "few", wall_ns - 1).value[0], HISTORY_UNKNOWN);
	/* the totals' first minute has no counts */
	one = of(HISTORY_SESSIONS, "", wall_ns - 1);
	assert_int_equal(one.value[0], 2);
	assert_int_equal(one.value[1], HISTORY_UNKNOWN);
	refuse("192.0.2", 7);
	turn(MINUTE_NS);
	one = of(HISTORY_CLASS, "few", wall_ns - 1);
	assert_int_equal(one.value[0], 2);
	one = of(HISTORY_SESSIONS, "", wall_ns - 1);
	assert_int_equal(one.value[1], 0);
	assert_int_equal(one.value[2], 7);
	refuse("192.0.2", 3);
	turn(MINUTE_NS);
	one = of(HISTORY_CLASS, "few", wall_ns - 1);
	assert_int_equal(one.value[1], 0);
	assert_int_equal(one.value[2], 3);
}

/* The machine slept: no minute in between, and no counts over it. */
TEST_IN(begin, end, a_gap) {
	turn(0);
	turn(MINUTE_NS);
	refuse("192.0.2", 5);
	turn(5 * MINUTE_NS);
	assert_int_equal(of(HISTORY_SESSIONS, "", wall_ns - 3 * MINUTE_NS).value[0],
	    HISTORY_UNKNOWN);
	turn(MINUTE_NS);
	assert_int_equal(of(HISTORY_SESSIONS, "", wall_ns - 1).value[2], HISTORY_UNKNOWN);
	turn(MINUTE_NS);
	assert_int_equal(of(HISTORY_SESSIONS, "", wall_ns - 1).value[2], 0);
}

static void suspend(const char *name) {
	const struct by_hand request = { .verb = MANUAL_SUSPEND, .name = name,
		.name_length = strlen(name), .for_ns = 3000 * NS_PER_SECOND, .reason = "test",
		.window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(site.engine, site.generation, &request,
	    clock_now_ns(), &owner), BY_HAND_DONE);
}

static void count_change(void *context, const struct history_change *change) {
	assert_string_equal(decided_text(&change->decided, DECIDED_NAME), "z.example");
	++*(unsigned *)context;
}

TEST_IN(begin, end, changes_are_kept_once) {
	unsigned count = 0;

	turn(0);
	suspend("z.example");
	turn(NS_PER_SECOND);
	/* the next keeper goes on behind it */
	engine_history_free(&history);
	history = engine_history_new(site.segment);
	turn(NS_PER_SECOND);
	(void)of(HISTORY_SESSIONS, "", wall_ns);
	history_changes(file, count_change, &count);
	assert_int_equal(count, 1);
	turn(MINUTE_NS);
	turn(MINUTE_NS);
	assert_int_equal(of(HISTORY_DESTINATION, "z.example", wall_ns - MINUTE_NS).value[4],
	    HISTORY_STOPPED);
}

static void line_is(const char *wanted, const char *command) {
	struct view_verdict verdict;
	char path[160], line[VERDICT_LINE_MAX];
	struct diag diag;
	struct view view;

	snprintf(path, sizeof(path), "%s/state", site.directory);
	assert_int_equal(view_open(&view, path, &diag), 0);
	view.status.health = READER_LIVE;
	view_verdict(&view, &verdict);
	assert_string_equal(view_verdict_line(&verdict, "; ", line), wanted);
	if (command != NULL)
		assert_string_equal(verdict.parts[0].command, command);
	view_close(&view);
}

TEST_IN(begin, end, the_verdict) {
	line_is("no problems", NULL);
	site_class(&site, "few")->refusing = 8;		/* less than one in two minutes */
	line_is("no problems", NULL);
	site_class(&site, "few")->refusing = 400;
	line_is("class few refusing (24/min)", "posternctl sessions --class few");
	site_class(&site, "few")->refusing = 29600;
	line_is("class few refusing (30/s)", "posternctl sessions --class few");
	site_class(&site, "many")->refusing = 400;
	site_class(&site, "seen")->refusing = 2049;
	suspend("z.example");
	line_is("2 classes refusing (30/s); z.example suspended; class seen would refuse "
	    "(2.0/s)", "posternctl classes");
	suspend("y.example");
	line_is("2 classes refusing (30/s); 2 destinations suspended; class seen would refuse "
	    "(2.0/s)", "posternctl classes");
}

/* What stood in the log at one look is not read 40 s later. */
TEST_IN(begin, end, a_log_that_is_not_read) {
	char log[128], path[160], configuration[512], line[VERDICT_LINE_MAX];
	struct view_verdict verdict;
	struct diag diag;
	struct view view;
	FILE *out;

	snprintf(log, sizeof(log), "%s/mail.log", site.directory);
	out = fopen(log, "w");
	assert_non_null(out);
	fputs("one line\n", out);
	fclose(out);
	/* its worker lives on */
	atomic_store(&site.segment->header->roles[site.place].heartbeat_ns,
	    clock_now_ns() + 60 * NS_PER_SECOND);
	snprintf(configuration, sizeof(configuration), "mta = ( { name = \"mx1-out\"; log = \"%s\"; } "
	    ");\n" CONFIGURATION, log);
	site_reload(&site, configuration);
	snprintf(path, sizeof(path), "%s/state", site.directory);
	assert_int_equal(view_open(&view, path, &diag), 0);
	view.status.health = READER_LIVE;
	view_verdict(&view, &verdict);
	assert_string_equal(view_verdict_line(&verdict, "; ", line), "no problems");
	view.status.now_ns += 4 * NS_PER_SECOND;
	view_verdict(&view, &verdict);
	assert_string_equal(view_verdict_line(&verdict, "; ", line), "no problems");
	view.status.now_ns += 36 * NS_PER_SECOND;
	view_verdict(&view, &verdict);
	assert_string_equal(view_verdict_line(&verdict, "; ", line), "log of mx1-out 40 s behind");
	view_close(&view);
	unlink(log);
}

/* Each series is busy but one: that one goes. */
TEST_IN(begin, end, the_least_busy_one_makes_room) {
	static struct generation *small;

	/* as many series as there are totals, and one */
	small = malloc(site.generation->bytes);
	assert_non_null(small);
	memcpy(small, site.generation, site.generation->bytes);
	small->history_bytes = 56 + 5760 + HISTORY_CHANGES * (sizeof(struct history_change) + 16) +
	    3 * (104 + HISTORY_MINUTES * sizeof(struct history_values));
	for (unsigned minute = 0; minute < 4; minute++) {
		const char *what;

		refuse(minute < 2 ? "198.51.100" : "192.0.2", minute < 2 ? 2 : 50);
		assert_int_equal(engine_history_turn(history, small, now_ns, wall_ns, &what), 0);
		now_ns += MINUTE_NS;
		wall_ns += MINUTE_NS;
	}
	(void)of(HISTORY_SESSIONS, "", wall_ns);
	assert_int_equal(history_size(file), 3);
	assert_true(history_find(file, HISTORY_CLASS, "few") >= 0);
	assert_int_equal(history_find(file, HISTORY_CLASS, "seen"), -1);
	free(small);
}
