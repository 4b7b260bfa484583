/* SPDX-License-Identifier: ISC */
/* A file of providers of any text and, behind a NUL, a reply of any bytes that its rules
 * are tried on: refused with something said, or a generation that holds together and
 * rules that end. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/pattern.h"
#include "config/compile/compile.h"
#include "engine/judge/judge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char main_text[] = "version = 1; classes = ();\n"
    "window = { suspend = \"1m\"; };\n"
    "destinations = ( { match = [ \"*.a.example\", \"10.0.0.0/8\" ];\n"
    "                   window = { destination_concurrency_limit = 3; }; } );\n";

/* The first of the rules that matches, tried one after the other; false: a pattern was
 * given up. */
static bool first_match(const struct generation *g, uint32_t from, uint32_t end,
    struct span words, uint32_t *rule) {
	struct pattern_room *room = pattern_room_open();
	bool good = room != NULL;

	*rule = JUDGE_NONE;
	for (uint32_t i = from; good && i < end && *rule == JUDGE_NONE; i++) {
		struct pattern *pattern;
		enum pattern_result result;
		char why[160];
		size_t at;

		MUST(pattern_compile(&pattern, generation_text(g, generation_reply_rule(g, i)->pattern),
		    true, why, sizeof(why), &at) == 0);
		result = pattern_match(pattern, room, words.text, words.length);
		if (result == PATTERN_MATCH)
			*rule = i;
		good = result != PATTERN_GAVE_UP;
		pattern_free(&pattern);
	}
	pattern_room_close(&room);
	return good;
}

/* The judge, which leaves out what cannot match, finds the same. */
static void compare(const struct generation *g, uint32_t provider, const struct reply *reply,
    uint32_t found) {
	uint32_t rule = JUDGE_NONE;

	if (provider != JUDGE_NONE) {
		const struct generation_provider *own = generation_provider(g, provider);

		if (!first_match(g, own->rules, own->rules + own->rule_count, reply->words, &rule))
			return;
	}
	if (rule == JUDGE_NONE && !first_match(g, g->common_rules, g->reply_rule_count,
	    reply->words, &rule))
		return;
	MUST(rule == found);
}

static void ask(const struct generation *g, struct span words) {
	static const char *const names[] = { "mx.a.example", "[10.1.2.3]:10024", "provider:a" };
	char own[JUDGE_NAME_MAX + 1];
	struct window_settings settings;
	struct judge *judge;
	struct judge_rule rule;
	struct diag diag;

	for (uint32_t provider = 0; provider < g->provider_count; provider++) {
		MUST(judge_provider_destination(g, provider, own));
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			(void)generation_window_settings(g, 0, names[i], strlen(names[i]), provider,
			    &settings);
			MUST(settings.initial > 0);
		}
	}
	MUST(judge_open(&judge, g, &diag) == 0);
	for (uint32_t provider = 0; provider <= g->provider_count; provider++) {
		struct reply reply;
		uint32_t number;
		bool tried;

		reply_judge_text(words, PHASE_UNKNOWN, &reply);
		tried = reply.class != RESULT_OK && reply.class != RESULT_LOCAL &&
		    reply.class != RESULT_SUSPENDED && reply.words.length > 0;
		number = judge_reply(judge, provider < g->provider_count ? provider : JUDGE_NONE,
		    &reply);
		/* the judge makes one line of several: "421-", or "421 " */
		if (tried && (reply.words.length < 4 || reply.words.text[3] != '-'))
			compare(g, provider < g->provider_count ? provider : JUDGE_NONE, &reply, number);
		if (number == JUDGE_NONE)
			continue;
		judge_rule(g, number, &rule);
		MUST(rule.count >= 1 && strlen(rule.name) <= 64 && reply.class < RESULT_CLASS_COUNT);
		MUST((rule.action == REPLY_ACTION_CEILING) == (rule.ceiling > 0));
		MUST((rule.action == REPLY_ACTION_SLOW) == (rule.pace != NULL));
	}
	judge_close(&judge);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
	size_t length = end ? (size_t)(end - data) : size;
	struct config_messages messages;
	struct generation *g;
	struct diag diag;
	char *text = malloc(length + 1), *words = malloc(size - length + 1);

	if (text == NULL || words == NULL) {
		free(text);
		free(words);
		return 0;
	}
	memcpy(text, length > 0 ? data : (const uint8_t *)"", length);
	text[length] = '\0';
	size = end ? size - length - 1 : 0;
	if (size > 0)
		memcpy(words, end + 1, size);
	g = config_compile_texts(main_text, "main", text, "fuzz", &messages);
	MUST((g == NULL) == (messages.errors > 0));
	config_messages_free(&messages);
	if (g != NULL) {
		MUST(generation_verify(g, (size_t)g->bytes, &diag) == 0);
		ask(g, (struct span){ words, size });
	}
	free(g);
	free(text);
	free(words);
	return 0;
}
