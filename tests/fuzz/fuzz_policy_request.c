/* SPDX-License-Identifier: ISC */
/*
 * The policy request parser: the first byte says in which steps the rest is
 * fed.  Whatever the steps, the result must be that of one piece, and every
 * span must lie inside the request.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/ask/policy_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_span(struct policy_span span, long used) {
	MUST((size_t)span.offset + span.length <= (size_t)used);
}

static void check_request(const struct policy_request *request, long used) {
	MUST(request->is_access_request);
	check_span(request->client_name, used);
	check_span(request->sender, used);
	check_span(request->recipient, used);
	check_span(request->sasl_username, used);
}

/* Feeds the start of text in pieces, each in a block of exactly its size. */
static long feed(struct policy_parser *parser, const char *text, size_t size,
    size_t step, struct policy_error *error) {
	size_t length = 0;
	long used = 0;

	policy_parser_reset(parser);
	while (used == 0 && length < size) {
		char *copy;

		length = step == 0 || size - length < step ? size : length + step;
		copy = malloc(length);
		if (copy == NULL)
			abort();
		memcpy(copy, text, length);
		used = policy_parser_feed(parser, copy, length, error);
		free(copy);
	}
	MUST(used <= (long)length);
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct policy_parser whole, pieces;
	struct policy_error error = { NULL, 0 };
	const char *text = (const char *)data + 1;

	if (size < 1)
		return 0;
	size--;
	/* steps so large that the blocks' copying stays cheap */
	for (size_t step = data[0] + size / 256; size > 0;) {
		long used = feed(&whole, text, size, 0, &error);
		long again = feed(&pieces, text, size, step, &error);

		if (used <= 0) {
			MUST(again <= 0);
			MUST(used == 0 || error.reason != NULL);
			break;
		}
		/* a malformed tail is not seen by pieces that end before it */
		MUST(again == used);
		check_request(&whole.request, used);
		MUST(memcmp(&whole.request, &pieces.request, sizeof(whole.request)) == 0);
		text += used;
		size -= (size_t)used;
	}
	return 0;
}
