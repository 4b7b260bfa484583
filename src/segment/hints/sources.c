/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  States of sources that are warmed up.
 * MODEL    A table of hashes that is never emptied: there are as many as sources and providers in
 *          all configurations since the boot.  Each slot has two states and a serial, whose lowest
 *          bit names the one that counts.
 * ERRORS   Where all places are taken a key has no state.  Whatever stands there is made sound by
 *          the law.
 * THREADS  Any, of any process.
 */
#include "segment/hints/sources.h"

#include <string.h>

#include "base/failpoint.h"
#include "base/siphash.h"
#include "config/generation/generation.h"
#include "segment/file/internal.h"
#include "segment/hints/given.h"

#define READ_TRIES	100
#define KEPT_SET	(UINT64_C(1) << 63)
#define KEPT_MOST	((UINT64_C(1) << 31) - 1)
_Static_assert((SEGMENT_SOURCES & (SEGMENT_SOURCES - 1)) == 0, "a power of two");
_Static_assert(SEGMENT_SOURCES >= 2 * GENERATION_SOURCES_MAX * GIVEN_ROWS, "for each, and another");

static struct source_slot *slot_at(const struct segment *segment, uint64_t place) {
	struct source_slot *slots = (void *)((char *)segment->header +
	    segment->header->sources_offset);

	return &slots[place % SEGMENT_SOURCES];
}

uint64_t source_key(const char *source, const char *provider) {
	static const struct siphash_key anybody = { 0, 0 };
	const struct siphash_key of_source = { siphash13(&anybody, source, strlen(source)), 1 };
	uint64_t key = siphash13(&of_source, provider, strlen(provider));

	return key == 0 ? 1 : key;
}

uint64_t source_key_of(const struct generation *generation, uint32_t number, uint32_t provider) {
	const struct generation_source *source = generation_source(generation, number);
	const char *name = !source->is_per_provider || source_row(generation, provider) == 0 ? "" :
	    generation_text(generation, generation_provider(generation, provider)->name);

	return source_key(generation_text(generation, source->name), name);
}

static struct source_slot *find(const struct segment *segment, uint64_t key) {
	for (unsigned i = 0; i < SEGMENT_SOURCES; i++) {
		struct source_slot *slot = slot_at(segment, key + i);
		uint64_t found = RELAXED(slot->key);

		if (found == key)
			return slot;
		if (found == 0)
			return NULL;
	}
	return NULL;
}

static struct source_slot *find_or_make(struct segment *segment, uint64_t key) {
	for (unsigned i = 0; i < SEGMENT_SOURCES; i++) {
		struct source_slot *slot = slot_at(segment, key + i);
		uint64_t found = 0;

		if (atomic_compare_exchange_strong(&slot->key, &found, key) || found == key)
			return slot;
	}
	return NULL;
}

static void load(const struct source_slot *slot, uint64_t serial, struct source_state *out) {
	uint64_t words[SOURCE_WORDS];

	for (unsigned i = 0; i < SOURCE_WORDS; i++)
		words[i] = RELAXED(slot->words[serial % 2][i]);
	memcpy(out, words, sizeof(*out));
	if (out->given > out->reserved)
		out->given = out->reserved;
}

uint64_t source_look(const struct segment *segment, uint64_t key, struct source_state *out) {
	const struct source_slot *slot = find(segment, key);

	for (unsigned tries = 0; slot != NULL && tries < READ_TRIES; tries++) {
		uint64_t serial = atomic_load_explicit(&slot->serial, memory_order_acquire);

		load(slot, serial, out);
		atomic_thread_fence(memory_order_acquire);
		if (serial == RELAXED(slot->serial))
			return serial;
	}
	memset(out, 0, sizeof(*out));
	return 0;
}

bool source_lock(struct segment *segment, uint64_t key, int64_t now_ns, struct source_held *held) {
	struct source_slot *slot = find_or_make(segment, key);

	if (slot == NULL || lock_acquire(&slot->lock, now_ns) == LOCK_TIMED_OUT)
		return false;
	held->slot = slot;
	load(slot, RELAXED(slot->serial), &held->state);
	return true;
}

void source_put(struct source_held *held) {
	struct source_slot *slot = held->slot;
	uint64_t serial = RELAXED(slot->serial) + 1, words[SOURCE_WORDS];

	memcpy(words, &held->state, sizeof(words));
	for (unsigned i = 0; i < SOURCE_WORDS; i++) {
		FAILPOINT();
		STORE(slot->words[serial % 2][i], words[i]);
	}
	FAILPOINT();
	atomic_store_explicit(&slot->serial, serial, memory_order_release);
}

void source_unlock(struct source_held *held) {
	lock_release(&held->slot->lock);
}

/* --- what the journal has ---------------------------------------------------------------- */

static uint64_t kept_word(const struct source_state *state) {
	uint64_t sent = state->warm.sent, reserved = state->reserved;

	return KEPT_SET | (sent < KEPT_MOST ? sent : KEPT_MOST) << 31 |
	    (reserved < KEPT_MOST ? reserved : KEPT_MOST);
}

void source_note_kept(struct segment *segment, uint64_t key, const struct source_state *state) {
	struct source_slot *slot = find(segment, key);

	if (slot == NULL)
		return;
	STORE(slot->kept, 0);
	atomic_thread_fence(memory_order_release);
	STORE(slot->kept_day_ns, state->warm.day_ns);
	atomic_store_explicit(&slot->kept, kept_word(state), memory_order_release);
}

uint32_t source_kept(const struct segment *segment, uint64_t key,
    const struct source_state *state) {
	const struct source_slot *slot = find(segment, key);
	uint64_t kept = slot == NULL ? 0 : atomic_load_explicit(&slot->kept, memory_order_acquire);
	int64_t day_ns = slot == NULL ? 0 : RELAXED(slot->kept_day_ns);

	atomic_thread_fence(memory_order_acquire);
	if ((kept & KEPT_SET) == 0 || RELAXED(slot->kept) != kept)
		return 0;
	/* of an earlier day, only what was taken ahead would be counted in this one */
	return (uint32_t)((day_ns == state->warm.day_ns ? kept >> 31 & KEPT_MOST : 0) +
	    (kept & KEPT_MOST));
}

/* --- another segment ------------------------------------------------------------------------ */

void sources_scrub(struct segment *segment) {
	for (unsigned i = 0; i < SEGMENT_SOURCES; i++)
		lock_reset(&slot_at(segment, i)->lock);
}

void sources_carry(const struct segment *from, struct segment *to) {
	for (unsigned i = 0; i < SEGMENT_SOURCES; i++) {
		const struct source_slot *source = slot_at(from, i);
		struct source_slot *target = slot_at(to, i);
		uint64_t serial = RELAXED(source->serial);

		if (RELAXED(source->key) == 0)
			continue;
		for (unsigned word = 0; word < SOURCE_WORDS; word++)
			STORE(target->words[serial % 2][word], RELAXED(source->words[serial % 2][word]));
		STORE(target->kept_day_ns, RELAXED(source->kept_day_ns));
		STORE(target->kept, RELAXED(source->kept));
		STORE(target->serial, serial);
		STORE(target->key, RELAXED(source->key));
	}
}
