/* SPDX-License-Identifier: ISC */
/*
 * The parser of HTTP requests: one after another.  No shorter start of one may be taken
 * for whole, the spans lie inside, and a host that counts as local is one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/ask/http_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_span(struct span span, const char *begin, const char *end) {
	MUST(span.length == 0 || (span.text >= begin && span.text + span.length <= end));
}

static void check_local(struct span host) {
	char text[64];

	if (!http_host_is_local(host))
		return;
	MUST(host.length >= 5 && host.length < 16);
	memcpy(text, host.text, host.length);
	text[host.length] = '\0';
	MUST(strncmp(text, "127.", 4) == 0 || strcmp(text, "[::1]") == 0 ||
	    text[0] == 'l' || text[0] == 'L');
}

/* What comes out is a text that fits. */
static void check_query(struct span query) {
	char value[8], longer[HTTP_REQUEST_MAX];

	if (http_query_get(query, "find", value, sizeof(value))) {
		MUST(strlen(value) < sizeof(value));
		MUST(http_query_get(query, "find", longer, sizeof(longer)));
		MUST(strcmp(value, longer) == 0);
	}
}

/* In a block of exactly its size. */
static long parse(const char *text, size_t length, struct http_error *error) {
	char *copy = malloc(length ? length : 1);
	struct http_request request;
	long used;

	if (copy == NULL)
		abort();
	memcpy(copy, text, length);
	used = http_request_parse(copy, length, &request, error);
	if (used > 0) {
		const char *end = copy + used;

		MUST((size_t)used <= length && used <= HTTP_REQUEST_MAX);
		check_span(request.path, copy, end);
		check_span(request.host, copy, end);
		check_span(request.query, copy, end);
		check_query(request.query);
		MUST(request.path.length > 0);
		MUST(request.method == HTTP_OTHER || request.path.text[0] == '/' ||
		    span_is(request.path, "*"));
		MUST(!request.has_body || !request.keep_alive);
		check_local(request.host);
	} else if (used < 0) {
		MUST(error->reason != NULL && error->offset < length && error->status >= 400);
	}
	free(copy);
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const char *text = (const char *)data;
	struct http_error error;

	while (size > 0) {
		long used = parse(text, size, &error);

		if (used <= 0)
			break;
		MUST(parse(text, (size_t)used, &error) == used);
		MUST(parse(text, (size_t)used - 1, &error) == 0);
		MUST(parse(text, (size_t)used / 2, &error) == 0);
		text += used;
		size -= (size_t)used;
	}
	return 0;
}
