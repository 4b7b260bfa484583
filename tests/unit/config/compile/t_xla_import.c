/* SPDX-License-Identifier: ISC */
/* The read-me's examples, every kind of wrong line, and that what comes out
 * compiles. */
#include "tests/unit/test.h"
#include "config/compile/xla_import.h"
#include "tests/unit/config/compiled.h"

static char output[1 << 20];

/* Imports a text: the classes are in `output` then. */
static int import(const char *text, size_t length) {
	FILE *in = fmemopen((void *)(uintptr_t)text, length, "r");
	FILE *out = fmemopen(output, sizeof(output), "w");
	int result;

	assert_non_null(in);
	assert_non_null(out);
	memset(output, 0, sizeof(output));
	result = xla_import(in, "sendmail.cf", out, fresh_messages());
	fclose(in);
	fclose(out);
	return result;
}

static bool said(enum message_severity severity, int line, const char *part) {
	for (size_t i = 0; i < messages.count; i++)
		if (messages.list[i].severity == severity && messages.list[i].line == line &&
		    strstr(messages.list[i].text, part) != NULL &&
		    strcmp(messages.list[i].file, "sendmail.cf") == 0)
			return true;
	print_messages();
	return false;
}

static struct generation *compile_output(void) {
	static char text[sizeof(output) + 32];
	struct config_messages of_import = messages;
	struct generation *g;

	memset(&messages, 0, sizeof(messages));
	snprintf(text, sizeof(text), "%sversion = 1;\n", output);
	g = compiled_well(config_compile_text(text, "imported", &messages));
	config_messages_free(&messages);
	messages = of_import;
	return g;
}

/* Of a text that can be taken: what its output compiles to. */
static struct generation *imported(const char *text, size_t notes) {
	assert_int_equal(import(text, strlen(text)), 0);
	assert_int_equal(messages.notes, notes);
	return compile_output();
}

static void check_class(const struct generation *g, uint32_t index, const char *name,
    const char *mask, uint32_t sessions, uint32_t inbound) {
	const struct generation_class *class = generation_class(g, index);

	assert_string_equal(generation_text(g, class->name), name);
	assert_string_equal(generation_text(g, generation_rule(g, index)->text), mask);
	assert_int_equal(class->limits.sessions, sessions);
	assert_int_equal(class->limits.inbound, inbound);
	assert_true(class->any_port);
}

TEST(readme_lyon) {
	static const char text[] =
	    "# File name used to store the counters\n"
	    "L/etc/sendmail.la\n"
	    "# Classes definition\n"
	    "# Lname            #queue #reject\n"
	    "L*.insa-lyon.fr         8       3\n"
	    "L*.univ-lyon1.fr        6       4\n"
	    "L*                     15      16\n";
	struct generation *g = imported(text, 1);

	assert_true(said(MESSAGE_NOTE, 7, "queue (15) is below reject (16)"));
	assert_non_null(strstr(output, "# L*.insa-lyon.fr 8 3\n"));
	assert_int_equal(g->class_count, 3);
	check_class(g, 0, "insa-lyon.fr", "*.insa-lyon.fr", 8, 3);
	check_class(g, 1, "univ-lyon1.fr", "*.univ-lyon1.fr", 6, 4);
	check_class(g, 2, "everyone", "*", 15, 16);
}

TEST(readme_customer) {
	static const char text[] =
	    "L/etc/sendmail.la\nL*.customer.fr          8       8\nL*                      3       3\n";
	struct generation *g = imported(text, 0);

	assert_int_equal(g->class_count, 2);
	check_class(g, 0, "customer.fr", "*.customer.fr", 8, 8);
	check_class(g, 1, "everyone", "*", 3, 3);
}

TEST(names_are_unique) {
	static const char text[] = "L/x\nLa.fr 1 1\nL*.a.fr 2 2\nLeveryone 3 3\nL* 4 4\n";
	struct generation *g;

	assert_int_equal(import(text, strlen(text)), 0);
	g = compile_output();
	check_class(g, 0, "a.fr", "a.fr", 1, 1);
	check_class(g, 1, "a.fr-2", "*.a.fr", 2, 2);
	check_class(g, 2, "everyone", "everyone", 3, 3);
	check_class(g, 3, "everyone-2", "*", 4, 4);
}

TEST(other_lines_and_continuations) {
	static const char text[] = "V8/Debian\nR$*\t$@ L\n\tL*.not.this 1 1\nLmail.a.fr\n\t5\n  4\r\n"
	    "O L=3\nL/x\nL*\t\t 9 9 # rest\n";
	struct generation *g = imported(text, 0);

	assert_int_equal(g->class_count, 2);
	check_class(g, 0, "mail.a.fr", "mail.a.fr", 5, 4);
}

