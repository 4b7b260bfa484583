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

static const char *const words[PLACES] = { "{retry}", "{id}", "{class}",
	"{client}" };

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
	return strncmp(text, words[which], strlen(words[which])) == 0 ? which : PLACES;
}

static const char *visible(const char *text) {
	const char *at = text;

	while (*at == ' ' || *at == '\t')
		at++;
	return *at == '\0' ? USUAL_TEXT : text;
}

unsigned reply_text_has(const char *text) {
	unsigned has = 0;

	text = visible(text);
	while ((text = strchr(text, '{')) != NULL) {
		enum placeholder which = placeholder_at(text++);

		has |= which == PLACE_ID ? REPLY_TEXT_HAS_ID :
		    which == PLACE_CLIENT ? REPLY_TEXT_HAS_CLIENT : 0;
	}
	return has;
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
		at += strlen(words[which]);
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
		text += which == PLACES ? 1 : strlen(words[which]);
	}
	return length;
}

static size_t add(char *out, size_t length, const char *text, size_t count) {
	size_t end = count < REPLY_TEXT_SIZE - 1 - length ? length + count :
	    REPLY_TEXT_SIZE - 1;

	while (length < end) {
		if (end - length >= 8 && text_eight_printable(text)) {
			memcpy(out + length, text, 8);
			length += 8;
			text += 8;
			continue;
		}
		out[length++] = *text >= ' ' && *text <= '~' ? *text : '?';
		text++;
	}
	return length;
}

static size_t add_value(char *out, size_t length, enum placeholder which,
    const struct reply_values *values) {
	const char *value = which == PLACE_ID ? values->id :
	    which == PLACE_CLASS ? values->class_name : values->client;
	char retry[RETRY_LONGEST + 1], *digit = retry + RETRY_LONGEST;
	uint32_t left = values->retry_s;

	if (which == PLACE_RETRY) {
		*digit = '\0';
		do
			*--digit = (char)('0' + left % 10);
		while ((left /= 10) > 0);
		value = digit;
	}
	if (value == NULL || value[0] == '\0')
		value = "-";
	return add(out, length, value, strlen(value));
}

const char *reply_text_expand(char out[REPLY_TEXT_SIZE], const char *text,
    const struct reply_values *values) {
	size_t length = 0;

	text = visible(text);
	while (*text != '\0') {
		enum placeholder which = placeholder_at(text);
		size_t plain = which == PLACES ? (size_t)(strchrnul(text + 1, '{') - text) : 0;

		if (plain > 0)
			length = add(out, length, text, plain);
		else
			length = add_value(out, length, which, values);
		text += plain > 0 ? plain : strlen(words[which]);
	}
	out[length] = '\0';
	return out;
}
