/* SPDX-License-Identifier: ISC */
/* Text and JSON out of one description, whatever the strings hold. */
#include "tests/unit/test.h"
#include "view/writer.h"

struct class {
	const char *name;
	uint64_t open;
	struct value age;
	bool observe;
	const char *mta;
};

static const struct class classes[] = {
	{ "customer", 7, { .known = true, .number = 61 }, false, "192.0.2.1:25" },
	{ "all", 12345, { .known = false }, true, NULL },
};
static const struct class silent[] = {
	{ "a", 0, { .known = true, .number = 61 }, false, "192.0.2.1:25" },
};

static void class_row(void *context, struct writer *writer, const void *item) {
	const struct class *class = item;

	writer_text(writer, "name", class->name);
	writer_number(writer, "open", class->open);
	if (context != NULL)	/* two columns are enough */
		return;
	writer_member(writer, "age", COLUMN_SECONDS, class->age);
	writer_truth(writer, "observe", class->observe);
	writer_text(writer, "mta", class->mta);
}

static const struct table two_rows = { .row = class_row, .items = classes, .count = 2,
	.each = sizeof(classes[0]) };
static const struct table no_rows = { .row = class_row, .items = classes,
	.each = sizeof(classes[0]) };
static const struct table silent_row = { .row = class_row, .items = silent, .count = 1,
	.each = sizeof(silent[0]) };

struct paper {
	struct writer writer;
	FILE *file;
	char *text;
	size_t length;
};

static void begin(struct paper *paper, bool json) {
	paper->file = open_memstream(&paper->text, &paper->length);
	assert_non_null(paper->file);
	writer_init(&paper->writer, paper->file, json);
}

static void expect(struct paper *paper, const char *text) {
	assert_true(writer_finish(&paper->writer));
	assert_string_equal(paper->text, text);
	fclose(paper->file);
	free(paper->text);
}

TEST(a_table_is_aligned_text) {
	struct paper paper;

	begin(&paper, false);
	writer_table(&paper.writer, &two_rows);
	expect(&paper,
	    "name       open    age  observe  mta\n"
	    "customer      7  1m01s  false    192.0.2.1:25\n"
	    "all       12345      -  true     -\n");
}

static void narrow(size_t fit, const char *chosen, unsigned left_out, const char *text) {
	struct paper paper;

	begin(&paper, false);
	paper.writer.fit = fit;
	paper.writer.chosen = chosen;
	writer_table(&paper.writer, &two_rows);
	assert_int_equal(paper.writer.left_out, left_out);
	assert_true(chosen == NULL || paper.writer.chosen_found == (strcmp(chosen, "x,nam") != 0));
	expect(&paper, text);
}

TEST(a_table_keeps_to_its_terminal) {
	struct paper paper;

	narrow(46, NULL, 0,
	    "name       open    age  observe  mta\n"
	    "customer      7  1m01s  false    192.0.2.1:25\n"
	    "all       12345      -  true     -\n");
	narrow(44, NULL, 1,
	    "name       open    age  mta\n"
	    "customer      7  1m01s  192.0.2.1:25\n"
	    "all       12345      -  -\n");
	narrow(20, NULL, 3,
	    "name      mta\n"
	    "customer  192.0.2.1:25\n"
	    "all       -\n");
	/* what says nothing goes first, wherever it stands */
	begin(&paper, false);
	paper.writer.fit = 31;
	writer_table(&paper.writer, &silent_row);
	assert_int_equal(paper.writer.left_out, 1);
	expect(&paper,
	    "name  open    age  mta\n"
	    "a        0  1m01s  192.0.2.1:25\n");
}

static void reason_row(void *context, struct writer *writer, const void *item) {
	const char *const *words = item;

	(void)context;
	writer_text(writer, "name", words[0]);
	writer_text(writer, "reason", words[1]);
}

TEST(a_long_text_in_the_last_column_is_cut) {
	static const char *const reasons[][2] = {
		{ "a", "421 too many connections from your address" }, { "b", "short" } };
	struct paper paper;

	begin(&paper, false);
	paper.writer.fit = 30;
	writer_table(&paper.writer, &(const struct table){ .row = reason_row, .items = reasons,
	    .count = 2, .each = sizeof(reasons[0]) });
	assert_int_equal(paper.writer.left_out, 0);
	expect(&paper,
	    "name  reason\n"
	    "a     421 too many connection+\n"
	    "b     short\n");
}

TEST(columns_can_be_chosen) {
	narrow(0, "observe,name", 0,
	    "name      observe\n"
	    "customer  false\n"
	    "all       true\n");
	narrow(0, "age", 0,
	    "  age\n"
	    "1m01s\n"
	    "    -\n");
	narrow(0, "x,nam", 0,
	    "name       open    age  observe  mta\n"
	    "customer      7  1m01s  false    192.0.2.1:25\n"
	    "all       12345      -  true     -\n");
}

