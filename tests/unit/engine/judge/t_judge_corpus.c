/* SPDX-License-Identifier: ISC */
/*
 * Real replies and log lines, with the class that is right for each, against the
 * shipped rules: they may refine, never lead astray.  Needs the material beside the
 * project (POSTERN_SHARED, or ../shared); skipped without.
 */
#include "tests/unit/test.h"
#include "tests/unit/engine/judge/shipped_rules.h"
#include "wire/mail/mail_log.h"

static char *fields[14];

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
	right = right || is_listed(word, alt, "|");
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

static FILE *corpus_or_skip(const char *name) {
	FILE *file = open_corpus(name);

	if (file == NULL) {
		print_message("no ../shared/corpus/%s, and no POSTERN_SHARED\n", name);
		skip();
	}
	return file;
}

TEST(replies_keep_their_class) {
	FILE *file = corpus_or_skip("responses-truth.tsv");
	struct score score = { .all = 0 };

	while (next_row(file, "\t", fields, 8)) {
		struct reply reply;
		struct span words;
		uint32_t rule;

		words = (struct span){ fields[1], strlen(fields[1]) };
		reply_judge_text(words, phase_of(fields[6]), &reply);
		rule = judge_reply(judge, provider_of(fields[0]), &reply);
		count(&score, reply.class, rule, fields[2], fields[4], fields[5], fields[1]);
	}
	fclose(file);
	print_message("%u replies: %u right; of %u sure %u; %u by a rule\n", score.all,
	    score.right, score.sure, score.sure_right, score.by_rule);
	assert_true(score.all > 100);
	assert_true(score.right * 100 >= score.all * 95);
	assert_true(score.sure_right * 100 >= score.sure * 95);
}

TEST(deliveries_keep_their_class) {
	FILE *file = corpus_or_skip("delivery-truth.tsv");
	struct score score = { .all = 0 };
	char whole[8192];

	while (next_row(file, "\t", fields, 14)) {
		struct judgement judgement;
		struct log_line out;
		const char *text;

		text = fields[1];
		if (strcmp(fields[12], "n") == 0) {
			snprintf(whole, sizeof(whole), "Jan  1 00:00:00 host %s[1]: %s", fields[13],
			    fields[1]);
			text = whole;
		}
		if (mail_log_scan(text, strlen(text), &out) != LOG_LINE_DELIVERY)
			continue;	/* the readers' tests count these */
		out.delivery.program = out.delivery.source == DELIVERY_OF_POSTFIX ?
		    (struct span){ "postfix/smtp", 12 } : out.delivery.program;
		judge_delivery(judge, 3, &out.delivery, &judgement);
		assert_true(judgement.mta < 2);
		count(&score, judgement.reply.class, judgement.rule, fields[7], fields[8],
		    fields[9], text);
	}
	fclose(file);
	print_message("%u deliveries: %u right; of %u sure %u; %u by a rule\n", score.all,
	    score.right, score.sure, score.sure_right, score.by_rule);
	assert_true(score.all > 100);
	assert_true(score.right * 100 >= score.all * 98);
	assert_true(score.sure_right * 100 >= score.sure * 98);
}

TEST_GROUP(open_shipped, close_shipped)
