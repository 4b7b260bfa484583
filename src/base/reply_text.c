/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Texts for clients.
 * MODEL    A text is checked when the configuration is read; when it is expanded,
 *          a brace that begins no placeholder stands for itself.
 * ERRORS   What does not fit is cut.
 * THREADS  No state.
 */
#include "base/reply_text.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

#define USUAL_TEXT	"Too many sessions; try again in {retry} seconds (id={id})"
#define RETRY_LONGEST	10	/* digits of 32 bits */
#define ID_LONGEST	14
#define CLIENT_LONGEST	45

enum placeholder { PLACE_RETRY, PLACE_ID, PLACE_CLASS, PLACE_CLIENT, PLACES };

static const struct {
	const char *text;
	size_t length;
} words[PLACES] = {
#define WORD(text) { text, sizeof(text) - 1 }
	WORD("{retry}"), WORD("{id}"), WORD("{class}"), WORD("{client}"),
#undef WORD
};

/* The placeholder that begins here, or PLACES.  Each refusal looks for them: most is told by
 * one letter. */
static enum placeholder placeholder_at(const char *text) {
	enum placeholder which;

	if (text[0] != '{')
		return PLACES;
	if (text[1] == 'c')
		which = text[2] == 'l' && text[3] == 'a' ? PLACE_CLASS : PLACE_CLIENT;
	else
		which = text[1] == 'i' ? PLACE_ID : PLACE_RETRY;
	return strncmp(text, words[which].text, words[which].length) == 0 ? which : PLACES;
}

static const char *visible(const char *text) {
	const char *at = text;

	while (*at == ' ' || *at == '\t')
		at++;
	return *at == '\0' ? USUAL_TEXT : text;
}

bool reply_text_check(const char *text, char *why, size_t why_size) {
	const char *at = text;
	char quoted[64];

	while ((at = strchr(at, '{')) != NULL) {
		const char *end = strchr(at, '}');
		enum placeholder which = placeholder_at(at);

		if (which == PLACES) {
			snprintf(why, why_size, "unknown placeholder %s; use {retry}, {id}, "
			    "{class} or {client}",
			    log_quote(quoted, sizeof(quoted), at, end == NULL ?
				strlen(at) : (size_t)(end - at) + 1));
			return false;
		}
		at += words[which].length;
	}
	return true;
}

size_t reply_text_longest(const char *text, size_t class_name_length) {
	const size_t longest[PLACES] = { RETRY_LONGEST, ID_LONGEST,
		class_name_length, CLIENT_LONGEST };
	size_t length = 0;

	while (*text != '\0') {
		enum placeholder which = placeholder_at(text);

		length += which == PLACES ? 1 : longest[which];
		text += which == PLACES ? 1 : words[which].length;
	}
	return length;
}

static size_t reply_add(char *out, size_t length, const char *text, size_t count) {
	size_t room = REPLY_TEXT_SIZE - 1 - length;

	if (count > room)
		count = room;
	memcpy(out + length, text, count);
	return length + count;
}

static size_t add_retry(char *out, size_t length, uint32_t seconds) {
	char digits[RETRY_LONGEST], *first = digits + sizeof(digits);

	do
		*--first = (char)('0' + seconds % 10);
	while ((seconds /= 10) > 0);
	return reply_add(out, length, first, (size_t)(digits + sizeof(digits) - first));
}

static size_t add_value(char *out, size_t length, enum placeholder which,
    const struct reply_values *values) {
	const char *value = which == PLACE_ID ? values->id :
	    which == PLACE_CLASS ? values->class_name : values->client;

	if (which == PLACE_RETRY)
		return add_retry(out, length, values->retry_s);
	if (value == NULL || value[0] == '\0')
		value = "-";
	return reply_add(out, length, value, strlen(value));
}

static size_t add_id_behind(char *out, size_t length, const char *id) {
	size_t id_length = strlen(id);

	if (length + strlen(" (id=)") + id_length > REPLY_TEXT_SIZE - 1)
		return length;
	length = reply_add(out, length, " (id=", strlen(" (id="));
	length = reply_add(out, length, id, id_length);
	return reply_add(out, length, ")", 1);
}

static void tame(char *text, size_t length) {
	for (size_t at = 0; at < length; at++) {
		if (length - at >= 8 && text_eight_printable(text + at))
			at += 7;
		else if (text[at] < ' ' || text[at] > '~')
			text[at] = '?';
	}
}

size_t reply_text_expand(char out[REPLY_TEXT_SIZE], const char *text,
    const struct reply_values *values) {
	bool has_id = !values->needs_id;
	size_t length = 0;

	text = visible(text);
	for (;;) {
		const char *brace = strchrnul(text, '{');
		enum placeholder which;

		length = reply_add(out, length, text, (size_t)(brace - text));
		if (*brace == '\0')
			break;
		which = placeholder_at(brace);
		has_id |= which == PLACE_ID;
		length = which == PLACES ? reply_add(out, length, brace, 1) :
		    add_value(out, length, which, values);
		text = brace + (which == PLACES ? 1 : words[which].length);
	}
	if (!has_id)
		length = add_id_behind(out, length, values->id);
	tame(out, length);
	out[length] = '\0';
	return length;
}
