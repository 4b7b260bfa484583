/* SPDX-License-Identifier: ISC */
/*
 * Single recipients that are held (the action hold-recipient of a provider rule):
 * a small table, address -> until.  Addresses are stored in lower case;
 * longer ones than RECIPIENT_MAX, and those with blanks or control characters,
 * are not held (counted).  A full table gives up the one whose time ends first
 * (counted), what somebody holds by hand last.  Any thread of any process.
 */
#ifndef SEGMENT_RECIPIENTS_H
#define SEGMENT_RECIPIENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/file/layout.h"

struct segment;

struct recipient_held {
	char address[RECIPIENT_MAX + 1];
	uint16_t rule;		/* number of the rule that says so, of the generation then
				 * in force: for display; RECIPIENT_NO_RULE: by hand */
	int64_t until_ns;
	int64_t since_ns;	/* 0.1 s */
	uint64_t event;		/* id of what it is held by (decisions.h); 0: not known */
	char reason[SEGMENT_REASON_MAX + 1];
};
#define RECIPIENT_NO_RULE	UINT16_MAX
#define RECIPIENT_A_RULE	(UINT16_MAX - 1)	/* one of another life: which is not known */

/* Holds it until then, whatever was told before; the reason is cut at SEGMENT_REASON_MAX
 * bytes, '?' stands for what is not printable ASCII.  False: not held (counted). */
struct recipient_hold {
	const char *address;
	size_t length;
	uint16_t rule;
	int64_t until_ns;	/* INT64_MAX: until it is released */
	const char *reason;	/* or NULL */
	uint64_t event;		/* 0: as it was */
};
bool recipients_hold(struct segment *segment, const struct recipient_hold *hold,
    int64_t now_ns);

/* False: not known, or not to be had. */
bool recipients_release(struct segment *segment, const char *address, size_t length,
    int64_t now_ns);

/* Is it held now?  No lock. */
bool recipients_find(const struct segment *segment, const char *address,
    size_t length, int64_t now_ns, struct recipient_held *out);

/* All of which the time has not ended, without locks; returns how many changed all the time. */
unsigned recipients_each(const struct segment *segment, int64_t now_ns,
    void (*each)(void *context, const struct recipient_held *), void *context);

uint64_t recipients_used(const struct segment *segment);

/* Frees those whose time has ended; returns how many.  The keeper, now and then. */
unsigned recipients_expire(struct segment *segment, int64_t now_ns);

/* Rises with each hold, release and end of one (recipients_expire tells of those). */
uint64_t recipients_version(const struct segment *segment);

/* --- for segment/ only ----------------------------------------------------- */

extern const struct learned_kind recipient_kind;

#endif
