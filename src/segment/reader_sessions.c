/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Classes and their sessions, as seen from outside.
 * MODEL    Copies that are made between two looks at the writer's sequence, and made again
 *          where it changed.
 * ERRORS   What cannot be read consistently is counted.
 * THREADS  One thread a reader.
 */
#include "segment/reader.h"

#include <sched.h>
#include <string.h>

#include "base/text.h"
#include "segment/file/internal.h"
#include "segment/file/name.h"

#define RELAXED(field)	atomic_load_explicit(&(field), memory_order_relaxed)

#define READER_TRIES	100

/* A sequence that stays odd: its writer died, and nobody repaired it yet.  Then
 * one look is enough for everything else that it covers. */
struct stuck {
	uint32_t seq;
	bool known;
};

/* Begins a try: false while a writer is inside. */
static bool read_begin(const _Atomic uint32_t *seq, uint32_t *begin) {
	*begin = atomic_load_explicit(seq, memory_order_acquire);
	return (*begin & 1) == 0;
}

static bool read_end(const _Atomic uint32_t *seq, uint32_t begin) {
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(seq, memory_order_relaxed) == begin;
}

/* After a failed try: false when it is enough.  A writer that is still inside
 * at the end as it was in the beginning is remembered. */
static bool read_again(unsigned tried, uint32_t seq, uint32_t first,
    struct stuck *stuck) {
	if ((seq & 1) != 0 && stuck->known && stuck->seq == seq)
		return false;
	if (tried + 1 < READER_TRIES) {
		if (tried > READER_TRIES / 10)
			sched_yield();
		return true;
	}
	stuck->known = (seq & 1) != 0 && seq == first;
	stuck->seq = seq;
	return false;
}

static void copy_share(const struct class_record *record, struct reader_class *out) {
	out->share_since_ns = segment_time_ns(&record->share_since_ns);
	out->shared = out->share_since_ns != 0;
	out->share_alone = RELAXED(record->share_alone) != 0;
	out->share_until_ns = segment_time_ns(&record->share_until_ns);
	for (unsigned i = 0; i < 2; i++) {
		out->share_fixed[i] = RELAXED(record->share_fixed[i]);
		out->share_leased[i] = RELAXED(record->share[i]);
		out->share_whole[i] = RELAXED(record->share_whole[i]);
		out->share_refused[i] = RELAXED(record->share_refused[i]);
	}
}

static uint32_t copy_record(const struct class_record *record,
    struct reader_class *out) {
	uint32_t in_use = RELAXED(record->in_use);

	/* not atomic: a racing byte shows in the sequence */
	name_copy(record->name, out->name);
	out->removed = in_use == 2;
	out->observe = RELAXED(record->observe) != 0;
	out->open = RELAXED(record->open);
	out->open_inbound = RELAXED(record->open_inbound);
	out->peak = RELAXED(record->peak);
	out->sessions = RELAXED(record->sessions);
	out->inbound = RELAXED(record->inbound);
	out->admitted = RELAXED(record->admitted);
	out->refused = RELAXED(record->refused);
	out->refusing = RELAXED(record->refusing);
	out->deferred = RELAXED(record->deferred);
	out->observed = RELAXED(record->observed);
	out->adopted = RELAXED(record->adopted);
	copy_share(record, out);
	return in_use;
}

/* A consistent copy of a record; -1: torn; else its in_use. */
static int read_record(const struct class_record *record, struct reader_class *out) {
	struct stuck stuck = { 0, false };
	uint32_t first = 0, seq, in_use;

	for (unsigned tried = 0;; tried++) {
		bool even = read_begin(&record->seq, &seq);

		if (tried == 0)
			first = seq;
		if (even) {
			in_use = copy_record(record, out);
			if (read_end(&record->seq, seq))
				return in_use > 2 ? -1 : (int)in_use;
		}
		if (!read_again(tried, seq, first, &stuck))
			return -1;
	}
}

unsigned reader_classes(const struct segment *segment,
    void (*each)(void *context, const struct reader_class *), void *context) {
	unsigned torn = 0;

	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		struct reader_class class;
		int in_use;

		if (RELAXED(segment->records[i].in_use) == 0)
			continue;
		in_use = read_record(&segment->records[i], &class);
		if (in_use < 0) {
			torn++;
		} else if (in_use > 0 && (!class.removed || class.open > 0)) {
			class.record = (uint16_t)i;
			each(context, &class);
		}
	}
	return torn;
}

const char *reader_class_name(const struct segment *segment, uint16_t record,
    char out[SEGMENT_NAME_MAX + 1]) {
	struct reader_class class;

	if (record >= segment->header->record_count ||
	    read_record(&segment->records[record], &class) <= 0)
		text_copy(out, SEGMENT_NAME_MAX + 1, "-", 1);
	else
		memcpy(out, class.name, SEGMENT_NAME_MAX + 1);
	return out;
}

/* The control word alone: most slots are free, and one word is never torn. */
static bool slot_is_free(const struct session_slot *slot) {
	struct session_control control;
	uint64_t word = RELAXED(slot->words[0]);

	memcpy(&control, &word, sizeof(control));
	return control.state == SESSION_FREE;
}

/* False: torn, or no state that a session can have. */
static bool read_slot(const struct shard *shard, const struct session_slot *slot,
    struct session *out, struct stuck *stuck) {
	uint64_t words[SESSION_WORDS];
	uint32_t first = 0, seq;

	for (unsigned tried = 0;; tried++) {
		bool even = read_begin(&shard->seq, &seq);

		if (tried == 0)
			first = seq;
		if (even) {
			for (unsigned i = 0; i < SESSION_WORDS; i++)
				words[i] = RELAXED(slot->words[i]);
			if (read_end(&shard->seq, seq))
				break;
		}
		if (!read_again(tried, seq, first, stuck))
			return false;
	}
	memcpy(out, words, sizeof(*out));
	return out->control.state < SESSION_STATES &&
	    out->control.direction <= SESSION_OUTBOUND &&
	    out->control.proof <= SESSION_PROOF_LEASE;
}

unsigned reader_sessions(const struct segment *segment,
    void (*each)(void *context, const struct session *), void *context) {
	unsigned torn = 0;

	for (uint32_t s = 0; s < segment->header->shard_count; s++) {
		const struct shard *shard = &segment->session_shards[s];
		struct stuck stuck = { 0, false };
		uint32_t end = RELAXED(shard->high_water);

		if (end > segment->header->slots_per_shard)
			end = segment->header->slots_per_shard;
		for (uint32_t i = 0; i < end; i++) {
			const struct session_slot *slot = &segment->session_slots[
			    (size_t)s * segment->header->slots_per_shard + i];
			struct session session;

			if (slot_is_free(slot))
				continue;
			if (!read_slot(shard, slot, &session, &stuck))
				torn++;
			else if (session.control.state != SESSION_FREE)
				each(context, &session);
		}
	}
	return torn;
}
