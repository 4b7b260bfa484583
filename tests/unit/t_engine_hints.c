/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "config/compile.h"
#include "engine/hints.h"
#include "segment/hints.h"
#include "segment/internal.h"
#include "site.h"

#define CLASSES	"classes = ( " \
	"{ name = \"slow\"; match = [ \"*.slow.example\" ]; sessions = 2; }, " \
	"{ name = \"seen\"; match = [ \"seen.example\" ]; sessions = 1; observe = true; }, " \
	"{ name = \"rate\"; match = [ \"rate.example\" ]; rate = \"9/1m\"; } );\n"

struct place {
	struct site site;
	char file[160], facts[160];
	struct engine_hints *hints;
	struct hints_reader *reader;
	struct generation *generation;	/* a copy, to be spoiled */
};

static void write_file(const char *path, const char *text) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

/* Publishes a configuration with a Postfix whose site file holds `facts`. */
static void publish(struct place *place, const char *facts) {
	const struct site *site = &place->site;
	struct config_messages messages;
	struct generation *generation;
	char text[1024];
	struct diag diag;

	write_file(place->facts, facts);
	snprintf(text, sizeof(text), "version = 1; state = { path = \"%s/state\"; "
	    "sessions = \"1k\"; };\n" CLASSES "mta = ( { name = \"other\"; kind = "
	    "\"sendmail\"; }, { name = \"out\"; kind = \"postfix\"; site = \"%s\"; } );\n",
	    site->directory, place->facts);
	write_file(place->file, text);
	generation = config_compile(place->file, &messages);
	if (generation == NULL)
		fail_msg("%s", messages.list[0].text);
	config_messages_free(&messages);
	assert_int_equal(segment_publish(site->segment, generation, &diag), 0);
	free(place->generation);
	place->generation = generation;
}

static int set_up(void **state) {
	static struct place place;
	char path[200];
	struct diag diag;

	memset(&place, 0, sizeof(place));
	site_open(&place.site, 1024, CLASSES);
	snprintf(place.file, sizeof(place.file), "%s/conf", place.site.directory);
	snprintf(place.facts, sizeof(place.facts), "%s/facts", place.site.directory);
	snprintf(path, sizeof(path), "%s.hints", segment_path(place.site.segment));
	place.reader = hints_reader_open(path);
	assert_int_equal(engine_hints_open(&place.hints, place.site.engine, &diag), 0);
	*state = &place;
	return 0;
}

static int tear_down(void **state) {
	struct place *place = *state;

	engine_hints_close(&place->hints);
	hints_reader_close(&place->reader);
	free(place->generation);
	site_close(&place->site);
	return 0;
}

static void see(struct place *place, const char *name, uint8_t mta, bool cloned) {
	const struct delivery_seen seen = { .name = name, .name_length = strlen(name),
		.mta = mta, .cloned = cloned };

	assert_true(destinations_note(place->site.segment, &seen, clock_now_ns()));
}

static enum hint_doubt doubt(struct place *place, const char *name) {
	const char *detail;
	struct destination_seen seen;
	bool found = destinations_find(place->site.segment, name, strlen(name), &seen);

	return hint_destination_doubt(place->generation, 1, name, strlen(name),
	    found ? &seen : NULL, &detail);
}

static void whatever_is_in_doubt_is_not_held(void **state) {
	struct place *place = *state;
	const char *detail;

	publish(place, "postern-site 1\nmta out\nexclude *.mine.example relay_domains\n");
	see(place, "a.slow.example", 1, true);
	see(place, "x.mine.example", 1, true);
	see(place, "both.example", 1, true);
	see(place, "both.example", 1, false);
	see(place, "sendmail.example", 0, true);
	assert_int_equal(doubt(place, "a.slow.example"), HINT_DOUBT_NONE);
	assert_int_equal(doubt(place, "never.example"), HINT_DOUBT_NEVER_SEEN);
	assert_int_equal(doubt(place, "sendmail.example"), HINT_DOUBT_NEVER_SEEN);
	assert_int_equal(doubt(place, "x.mine.example"), HINT_DOUBT_EXCLUDED);
	assert_int_equal(doubt(place, "both.example"), HINT_DOUBT_OTHER_TRANSPORT);
	assert_int_equal(doubt(place, "[192.0.2.1]"), HINT_DOUBT_ODD_NAME);
	assert_int_equal(doubt(place, "192.0.2.1"), HINT_DOUBT_ODD_NAME);
	assert_int_equal(doubt(place, ""), HINT_DOUBT_ODD_NAME);
	assert_int_equal(doubt(place, "k\xc3\xa4se.example"), HINT_DOUBT_ODD_NAME);
	assert_int_equal(hint_destination_doubt(place->generation, 0, "a", 1, NULL,
	    &detail), HINT_DOUBT_NOT_POSTFIX);
	publish(place, "postern-site 1\nmta out\nonly-listed\nlist b.slow.example\n");
	assert_int_equal(doubt(place, "a.slow.example"), HINT_DOUBT_NOT_LISTED);
	publish(place, "postern-site 1\nmta out\nrefuse relayhost all goes there\n");
	assert_int_equal(doubt(place, "a.slow.example"), HINT_DOUBT_SITE_REFUSED);
	publish(place, "postern-site 2\n");
	assert_int_equal(doubt(place, "a.slow.example"), HINT_DOUBT_SITE_UNKNOWN);
}

