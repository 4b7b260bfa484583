/* SPDX-License-Identifier: ISC */
/*
 * Load for Postfix's anvil(8): what smtpd asks of it for each session, a connect and later a
 * disconnect.  The server names its protocol first.  A unit is one such pair; what is timed is the
 * connect.
 */
#include <stdio.h>
#include <string.h>

#include "tests/bench/load.h"

static void ask(struct load_connection *connection, const char *request) {
	uint32_t client = load_client(connection->serial);
	char text[128];
	int length = snprintf(text, sizeof text, "request=%s\nident=smtp:%u.%u.%u.%u\n\n", request,
	    client >> 24, client >> 16 & 255, client >> 8 & 255, client & 255);

	load_put(connection, text, (size_t)length);
}

static void begin(struct load_connection *connection) {
	ask(connection, "connect");
}

static enum load_result input(struct load_connection *connection, size_t *used,
    const char **answer) {
	static const char protocol[] = "protocol=anvil_protocol\n\n", good[] = "status=0\n";
	const char *in = (const char *)connection->in;
	const char *end = memmem(in, connection->in_length, "\n\n", 2);
	size_t skipped = 0;

	if (end != NULL && connection->in_length >= sizeof protocol - 1 &&
	    memcmp(in, protocol, sizeof protocol - 1) == 0) {
		skipped = sizeof protocol - 1;
		end = memmem(in + skipped, connection->in_length - skipped, "\n\n", 2);
	}
	if (end == NULL)
		return LOAD_MORE;
	*used = (size_t)(end - in) + 2;
	if (strncmp(in + skipped, good, sizeof good - 1) != 0)
		return LOAD_BAD;
	if (connection->step++ == 1)
		return LOAD_DONE;
	*answer = "counted";
	ask(connection, "disconnect");
	return LOAD_STEP;
}

int main(int argc, char **argv) {
	static const struct load_protocol anvil = {
		.name = "load_anvil",
		.begin = begin,
		.input = input,
	};

	return load_main(argc, argv, &anvil);
}
