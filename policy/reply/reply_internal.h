/* SPDX-License-Identifier: ISC */
/* What happened, as the words tell it that a mail server wrote about an attempt, and in
 * which phase.  For reply.c alone.  Pure; any thread. */
#ifndef POLICY_REPLY_REPLY_INTERNAL_H
#define POLICY_REPLY_REPLY_INTERNAL_H

#include <stdbool.h>

#include "policy/reply/reply.h"

enum happening {
	HAPPENING_UNKNOWN,	/* the words tell nothing of a session */
	HAPPENING_REPLY,	/* the remote said something; the phase may be unknown */
	HAPPENING_LOST,		/* no connection, or it was lost, or silent for too long */
	HAPPENING_REFUSED,	/* we did not like what was offered: TLS, authentication */
	HAPPENING_DNS,
	HAPPENING_OWN_FAULT,
	HAPPENING_HELD,		/* nothing was tried */
};

struct reading {
	enum happening happening;
	bool again;	/* DNS: it may work later */
};

/* Postfix's whole text: phase, code, enhanced and words of *out (which was zeroed). */
struct reading reply_read_text(struct span text, struct reply *out);

/* What needs no host's name before it: DNS, TLS, authentication, errno's words. */
struct reading reply_read_happening(struct span text, struct reply *out);

/* The reply that these words are, or hold: words, code, enhanced. */
void reply_take(struct span words, struct reply *out);

/* The same of one that refused.  Where an acceptance or a greeting stands before it it is the
 * later one, which then has an enhanced code: "220-mx 421 4.2.1 not now".  False: there is
 * none. */
bool reply_take_refusal(struct span words, struct reply *out);

/* "421 ", "450-4.2.1" at the start, its first digit `least` or more. */
bool reply_begins_with_code(struct span words, char least, uint16_t *code);

/* The phase of the handshake that stands before a reply in what others wrote round it:
 * "SMTP error from remote mail server after EHLO", "greeting failed"; else UNKNOWN. */
enum delivery_phase reply_phase_before(struct span words);

/* Does a connection's end, or a resolver, stand anywhere in there? */
bool reply_tells_connection(struct span words);
bool reply_tells_dns_again(struct span words);

#endif
