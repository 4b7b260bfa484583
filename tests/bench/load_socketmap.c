/* SPDX-License-Identifier: ISC */
/*
 * Load for the socketmap protocol, as Postfix's trivial-rewrite asks for a transport: a
 * recipient at one of -K domains, named as bench_hints names them.  A unit is one request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load.h"

static void begin(struct load_connection *connection) {
	char key[64], text[96];
	int length = snprintf(key, sizeof key, "transport user%u@%08x.customer.example",
	    (unsigned)(connection->serial % 1000), (unsigned)load_client(connection->serial) &
	    0xffffff);

	length = snprintf(text, sizeof text, "%d:%s,", length, key);
	load_put(connection, text, (size_t)length);
}

static enum load_result input(struct load_connection *connection, size_t *used,
    const char **answer) {
	const char *in = (const char *)connection->in;
	const char *colon = memchr(in, ':', connection->in_length);
	size_t inside;

	if (colon == NULL)
		return connection->in_length > 6 ? LOAD_BAD : LOAD_MORE;
	inside = strtoul(in, NULL, 10);
	*used = (size_t)(colon - in) + inside + 2;
	if (connection->in_length < *used)
		return LOAD_MORE;
	if (inside < 3 || in[*used - 1] != ',')
		return LOAD_BAD;
	*answer = strncmp(colon + 1, "OK lane", 7) == 0 ? "lane" :
	    strncmp(colon + 1, "OK retry", 8) == 0 ? "retry" :
	    strncmp(colon + 1, "NOTFOUND ", 9) == 0 ? "NOTFOUND" : "other";
	return strcmp(*answer, "other") == 0 ? LOAD_BAD : LOAD_DONE;
}

int main(int argc, char **argv) {
	static const struct load_protocol socketmap = {
		.name = "load_socketmap",
		.begin = begin,
		.input = input,
	};

	return load_main(argc, argv, &socketmap);
}
