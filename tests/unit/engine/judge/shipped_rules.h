/* SPDX-License-Identifier: ISC */
/* A Postfix, a Sendmail, and the shipped rules. */
#ifndef TESTS_SHIPPED_RULES_H
#define TESTS_SHIPPED_RULES_H

#include "config/compile/compile.h"
#include "engine/judge/judge.h"
#include "tests/unit/material.h"

static struct generation *generation;
static struct judge *judge;

static inline int open_shipped(void **state) {
	static const char main_text[] = "version = 1; classes = ();\n"
	    "mta = ( { name = \"postfix\"; site = \"/none\"; },\n"
	    "        { name = \"sendmail\"; kind = \"sendmail\"; user = \"root\"; } );\n";
	char *text = read_and_close(open_source("conf/providers.conf"));
	struct config_messages messages;
	struct diag diag;

	generation = config_compile_texts(main_text, "main", text, "providers.conf", &messages);
	config_messages_free(&messages);
	free(text);
	return generation == NULL ? -1 : judge_open(&judge, generation, &diag);
}

static inline int close_shipped(void **state) {
	judge_close(&judge);
	free(generation);
	return 0;
}

static inline const char *action_of(uint32_t rule) {
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
	case REPLY_ACTION_SLOW:
		return "slow";
	default:
		return "none";
	}
}

/* Of a name; "-": of none. */
static inline uint32_t provider_named(const char *name) {
	uint32_t provider = generation_find_provider(generation, name, strlen(name));

	assert_int_equal(provider == JUDGE_NONE, strcmp(name, "-") == 0);
	return provider;
}

#endif
