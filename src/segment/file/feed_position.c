/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  How far the log files were read.
 * MODEL    A record tells which file it is by words that never change while it is
 *          in use, and a keyed hash over them that is stored last when it begins
 *          and cleared first when it ends: whatever does not fit together is no
 *          record.  Where in the file is one word of its own.
 * THREADS  One writer; readers try again while it writes.
 */
#include "segment/file/feed_position.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/failpoint.h"
#include "segment/file/internal.h"

#define READ_TRIES	100
#define SKIPPING_BIT	(UINT64_C(1) << FEED_TAIL_BITS)
#define OFFSET_SHIFT	(FEED_TAIL_BITS + 1)
_Static_assert(FEED_OFFSET_MAX == UINT64_MAX >> OFFSET_SHIFT, "all in one word");

/* Not secret: ids are the same in each segment. */
static const struct siphash_key fixed_key = { UINT64_C(0x706f737465726e2e),
	UINT64_C(0x6c6f672d66696c65) };

static uint64_t not_zero(uint64_t hash) {
	return hash == 0 ? 1 : hash;
}

uint64_t feed_log_id(const char *text) {
	return not_zero(siphash13(&fixed_key, text, strlen(text)));
}

uint64_t feed_origin_id(const struct feed_position *position) {
	const uint64_t words[3] = { position->device, position->inode,
		position->epoch };

	return not_zero(siphash13(&fixed_key, words, sizeof(words)));
}

static uint64_t check_of(const struct segment_header *header, uint32_t number,
    const struct feed_position *position) {
	const uint64_t words[5] = { position->log, position->device,
		position->inode, position->rank, number };

	return not_zero(siphash13(&header->key, words, sizeof(words)));
}

static uint64_t spot_pack(const struct feed_spot *spot) {
	uint64_t offset = spot->offset > FEED_OFFSET_MAX ? FEED_OFFSET_MAX :
	    spot->offset;

	return offset << OFFSET_SHIFT | (spot->skipping ? SKIPPING_BIT : 0) |
	    (spot->tail & (SKIPPING_BIT - 1));
}

static struct feed_spot spot_unpack(uint64_t word) {
	return (struct feed_spot){ .offset = word >> OFFSET_SHIFT,
		.tail = (uint32_t)(word & (SKIPPING_BIT - 1)),
		.skipping = (word & SKIPPING_BIT) != 0 };
}

static bool record_get(const struct segment *segment, uint32_t number, struct feed_position *out) {
	const struct segment_header *header = segment->header;
	const struct log_record *record = &header->logs[number];

	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		uint64_t check = atomic_load(&record->check);

		*out = (struct feed_position){ .log = atomic_load(&record->log),
			.device = atomic_load(&record->device),
			.inode = atomic_load(&record->inode),
			.rank = atomic_load(&record->rank),
			.epoch = atomic_load(&record->epoch),
			.spot = spot_unpack(atomic_load(&record->place)) };
		out->spot.time_us = atomic_load(&record->time_us);
		if (check != 0 && check == check_of(header, number, out))
			return true;
		/* never written, or nobody is writing it now */
		if (check == 0 && tries > READ_TRIES / 10)
			return false;
	}
	return false;
}

unsigned feed_positions(const struct segment *segment, uint64_t log,
    struct feed_position out[FEED_FILES_MAX], uint32_t records[FEED_FILES_MAX]) {
	unsigned count = 0;

	for (uint32_t i = 0; i < SEGMENT_LOG_FILES && count < FEED_FILES_MAX; i++) {
		struct feed_position found;
		unsigned at = count;

		if (!record_get(segment, i, &found) || found.log != log)
			continue;
		for (; at > 0 && out[at - 1].rank > found.rank; at--) {
			out[at] = out[at - 1];
			records[at] = records[at - 1];
		}
		out[at] = found;
		records[at] = i;
		count++;
	}
	return count;
}

static uint32_t find_room(const struct segment *segment) {
	struct feed_position ignored;

	for (uint32_t i = 0; i < SEGMENT_LOG_FILES; i++)
		if (!record_get(segment, i, &ignored))
			return i;
	return FEED_NO_RECORD;
}

