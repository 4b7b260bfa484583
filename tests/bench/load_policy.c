/* SPDX-License-Identifier: ISC */
/*
 * Load for the policy protocol: CONNECT requests with all attributes of Postfix
 * 3.7 in its order, each of another session.  A unit is one request.
 */
#include <stdio.h>
#include <string.h>

#include "tests/bench/load.h"

static void begin(struct load_connection *connection) {
	uint32_t client = load_client(connection->serial);
	char text[2048];
	int length = snprintf(text, sizeof text,
	    "request=smtpd_access_policy\nprotocol_state=CONNECT\nprotocol_name=SMTP\n"
	    "client_address=%u.%u.%u.%u\nclient_name=h%u.d%u.example\nclient_port=%u\n"
	    "reverse_client_name=h%u.d%u.example\n"
	    "server_address=192.0.2.25\nserver_port=25\nhelo_name=\nsender=\nrecipient=\n"
	    "recipient_count=0\nqueue_id=\ninstance=\nsize=0\netrn_domain=\nstress=\n"
	    "sasl_method=\nsasl_username=\nsasl_sender=\nccert_subject=\nccert_issuer=\n"
	    "ccert_fingerprint=\nccert_pubkey_fingerprint=\nencryption_protocol=\n"
	    "encryption_cipher=\nencryption_keysize=0\npolicy_context=\n\n",
	    client >> 24, client >> 16 & 255, client >> 8 & 255, client & 255,
	    client & 0xffffff, client % 1000, (unsigned)load_port(connection->serial),
	    client & 0xffffff, client % 1000);

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
	in += 7;
	*answer = strncmp(in, "DUNNO", 5) == 0 ? "DUNNO" : strncmp(in, "421 ", 4) == 0 ? "421" :
	    "other";
	return LOAD_DONE;
}

int main(int argc, char **argv) {
	static const struct load_protocol policy = {
		.name = "load_policy",
		.begin = begin,
		.input = input,
	};

	return load_main(argc, argv, &policy);
}
