/* SPDX-License-Identifier: ISC */
/*
 * The key of a question about a client: its name lies inside, without blanks around it, and
 * what stands behind a whole key changes none of the other fields that were there.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/ask/inbound_key.h"

#define TAIL_DAEMON "192.0.2.2"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(struct span name, const char *key, size_t size) {
	if (name.length == 0)
		return;
	MUST(name.text > key && name.text + name.length <= key + size);
	MUST(name.text[0] != ' ' && name.text[0] != '[' && name.text[name.length - 1] != ' ');
}

static void check_same(const struct inbound_key *key, const struct inbound_key *more) {
	MUST(address_is_unknown(&key->session.client) || address_equal(&key->session.client, &more->session.client));
	MUST(key->session.client_port == 0 || key->session.client_port == more->session.client_port);
	MUST(key->session.server_port == 0 || key->session.server_port == more->session.server_port);
}

static bool is_tails(const struct address *server) {
	struct address daemon;

	MUST(address_parse(TAIL_DAEMON, sizeof(TAIL_DAEMON) - 1, &daemon));
	return address_equal(server, &daemon);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char tail[] = ";ca=192.0.2.1;cp=9;da=" TAIL_DAEMON ";ia=192.0.2.3;dp=8;cr=OK;n=x";
	char *copy = malloc(size + 1), *longer = malloc(size + sizeof(tail));
	struct inbound_key key, more;

	if (copy == NULL || longer == NULL)
		abort();
	memcpy(copy, data, size);
	memcpy(longer, data, size);
	memcpy(longer + size, tail, sizeof(tail) - 1);
	if (inbound_key_parse(copy, size, &key)) {
		check_name(key.name, copy, size);
		MUST(inbound_key_parse(longer, size + sizeof(tail) - 1, &more));
		check_name(more.name, longer, size + sizeof(tail) - 1);
		check_same(&key, &more);
		/* where no daemon's address was, the interface's gives way to one */
		MUST(address_is_unknown(&key.session.server) ||
		    address_equal(&key.session.server, &more.session.server) || is_tails(&more.session.server));
	}
	free(copy);
	free(longer);
	return 0;
}
