/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The ring of lane uses.
 * MODEL    Event n lies at place n modulo the size, under the number n + 1, which is
 *          stored last and taken away first.  header->lane_uses_next is how many there
 *          ever were.
 * ERRORS   What was overwritten, or half written by somebody who died, is lost, and the
 *          reader is told.
 * THREADS  One writer; any number of readers.
 */
#include "segment/hints/lane_uses.h"

#include "segment/file/internal.h"
#include "segment/file/name.h"
#include "segment/file/stir.h"

#define MS_BITS		22
#define WIDTH_BITS	14
#define MTA_BITS	3
_Static_assert(LANE_USE_MS_MOST == (1u << MS_BITS) - 1, "the bits of a time");
_Static_assert(2 * MS_BITS + WIDTH_BITS + MTA_BITS + 3 <= 64, "one word");
_Static_assert(SEGMENT_MTAS == 1u << MTA_BITS, "the bits of a mail server's number");
_Static_assert((SEGMENT_LANE_USES & (SEGMENT_LANE_USES - 1)) == 0, "a power of two");

static struct lane_use_slot *slot_of(const struct segment *segment, uint64_t number) {
	struct lane_use_slot *slots = (void *)((char *)segment->header +
	    segment->header->lane_uses_offset);

	return &slots[number % SEGMENT_LANE_USES];
}

uint64_t lane_uses_hash(const struct segment *segment, const char *domain,
    size_t length) {
	uint64_t words[NAME_WORDS];

	if (!name_fold(domain, length, words))
		return 0;
	return name_hash(&segment->header->key, words, NAME_WORDS);
}

static uint64_t use_pack(const struct lane_use *use) {
	uint64_t waited = use->waited_ms, took = use->took_ms;

	if (waited > LANE_USE_MS_MOST)
		waited = LANE_USE_MS_MOST;
	if (took > LANE_USE_MS_MOST)
		took = LANE_USE_MS_MOST;
	return waited | took << MS_BITS |
	    (uint64_t)(use->width & ((1u << WIDTH_BITS) - 1)) << 2 * MS_BITS |
	    (uint64_t)(use->mta % SEGMENT_MTAS) << (2 * MS_BITS + WIDTH_BITS) |
	    (uint64_t)use->tried << (2 * MS_BITS + WIDTH_BITS + MTA_BITS) |
	    (uint64_t)use->failed << (2 * MS_BITS + WIDTH_BITS + MTA_BITS + 1) |
	    (uint64_t)use->suspended << (2 * MS_BITS + WIDTH_BITS + MTA_BITS + 2);
}

static void use_unpack(uint64_t word, struct lane_use *use) {
	use->waited_ms = (uint32_t)(word & LANE_USE_MS_MOST);
	use->took_ms = (uint32_t)(word >> MS_BITS & LANE_USE_MS_MOST);
	use->width = (uint16_t)(word >> 2 * MS_BITS & ((1u << WIDTH_BITS) - 1));
	use->mta = (uint8_t)(word >> (2 * MS_BITS + WIDTH_BITS) & (SEGMENT_MTAS - 1));
	use->tried = (word >> (2 * MS_BITS + WIDTH_BITS + MTA_BITS) & 1) != 0;
	use->failed = (word >> (2 * MS_BITS + WIDTH_BITS + MTA_BITS + 1) & 1) != 0;
	use->suspended = (word >> (2 * MS_BITS + WIDTH_BITS + MTA_BITS + 2) & 1) != 0;
}

void lane_uses_note(struct segment *segment, const struct lane_use *use) {
	struct segment_header *header = segment->header;
	uint64_t number = RELAXED(header->lane_uses_next);
	struct lane_use_slot *slot = slot_of(segment, number);

	STORE(slot->number, 0);
	atomic_thread_fence(memory_order_release);
	STORE(slot->words[0], use->domain);
	STORE(slot->words[1], (uint64_t)use->ended_ns);
	STORE(slot->words[2], use_pack(use));
	atomic_store_explicit(&slot->number, number + 1, memory_order_release);
	atomic_store_explicit(&header->lane_uses_next, number + 1,
	    memory_order_release);
	segment_stir(header);
}

bool lane_uses_next(const struct segment *segment, struct lane_uses_cursor *cursor,
    struct lane_use *out, bool *lost) {
	/* whoever writes all the time must not keep us for ever */
	for (uint32_t looked = 0; looked <= SEGMENT_LANE_USES; looked++) {
		uint64_t end = atomic_load_explicit(&segment->header->lane_uses_next,
		    memory_order_acquire);
		const struct lane_use_slot *slot;
		uint64_t words[3], number;

		if (!cursor->begun || cursor->next > end) {
			cursor->next = end > SEGMENT_LANE_USES ? end - SEGMENT_LANE_USES :
			    0;
			cursor->begun = true;
		}
		if (end - cursor->next > SEGMENT_LANE_USES) {
			cursor->next = end - SEGMENT_LANE_USES;
			*lost = true;
		}
		if (cursor->next == end)
			return false;
		slot = slot_of(segment, cursor->next);
		number = atomic_load_explicit(&slot->number, memory_order_acquire);
		for (unsigned i = 0; i < 3; i++)
			words[i] = RELAXED(slot->words[i]);
		atomic_thread_fence(memory_order_acquire);
		cursor->next++;
		if (number == cursor->next && RELAXED(slot->number) == number) {
			out->domain = words[0];
			/* any role can write another */
			out->ended_ns = clock_bounded_ns((int64_t)words[1]);
			use_unpack(words[2], out);
			return true;
		}
		*lost = true;
	}
	return false;
}
