/* SPDX-License-Identifier: ISC */
/*
 * The socketmap parser: requests one after another.  No shorter start of one may
 * be taken for whole, and the spans lie inside.  Each key goes back as a reply,
 * which must be a netstring.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/ask/socketmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In a block of exactly its size; the spans are moved into `text`. */
static long parse(const char *text, size_t length, struct socketmap_request *request,
    struct socketmap_error *error) {
	char *copy = malloc(length ? length : 1);
	long used;

	if (copy == NULL)
		abort();
	memcpy(copy, text, length);
	used = socketmap_parse(copy, length, request, error);
	if (used > 0) {
		MUST(request->map > copy && request->map_length > 0);
		MUST(request->key == request->map + request->map_length + 1);
		MUST(request->key + request->key_length + 1 == copy + used);
		request->map = text + (request->map - copy);
		request->key = text + (request->key - copy);
	} else if (used < 0) {
		MUST(error->reason != NULL && error->offset < length);
	}
	free(copy);
	return used;
}

static void check_reply(const struct socketmap_request *request) {
	char text[SOCKETMAP_REQUEST_MAX + 1], out[SOCKETMAP_REPLY_MAX];
	char *colon;
	size_t length;

	memcpy(text, request->key, request->key_length);
	text[request->key_length] = '\0';
	length = socketmap_reply(out, request->key_length > 0 ? SOCKETMAP_OK :
	    SOCKETMAP_NOTFOUND, text);
	MUST(length <= sizeof(out) && out[length - 1] == ',');
	MUST(strtoul(out, &colon, 10) == (size_t)(out + length - 2 - colon));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const char *text = (const char *)data;
	struct socketmap_request request = { 0 }, shorter = { 0 };
	struct socketmap_error error = { NULL, 0 };

	while (size > 0) {
		long used = parse(text, size, &request, &error);

		if (used <= 0)
			break;
		MUST((size_t)used <= size);
		MUST(parse(text, (size_t)used, &shorter, &error) == used);
		MUST(parse(text, (size_t)used - 1, &shorter, &error) == 0);
		MUST(parse(text, (size_t)used / 2, &shorter, &error) == 0);
		check_reply(&request);
		text += used;
		size -= (size_t)used;
	}
	return 0;
}
