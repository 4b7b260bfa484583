/* SPDX-License-Identifier: ISC */
/*
 * The gate: its command, and what the command must know of `exempt`.  The kernel
 * knows addresses only; names that are exempt stand outside while the gate is
 * shut, and whoever wrote them is told.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "base/text.h"
#include "config/classes.h"

#define WORDS_MAX	15	/* the last place is for shut or open */
#define PREFIXES_BYTES	100000	/* of one family: the system takes 128 KiB a variable */

void compile_gate_command(struct compilation *c)
{
	const config_setting_t *command = config_lookup(&c->config, "gate.command");
	unsigned count = command == NULL ? 0 : setting_element_count(command);
	const struct setting *row = setting_find("gate.command");
	char why[256], quoted[128];

	if (command != NULL && (count == 0 || count > WORDS_MAX)) {
		complain(c, command, "gate.command: must be a path and at most %d arguments, "
		    "not %u words", WORDS_MAX - 1, count);
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		const config_setting_t *element = setting_element(command, i);
		struct setting_value value;
		uint32_t text;

		if (!setting_parse(row, element, &value, why, sizeof(why)))
			return;		/* check.c has said so */
		log_quote(quoted, sizeof(quoted), value.text, strlen(value.text));
		if (i == 0 && value.text[0] != '/')
			complain(c, element, "gate.command: \"%s\" must be an absolute path", quoted);
		else if (i == 0 && access(value.text, X_OK) != 0)
			note(c, element, "gate.command: %s cannot be run: the gate will only be logged",
			    quoted);
		text = block_text(&c->block, value.text);
		if (c->block.failed)
			return;
		compilation_header(c)->gate_words[i] = text;
	}
	compilation_header(c)->gate_word_count = count;
}

/* A list that grows. */
struct list {
	char *text;
	size_t length;
	bool overrun;
};

static void add(struct list *list, const char *word)
{
	if (list->length + strlen(word) + 2 > PREFIXES_BYTES)
		list->overrun = true;
	else
		list->length = text_append(list->text, PREFIXES_BYTES, list->length, "%s%s",
		    list->length == 0 ? "" : " ", word);
}

static void add_mask(const struct mask *mask, struct list *v4, struct list *v6)
{
	char text[ADDRESS_TEXT_MAX];

	if (mask->kind == MASK_ALL) {
		add(v4, "0.0.0.0/0");
		add(v6, "::/0");
	} else if (mask->kind == MASK_ADDRESS) {
		(void)prefix_format(&mask->prefix, text);
		add(strchr(text, ':') == NULL ? v4 : v6, text);
	}
}

void compile_gate_exempt(struct class_work *w)
{
	struct compilation *c = w->c;
	struct list v4 = { .text = calloc(1, PREFIXES_BYTES) };
	struct list v6 = { .text = calloc(1, PREFIXES_BYTES) };
	bool has_command = config_lookup(&c->config, "gate.command") != NULL;
	uint32_t text4, text6;

	if (v4.text == NULL || v6.text == NULL) {
		c->block.failed = true;
		goto out;
	}
	for (uint32_t i = 0; i < w->rule_count; i++) {
		enum mask_kind kind = w->masks[i].mask.kind;

		add_mask(&w->masks[i].mask, &v4, &v6);
		if (has_command && kind != MASK_ALL && kind != MASK_ADDRESS)
			note(c, w->places[i], "exempt: a command of the gate that refuses in the "
			    "kernel knows no names: it can spare addresses and prefixes only");
	}
	if (has_command && (v4.overrun || v6.overrun))
		complain(c, w->places[0], "exempt: more address prefixes than gate.command can "
		    "be told (%d characters)", PREFIXES_BYTES);
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
