/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The last reasons of destinations.
 * MODEL    A text is written to a place that nobody refers to, under the place's own
 *          sequence; then the slot that refers to it changes; then its old place
 *          is given back.  A place belongs to the slot that it names and that
 *          names it.
 * ERRORS   Whoever inherits a shard's mutex gives back the places that are half
 *          written, or that no slot refers to.
 * THREADS  Any, of any process.
 */
#include "segment/destination/reasons.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/destination/destination_table.h"
#include "segment/file/name.h"

#define READ_TRIES	100
#define LOOKED_AT	16

/* number: from 1 */
static struct reason_text *reason_at(const struct segment_header *header, uint32_t shard,
    uint32_t number) {
	return (struct reason_text *)(void *)((char *)(uintptr_t)header + header->reasons_offset) +
	    (size_t)shard * header->reasons_per_shard + number - 1;
}

static bool is_number(const struct segment_header *header, uint32_t number) {
	return number > 0 && number <= header->reasons_per_shard;
}

static void to_words(const char *text, uint64_t words[REASON_WORDS]) {
	char harmless[SEGMENT_REASON_MAX];

	text_harmless(text, harmless, sizeof(harmless));
	memcpy(words, harmless, sizeof(harmless));
}

static bool is_same(const struct reason_text *reason,
    const uint64_t words[REASON_WORDS]) {
	for (unsigned i = 0; i < REASON_WORDS; i++) {
		if (RELAXED(reason->text[i]) != words[i])
			return false;
	}
	return true;
}

static void set_owner(struct reason_text *reason, uint32_t owner) {
	STORE(reason->owner, owner);
	FAILPOINT();
}

static void write_text(struct reason_text *reason, uint32_t slot,
    const uint64_t words[REASON_WORDS], uint64_t event) {
	seq_begin(&reason->sequence);
	FAILPOINT();
	set_owner(reason, 0);
	for (unsigned i = 0; i < REASON_WORDS; i++) {
		STORE(reason->text[i], words[i]);
		FAILPOINT();
	}
	STORE(reason->event, event);
	FAILPOINT();
	set_owner(reason, slot + 1);
	seq_end(&reason->sequence);
	FAILPOINT();
}

/* Does somebody dead or held need it? */
static bool is_dear(const struct learned *table, uint32_t shard, uint32_t owner) {
	return owner <= table->place->per_shard && destination_worth(
	    learned_slot(table, shard, owner - 1), 0) >= WORTH_DEAD;
}

/* A place for a text: of a few, a free one, else of somebody who is open, else any. */
static uint32_t find_place(const struct learned *table, uint32_t shard,
    uint32_t but_not) {
	struct segment_header *header = table->header;
	struct state_shard *state = (struct state_shard *)(void *)(
	    (char *)header + header->states_offset) + shard;
	uint32_t count = header->reasons_per_shard, open = 0, any = 0;
	uint32_t at = RELAXED(state->reason_hand) % count;

	for (unsigned i = 0; i < LOOKED_AT && i < count; i++) {
		uint32_t owner;

		at = at + 1 < count ? at + 1 : 0;
		if (at + 1 == but_not)
			continue;
		any = at + 1;
		owner = RELAXED(reason_at(header, shard, any)->owner);
		if (owner == 0) {
			STORE(state->reason_hand, at);
			return any;
		}
		if (open == 0 && !is_dear(table, shard, owner))
			open = any;
	}
	STORE(state->reason_hand, at);
	return open != 0 ? open : any;
}

/* The slot's own place, if it has one. */
static struct reason_text *own_place(const struct learned *table, uint32_t shard,
    uint32_t slot, uint32_t now) {
	struct reason_text *reason;

	if (!is_number(table->header, now))
		return NULL;
	reason = reason_at(table->header, shard, now);
	return RELAXED(reason->owner) == slot + 1 ? reason : NULL;
}