TEST(unreachable_rules_become_comments) {
	static const char text[] = "L/x\nL*.a.fr 1 1\nLb.a.fr 2 2\nL* 4 4\nLlate.fr 5 5\nL*.a.fr 6 6\n";
	struct generation *g = imported(text, 3);

	assert_true(said(MESSAGE_NOTE, 3, "*.a.fr in line 2 matches first"));
	assert_true(said(MESSAGE_NOTE, 5, "late.fr can never match"));
	assert_true(said(MESSAGE_NOTE, 6, "*.a.fr can never match"));
	assert_non_null(strstr(output, "# never matches: Llate.fr 5 5\n"));
	assert_int_equal(g->class_count, 2);
}

TEST(notes) {
	char text[4096] = "";
	size_t length = 0;

	for (int i = 1; i <= 25; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "Lh%d.fr 1 1\n", i);
	assert_int_equal(import(text, length), 0);
	assert_int_equal(messages.notes, 3);
	assert_true(said(MESSAGE_NOTE, 21, "20 rules"));
	assert_true(said(MESSAGE_NOTE, 0, "the last line L* is missing: hosts that "
	    "match no class are admitted uncounted"));
	assert_true(said(MESSAGE_NOTE, 0, "no L line names a counter file; none is "
	    "needed"));
	(void)compile_output();
}

TEST(every_wrong_line_is_named) {
	static const char text[] = "L/x\nL\nL*.a.fr\nL*.a.fr 1\nL*.a.fr 1 2 3\nL*.a.fr x 2\n"
	    "L*.a.fr 1 -2\nL*.a.fr 99999999999 2\nL*.*.fr 1 1\nL*x 1 1\nLa\x01 1 1\n";

	assert_int_equal(import(text, strlen(text)), -1);
	assert_int_equal(messages.errors, 11);
	for (int line = 2; line <= 5; line++)
		assert_true(said(MESSAGE_ERROR, line, "three fields"));
	assert_true(said(MESSAGE_ERROR, 6, "queue number \"x\""));
	assert_true(said(MESSAGE_ERROR, 7, "reject number \"-2\""));
	assert_true(said(MESSAGE_ERROR, 8, "99999999999"));
	for (int line = 9; line <= 11; line++)
		assert_true(said(MESSAGE_ERROR, line, "bad mask"));
	assert_true(said(MESSAGE_ERROR, 0, "no L line defines a class"));
	assert_string_equal(output, "");
}

TEST(one_wrong_line_leaves_the_rest) {
	static const char text[] = "L/x\nL*.a.fr 1 1\nL*.*.fr 2 2\nL* 3 3\n";
	struct generation *g;

	assert_int_equal(import(text, strlen(text)), -1);
	assert_int_equal(messages.errors, 1);
	assert_non_null(strstr(output, "# cannot be taken: L*.*.fr 2 2\n"));
	g = compile_output();
	assert_int_equal(g->class_count, 2);
	check_class(g, 0, "a.fr", "*.a.fr", 1, 1);
	check_class(g, 1, "everyone", "*", 3, 3);
}

/* The read-me does not name them, its code takes them. */
TEST(prefixes_and_bracketed_addresses_are_taken) {
	static const char text[] = "L/x\nL193.55.* 2 2\nL[192.0.2.1] 3 3\nLmail.* 4 4\nL* 9 9\n";
	struct generation *g = imported(text, 3);

	assert_true(said(MESSAGE_NOTE, 2, "193.55.* takes addresses"));
	assert_true(said(MESSAGE_NOTE, 3, "192.0.2.1 takes addresses"));
	assert_true(said(MESSAGE_NOTE, 4, "mail.* takes host names"));
	assert_int_equal(g->class_count, 4);
	check_class(g, 0, "193.55", "193.55.*", 2, 2);
	check_class(g, 1, "192.0.2.1", "192.0.2.1", 3, 3);
	check_class(g, 2, "mail", "mail.*", 4, 4);
}

TEST(nothing_to_import) {
	assert_int_equal(import("V8\n", 3), -1);
	assert_true(said(MESSAGE_ERROR, 0, "no L line defines a class"));
	assert_int_equal(import("La\0b 1 1\n", 9), -1);
	assert_true(said(MESSAGE_ERROR, 1, "NUL"));
}

TEST(long_masks_get_short_unique_names) {
	char text[1024], label[64];
	struct generation *g;

	memset(label, 'a', sizeof(label));
	label[60] = '\0';
	snprintf(text, sizeof(text), "L/x\nL%s.%s.one 1 1\nL%s.%s.two 1 1\nL* 2 2\n", label, label,
	    label, label);
	assert_int_equal(import(text, strlen(text)), 0);
	g = compile_output();
	assert_int_equal(g->class_count, 3);
}

TEST(a_hostile_file_name_stays_in_the_comment) {
	static char line[] = "L* 5 5\n";
	FILE *in = fmemopen(line, sizeof(line) - 1, "r");
	FILE *out = fmemopen(output, sizeof(output), "w");

	memset(output, 0, sizeof(output));
	assert_int_equal(xla_import(in, "my own\nobserve = true; .cf", out, fresh_messages()), 0);
	fclose(in);
	fclose(out);
	assert_non_null(strstr(output, "# From the L lines of my own?observe = true; .cf, "
	    "by "));
}
