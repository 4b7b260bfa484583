/* SPDX-License-Identifier: ISC */
/* A directory with a queue's log, and what a test says to it.  Times are seconds since the
 * world began; messages are of mta "m", directory "/q". */
#ifndef TESTS_UNIT_MESSAGES_WORLD_H
#define TESTS_UNIT_MESSAGES_WORLD_H

#include "tests/unit/check.h"

#include "base/clock.h"
#include "journal/queue/messages.h"

#define S		NS_PER_SECOND
#define WORLD_EPOCH	(INT64_C(1700000000) * S)
#define HELD		true
#define SUSPENDED	INT64_C(-1)

struct messages_world {
	char path[64];
	struct journal_storage *storage;
	struct journal_storage *(*open_storage)(void);	/* NULL: a real directory */
	void (*close_storage)(struct journal_storage **storage);
	struct messages_settings settings;
	struct messages *m;
	int64_t wall_ns, now_ns;
	unsigned renewed, failed, good;
	void (*recovered)(void *context, const struct messages_envelope *envelope);
	char text[1 << 16];
};
extern struct messages_world world;

int world_begin(void **state);
int world_begin_upon(struct journal_storage *(*open_storage)(void),
    void (*close_storage)(struct journal_storage **storage));
int world_end(void **state);
/* The process dies, and is begun anew; what it had not written is lost. */
void world_kill(void);
void world_open(void);
/* Until it is idle; until all that was told is synced. */
void world_turn(void);
void world_sync(void);
/* Turns until that many seconds have passed. */
void world_pass(double seconds);

/* `recipients`: "a.example*3 b.example"; `after`: seconds until it is due, or SUSPENDED. */
uint64_t put(const char *id, const char *recipients, double after, bool held);
uint64_t start(const char *id);
uint64_t delivered(const char *id, const char *domain, uint32_t recipients);
uint64_t finish(const char *id);
/* Fills the log by so many bytes of other mail, which is gone at once: 70000 fill a file. */
void traffic(unsigned bytes);
/* The next one's id and recipients, "q1 a.example*3 b.example*1"; "" for none. */
const char *next(void);
/* All that comes before messages_next is to wait, with ", " between. */
const char *all_next(void);
double next_in(void);		/* seconds until messages_next is to be asked again; -1: none */
/* All records of messages: "E:q1 S:q1 D:q1 R:q1 F:q1"; garbage in brackets. */
const char *records(void);
struct messages_totals totals(void);
struct journal_log_counts counts(void);
unsigned files(void);		/* in the directory */
uint64_t bytes_read(void);
#endif
