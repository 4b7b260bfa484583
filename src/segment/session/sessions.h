/* SPDX-License-Identifier: ISC */
/*
 * Session slots and class counters: every change of them, in the lock order
 * session shard, class, client shard.  For the engine only.
 *
 * A shard transaction is sessions_lock ... sessions_unlock.  What a class counts
 * changes only inside class_lock ... class_unlock within it.  Slots are read
 * whole (session_load) and written whole with the control word last
 * (session_store), so readers without locks see a slot or its predecessor.
 */
#ifndef SEGMENT_SESSIONS_H
#define SEGMENT_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/destination/learned.h"

/* What names a session. Two slots share a key only when both know their server
 * half and the halves differ. */
struct session_key {
	struct address client;
	uint16_t client_port;
	uint8_t direction;
};

struct session_lock {
	struct segment *segment;
	struct shard *shard;
	uint32_t shard_number;
	uint64_t hash;
	struct session_key key;
	int64_t now_ns;
	bool changed;		/* since it is held */
};

/* Works out where the key lies and has the memory fetched meanwhile; nothing is
 * held yet. */
void sessions_aim(struct segment *segment, const struct session_key *key,
    int64_t now_ns, struct session_lock *lock);
/* Has the slot fetched that is the next to be taken, once the memory is there that sessions_aim
 * asked for. */
void sessions_expect(const struct session_lock *lock);
/* False: not to be had within 50 ms; nothing is held. */
bool sessions_lock(struct session_lock *lock);
/* The last of all locks: where slots changed, the keeper is told (stir.h). */
void sessions_unlock(struct session_lock *lock);

/* The slot (number over all shards) of the key, or SEGMENT_NO_SLOT.  server may
 * be unknown (all zero, port 0). */
uint32_t sessions_find(struct session_lock *lock, const struct address *server,
    uint16_t server_port);

/* A free slot of the shard, not yet in any list, or SEGMENT_NO_SLOT: the shard
 * is full.  Give it back with sessions_put_back, or write it and keep it. */
uint32_t sessions_take(struct session_lock *lock);
void sessions_put_back(struct session_lock *lock, uint32_t slot);

/* Mends what dead owners left, where nobody has come since: of sessions, classes and clients. */
void sessions_mend(struct segment *segment, int64_t now_ns);

/* Is the slot of the shard that its key belongs to?  Else any role wrote the key there: that
 * shard is mended.  Before it is locked. */
bool sessions_may_have(const struct session_lock *lock, uint32_t slot);

/* Are only slots left that what is counted should have? (an eighth) */
bool sessions_are_scarce(const struct session_lock *lock);

/* Makes a taken slot findable.  Call before the control word is stored. */
void sessions_link(struct session_lock *lock, uint32_t slot);
/* Frees a slot whose control word says FREE already. */
void sessions_release(struct session_lock *lock, uint32_t slot);

/* Between these two, readers try again. */
void sessions_change_begin(struct session_lock *lock);
void sessions_change_end(struct session_lock *lock);

void session_load(const struct segment *segment, uint32_t slot,
    struct session *session);
/* Without the shard's mutex: false when it is free, or changes all the time. */
bool session_read(const struct segment *segment, uint32_t shard, uint32_t slot,
    struct session *session);
struct session_control session_load_control(const struct segment *segment,
    uint32_t slot);
/* Of the session that the slot has, or had last.  Under the shard's mutex. */
uint16_t session_load_serial(const struct segment *segment, uint32_t slot);
/* All but the control word, then the control word (release). */
void session_store(struct segment *segment, uint32_t slot,
    const struct session *session);
void session_store_control(struct segment *segment, uint32_t slot,
    struct session_control control);

/* Slots that can hold anything: for scans without locks.  Shard `shard` has the
 * slots first ... first + count - 1. */
void sessions_range(const struct segment *segment, uint32_t shard,
    uint32_t *first, uint32_t *count);

/* A class record's mutex.  False: not to be had within 50 ms.  An inherited one
 * is recounted from the slots first (counted in REPAIRS); where that cannot be
 * finished now, false too, and the next one tries. */
bool class_lock(struct segment *segment, uint16_t record, int64_t now_ns);
void class_unlock(struct segment *segment, uint16_t record);

/* For sessions_mend: of classes and clients. */
void counts_mend(struct segment *segment, int64_t now_ns);

/* Adds `change` (+1, -1) to the class's counters; under its mutex. */
void class_add(struct segment *segment, uint16_t record,
    enum session_direction direction, int change);

/* Sub-limits of one client in one class: under the class's mutex.  */
struct client_lock {
	struct segment *segment;
	struct learned table;
	struct learned_key key;
	_Atomic uint64_t *slot;		/* struct client_slot; NULL: not known */
	uint16_t record;
	int64_t now_ns;
};
struct learned clients_table(const struct segment *segment);
/* Works out where the client's count lies, its address truncated to `bits` (of 128), and has
 * the memory fetched meanwhile; nothing is held yet, and no mutex needed. */
void client_aim(struct segment *segment, uint16_t record,
    const struct address *client, unsigned bits, int64_t now_ns,
    struct client_lock *lock);
/* False: not to be had within 50 ms. */
bool client_lock(struct client_lock *lock);
void client_counts(const struct client_lock *lock, uint32_t *open,
    int64_t *rate_tat_ns);
/* Makes sure that the client has a slot, so that it can be counted.  False: the
 * table is full of clients that are in use (counted); then the session goes without,
 * and is never refused for that. */
bool client_reserve(struct client_lock *lock);
void client_add(struct client_lock *lock, int change, int64_t rate_tat_ns);
void client_unlock(struct client_lock *lock);

/* Forgets every client of a record, under its mutex (before it names another
 * class). */
void clients_purge(struct segment *segment, uint16_t record, int64_t now_ns);

/* The half of sessions_rebuild that concerns the session shards.  No session
 * is younger than the next dump then, whatever its slot says. */
void sessions_scrub(struct segment *segment);

/* Rebuilds everything that can be derived from the slots: mutexes, indexes, free
 * lists, counters.  Slots that make no sense become free.  Nobody else may
 * have the segment mapped for writing. Returns the open sessions. */
uint64_t sessions_rebuild(struct segment *segment);

#endif
