/* SPDX-License-Identifier: ISC */
/*
 * The gate: its command, and what the command must know of `exempt`.  The kernel
 * knows addresses only; names that are exempt stand outside while the gate is
 * shut, and whoever wrote them is told.
 */
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/text.h"
#include "config/classes/classes.h"

#define PREFIXES_BYTES	100000	/* of one family: the system takes 128 KiB a variable */

void compile_gate_command(struct compilation *c) {
	uint32_t words[GENERATION_COMMAND_WORDS];
	unsigned count = compile_command_words(c, "gate.command",
	    "full classes will only be logged", words);

	if (c->block.failed)
		return;
	memcpy(compilation_header(c)->gate_words, words, count * sizeof(words[0]));
	compilation_header(c)->gate_word_count = count;
}

/* A list that grows. */
struct list {
	char *text;
	size_t length;
	bool overrun;
};

static void list_add(struct list *list, const char *word) {
	if (list->length + strlen(word) + 2 > PREFIXES_BYTES)
		list->overrun = true;
	else
		list->length = text_append(list->text, PREFIXES_BYTES, list->length, "%s%s",
		    list->length == 0 ? "" : " ", word);
}

static void add_mask(const struct mask *mask, struct list *v4, struct list *v6) {
	char text[ADDRESS_TEXT_MAX];

	if (mask->kind == MASK_ALL) {
		list_add(v4, "0.0.0.0/0");
		list_add(v6, "::/0");
	} else if (mask->kind == MASK_ADDRESS) {
		(void)prefix_format(&mask->prefix, text);
		list_add(strchr(text, ':') == NULL ? v4 : v6, text);
	}
}

void compile_gate_exempt(struct compilation *c, const struct mask_set *set) {
	struct list v4 = { .text = calloc(1, PREFIXES_BYTES) };
	struct list v6 = { .text = calloc(1, PREFIXES_BYTES) };
	bool has_command = config_lookup(&c->config, "gate.command") != NULL;
	uint32_t text4, text6;

	if (v4.text == NULL || v6.text == NULL) {
		c->block.failed = true;
		goto out;
	}
	for (uint32_t i = 0; i < set->count; i++) {
		enum mask_kind kind = set->masks[i].mask.kind;

		add_mask(&set->masks[i].mask, &v4, &v6);
		if (has_command && kind != MASK_ALL && kind != MASK_ADDRESS)
			note(c, set->places[i], "exempt: gate.command in the kernel cannot use "
			    "host names; only addresses and prefixes are exempt there");
	}
	if (has_command && (v4.overrun || v6.overrun))
		complain(c, set->places[0], "exempt: too many address prefixes for gate.command "
		    "(maximum %d characters)", PREFIXES_BYTES);
	text4 = block_text(&c->block, v4.text);
	text6 = block_text(&c->block, v6.text);
	if (!c->block.failed) {
		compilation_header(c)->gate_exempt4 = text4;
		compilation_header(c)->gate_exempt6 = text6;
	}
out:
	free(v4.text);
	free(v6.text);
}
