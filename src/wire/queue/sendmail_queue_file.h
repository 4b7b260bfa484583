/* SPDX-License-Identifier: ISC */
/*
 * Queue files of Sendmail (qf...), sans I/O, read piece by piece: what a message is,
 * then its recipients one by one.  Lines as Sendmail 8.17 writes them, version 8; the
 * forms of versions 1 to 7 are the same as far as they are read here:
 *
 *	V8			version, first of all
 *	T1795304484		made at (s)
 *	K1795304485		last tried at (s), 0: never
 *	N1			how often
 *	P120030			priority, the smaller the sooner
 *	Mtext			why it waits
 *	Fs			flags
 *	qtext			quarantined, and why
 *	S<a@example.com>	sender
 *	RPFD:<b@example.org>	a recipient and its flags
 *	H?P?name: value		header, over several lines; "id" in the first Received is the
 *				queue id that Sendmail gave the message before it cut it up
 *	.			the end: nothing may follow
 *
 * All else (Q, r and C of recipients among it) is passed over.  Sendmail replaces a file
 * whole when it changes it, but a new one may be seen before it is written: whoever finds
 * it cut looks again.  Nothing in it is to be trusted: senders choose recipients.
 */
#ifndef WIRE_SENDMAIL_QUEUE_FILE_H
#define WIRE_SENDMAIL_QUEUE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/reply/delivery.h"

#define SENDMAIL_QUEUE_VERSION	8	/* the newest that is known */
/* Of a line that is wanted; a recipient's that is longer is counted as left out.
 * Sendmail takes addresses of up to 256. */
#define SENDMAIL_QUEUE_LINE_MAX	2048
#define SENDMAIL_QUEUE_ID_MAX	31	/* 14 in version 8.17 */

struct sendmail_message {
	uint32_t version;
	uint32_t tries;		/* N */
	int64_t made_s;		/* T, wall clock */
	int64_t tried_s;	/* K; 0: never */
	int64_t priority;	/* P */
	bool is_quarantined;	/* q: Sendmail does not deliver it */
	uint32_t recipient_count;	/* R lines so far; at the end all that are in it */
	uint32_t left_out;	/* those among them that cannot be used: too long, or empty */
};

struct sendmail_recipient {
	struct span address;	/* without < >, as written; until the next call */
	struct span domain;	/* behind its last @, as written (maybe [127.0.0.1], a dot at
				 * the end); empty: a local user, a program, a file */
	uint64_t place;		/* where to go on behind it: sendmail_queue_resume */
};

enum sendmail_queue_step {
	SENDMAIL_QUEUE_MORE,	/* all of the data was taken */
	SENDMAIL_QUEUE_RECIPIENT,
	SENDMAIL_QUEUE_END,	/* whole and sound */
	SENDMAIL_QUEUE_BAD,	/* nothing of it is to be used: see fault and line */
};

struct sendmail_queue_reader {
	struct sendmail_message message;
	struct span sender;	/* S, without < >, cut to 255 bytes; empty: none, or the null
				 * sender; anything may stand in it */
	char origin[SENDMAIL_QUEUE_ID_MAX + 1];	/* that id; "": there is none */
	const char *fault;	/* static text, after SENDMAIL_QUEUE_BAD */
	unsigned line;		/* of the fault: from 1 */
	bool cut;		/* BAD as it ends too early: it may be being written */
	/* the reader's own */
	uint64_t offset;
	unsigned state;
	bool is_long, has_made, has_received;
	size_t length;
	char sender_text[256];
	char text[SENDMAIL_QUEUE_LINE_MAX];
};

/* From the start of a file. */
void sendmail_queue_begin(struct sendmail_queue_reader *reader);

/* From the place behind a recipient, in the same unchanged file (same inode and time of
 * change): counts and lines start again. */
void sendmail_queue_resume(struct sendmail_queue_reader *reader, uint64_t place);

/* The next step in data that is moved on over what was taken; call again, with the rest
 * of it, after a recipient.  Between two calls data must go on where it was.  After END
 * or BAD it stays so. */
enum sendmail_queue_step sendmail_queue_next(struct sendmail_queue_reader *reader,
    const char **data, size_t *length, struct sendmail_recipient *recipient);

/* The file has ended: END or BAD. */
enum sendmail_queue_step sendmail_queue_finish(struct sendmail_queue_reader *reader);

/* Is it the name of a qf file: "qf", then 1 to SENDMAIL_QUEUE_ID_MAX letters and digits? */
bool sendmail_queue_is_name(const char *name);
/* Is it a queue id, 1 to SENDMAIL_QUEUE_ID_MAX letters and digits? */
bool sendmail_queue_id_is_sound(const char *text, size_t length);

#endif
