/* SPDX-License-Identifier: ISC */
/* What a test compiles, and what was said: freed later, with nothing to do for the test. */
#ifndef TESTS_COMPILED_H
#define TESTS_COMPILED_H

#include "config/compile/compile.h"
#include "tests/unit/check.h"

static struct config_messages messages;	/* of the last compilation */

/* To be given to each compilation. */
static inline struct config_messages *fresh_messages(void) {
	config_messages_free(&messages);
	return &messages;
}

static inline void print_messages(void) {
	for (size_t i = 0; i < messages.count; i++)
		print_message("%s:%d: %s\n", messages.list[i].file, messages.list[i].line,
		    messages.list[i].text);
}

/* It lives until 16 others were compiled. */
static inline struct generation *kept(struct generation *g) {
	static struct generation *list[16];
	static unsigned turn;

	turn = (turn + 1) % 16;
	free(list[turn]);
	list[turn] = g;
	return g;
}

static inline struct generation *compiled(struct generation *g) {
	struct diag diag;

	if (g != NULL && generation_verify(g, (size_t)g->bytes, &diag) != 0)
		fail_msg("%s", diag.text);
	return kept(g);
}

/* There is no error in it. */
static inline struct generation *compiled_well(struct generation *g) {
	if (g == NULL)
		print_messages();
	assert_non_null(g);
	return compiled(g);
}

#endif
