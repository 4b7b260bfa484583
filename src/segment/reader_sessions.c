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
#include "segment/session/sessions.h"

#define READER_TRIES	100

/* Copies `number` until its writer changed nothing meanwhile; false: it changes all the time.
 * *stuck: a sequence that stayed odd, as its writer died and nobody repaired it yet, or 0.  Then one
 * look is enough for everything else that it covers. */
static bool read_whole(const struct segment *segment, uint32_t number, const _Atomic uint32_t *seq,
    uint32_t *stuck, void (*copy)(const struct segment *segment, uint32_t number, void *out),
    void *out) {
	uint32_t before = 0;

	for (unsigned tries = 0; tries < READER_TRIES; tries++) {
		before = atomic_load_explicit(seq, memory_order_acquire);
		if (before % 2 == 0) {
			copy(segment, number, out);
			atomic_thread_fence(memory_order_acquire);
			if (RELAXED(*seq) == before)
				return true;
		} else if (before == *stuck) {
			return false;
		}
		if (tries > READER_TRIES / 10)
			sched_yield();
	}
	*stuck = before % 2 == 0 ? 0 : before;
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

struct record_copy {
	uint32_t in_use;
	struct reader_class class;
};

static void copy_record(const struct segment *segment, uint32_t number, void *copy) {
	const struct class_record *record = &segment->records[number];
	struct record_copy *to = copy;
	struct reader_class *out = &to->class;

	to->in_use = RELAXED(record->in_use);
	out->record = (uint16_t)number;
	/* not atomic: a racing byte shows in the sequence */
	name_copy(record->name, out->name);
	out->removed = to->in_use == CLASS_REMOVED;
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
}

/* False: torn. */
static bool read_record(const struct segment *segment, uint32_t number, struct record_copy *out) {
	uint32_t stuck = 0;

	return read_whole(segment, number, &segment->records[number].seq, &stuck, copy_record, out) &&
	    out->in_use < CLASS_USE_COUNT;
}

unsigned reader_classes(const struct segment *segment,
    void (*each)(void *context, const struct reader_class *), void *context) {
	unsigned torn = 0;

	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		struct record_copy copy;

		if (RELAXED(segment->records[i].in_use) == CLASS_FREE)
			continue;
		if (!read_record(segment, i, &copy))
			torn++;
		else if (copy.in_use != CLASS_FREE && (!copy.class.removed || copy.class.open > 0))
			each(context, &copy.class);
	}
	return torn;
}

const char *reader_class_name(const struct segment *segment, uint16_t record,
    char out[SEGMENT_NAME_MAX + 1]) {
	struct record_copy copy;

	if (record >= segment->header->record_count || !read_record(segment, record, &copy) ||
	    copy.in_use == CLASS_FREE)
		text_copy(out, SEGMENT_NAME_MAX + 1, "-", 1);
	else
		memcpy(out, copy.class.name, SEGMENT_NAME_MAX + 1);
	return out;
}

static void copy_session(const struct segment *segment, uint32_t slot, void *out) {
	session_load(segment, slot, out);
}

/* Is it one that our code could have written? */
static bool is_session(const struct session_control *control) {
	return control->state < SESSION_STATES && control->direction <= SESSION_OUTBOUND &&
	    control->proof <= SESSION_PROOF_LEASE;
}

unsigned reader_sessions(const struct segment *segment,
    void (*each)(void *context, const struct session *), void *context) {
	unsigned torn = 0;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		uint32_t first, count, stuck = 0;

		sessions_range(segment, shard, &first, &count);
		for (uint32_t slot = first; slot < first + count; slot++) {
			struct session session;

			/* one word is never torn, and most slots are free */
			if (session_load_control(segment, slot).state == SESSION_FREE)
				continue;
			if (!read_whole(segment, slot, &segment->session_shards[shard].seq, &stuck,
				copy_session, &session) || !is_session(&session.control))
				torn++;
			else if (session.control.state != SESSION_FREE)
				each(context, &session);
		}
	}
	return torn;
}
