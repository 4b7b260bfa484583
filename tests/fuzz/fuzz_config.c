/* SPDX-License-Identifier: ISC */
/*
 * The configuration compiler on any text (a text cannot include files).  Either
 * there are errors, or there is a block that verifies and answers questions.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "config/compile/compile.h"
#include "config/read/restart_only.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct generation *g) {
	static const char *const clients[] = { "192.0.2.1", "127.0.0.1", "2001:db8::1", "::" };
	static const char name[] = "mail.customer.example";

	for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
		struct address address;
		uint32_t rule;

		MUST(address_parse(clients[i], strlen(clients[i]), &address));
		rule = generation_match_inbound(g, 25, &address, name, sizeof(name) - 1);
		MUST(rule == CLASS_NO_RULE || rule < g->rule_count);
		rule = generation_match_inbound(g, 0, &address, NULL, 0);
		MUST(rule == CLASS_NO_RULE || rule < g->rule_count);
		rule = generation_match_outbound(g, &address, name, sizeof(name) - 1);
		MUST(rule == CLASS_NO_RULE || rule < g->rule_count);
		(void)generation_is_exempt(g, &address, name, sizeof(name) - 1);
	}
}

static void nothing(void *context, const char *setting) {
	(void)context;
	MUST(setting == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct config_messages messages;
	struct generation *g;
	struct diag diag;
	char *text = malloc(size + 1);

	if (text == NULL)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	g = config_compile_text(text, "fuzz", &messages);
	MUST((g == NULL) == (messages.errors > 0));
	for (size_t i = 0; i < messages.count; i++) {
		MUST(strchr(messages.list[i].text, '\n') == NULL);
		MUST(messages.list[i].text[0] != '\0');
	}
	if (g != NULL) {
		MUST(generation_verify(g, (size_t)g->bytes, &diag) == 0);
		ask(g);
		restart_only_differences(g, g, nothing, NULL);
	}
	config_messages_free(&messages);
	free(g);
	free(text);
	return 0;
}
