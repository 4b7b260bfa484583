/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Texts for clients.
 * MODEL    A text is checked when the configuration is read; when it is expanded,
 *          a brace that begins no placeholder stands for itself.
 * ERRORS   What does not fit is cut.
 * THREADS  No state.
 */
#include "base/reply_text.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"

#define USUAL_TEXT	"Too many sessions; try again in {retry} seconds (id={id})"
#define RETRY_LONGEST	10	/* digits of 32 bits */
#define ID_LONGEST	14
#define CLIENT_LONGEST	45

enum placeholder { PLACE_RETRY, PLACE_ID, PLACE_CLASS, PLACE_CLIENT, PLACES };

static const struct reply_word session_words[PLACES + 1] = { REPLY_WORD("retry"),
	REPLY_WORD("id"), REPLY_WORD("class"), REPLY_WORD("client"), { NULL, 0 } };

/* --- placeholders of any text ------------------------------------------------------------- */

/* The one that begins here, or the end of `words`. */
static unsigned placeholder_at(const char *text, const struct reply_word words[]) {
	unsigned which = 0;

	/* each refusal comes here: the first letter tells most of them apart */
	while (words[which].length != 0 && (text[1] != words[which].text[1] ||
	    strncmp(text, words[which].text, words[which].length) != 0))
		which++;
	return which;
}

bool reply_text_check_words(const char *text, const struct reply_word words[], char *why,
    size_t why_size) {
	char quoted[64];

	while ((text = strchr(text, '{')) != NULL) {
		const struct reply_word *word = &words[placeholder_at(text, words)];
		const char *end = strchr(text, '}');
		size_t length;

		if (word->length != 0) {
			text += word->length;
			continue;
		}
		length = text_append(why, why_size, 0, "unknown placeholder %s; use ",
		    log_quote(quoted, sizeof(quoted), text, end == NULL ? strlen(text) :
			(size_t)(end - text) + 1));
		for (unsigned i = 0; words[i].length != 0; i++)
			length = text_append(why, why_size, length, "%s%s", i == 0 ? "" :
			    words[i + 1].length == 0 ? " or " : ", ", words[i].text);
		return false;
	}
	return true;
}

static size_t reply_add(char *out, size_t length, const char *text, size_t count) {
	size_t room = REPLY_TEXT_SIZE - 1 - length;

	if (count > room)
		count = room;
	memcpy(out + length, text, count);
	return length + count;
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

size_t reply_text_expand_words(char out[REPLY_TEXT_SIZE], const char *text,
    const struct reply_word words[], const char *const values[], const char *id) {
	bool has_id = id == NULL;
	size_t length = 0;

	for (;;) {
		const char *brace = strchrnul(text, '{'), *value;
		unsigned which;

		length = reply_add(out, length, text, (size_t)(brace - text));
		if (*brace == '\0')
			break;
		which = placeholder_at(brace, words);
		value = words[which].length == 0 ? "{" : values[which];
		text = brace + (words[which].length == 0 ? 1 : words[which].length);
		has_id |= value == id;
		if (value == NULL || value[0] == '\0')
			value = "-";
		length = reply_add(out, length, value, strlen(value));
	}
	if (!has_id)
		length = add_id_behind(out, length, id);
	tame(out, length);
	out[length] = '\0';
	return length;
}

/* --- of a session --------------------------------------------------------------------------- */

bool reply_text_check(const char *text, char *why, size_t why_size) {
	return reply_text_check_words(text, session_words, why, why_size);
}

size_t reply_text_longest(const char *text, size_t class_name_length) {
	const size_t longest[PLACES + 1] = { RETRY_LONGEST, ID_LONGEST, class_name_length,
		CLIENT_LONGEST, 1 };
	size_t length = 0;

	while (*text != '\0') {
		unsigned which = placeholder_at(text, session_words);

		length += longest[which];
		text += which == PLACES ? 1 : session_words[which].length;
	}
	return length;
}

size_t reply_text_expand(char out[REPLY_TEXT_SIZE], const char *text,
    const struct reply_values *values) {
	char digits[RETRY_LONGEST + 1], *retry = digits + sizeof(digits) - 1;
	uint32_t seconds = values->retry_s;
	const char *list[PLACES] = { [PLACE_ID] = values->id, [PLACE_CLASS] = values->class_name,
		[PLACE_CLIENT] = values->client };

	*retry = '\0';
	do
		*--retry = (char)('0' + seconds % 10);
	while ((seconds /= 10) > 0);
	list[PLACE_RETRY] = retry;
	if (text[strspn(text, " \t")] == '\0')
		text = USUAL_TEXT;
	return reply_text_expand_words(out, text, session_words, list,
	    values->needs_id ? values->id : NULL);
}
