/* SPDX-License-Identifier: ISC */
/*
 * What lines of the log of a Sendmail that the queue role drives told of deliveries, on their
 * way from the feed role to the queue role; and which recipients that one knows as delivered
 * for certain, for those who are asked before a connect.
 *
 * The ring has one writer and one reader, which wait for nobody: where it is full a line is
 * left out, and its deliveries are just not known.  The queue role believes nothing that it
 * finds in it but copies, checks, and judges it.  What it knows then is a set of hashes of 64
 * bits, with a key that nobody outside knows: of the queue id, the second in which the message
 * was made, and the recipient as the log writes it.  Readers take no lock.
 */
#ifndef SEGMENT_TOLD_H
#define SEGMENT_TOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/file/layout.h"

struct segment;

#define TOLD_ID_MAX	31
#define TOLD_LIST_MAX	2047
#define TOLD_RECIPIENT_MAX 255

enum told_what {
	TOLD_UNSURE,	/* the line may say anything of them, or be broken */
	TOLD_SENT,	/* it is whole, and says that the remote server took them */
	TOLD_NOT,	/* they were put off, or returned */
};

/* A line: what became of these recipients. */
struct told_line {
	int64_t written_s, delay_s;	/* wall clock; since the message was made */
	uint64_t log, offset;		/* where it was read */
	uint32_t pid;			/* of its process */
	uint8_t what;			/* enum told_what */
	bool goes_on;			/* the list does, in the next line ("[more]") */
	uint16_t id_length, list_length;
	char id[TOLD_ID_MAX + 1];
	char list[TOLD_LIST_MAX + 1];	/* "<A>,<B>", as written */
};

/* The queue role.  False: there is none (any more); what makes no sense is passed over, with
 * all that stands in the ring. */
bool told_take(struct segment *segment, struct told_line *line);
bool told_is_empty(const struct segment *segment);
int64_t told_reached_ns(const struct segment *segment);

/* A line of mail server `mta` was believed: its log tells of deliveries. */
void told_works(struct segment *segment, unsigned mta);
bool told_has_worked(const struct segment *segment, unsigned mta);

/* The queue role: nothing is known; this is, in place of another one perhaps; or is not. */
void told_begin(struct segment *segment);
void told_publish(struct segment *segment, uint64_t key);
void told_withdraw(struct segment *segment, uint64_t key);

#ifdef WITH_QUEUE
/* The feed role.  False: there is no room, or it is too long. */
bool told_put(struct segment *segment, const struct told_line *line);
/* All logs were read to their ends; what was written before `ns` is in the ring, or was left
 * out. */
void told_reached(struct segment *segment, int64_t ns);

/* Never 0; the same for all recipients that are too long, which are never published. */
uint64_t told_key(const struct segment *segment, const char *queue_id, size_t id_length,
    uint32_t made_s, const char *recipient, size_t length);
/* Anybody. */
bool told_is_delivered(const struct segment *segment, uint64_t key);
#else
/* Without the managed queue nobody asks for lines, and nothing is known as delivered. */
static inline bool told_put(struct segment *segment, const struct told_line *line) {
	(void)segment, (void)line;
	return true;
}

static inline void told_reached(struct segment *segment, int64_t ns) {
	(void)segment, (void)ns;
}

static inline uint64_t told_key(const struct segment *segment, const char *queue_id,
    size_t id_length, uint32_t made_s, const char *recipient, size_t length) {
	(void)segment, (void)queue_id, (void)id_length, (void)made_s, (void)recipient, (void)length;
	return 1;
}

static inline bool told_is_delivered(const struct segment *segment, uint64_t key) {
	(void)segment, (void)key;
	return false;
}
#endif

#endif
