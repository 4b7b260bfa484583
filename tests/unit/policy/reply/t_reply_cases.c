/* SPDX-License-Identifier: ISC */
/*
 * Our own collection of replies (tests/unit/cases/replies), judged by themselves and with
 * the shipped rules: the class is right in both ways, and the rule does what it should.
 */
#include "tests/unit/test.h"
#include "tests/unit/engine/judge/shipped_rules.h"

enum { PROVIDER, PHASE, CLASS, ACTION, TEXT, FIELDS };

static char *fields[FIELDS];

static enum delivery_phase phase_of(const char *word) {
	for (unsigned phase = 0; phase < PHASE_COUNT; phase++)
		if (strcmp(delivery_phase_word((enum delivery_phase)phase), word) == 0)
			return (enum delivery_phase)phase;
	fail_msg("no phase: %s", word);
	return PHASE_UNKNOWN;
}

static bool is_class_listed(enum result_class class) {
	return is_listed(result_class_word(class), fields[CLASS], ",");
}

static bool check(void) {
	struct span words = { fields[TEXT], strlen(fields[TEXT]) };
	uint32_t provider = provider_named(fields[PROVIDER]), rule;
	enum result_class alone;
	struct reply reply;
	bool right;

	reply_judge_text(words, phase_of(fields[PHASE]), &reply);
	alone = reply.class;
	rule = judge_reply(judge, provider, &reply);
	right = is_class_listed(reply.class);
	/* some providers mean something else than they say */
	if (provider == JUDGE_NONE || rule == JUDGE_NONE)
		right = right && (is_class_listed(alone) || rule != JUDGE_NONE);
	if (strcmp(fields[ACTION], ".") != 0 && strcmp(fields[ACTION], action_of(rule)) != 0)
		right = false;
	if (!right)
		print_message("%s, %s by %s (%s), not %s (%s): %s: %s\n", result_class_word(alone),
		    result_class_word(reply.class), rule == JUDGE_NONE ? "none" :
		    generation_text(generation, generation_reply_rule(generation, rule)->name),
		    action_of(rule), fields[CLASS], fields[ACTION], fields[PHASE], fields[TEXT]);
	return right;
}

TEST(replies) {
	FILE *file = open_source("tests/unit/cases/replies");
	unsigned rows = 0, wrong = 0;

	while (next_row(file, "|", fields, FIELDS)) {
		rows++;
		wrong += !check();
	}
	fclose(file);
	print_message("%u replies: %u wrong\n", rows, wrong);
	assert_true(rows >= 300);
	assert_int_equal(wrong, 0);
}

/* Class and rule of a text, as the case has provider and phase. */
static uint32_t judge_words(const char *text, size_t length, enum result_class *class) {
	struct reply reply;
	uint32_t rule, provider = generation_find_provider(generation, fields[PROVIDER],
	    strlen(fields[PROVIDER]));

	reply_judge_text((struct span){ text, length }, phase_of(fields[PHASE]), &reply);
	rule = judge_reply(judge, provider, &reply);
	/* what people see is what was said */
	assert_ptr_equal(reply.words.text + reply.words.length, text + length);
	*class = reply.class;
	return rule;
}

/* Breaks a reply of one line before the blank at `at`, and puts its code before each
 * part.  The length. */
static size_t break_line(char *out, size_t size, const char *text, size_t at) {
	int code = 3, length;

	if (strspn(text + 4, "0123456789.") >= 5 && text[4] == text[0] && text[5] == '.')
		code = 4 + (int)strspn(text + 4, "0123456789.");
	length = snprintf(out, size, "%.3s-%.*s %.*s%s", text, (int)at - 4, text + 4, code, text,
	    text + at);
	assert_in_range(length, at, size - 1);
	return (size_t)length;
}

/* A server breaks its reply wherever it wants to. */
TEST(a_line_break_changes_no_verdict) {
	FILE *file = open_source("tests/unit/cases/replies");
	unsigned broken = 0, wrong = 0;
	char text[8192];

	while (next_row(file, "|", fields, FIELDS)) {
		const char *whole = fields[TEXT];
		enum result_class class, other;
		uint32_t rule = judge_words(whole, strlen(whole), &class);

		if (strspn(whole, "45") < 1 || strspn(whole, "0123456789") != 3 || whole[3] != ' ')
			continue;
		for (const char *at = strchr(whole + 4, ' '); at != NULL; at = strchr(at + 1, ' ')) {
			size_t length = break_line(text, sizeof(text), whole, (size_t)(at - whole));

			broken++;
			if (judge_words(text, length, &other) == rule && other == class)
				continue;
			wrong++;
			print_message("%s, not %s: %s\n", result_class_word(other),
			    result_class_word(class), text);
		}
	}
	fclose(file);
	print_message("%u breaks: %u wrong\n", broken, wrong);
	assert_true(broken >= 1000);
	assert_int_equal(wrong, 0);
}

TEST_GROUP(open_shipped, close_shipped)
