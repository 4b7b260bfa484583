/* SPDX-License-Identifier: ISC */
/* A site's file of any text: taken whole, or not at all and something was said. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "config/mta/site.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct generation *g) {
	static const char *const names[] = { "a.example", "b.a.example", "x" };
	const struct generation_mta *mta = &g->mtas[0];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *reason = NULL;

		if (generation_site_excludes(g, mta, names[i], strlen(names[i]), &reason))
			MUST(reason != NULL);
		(void)generation_site_lists(g, mta, names[i], strlen(names[i]));
	}
	(void)strlen(generation_text(g, mta->clone_program));
	(void)strlen(generation_text(g, mta->site_refusal));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct compilation c;
	struct config_messages messages;
	struct generation_mta mta, further;
	struct generation *g;
	char *text = malloc(size ? size : 1);	/* no NUL behind it */
	struct diag diag;

	memset(&c, 0, sizeof(c));
	memset(&mta, 0, sizeof(mta));
	if (text == NULL)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	report_begin(&c.report, &messages);
	block_begin(&c.block, sizeof(struct generation));
	mta.name = block_text(&c.block, "out");
	site_read_text(&c, text, size, "fuzz.site", 1, &mta);
	MUST(messages.errors == 0 && (mta.site_known != 0 || messages.notes > 0));
	further = mta;
	further.name = block_text(&c.block, "out/slow");
	further.transport = block_text(&c.block, "slow");
	further.site_known = 0;
	site_read_text(&c, text, size, "fuzz.site", 1, &further);
	MUST(messages.errors == 0 && (further.site_known == 0 || mta.site_known != 0));
	(void)block_reserve(&c.block, 8);
	MUST(!c.block.failed);
	g = compilation_header(&c);
	/* what was taken: a refusal is told */
	MUST(mta.site_known == 0 || messages.notes > 0 ||
	    *generation_text(g, mta.site_refusal) == '\0');
	g->magic = GENERATION_MAGIC;
	g->layout = generation_layout();
	g->window.settings = window_defaults;
	g->bytes = c.block.used;
	g->mta_count = 2;
	g->mtas[0] = mta;
	g->mtas[1] = further;
	MUST(generation_verify(g, (size_t)g->bytes, &diag) == 0);
	ask(g);
	report_end(&c.report);
	config_messages_free(&messages);
	block_free(&c.block);
	free(text);
	return 0;
}
