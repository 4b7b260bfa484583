/* SPDX-License-Identifier: ISC */
/*
 * Real replies and log lines, with the class that is right for each, against the
 * shipped rules: they may refine, never lead astray.  Needs the material beside the
 * project (POSTERN_SHARED, or ../shared); skipped without.
 */
#include "tests/unit/test.h"
#include "config/compile/compile.h"
#include "engine/judge/judge.h"
#include "wire/mail/mail_log.h"

#define COLUMNS_MAX 16

static struct generation *generation;
static struct judge *judge;
static char directory[1024];

static char *read_text(const char *path) {
	FILE *file = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;
	ssize_t length;

	if (file == NULL)
		return NULL;
	length = getdelim(&text, &room, '\0', file);
	fclose(file);
	return length < 0 ? NULL : text;
}

static int open_judge(void **state) {
	static const char main_text[] = "version = 1; classes = ();\n"
	    "mta = ( { name = \"postfix\"; site = \"/none\"; },\n"
	    "        { name = \"sendmail\"; kind = \"sendmail\"; user = \"root\"; } );\n";
	const char *top = getenv("top_srcdir"), *shared = getenv("POSTERN_SHARED");
	struct config_messages messages;
	struct diag diag;
	char path[2048], *text;

	if (top == NULL)
		top = ".";
	if (shared != NULL)
		snprintf(directory, sizeof(directory), "%s/corpus", shared);
	else
		snprintf(directory, sizeof(directory), "%s/../shared/corpus", top);
	snprintf(path, sizeof(path), "%s/conf/providers.conf", top);
	text = read_text(path);
	if (text == NULL)
		return -1;
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

/* Cuts a line at its tabs. */
static unsigned cut(char *line, char *columns[COLUMNS_MAX]) {
	unsigned count = 0;

	line[strcspn(line, "\n")] = '\0';
	while (count < COLUMNS_MAX) {
		columns[count++] = line;
		line = strchr(line, '\t');
		if (line == NULL)
			break;
		*line++ = '\0';
	}
	for (unsigned i = count; i < COLUMNS_MAX; i++)
		columns[i] = NULL;
	return count;
}

/* Is `word` among those of a list with "|" between? */
static bool is_among(const char *word, const char *list) {
	size_t length = strlen(word);

	for (const char *at = list; at != NULL && *at != '\0'; at = strchr(at, '|')) {
		at += *at == '|';
		if (strncmp(at, word, length) == 0 && (at[length] == '\0' || at[length] == '|'))
			return true;
	}
	return false;
}

struct score {
	unsigned all, right, sure, sure_right, by_rule;
};

static void count(struct score *score, enum result_class class, uint32_t rule, char *wanted,
    const char *sure, const char *alt, const char *what) {
	const char *word = result_class_word(class);
	bool certain = strcmp(sure, "y") == 0, right = strcmp(word, wanted) == 0;

	score->all++;
	score->sure += certain;
	score->sure_right += certain && right;
	score->by_rule += rule != JUDGE_NONE;
	right = right || is_among(word, alt);
	score->right += right;
	if (!right && rule != JUDGE_NONE)
		print_message("%s, not %s, by rule %s: %s\n", word, wanted,
		    generation_text(generation, generation_reply_rule(generation, rule)->name), what);
}

/* A reply that says what its site is called by itself. */
static uint32_t provider_of(const char *name) {
	static const struct {
		const char *word, *provider;
	} known[] = {
		{ "google", "google" }, { "yahoo", "yahoo" }, { "outlook", "outlook" },
		{ "microsoft", "microsoft365" }, { "orange", "orange" }, { "FrancePTT", "orange" },
		{ "comcast", "comcast" }, { "cox", "cox" }, { "Apple", "apple" },
		{ "qq", "qq" }, { "Tencent", "qq" }, { "Google", "google" },
		{ "YahooInc", "yahoo" }, { "Microsoft", "microsoft365" }, { "Outlook", "outlook" },
		{ "Cox", "cox" }, { "Spectrum", "spectrum" }, { "NTTDOCOMO", "none" },
	};
	uint32_t provider = generation_match_provider(generation, name, strlen(name), NULL);

	for (size_t i = 0; provider == JUDGE_NONE && i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].word, name) == 0)
			provider = generation_find_provider(generation, known[i].provider,
			    strlen(known[i].provider));
	return provider;
}

