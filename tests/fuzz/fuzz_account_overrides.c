/* SPDX-License-Identifier: ISC */
/* A file of account_overrides of any bytes and, before a line of "--", the text of accounts:
 * a generation that holds together, whose rules are within bounds; or something said. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/login.h"
#include "config/compile/compile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char usual[] = "version = 1; classes = ();\n"
    "accounts = ( { name = \"a\"; match = [ \"*@a.example\", \"b*\" ];\n"
    "each = { recipients = [ \"100/1h\", \"500/1d\" ]; recipients_per_message = 5; }; } );\n";

/* Every word of the bytes as a login. */
static void ask(const struct generation *g, const char *text, size_t size) {
	for (size_t at = 0; at < size;) {
		size_t length = 0;
		struct account_rules rules;
		char folded[LOGIN_MAX];
		struct login_key key;

		while (at + length < size && text[at + length] != '\n' && text[at + length] != ' ')
			length++;
		if (login_fold(text + at, length, folded)) {
			key = login_key(folded, length);
			if (generation_account_rules(g, folded, length, &key, true, &rules))
				MUST(rules.count <= GENERATION_QUOTAS_MAX &&
				    rules.index < g->accounts.count);
		}
		at += length + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char mark[] = "\n--\n";
	const uint8_t *cut = memmem(data, size, mark, sizeof(mark) - 1);
	size_t length = cut == NULL ? 0 : (size_t)(cut - data), rest = cut == NULL ? 0 :
	    length + sizeof(mark) - 1;
	char *text = malloc(sizeof(usual) + length + 64);
	struct config_messages messages;
	struct generation *g;
	struct diag diag;

	if (text == NULL)
		return 0;
	if (cut == NULL)
		memcpy(text, usual, sizeof(usual));
	else
		snprintf(text, sizeof(usual) + length + 64, "version = 1; classes = ();\n%.*s",
		    (int)length, (const char *)data);
	g = config_compile_accounts(text, "main", (const char *)data + rest, size - rest,
	    &messages);
	MUST((g == NULL) == (messages.errors > 0));
	config_messages_free(&messages);
	if (g != NULL) {
		MUST(generation_verify(g, (size_t)g->bytes, &diag) == 0);
		ask(g, (const char *)data + rest, size - rest);
	}
	free(g);
	free(text);
	return 0;
}