static void classes_without_a_limit_hold_nothing(void **state) {
	struct place *place = *state;

	publish(place, "postern-site 1\nmta out\n");
	assert_int_equal(hint_class_doubt(place->generation, 0), HINT_DOUBT_NONE);
	assert_int_equal(hint_class_doubt(place->generation, 1), HINT_DOUBT_OBSERVED);
	assert_int_equal(hint_class_doubt(place->generation, 2), HINT_DOUBT_NO_LIMIT);
	assert_int_equal(hint_class_doubt(place->generation, CLASS_NO_RULE),
	    HINT_DOUBT_NO_CLASS);
}

/* What postern-lookup would say after a turn at that time. */
static const char *ask(struct place *place, const char *domain, int64_t now_ns) {
	static char text[HINTS_TEXT_MAX + 1];
	struct diag diag;

	assert_int_equal(engine_hints_turn(place->hints, now_ns, &diag), 0);
	return hints_reader_ask(place->reader, "out", domain, strlen(domain), now_ns,
	    text) ? text : NULL;
}

static void a_full_class_is_held_until_it_has_room(void **state) {
	struct place *place = *state;
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	struct class_record *record;

	assert_null(ask(place, "a.slow.example", now_ns));
	publish(place, "postern-site 1\nmta out\n");
	see(place, "a.slow.example", 1, true);
	see(place, "seen.example", 1, true);
	assert_null(ask(place, "a.slow.example", now_ns += second));
	record = site_class(&place->site, "slow");
	atomic_store(&record->open, 2);
	atomic_store(&site_class(&place->site, "seen")->open, 9);
	assert_string_equal(ask(place, "a.slow.example", now_ns += second),
	    "Postern: class slow holds 2 of 2 sessions");
	assert_null(ask(place, "seen.example", now_ns));
	assert_null(ask(place, "b.slow.example", now_ns));
	see(place, "b.slow.example", 1, true);
	assert_non_null(ask(place, "b.slow.example", now_ns += second));
	atomic_store(&record->open, 3);
	assert_string_equal(ask(place, "a.slow.example", now_ns),
	    "Postern: class slow holds 3 of 2 sessions");
	atomic_store(&record->open, 1);
	assert_null(ask(place, "a.slow.example", now_ns));
	atomic_store(&record->open, 2);
	assert_non_null(ask(place, "a.slow.example", now_ns));
	publish(place, "postern-site 1\nmta out\nexclude *.slow.example\n");
	assert_null(ask(place, "a.slow.example", now_ns += second));
	atomic_store(&record->open, 0);
	atomic_store(&site_class(&place->site, "seen")->open, 0);
}

static void what_cannot_be_written_is_told_once(void **state) {
	struct place *place = *state;
	int64_t now_ns = clock_now_ns(), second = NS_PER_SECOND;
	char path[200];
	struct diag diag;

	snprintf(path, sizeof(path), "%s.hints.new", segment_path(place->site.segment));
	publish(place, "postern-site 1\nmta out\n");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mkdir(path, 0700), 0);
		see(place, i == 0 ? "a.example" : "b.example", 1, true);
		assert_int_equal(engine_hints_turn(place->hints, now_ns += second, &diag), -1);
		/* between two tries, and at the next one */
		assert_int_equal(engine_hints_turn(place->hints, now_ns + 1, &diag), 0);
		assert_int_equal(engine_hints_turn(place->hints, now_ns += second, &diag), 0);
		assert_int_equal(rmdir(path), 0);
		assert_int_equal(engine_hints_turn(place->hints, now_ns += second, &diag), 0);
	}
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(whatever_is_in_doubt_is_not_held),
		TEST(classes_without_a_limit_hold_nothing),
		TEST(a_full_class_is_held_until_it_has_room),
		TEST(what_cannot_be_written_is_told_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
