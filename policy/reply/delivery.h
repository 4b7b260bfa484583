/* SPDX-License-Identifier: ISC */
/*
 * What a mail server said about one delivery, whichever server and however it was
 * told: filled by the readers of wire/, judged by reply.h.  Nothing in it is to
 * be trusted: recipients are chosen by senders, replies by remote servers.
 */
#ifndef POLICY_DELIVERY_H
#define POLICY_DELIVERY_H

#include <stddef.h>
#include <stdint.h>

#include "policy/limit/address.h"

/* A piece of somebody's text, not NUL-terminated; may be empty. */
struct span {
	const char *text;
	size_t length;
};

enum delivery_source {
	DELIVERY_OF_POSTFIX,
	DELIVERY_OF_SENDMAIL,
	DELIVERY_OF_OTHER,	/* told over the event socket */
};

/* What tried, as far as it matters for the judgement. */
enum delivery_agent {
	AGENT_SMTP,	/* smtp and its clones, lmtp over a network: a remote host */
	AGENT_LOCAL,	/* local, virtual, pipe, prog, lmtp on a local socket: counted only */
	AGENT_ERROR,	/* error, retry: nobody tried anything */
	AGENT_QUEUE,	/* the queue manager itself: expired, no transport */
};

enum delivery_status {
	DELIVERY_SENT,
	DELIVERY_DEFERRED,	/* stays queued */
	DELIVERY_BOUNCED,
	DELIVERY_EXPIRED,
	DELIVERY_DELIVERABLE,	/* a probe of an address (Postfix verify) */
	DELIVERY_UNDELIVERABLE,
	DELIVERY_STATUS_OTHER,	/* not known: teaches nothing */
};

/* How far an attempt came. */
enum delivery_phase {
	PHASE_UNKNOWN,
	PHASE_NONE,		/* nothing was tried */
	PHASE_DNS,
	PHASE_CONNECT,
	PHASE_GREETING,
	PHASE_EHLO,
	PHASE_STARTTLS,
	PHASE_AUTH,
	PHASE_MAIL,
	PHASE_RCPT,
	PHASE_DATA,
	PHASE_END_OF_DATA,
	PHASE_COUNT
};
/* "connect", "greeting", "end-of-data" ...; "" for UNKNOWN */
const char *delivery_phase_word(enum delivery_phase phase);

#define DELIVERY_MS_UNKNOWN	(-1)

struct delivery {
	enum delivery_source source;
	enum delivery_agent agent;
	enum delivery_status status;
	struct span program;	/* "postfix/lane5/smtp", "sendmail" */
	struct span mailer;	/* Sendmail: mailer= ; else empty */
	struct span queue_id;
	struct span recipient;	/* without < >; Sendmail: the first of its list */
	struct span list;	/* Sendmail: all of to=, as written; else empty */
	struct span domain;	/* of the recipient, or empty */
	struct span relay;	/* all of it: "none", "local", "host[address]:25" */
	struct span relay_name;	/* the host's, without a dot at its end; or empty */
	struct address relay_address;	/* or unknown */
	uint16_t relay_port;	/* 0: not told */
	uint32_t conn_use;	/* deliveries of this connection so far, 1 or more */
	int64_t delay_ms;	/* since the message arrived */
	/* Before the queue manager, in it, connecting, sending; Sendmail tells only
	 * the sum of the last two (xdelay), in [3].  Not told: DELIVERY_MS_UNKNOWN. */
	int64_t delays_ms[4];
	uint16_t dsn[3];	/* 0.0.0: not told */
	struct span text;	/* Postfix: within ( ); Sendmail: behind stat= */
	struct span reply;	/* Sendmail: reply= ; else empty */
	/* Of the failure, as the event socket tells it; UNKNOWN: the text tells it. */
	enum delivery_phase phase;
	uint32_t recipients;	/* that this result is for: 1, or Sendmail's list */
};

#endif