TEST(a_table_is_a_json_list) {
	struct paper paper;

	begin(&paper, true);
	writer_table(&paper.writer, &two_rows);
	expect(&paper, "[\n"
	    "  {\"name\": \"customer\", \"open\": 7, \"age\": 61, \"observe\": false, "
	    "\"mta\": \"192.0.2.1:25\"},\n"
	    "  {\"name\": \"all\", \"open\": 12345, \"age\": null, \"observe\": true, "
	    "\"mta\": null}\n"
	    "]\n");
}

TEST(an_empty_table) {
	struct paper paper;

	begin(&paper, true);
	writer_table(&paper.writer, &no_rows);
	expect(&paper, "[]\n");
	begin(&paper, false);
	writer_table(&paper.writer, &no_rows);
	expect(&paper, "name  open  age  observe  mta\n");
}

static void write_object(struct writer *writer) {
	const struct value bytes = value_number(13631488);
	struct table table = two_rows;

	writer_object_begin(writer, NULL);
	writer_text(writer, "state", "/run/x");
	writer_member(writer, "bytes", COLUMN_BYTES, bytes);
	writer_values_begin(writer, "some");
	writer_value(writer, COLUMN_TEXT, value_text("a"));
	writer_value(writer, COLUMN_TEXT, value_text("b c"));
	writer_values_end(writer);
	writer_values_begin(writer, "none");
	writer_values_end(writer);
	table.name = "rows";
	table.context = &table;
	writer_table(writer, &table);
	writer_object_begin(writer, "inner");
	writer_member(writer, "bytes", COLUMN_BYTES, bytes);
	writer_object_end(writer);
	writer_object_end(writer);
}

TEST(an_object_with_lists_and_tables) {
	struct paper paper;

	begin(&paper, true);
	write_object(&paper.writer);
	expect(&paper, "{\n"
	    "  \"state\": \"/run/x\",\n"
	    "  \"bytes\": 13631488,\n"
	    "  \"some\": [\n    \"a\",\n    \"b c\"\n  ],\n"
	    "  \"none\": [],\n"
	    "  \"rows\": [\n"
	    "    {\"name\": \"customer\", \"open\": 7},\n"
	    "    {\"name\": \"all\", \"open\": 12345}\n"
	    "  ],\n"
	    "  \"inner\": {\n    \"bytes\": 13631488\n  }\n"
	    "}\n");
	begin(&paper, false);
	write_object(&paper.writer);
	expect(&paper,
	    "state                    /run/x\n"
	    "bytes                    13.0M\n"
	    "some                     a b c\n"
	    "none                     -\n"
	    "\nrows:\n"
	    "  name       open\n"
	    "  customer      7\n"
	    "  all       12345\n"
	    "\ninner:\n"
	    "  bytes                    13.0M\n");
}

static void one_text(bool json, const char *text, const char *expected) {
	const struct value value = value_text(text);
	char whole[256];
	struct paper paper;

	begin(&paper, json);
	writer_object_begin(&paper.writer, NULL);
	writer_member(&paper.writer, "t", COLUMN_TEXT, value);
	writer_object_end(&paper.writer);
	snprintf(whole, sizeof(whole), json ? "{\n  \"t\": %s\n}\n" :
	    "t                        %s\n", expected);
	expect(&paper, whole);
}

