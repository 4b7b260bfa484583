/* SPDX-License-Identifier: ISC */
/*
 * Our own collection of replies (tests/unit/cases/replies), judged by themselves and with
 * the shipped rules: the class is right in both ways, and the rule does what it should.
 */
#include "tests/unit/test.h"
#include "config/compile/compile.h"
#include "engine/judge/judge.h"

enum { PROVIDER, PHASE, CLASS, ACTION, TEXT, FIELDS };

static struct generation *generation;
static struct judge *judge;
static char row[8192], *fields[FIELDS];

static FILE *open_source(const char *name) {
	const char *top = getenv("top_srcdir");
	char path[1024];

	snprintf(path, sizeof(path), "%s/%s", top ? top : ".", name);
	return fopen(path, "r");
}

static int open_judge(void **state) {
	static const char main_text[] = "version = 1; classes = ();\n"
	    "mta = ( { name = \"postfix\"; site = \"/none\"; } );\n";
	FILE *file = open_source("conf/providers.conf");
	struct config_messages messages;
	struct diag diag;
	char *text = NULL;
	size_t room = 0;

	if (file == NULL || getdelim(&text, &room, '\0', file) < 0)
		return -1;
	fclose(file);
	generation = config_compile_texts(main_text, "main", text, "providers.conf", &messages);
	config_messages_free(&messages);
	free(text);
	return generation == NULL ? -1 : judge_open(&judge, generation, &diag);
}

static int close_judge(void **state) {
	judge_close(&judge);
	free(generation);
	return 0;
}

static bool next_case(FILE *file) {
	while (fgets(row, sizeof(row), file) != NULL) {
		char *next = row;

		row[strcspn(row, "\n")] = '\0';
		if (row[0] == '#' || row[0] == '\0')
			continue;
		for (int i = 0; i < TEXT; i++) {
			fields[i] = strsep(&next, "|");
			assert_non_null(next);
		}
		fields[TEXT] = next;
		return true;
	}
	return false;
}

static enum delivery_phase phase_of(const char *word) {
	for (unsigned phase = 0; phase < PHASE_COUNT; phase++)
		if (strcmp(delivery_phase_word((enum delivery_phase)phase), word) == 0)
			return (enum delivery_phase)phase;
	fail_msg("no phase: %s", word);
	return PHASE_UNKNOWN;
}

static bool is_listed(enum result_class class) {
	const char *word = result_class_word(class);
	size_t length = strlen(word);

	for (const char *at = fields[CLASS]; *at != '\0'; at += strcspn(at, ","), at += *at == ',')
		if (strcspn(at, ",") == length && memcmp(at, word, length) == 0)
			return true;
	return false;
}

static const char *action_of(uint32_t rule) {
	struct judge_rule told;

	if (rule == JUDGE_NONE)
		return "none";
	judge_rule(generation, rule, &told);
	switch (told.action) {
	case REPLY_ACTION_ALERT:
		return "alert";
	case REPLY_ACTION_CEILING:
		return "ceiling";
	case REPLY_ACTION_SUSPEND:
		return "suspend";
	case REPLY_ACTION_HOLD_RECIPIENT:
		return "hold";
	default:
		return "none";
	}
}

static bool check(void) {
	struct span words = { fields[TEXT], strlen(fields[TEXT]) };
	uint32_t provider = JUDGE_NONE, rule;
	enum result_class alone;
	struct reply reply;
	bool right;

	if (strcmp(fields[PROVIDER], "-") != 0) {
		provider = generation_find_provider(generation, fields[PROVIDER],
		    strlen(fields[PROVIDER]));
		assert_int_not_equal(provider, JUDGE_NONE);
	}
	reply_judge_text(words, phase_of(fields[PHASE]), &reply);
	alone = reply.class;
	rule = judge_reply(judge, provider, &reply);
	right = is_listed(reply.class);
	/* some providers mean something else than they say */
	if (provider == JUDGE_NONE || rule == JUDGE_NONE)
		right = right && (is_listed(alone) || rule != JUDGE_NONE);
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

	assert_non_null(file);
	while (next_case(file)) {
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
	char text[sizeof(row) + 64];

	assert_non_null(file);
	while (next_case(file)) {
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

TEST_GROUP(open_judge, close_judge)
