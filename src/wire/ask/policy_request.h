/* SPDX-License-Identifier: ISC */
/*
 * The Postfix policy delegation protocol, sans I/O: lines of name=value, ended by
 * an empty line; one reply of the same form to each request.
 *
 * The parser is fed the caller's buffer, which begins with the request and may
 * grow (and move) between calls; it reads each byte once.  Unknown attributes
 * are ignored; of one that stands twice the last counts.
 */
#ifndef WIRE_POLICY_REQUEST_H
#define WIRE_POLICY_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/limit/address.h"

#define POLICY_REQUEST_MAX	65536	/* bytes of one request */
#define POLICY_LINE_MAX		8192	/* of one line, its end not counted */

enum policy_state {
	POLICY_STATE_OTHER,	/* not named, or a name not listed here */
	POLICY_STATE_CONNECT,
	POLICY_STATE_XCLIENT,
	POLICY_STATE_EHLO,	/* or HELO */
	POLICY_STATE_MAIL,
	POLICY_STATE_RCPT,
	POLICY_STATE_DATA,
	POLICY_STATE_END,	/* END-OF-MESSAGE */
	POLICY_STATE_VRFY,
	POLICY_STATE_ETRN,
};

/* A value, by its place from the start of the request. */
struct policy_span {
	uint32_t offset;
	uint32_t length;	/* 0: empty, or not sent */
};

struct policy_request {
	enum policy_state state;
	bool is_access_request;		/* request=smtpd_access_policy */
	uint16_t client_port;		/* 0: not known */
	uint16_t server_port;
	struct address client;		/* all zero: not known */
	struct address server;
	struct policy_span client_name;	/* verified; none for "unknown" */
	struct policy_span sender;
	struct policy_span recipient;
	struct policy_span sasl_username;
	struct policy_span queue_id;	/* where there is a queue file yet */
	struct policy_span instance;	/* of the mail transaction; none before its first RCPT */
	uint64_t size;			/* at END-OF-MESSAGE of the message, before as announced */
	uint32_t recipient_count;	/* at END-OF-MESSAGE: that were accepted */
	/* The name of an address or port attribute whose value is neither one
	 * nor "unknown" nor empty (static text), or NULL.  The request is whole
	 * all the same. */
	const char *bad_value;
};

struct policy_parser {
	uint32_t line;			/* where the line begins that is read now */
	uint32_t value;			/* and its value; not behind that: no '=' was seen yet */
	uint32_t seen;			/* bytes looked at */
	struct policy_request request;
};

struct policy_error {
	const char *reason;		/* static text */
	size_t offset;			/* of the offending line from the start of the request */
};

/* Before each request. */
void policy_parser_reset(struct policy_parser *parser);

/* >0: the request is whole and was that many bytes, parser->request holds it;
 * 0: incomplete, call again with more; -1: malformed, *error says why. */
long policy_parser_feed(struct policy_parser *parser, const char *data,
    size_t length, struct policy_error *error);

static inline const char *policy_text(const char *data, struct policy_span span) {
	return data + span.offset;
}

/* Of a reply whose text is one printable line: begin writes "action=ACTION", end the two line
 * ends behind out[length].  Both return the length of all. */
size_t policy_reply_begin(char *out, const char *action);
size_t policy_reply_end(char *out, size_t length);

/* Longest reply; a text for a client is at most 400 bytes (base/reply_text.h). */
#define POLICY_REPLY_MAX	512

/* Writes "action=ACTION TEXT\n\n" (text NULL: no text) and returns its length.
 * Control characters in text become spaces; what does not fit is cut, never the
 * end of the reply.  `size` is at least 64 and 16 more than the action. */
size_t policy_reply_write(char *out, size_t size, const char *action,
    const char *text);

#endif
