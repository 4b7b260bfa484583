/* SPDX-License-Identifier: ISC */
/* Options and help of postern-simulate. */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "lab/lab.h"
#include "lab/memory.h"
#include "lab/simulate.h"

static const char *should_be(const char *name, const char *value) {
	static char should[OPTION_SHOULD_BYTES];
	const struct option_row *row = option_find(&simulate_window_options, name);
	struct simulation simulation;

	assert_non_null(row);
	assert_false(option_parse(row, value, &simulation, should));
	return should;
}

TEST(a_wrong_value_is_met_by_what_it_should_be) {
	assert_string_equal(should_be("--deliveries", "0"), "1 to 10000000");
	assert_string_equal(should_be("--seed", "-1"), "0 to 4294967295");
	assert_string_equal(should_be("--service", "0s"), "1ms to 1d");
	assert_string_equal(should_be("--jitter", "2"), "0 to 1, or 0% to 100%");
	assert_string_equal(should_be("--law", "tcp"), "probe, postfix or document");
	assert_string_equal(should_be("--bad-servers", "4"), "1/K");
	assert_null(option_find(&simulate_window_options, "--workers"));
}

TEST(the_words_of_laws_are_in_the_order_of_laws) {
	const struct option_row *row = option_find(&simulate_window_options, "--law");

	for (unsigned law = 0; law < WINDOW_LAW_COUNT; law++)
		assert_string_equal(row->words[law], window_law_word((enum window_law)law));
	assert_null(row->words[WINDOW_LAW_COUNT]);
}

/* A wall of options in one line was no help. */
TEST(options_stand_below_the_usage) {
	static char word[] = "window", option[] = "--help";
	char *argv[] = { word, option, NULL }, *text = NULL;
	struct lab lab = { .simulation = SIMULATION_WINDOW, .argc = 2, .argv = argv };
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	writer_init(&lab.writer, out, false);
	assert_int_equal(lab_WINDOW(&lab), EX_OK);
	fclose(out);
	assert_true(strcspn(text, "\n") <= 90);
	assert_non_null(strstr(text, "\n  --report-delay T\n        maximum random delay"));
	assert_non_null(strstr(text, "\nExamples:\n  postern-simulate window --law postfix"));
	for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") < 80);
	free(text);
}

/* Kept until the end, but not without end. */
TEST(rows_are_bounded) {
	struct memory_rows rows = { .list = NULL };

	for (uint32_t i = 0; i < 600; i++)
		memory_rows_add(&rows, &i, sizeof(i), 512);
	assert_true(rows.full);
	assert_int_equal(rows.count, 512);
	assert_int_equal(((const uint32_t *)rows.list)[511], 511);
	free(rows.list);
}