static void record_put(struct segment *segment, uint32_t number,
    const struct feed_position *position) {
	struct log_record *record = &segment->header->logs[number];

	atomic_store(&record->check, 0);
	FAILPOINT();
	atomic_store(&record->log, position->log);
	atomic_store(&record->device, position->device);
	FAILPOINT();
	atomic_store(&record->inode, position->inode);
	atomic_store(&record->rank, position->rank);
	FAILPOINT();
	atomic_store(&record->epoch, position->epoch);
	atomic_store(&record->place, spot_pack(&position->spot));
	atomic_store(&record->time_us, position->spot.time_us);
	FAILPOINT();
	atomic_store(&record->check, check_of(segment->header, number, position));
}

uint32_t feed_position_begin(struct segment *segment,
    const struct feed_position *position) {
	struct feed_position all[FEED_FILES_MAX], next = *position;
	uint32_t records[FEED_FILES_MAX], number;
	unsigned count = feed_positions(segment, position->log, all, records);

	next.rank = count == 0 ? 1 : all[count - 1].rank + 1;
	if (count == FEED_FILES_MAX)
		feed_position_forget(segment, records[0]);
	number = find_room(segment);
	if (number != FEED_NO_RECORD)
		record_put(segment, number, &next);
	return number;
}

void feed_position_move(struct segment *segment, uint32_t record,
    const struct feed_spot *spot) {
	struct log_record *to;

	if (record >= SEGMENT_LOG_FILES)
		return;
	to = &segment->header->logs[record];
	/* whoever dies between the two goes on by the place */
	atomic_store_explicit(&to->place, spot_pack(spot), memory_order_release);
	if (spot->time_us != 0)
		atomic_store_explicit(&to->time_us, spot->time_us, memory_order_release);
}

void feed_position_cut(struct segment *segment, uint32_t record) {
	struct log_record *to;

	if (record >= SEGMENT_LOG_FILES)
		return;
	/* whoever dies between the two finds the old place beyond the end, or
	 * behind other bytes, and cuts again */
	to = &segment->header->logs[record];
	atomic_store(&to->epoch, atomic_load(&to->epoch) + 1);
	FAILPOINT();
	atomic_store(&to->place, 0);
}

void feed_position_forget(struct segment *segment, uint32_t record) {
	if (record < SEGMENT_LOG_FILES)
		atomic_store(&segment->header->logs[record].check, 0);
}

bool feed_position_counts(struct segment *segment, uint64_t origin, uint64_t offset) {
	const uint64_t words[2] = { origin, offset };
	uint64_t line = not_zero(siphash13(&segment->header->key, words, sizeof(words)));

	return origin == 0 ||
	    atomic_exchange(&segment->header->feed_slotless, line) != line;
}

void feed_position_reading(struct segment *segment, uint64_t origin) {
	atomic_store(&segment->header->feed_reading, origin);
}

uint64_t feed_position_read_last(const struct segment *segment) {
	return atomic_load(&segment->header->feed_reading);
}

void feed_positions_keep(struct segment *segment, const uint64_t logs[],
    unsigned count) {
	for (uint32_t i = 0; i < SEGMENT_LOG_FILES; i++) {
		struct feed_position found;
		bool wanted = false;

		if (!record_get(segment, i, &found))
			continue;
		for (unsigned k = 0; k < count; k++)
			wanted |= logs[k] == found.log;
		if (!wanted)
			feed_position_forget(segment, i);
	}
}

unsigned feed_positions_all(const struct segment *segment, struct feed_position out[]) {
	unsigned count = 0;

	for (uint32_t i = 0; i < SEGMENT_LOG_FILES; i++)
		if (record_get(segment, i, &out[count]))
			count++;
	return count;
}

bool feed_position_add(struct segment *segment, const struct feed_position *position) {
	uint32_t number = find_room(segment);

	if (number == FEED_NO_RECORD || position->log == 0)
		return false;
	record_put(segment, number, position);
	return true;
}
