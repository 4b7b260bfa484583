/* SPDX-License-Identifier: ISC */
/*
 * The text that is given to a client, with placeholders in it:
 *	{retry}		seconds after which to try again
 *	{id}		of the decision, as in the log
 *	{class}		name of the class
 *	{client}	address of the client
 * Any thread.
 */
#ifndef BASE_REPLY_TEXT_H
#define BASE_REPLY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An expanded text and its NUL: with "421 4.7.0 " it is one line of a reply. */
#define REPLY_TEXT_SIZE	401

struct reply_values {
	uint32_t retry_s;
	const char *id;		/* "" or NULL: none, then "-" stands there */
	const char *class_name;
	const char *client;
	bool needs_id;		/* a text without {id} gets " (id=ID)" behind it, where that fits */
};

/* Is every { the begin of a placeholder that there is?  False: `why` (of
 * `why_size`) says what is wrong. */
bool reply_text_check(const char *text, char *why, size_t why_size);

/* Bytes that the text may take with a class name of this length, whatever the
 * other values. */
size_t reply_text_longest(const char *text, size_t class_name_length);

/* Expands into `out`, cut to fit; what is not printable ASCII becomes '?', so
 * that the result is one line whatever the values are.  Never empty: a text
 * without a visible character is replaced by the usual one.  Returns the length. */
size_t reply_text_expand(char out[REPLY_TEXT_SIZE], const char *text,
    const struct reply_values *values);

/* --- the same with other placeholders: `words`, ended by one of length 0 --------------------- */

struct reply_word {
	const char *text;	/* "{name}" */
	size_t length;
};
#define REPLY_WORD(name)	{ "{" name "}", sizeof("{" name "}") - 1 }

bool reply_text_check_words(const char *text, const struct reply_word words[], char *why,
    size_t why_size);

/* values[]: what stands for each of words[]; NULL or "": "-".  `id`, if not NULL: is put behind
 * where the text has no placeholder of that value. */
size_t reply_text_expand_words(char out[REPLY_TEXT_SIZE], const char *text,
    const struct reply_word words[], const char *const values[], const char *id);

#endif