static enum delivery_phase phase_of(const char *word) {
	static const struct {
		const char *word;
		enum delivery_phase phase;
	} phases[] = {
		{ "greeting", PHASE_GREETING }, { "EHLO", PHASE_EHLO }, { "HELO", PHASE_EHLO },
		{ "STARTTLS", PHASE_STARTTLS }, { "MAIL FROM", PHASE_MAIL },
		{ "RCPT TO", PHASE_RCPT }, { "DATA", PHASE_DATA },
		{ "end of DATA", PHASE_END_OF_DATA },
	};

	for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
		if (strcmp(phases[i].word, word) == 0)
			return phases[i].phase;
	return PHASE_UNKNOWN;
}

static FILE *open_table(const char *name) {
	char path[2048];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "r");
	if (file == NULL) {
		print_message("no %s\n", path);
		skip();
	}
	return file;
}

TEST(replies_keep_their_class) {
	FILE *file = open_table("responses-truth.tsv");
	struct score score = { .all = 0 };
	char *line = NULL, *columns[COLUMNS_MAX];
	size_t room = 0;

	while (getline(&line, &room, file) > 0) {
		struct reply reply;
		struct span words;
		uint32_t rule;

		if (cut(line, columns) < 7 || strcmp(columns[0], "provider") == 0)
			continue;
		words = (struct span){ columns[1], strlen(columns[1]) };
		reply_judge_text(words, phase_of(columns[6]), &reply);
		rule = judge_reply(judge, provider_of(columns[0]), &reply);
		count(&score, reply.class, rule, columns[2], columns[4], columns[5], columns[1]);
	}
	free(line);
	fclose(file);
	print_message("%u replies: %u right; of %u sure %u; %u by a rule\n", score.all,
	    score.right, score.sure, score.sure_right, score.by_rule);
	assert_true(score.all > 100);
	assert_true(score.right * 100 >= score.all * 95);
	assert_true(score.sure_right * 100 >= score.sure * 95);
}

TEST(deliveries_keep_their_class) {
	FILE *file = open_table("delivery-truth.tsv");
	struct score score = { .all = 0 };
	char *line = NULL, *columns[COLUMNS_MAX], whole[8192];
	size_t room = 0;

	while (getline(&line, &room, file) > 0) {
		struct judgement judgement;
		struct log_line out;
		const char *text;

		if (cut(line, columns) < 14 || strcmp(columns[0], "mta") == 0)
			continue;
		text = columns[1];
		if (strcmp(columns[12], "n") == 0) {
			snprintf(whole, sizeof(whole), "Jan  1 00:00:00 host %s[1]: %s", columns[13],
			    columns[1]);
			text = whole;
		}
		if (mail_log_scan(text, strlen(text), &out) != LOG_LINE_DELIVERY)
			continue;	/* the readers' tests count these */
		out.delivery.program = out.delivery.source == DELIVERY_OF_POSTFIX ?
		    (struct span){ "postfix/smtp", 12 } : out.delivery.program;
		judge_delivery(judge, 3, &out.delivery, &judgement);
		assert_true(judgement.mta < 2);
		count(&score, judgement.reply.class, judgement.rule, columns[7], columns[8],
		    columns[9], text);
	}
	free(line);
	fclose(file);
	print_message("%u deliveries: %u right; of %u sure %u; %u by a rule\n", score.all,
	    score.right, score.sure, score.sure_right, score.by_rule);
	assert_true(score.all > 100);
	assert_true(score.right * 100 >= score.all * 98);
	assert_true(score.sure_right * 100 >= score.sure * 98);
}

TEST_GROUP(open_judge, close_judge)
