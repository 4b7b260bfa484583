/* SPDX-License-Identifier: ISC */
/*
 * Load for the policy protocol by clients that logged in: a RCPT and the END-OF-MESSAGE of its
 * transaction in turn, each connection being one smtpd process; -K says how many logins.  A
 * unit is one request.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "tests/bench/load.h"

static void begin(struct load_connection *connection) {
	static unsigned turns[1024];	/* of each connection */
	unsigned turn = turns[connection->fd % 1024]++, message = turn / 2;
	bool at_end = turn % 2 != 0;
	unsigned login = (message * 50 + (unsigned)connection->fd) * 2654435761u % load_clients();
	char text[2048];
	int length = snprintf(text, sizeof text,
	    "request=smtpd_access_policy\nprotocol_state=%s\nprotocol_name=ESMTP\n"
	    "client_address=16.0.%u.%u\nclient_name=unknown\nclient_port=40000\n"
	    "reverse_client_name=unknown\n"
	    "server_address=192.0.2.25\nserver_port=587\nhelo_name=[192.0.2.7]\n"
	    "sender=user%u@example.org\nrecipient=friend%u@example.com\n"
	    "recipient_count=%u\nqueue_id=\ninstance=%x.6b012ace.e7440.%x\nsize=%u\n"
	    "etrn_domain=\nstress=\nsasl_method=PLAIN\nsasl_username=user%u@example.org\n"
	    "sasl_sender=\nccert_subject=\nccert_issuer=\n"
	    "ccert_fingerprint=\nccert_pubkey_fingerprint=\nencryption_protocol=TLSv1.3\n"
	    "encryption_cipher=TLS_AES_256_GCM_SHA384\nencryption_keysize=256\n"
	    "policy_context=\n\n", at_end ? "END-OF-MESSAGE" : "RCPT",
	    login >> 8 & 255, login & 255, login, message, at_end ? 1u : 0u,
	    (unsigned)connection->fd, message, at_end ? 4711u : 0u, login);

	load_put(connection, text, (size_t)length);
}

static enum load_result input(struct load_connection *connection, size_t *used,
    const char **answer) {
	const char *in = (const char *)connection->in;
	const char *end = memmem(in, connection->in_length, "\n\n", 2);

	if (end == NULL)
		return LOAD_MORE;
	*used = (size_t)(end - in) + 2;
	if (strncmp(in, "action=", 7) != 0 || memchr(in, '\n', (size_t)(end - in)) != NULL)
		return LOAD_BAD;
	*answer = strncasecmp(in + 7, "DUNNO", 5) == 0 ? "DUNNO" : "refused";
	return LOAD_DONE;
}

int main(int argc, char **argv) {
	static const struct load_protocol accounts = {
		.name = "load_accounts",
		.begin = begin,
		.input = input,
	};

	return load_main(argc, argv, &accounts);
}
