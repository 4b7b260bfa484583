/* SPDX-License-Identifier: ISC */
/*
 * Sessions that are refused: connects, reads, and waits until the server hangs up.  A unit is one
 * session; what is timed is all of it.
 */
#include <string.h>

#include "tests/bench/load.h"

static void begin(struct load_connection *connection) {
	(void)connection;
}

static enum load_result input(struct load_connection *connection, size_t *used,
    const char **answer) {
	const char *in = (const char *)connection->in;

	if (!connection->hung_up && (connection->in_length < 4 || strncmp(in, "220 ", 4) != 0))
		return LOAD_MORE;
	*used = connection->in_length;
	*answer = connection->in_length == 0 ? "nothing" : strncmp(in, "421 ", 4) == 0 ? "421" :
	    strncmp(in, "220 ", 4) == 0 ? "220" : "other";
	return LOAD_DONE;
}

int main(int argc, char **argv) {
	static const struct load_protocol refused = {
		.name = "load_refused",
		.connection_each = true,
		.begin = begin,
		.input = input,
	};

	return load_main(argc, argv, &refused);
}
