/* SPDX-License-Identifier: ISC */
/*
 * Load for the milter protocol (version 6): negotiation, macros and CONNECT as
 * Postfix sends them, then QUIT where the filter lets all later steps out.  A
 * unit is one session on a connection of its own; the answer to CONNECT is
 * timed.  A filter that wants HELO gets it.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <libmilter/mfdef.h>

#include "tests/bench/load.h"

enum step { STEP_NEGOTIATE, STEP_CONNECT, STEP_HELO };

static size_t packet_open(struct load_connection *connection, char command) {
	size_t start = connection->out_length;

	load_put(connection, "\0\0\0", 4);
	load_put(connection, &command, 1);
	return start;
}

static void packet_close(struct load_connection *connection, size_t start) {
	uint32_t length = htonl((uint32_t)(connection->out_length - start - 4));

	memcpy(connection->out + start, &length, 4);
}

static void put_u32(struct load_connection *connection, uint32_t value) {
	value = htonl(value);
	load_put(connection, &value, 4);
}

static void begin(struct load_connection *connection) {
	size_t start = packet_open(connection, SMFIC_OPTNEG);

	put_u32(connection, SMFI_PROT_VERSION);
	put_u32(connection, SMFI_CURR_ACTS);
	put_u32(connection, SMFI_CURR_PROT);
	packet_close(connection, start);
}

static void put_connect(struct load_connection *connection) {
	static const char macros[] = "Cj\0mx.bench.example\0{daemon_name}\0smtpd\0"
	    "{daemon_addr}\000192.0.2.25\0{daemon_port}\00025\0v\0Postfix 3.7.11";
	uint32_t client = load_client(connection->serial);
	uint16_t port = htons(load_port(connection->serial));
	char text[64];
	size_t start = packet_open(connection, SMFIC_MACRO);
	int length;

	load_put(connection, macros, sizeof macros);
	packet_close(connection, start);
	start = packet_open(connection, SMFIC_CONNECT);
	length = snprintf(text, sizeof text, "h%u.d%u.example", client & 0xffffff, client % 1000);
	load_put(connection, text, (size_t)length + 1);
	load_put(connection, "4", 1);
	load_put(connection, &port, 2);
	length = snprintf(text, sizeof text, "%u.%u.%u.%u", client >> 24, client >> 16 & 255,
	    client >> 8 & 255, client & 255);
	load_put(connection, text, (size_t)length + 1);
	packet_close(connection, start);
}

static void put_simple(struct load_connection *connection, char command, const char *text) {
	size_t start = packet_open(connection, command);

	if (text != NULL)
		load_put(connection, text, strlen(text) + 1);
	packet_close(connection, start);
}

static enum load_result negotiated(struct load_connection *connection, uint32_t length) {
	uint32_t protocol;

	if (connection->in[4] != SMFIC_OPTNEG || length < 13)
		return LOAD_BAD;
	memcpy(&protocol, connection->in + 13, 4);
	protocol = ntohl(protocol);
	connection->step = protocol & SMFIP_NOHELO ? STEP_HELO : STEP_CONNECT;
	put_connect(connection);
	return LOAD_STEP;
}

static enum load_result input(struct load_connection *connection, size_t *used,
    const char **answer) {
	uint32_t length;

	if (connection->in_length < 5)
		return LOAD_MORE;
	memcpy(&length, connection->in, 4);
	length = ntohl(length);
	if (length < 1 || length > LOAD_BUFFER - 4)
		return LOAD_BAD;
	if (connection->in_length < 4 + (size_t)length)
		return LOAD_MORE;
	*used = 4 + (size_t)length;
	if (connection->step == STEP_NEGOTIATE)
		return negotiated(connection, length);
	switch (connection->in[4]) {
	case SMFIR_CONTINUE:
		*answer = "continue";
		break;
	case SMFIR_TEMPFAIL:
	case SMFIR_REPLYCODE:
		*answer = "refused";
		break;
	default:
		*answer = "other";
	}
	if (connection->step == STEP_CONNECT && strcmp(*answer, "continue") == 0) {
		connection->step = STEP_HELO;
		put_simple(connection, SMFIC_HELO, "h1.d1.example");
		return LOAD_STEP;
	}
	put_simple(connection, SMFIC_QUIT, NULL);
	return LOAD_DONE;
}

int main(int argc, char **argv) {
	static const struct load_protocol milter = {
		.name = "load_milter",
		.connection_each = true,
		.begin = begin,
		.input = input,
	};

	return load_main(argc, argv, &milter);
}
