/* SPDX-License-Identifier: ISC */
/* The text that libconfig gets: what its versions would read differently is not in it. */
#include "tests/unit/test.h"
#include <libconfig.h>

#include "config/compile/compile.h"
#include "config/read/source.h"

/* What a reader of bare integers makes of them: libconfig 1.5 (base 10) and 1.7 (base 0). */
static long long read_as(const char *text, int base) {
	return strtoll(text + strlen("a = "), NULL, base);
}

TEST(zeros_before_a_number_are_no_octal_to_any_libconfig) {
	static const struct { const char *written, *passed; } numbers[] = {
		{ "0660", "660" }, { "00660L", "660L" }, { "-007", "-7" }, { "+09", "+9" },
		{ "0", "0" }, { "000", "0" }, { "-0", "-0" }, { "100", "100" },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct config_messages messages = { 0 };
		struct report report;
		struct source source;
		char text[64], passed[64];

		snprintf(text, sizeof(text), "a = %s;", numbers[i].written);
		snprintf(passed, sizeof(passed), "a = %s;", numbers[i].passed);
		report_begin(&report, &messages);
		source_read_text(&source, text, "text", &report);
		report_end(&report);
		assert_int_equal(messages.count, 0);
		assert_true(source.usable);
		assert_string_equal(source.text, passed);
		assert_true(read_as(source.text, 0) == read_as(source.text, 10));
		assert_true(read_as(source.text, 10) == read_as(text, 10));
		source_free(&source);
		config_messages_free(&messages);
	}
}

TEST(other_numbers_and_texts_keep_their_zeros) {
	static const char kept[] = "a = 0x0660; b = 007.5; c = 01e5; d = \"0660\"; # 010\n e01 = 1;";
	struct config_messages messages = { 0 };
	struct report report;
	struct source source;

	report_begin(&report, &messages);
	source_read_text(&source, kept, "text", &report);
	report_end(&report);
	assert_string_equal(source.text, kept);
	source_free(&source);
	config_messages_free(&messages);
}

TEST(a_bare_mode_0660_makes_no_socket_0432) {
	struct config_messages messages;
	struct generation *g = config_compile_text("version = 1; state = { classes = 010; };\n"
	    "listen = { policy = ( { address = \"unix:/a\"; mode = 0660; },\n"
	    "    { address = \"unix:/b\"; mode = 640; } ); };\nclasses = ( );", "t", &messages);

	config_messages_free(&messages);
	assert_non_null(g);
	assert_int_equal(g->listeners[0].mode, 0660);
	assert_int_equal(g->listeners[1].mode, 0640);
	assert_int_equal(g->record_count, 10);
	free(g);
}
