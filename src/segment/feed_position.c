/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  How far the logs were read.
 * MODEL    Three words and a keyed hash over them and the number: whatever does
 *          not fit together is unknown, be it torn, scribbled or never written.
 * THREADS  One writer; readers try again while it writes.
 */
#include "segment/feed_position.h"

#include "base/failpoint.h"
#include "segment/internal.h"

#define READ_TRIES 100

static uint64_t check_of(const struct segment *segment, unsigned mta,
    const struct feed_position *position) {
	const uint64_t words[4] = { position->device, position->inode,
		position->offset, mta };
	uint64_t hash = siphash13(&segment->header->key, words, sizeof(words));

	return hash == 0 ? 1 : hash;
}

bool feed_position_get(const struct segment *segment, unsigned mta,
    struct feed_position *out) {
	const struct mta_record *record;

	if (mta >= SEGMENT_MTAS)
		return false;
	record = &segment->header->mtas[mta];
	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		uint64_t check = atomic_load(&record->check);

		out->device = atomic_load(&record->device);
		out->inode = atomic_load(&record->inode);
		out->offset = atomic_load(&record->offset);
		if (check != 0 && check == check_of(segment, mta, out))
			return true;
		/* never written, or nobody is writing it now */
		if (check == 0 && atomic_load(&record->check) == 0 &&
		    tries > READ_TRIES / 10)
			return false;
	}
	return false;
}

void feed_position_set(struct segment *segment, unsigned mta,
    const struct feed_position *position) {
	struct mta_record *record;

	if (mta >= SEGMENT_MTAS)
		return;
	record = &segment->header->mtas[mta];
	atomic_store(&record->check, 0);
	FAILPOINT();
	atomic_store(&record->device, position->device);
	FAILPOINT();
	atomic_store(&record->inode, position->inode);
	FAILPOINT();
	atomic_store(&record->offset, position->offset);
	FAILPOINT();
	atomic_store(&record->check, check_of(segment, mta, position));
}
