/* SPDX-License-Identifier: ISC */
/*
 * The socketmap protocol.
 *
 * MODEL: the netstring's head is at most five bytes, so that a request that is
 * not all there costs next to nothing to look at again.
 * ERRORS: whatever no client sends (another letter than a digit in the length,
 * leading zeros, a length above SOCKETMAP_REQUEST_MAX, no comma where it says,
 * a NUL, no map name) spoils the connection, as nobody can tell where the next
 * request begins; it is told as soon as it can be seen.
 * THREADS: pure.
 */
#include "wire/ask/socketmap.h"

#include <string.h>

#include "base/diag.h"

static long map_malformed(struct socketmap_error *error, const char *reason, size_t offset) {
	error->reason = reason;
	error->offset = offset;
	return -1;
}

/* The head "LENGTH:".  Returns its bytes, 0: not all there, -1. */
static long parse_head(const char *data, size_t length, size_t *content,
    struct socketmap_error *error) {
	size_t value = 0, at;

	for (at = 0; at < length && data[at] >= '0' && data[at] <= '9'; at++) {
		if (at > 0 && value == 0)
			return map_malformed(error, "the length has leading zeros", 0);
		value = value * 10 + (size_t)(data[at] - '0');
		if (value > SOCKETMAP_REQUEST_MAX)
			return map_malformed(error, "the request is too long", 0);
	}
	if (at == length)
		return 0;
	if (at == 0)
		return map_malformed(error, "the request does not start with its length", 0);
	if (data[at] != ':')
		return map_malformed(error, "no colon after the length", at);
	*content = value;
	return (long)at + 1;
}

long socketmap_parse(const char *data, size_t length,
    struct socketmap_request *request, struct socketmap_error *error) {
	size_t content, there, at;
	long head = parse_head(data, length, &content, error);
	const char *text, *found;

	if (head <= 0)
		return head;
	at = (size_t)head;
	text = data + at;
	there = length - at < content ? length - at : content;
	found = memchr(text, '\0', there);
	if (found != NULL)
		return map_malformed(error, "a NUL in the request", (size_t)(found - data));
	if (length - at <= content)
		return 0;
	if (text[content] != ',')
		return map_malformed(error, "no comma where the request should end", at + content);
	found = memchr(text, ' ', content);
	if (found == NULL || found == text)
		return map_malformed(error, "no map name followed by a blank", at);
	request->map = text;
	request->map_length = (size_t)(found - text);
	request->key = found + 1;
	request->key_length = content - request->map_length - 1;
	return (long)(at + content + 1);
}

/* Digits of a number below 10,000, without a format: the text goes in front. */
static size_t write_length(char *out, size_t value) {
	size_t digits = 1, rest = value;

	while (rest >= 10) {
		rest /= 10;
		digits++;
	}
	for (size_t at = digits; at > 0; value /= 10)
		out[--at] = (char)('0' + value % 10);
	return digits;
}

size_t socketmap_reply(char out[SOCKETMAP_REPLY_MAX], enum socketmap_status status,
    const char *text) {
	static const char *const words[] = {
		[SOCKETMAP_OK] = "OK ",
		[SOCKETMAP_NOTFOUND] = "NOTFOUND ",
	};
	const size_t around = sizeof("1234:,") - 1;
	size_t word = strlen(words[status]), length = strlen(text), at;

	MUST(status != SOCKETMAP_OK || length > 0);
	if (length > SOCKETMAP_REPLY_MAX - around - word)
		length = SOCKETMAP_REPLY_MAX - around - word;
	at = write_length(out, word + length);
	out[at++] = ':';
	memcpy(out + at, words[status], word);
	at += word;
	for (size_t i = 0; i < length; i++)
		out[at++] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	out[at++] = ',';
	return at;
}