TEST(json_escapes_what_it_must) {
	one_text(true, "", "\"\"");
	one_text(true, "a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
	one_text(true, "\n\r\t\b\f\x01\x1b[2J\x7f",
	    "\"\\n\\r\\t\\b\\f\\u0001\\u001b[2J\\u007f\"");
	one_text(true, "soci\xc3\xa9t\xc3\xa9 \xe2\x82\xac \xf0\x9f\x93\xac",
	    "\"soci\xc3\xa9t\xc3\xa9 \xe2\x82\xac \xf0\x9f\x93\xac\"");
}

TEST(json_never_holds_control_characters_of_terminals) {
	one_text(true, "\xc2\x9b" "2J\xc2\x80\xc2\x9f", "\"\\u009b2J\\u0080\\u009f\"");
	one_text(true, "\xc2\xa0", "\"\xc2\xa0\"");
}

TEST(json_makes_bad_utf8_visible) {
	one_text(true, "\xff" "a", "\"\\\\xffa\"");
	one_text(true, "\xc3", "\"\\\\xc3\"");			/* cut */
	one_text(true, "\xe2\x82", "\"\\\\xe2\\\\x82\"");	/* cut */
	one_text(true, "\xf0\x9f\x93", "\"\\\\xf0\\\\x9f\\\\x93\"");
	one_text(true, "\xc0\xaf", "\"\\\\xc0\\\\xaf\"");	/* too long a form */
	one_text(true, "\xe0\x80\xaf", "\"\\\\xe0\\\\x80\\\\xaf\"");
	one_text(true, "\xed\xa0\x80", "\"\\\\xed\\\\xa0\\\\x80\""); /* surrogate */
	one_text(true, "\xf4\x90\x80\x80", "\"\\\\xf4\\\\x90\\\\x80\\\\x80\"");
	one_text(true, "\x80", "\"\\\\x80\"");
}

TEST(text_never_holds_control_bytes) {
	char all[256], expected[4 * 256] = "", one[8];
	struct paper paper;

	one_text(false, "", "-");
	one_text(false, "\x1b[2Jx\n", "\\x1b[2Jx\\x0a");
	for (unsigned i = 1; i < 256; i++) {
		all[i - 1] = (char)i;
		snprintf(one, sizeof(one), i >= ' ' && i <= '~' ? "%c" : "\\x%02x", i);
		strncat(expected, one, sizeof(expected) - strlen(expected) - 1);
	}
	all[255] = '\0';
	begin(&paper, false);
	assert_int_equal(writer_print(paper.file, all), strlen(expected));
	assert_int_equal(writer_print(NULL, all), strlen(expected));
	expect(&paper, expected);
}

static void a_time(uint64_t seconds, const char *expected) {
	const struct value value = value_number(seconds);
	char whole[64];
	struct paper paper;

	begin(&paper, false);
	writer_member(&paper.writer, "t", COLUMN_SECONDS, value);
	snprintf(whole, sizeof(whole), "t                        %s\n", expected);
	expect(&paper, whole);
}

TEST(times_read_well) {
	a_time(0, "0s");
	a_time(59, "59s");
	a_time(60, "1m00s");
	a_time(3599, "59m59s");
	a_time(3600, "1h00m");
	a_time(86399, "23h59m");
	a_time(86400, "1d00h");
	a_time(UINT64_MAX, "213503982334601d07h");
}

TEST(a_full_disk_is_told) {
	FILE *full = fopen("/dev/full", "w");
	struct writer writer;

	if (full == NULL)
		skip();
	writer_init(&writer, full, true);
	writer_table(&writer, &two_rows);
	assert_false(writer_finish(&writer));
	fclose(full);
}

TEST(decimals_have_three_digits) {
	static const struct {
		double number;
		const char *text;
	} cases[] = {
		{ 0, "0.000" }, { 1, "1.000" }, { 0.2, "0.200" }, { 1.0 / 3, "0.333" },
		{ 0.9996, "1.000" }, { -0.25, "-0.250" }, { -1.5, "-1.500" },
		{ -0.0001, "0.000" }, { 1234567.5, "1234567.500" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct value value = value_decimal(cases[i].number);
		struct paper paper;
		char wanted[64];

		begin(&paper, true);
		writer_object_begin(&paper.writer, NULL);
		writer_member(&paper.writer, "d", COLUMN_DECIMAL, value);
		writer_object_end(&paper.writer);
		snprintf(wanted, sizeof(wanted), "\"d\": %s", cases[i].text);
		fflush(paper.file);
		assert_non_null(strstr(paper.text, wanted));
		fclose(paper.file);
		free(paper.text);
	}
}

/* One that has what a shell or a parser would stumble over stands in quotes. */
TEST(lines_have_members_of_their_own) {
	for (int json = 0; json < 2; json++) {
		struct paper paper;
		struct writer *writer = &paper.writer;

		(void)state;
		begin(&paper, json == 1);
		writer_line_begin(writer);
		writer_member(writer, "type", COLUMN_TEXT, value_text("start"));
		writer_member(writer, "none", COLUMN_NUMBER, value_unknown());
		writer_member(writer, "sender", COLUMN_TEXT, value_text("a b\"\\\x1b"));
		writer_member(writer, "empty", COLUMN_TEXT, value_text(""));
		writer_line_list_begin(writer, "groups");
		writer_line_item(writer);
		writer_member(writer, "d", COLUMN_TEXT, value_text("x.example"));
		writer_member(writer, "n", COLUMN_NUMBER, value_number(2));
		writer_line_item(writer);
		writer_member(writer, "d", COLUMN_TEXT, value_text("$(y)"));
		writer_line_list_end(writer);
		writer_line_list_begin(writer, "nothing");
		writer_line_list_end(writer);
		writer_member(writer, "garbage", COLUMN_TRUTH, value_truth(true));
		writer_line_end(writer);
		expect(&paper, json == 1 ?
		    "{\"type\": \"start\", \"none\": null, \"sender\": \"a b\\\"\\\\\\u001b\", "
		    "\"empty\": \"\", \"groups\": [{\"d\": \"x.example\", \"n\": 2}, "
		    "{\"d\": \"$(y)\"}], \"nothing\": [], \"garbage\": true}\n" :
		    "type=start sender=\"a b\\\"\\\\\\x1b\" empty=\"\" "
		    "groups=[d=x.example n=2; d=\"$(y)\"] nothing=[] garbage=true\n");
	}
}