uint32_t reasons_put(const struct learned *table, uint32_t shard, uint32_t slot,
    uint32_t now, const char *text, uint64_t event) {
	struct segment_header *header = table->header;
	struct reason_text *reason = own_place(table, shard, slot, now);
	uint64_t words[REASON_WORDS] = { 0 };
	uint32_t number;

	if (text != NULL)
		to_words(text, words);
	else if (reason != NULL)
		memcpy(words, reason->text, sizeof(words));
	if (text != NULL && text[0] == '\0' && event == 0)
		return 0;
	if (reason != NULL && is_same(reason, words)) {
		/* one word: whole, whoever reads it */
		if (event != 0)
			STORE(reason->event, event);
		FAILPOINT();
		return now;
	}
	if (event == 0 && reason != NULL)
		event = RELAXED(reason->event);
	number = find_place(table, shard, now);
	if (number == 0)
		return 0;
	reason = reason_at(header, shard, number);
	if (RELAXED(reason->owner) != 0)
		atomic_fetch_add_explicit(&header->counters[
		    COUNTER_REASONS_EVICTED], 1, memory_order_relaxed);
	write_text(reason, slot, words, event);
	return number;
}

void reasons_free(const struct learned *table, uint32_t shard, uint32_t slot,
    uint32_t number) {
	struct reason_text *reason;

	if (!is_number(table->header, number))
		return;
	reason = reason_at(table->header, shard, number);
	if (RELAXED(reason->owner) == slot + 1)
		set_owner(reason, 0);
}

void reasons_repair(const struct learned *table, uint32_t shard) {
	uint32_t slots = table->place->per_shard;

	for (uint32_t i = 1; i <= table->header->reasons_per_shard; i++) {
		struct reason_text *reason = reason_at(table->header, shard, i);
		uint32_t owner = RELAXED(reason->owner);
		const _Atomic uint64_t *slot = owner == 0 || owner > slots ? NULL :
		    learned_slot(table, shard, owner - 1);
		uint64_t kept[2] = { 0, 0 };
		bool is_torn = RELAXED(reason->sequence) % 2 != 0;

		if (slot != NULL && learned_load_control(slot).used)
			kept[1] = RELAXED(slot[KEPT_AT + 1]);
		if (owner != 0 && (is_torn || REASON_OF(kept) != i))
			set_owner(reason, 0);
		if (is_torn)
			seq_end(&reason->sequence);
	}
}

void reasons_scrub(const struct learned *table, uint32_t shard) {
	for (uint32_t i = 1; i <= table->header->reasons_per_shard; i++) {
		struct reason_text *reason = reason_at(table->header, shard, i);
		char text[SEGMENT_REASON_MAX];

		memcpy(text, reason->text, sizeof(text));
		text_harmless(text, (char *)(void *)reason->text, sizeof(text));
	}
}

static bool copy_text(const struct reason_text *reason, uint32_t slot,
    char out[SEGMENT_REASON_MAX + 1], uint64_t *event) {
	uint32_t before = atomic_load_explicit(&reason->sequence,
	    memory_order_acquire);
	uint32_t owner = RELAXED(reason->owner);
	uint64_t words[REASON_WORDS];

	for (unsigned i = 0; i < REASON_WORDS; i++)
		words[i] = RELAXED(reason->text[i]);
	*event = owner == slot + 1 ? RELAXED(reason->event) : 0;
	atomic_thread_fence(memory_order_acquire);
	if (before % 2 != 0 || RELAXED(reason->sequence) != before)
		return false;
	memset(out, 0, SEGMENT_REASON_MAX + 1);
	if (owner == slot + 1)
		memcpy(out, words, SEGMENT_REASON_MAX);
	return true;
}

void reasons_get(const struct segment_header *header, uint32_t shard, uint32_t slot,
    uint32_t number, char out[SEGMENT_REASON_MAX + 1], uint64_t *event) {
	out[0] = '\0';
	*event = 0;
	if (!is_number(header, number))
		return;
	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		if (copy_text(reason_at(header, shard, number), slot, out, event))
			return;
	}
	out[0] = '\0';
	*event = 0;
}
