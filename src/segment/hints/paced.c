/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Mail that waits for its pace: between feed and keeper.
 * MODEL    A few places for each owner's hash; one is free when nothing waits there.  A pass has
 *          the time of its issue as its number, which is stored last.
 * ERRORS   No place is left: the owner's mail takes tokens by itself.
 * THREADS  One writer; one reader who tells how far it is.
 */
#include "segment/hints/paced.h"

#include "base/clock.h"
#include "base/relaxed.h"
#include "segment/file/internal.h"
#include "segment/file/stir.h"
#include "segment/hints/hints.h"

#define AHEAD_NS NS_PER_SECOND	/* no pass is of a later time */
#define PLACES	8	/* that an owner may have */
_Static_assert((SEGMENT_PACED & (SEGMENT_PACED - 1)) == 0, "a power of two");
_Static_assert(SEGMENT_PASSES == HINTS_PASSES, "each has its place");

static struct paced_slot *slot_at(const struct segment *segment, uint64_t owner, unsigned place) {
	struct paced_slot *slots = (void *)((char *)segment->header +
	    segment->header->paced_offset);

	return &slots[(owner + place) % SEGMENT_PACED];
}

static bool is_alive(const struct paced_slot *slot, int64_t now_ns) {
	int64_t beat_ns = RELAXED(slot->beat_ns);

	return beat_ns > 0 && now_ns - beat_ns < PACED_BEAT_NS && beat_ns - now_ns < PACED_BEAT_NS;
}

struct paced_slot *paced_find(const struct segment *segment, uint64_t owner, int64_t now_ns) {
	if (RELAXED(segment->header->paced_used) == 0)
		return NULL;
	for (unsigned i = 0; i < PLACES; i++) {
		struct paced_slot *slot = slot_at(segment, owner, i);

		if (atomic_load_explicit(&slot->owner, memory_order_acquire) == owner &&
		    is_alive(slot, now_ns))
			return slot;
	}
	return NULL;
}

struct paced_slot *paced_begin(struct segment *segment, uint64_t owner, int64_t now_ns) {
	struct paced_slot *slot = paced_find(segment, owner, now_ns);

	for (unsigned i = 0; slot == NULL && i < PLACES; i++) {
		struct paced_slot *at = slot_at(segment, owner, i);

		if (is_alive(at, now_ns))
			continue;
		slot = at;
		for (unsigned pass = 0; pass < SEGMENT_PASSES; pass++)
			STORE(at->passes[pass].issued_ns, 0);
		atomic_store_explicit(&at->owner, owner, memory_order_release);
		STORE(segment->header->paced_used, 1);
	}
	if (slot != NULL) {
		STORE(slot->beat_ns, now_ns);
		segment_stir(segment->header);
	}
	return slot;
}

void paced_beat(struct paced_slot *slot, int64_t now_ns) {
	STORE(slot->beat_ns, now_ns);
}

int64_t paced_pass(struct segment *segment, struct paced_slot *slot, uint64_t word,
    int64_t now_ns) {
	uint64_t count = RELAXED(slot->count);
	int64_t last_ns = RELAXED(slot->last_ns);
	int64_t pass = last_ns < now_ns || last_ns > now_ns + AHEAD_NS ? now_ns : last_ns + 1;
	unsigned at = count % SEGMENT_PASSES;

	STORE(slot->passes[at].issued_ns, 0);
	atomic_thread_fence(memory_order_release);
	STORE(slot->passes[at].word, word);
	atomic_store_explicit(&slot->passes[at].issued_ns, pass, memory_order_release);
	STORE(slot->count, count + 1);
	atomic_store_explicit(&slot->last_ns, pass, memory_order_release);
	segment_stir(segment->header);
	return pass;
}

bool paced_is_written(const struct paced_slot *slot, int64_t pass) {
	return atomic_load_explicit(&slot->written_ns, memory_order_acquire) >= pass;
}

bool paced_next(const struct paced_slot *slot, int64_t now_ns, int64_t *after, uint32_t *number,
    uint64_t *word) {
	int64_t best = INT64_MAX;

	if (atomic_load_explicit(&slot->last_ns, memory_order_acquire) == *after)
		return false;
	for (uint32_t i = 0; i < SEGMENT_PASSES; i++) {
		int64_t pass = atomic_load_explicit(&slot->passes[i].issued_ns,
		    memory_order_acquire);

		if (pass <= *after || pass >= best || pass > now_ns + AHEAD_NS)
			continue;
		best = pass;
		*number = i;
		*word = RELAXED(slot->passes[i].word);
	}
	if (best == INT64_MAX)
		return false;
	*after = best;
	return true;
}

void paced_written(struct paced_slot *slot, int64_t pass) {
	atomic_store_explicit(&slot->written_ns, pass, memory_order_release);
}

struct siphash_key paced_key(const struct segment *segment) {
	const struct siphash_key *key = &segment->header->key;

	return (struct siphash_key){ siphash13(key, "pass 0", 6), siphash13(key, "pass 1", 6) };
}
