/* SPDX-License-Identifier: ISC */
/* Places in log files, as the segment keeps them, for tests without one: what stands for
 * the segment is a list. */
#ifndef TESTS_UNIT_FEED_RECORDS_H
#define TESTS_UNIT_FEED_RECORDS_H

#include <assert.h>
#include <string.h>

#include "front/feed/followed_file.h"

#define FEED_RECORDS 64

struct feed_records {
	struct feed_position list[FEED_RECORDS];	/* log 0: free */
	bool dead;	/* its process was killed: nothing that it does is kept */
};

static inline uint32_t feed_records_add(struct segment *segment,
    const struct feed_position *position) {
	struct feed_records *records = (void *)segment;
	uint32_t free_one = FEED_NO_RECORD, oldest = FEED_NO_RECORD, rank = 0, count = 0;

	if (records->dead)
		return FEED_NO_RECORD;
	for (uint32_t i = FEED_RECORDS; i-- > 0;) {
		if (records->list[i].log == 0)
			continue;
		if (records->list[i].rank > rank)
			rank = records->list[i].rank;
		if (records->list[i].log != position->log)
			continue;
		count++;
		if (oldest == FEED_NO_RECORD || records->list[i].rank < records->list[oldest].rank)
			oldest = i;
	}
	if (count == FEED_FILES_MAX)
		records->list[oldest].log = 0;
	for (uint32_t i = FEED_RECORDS; i-- > 0;)
		if (records->list[i].log == 0)
			free_one = i;
	assert(free_one != FEED_NO_RECORD);
	records->list[free_one] = *position;
	records->list[free_one].rank = rank + 1;
	return free_one;
}

static inline void feed_records_move(struct segment *segment, uint32_t record,
    const struct feed_spot *spot) {
	struct feed_records *records = (void *)segment;

	if (!records->dead)
		records->list[record].spot = *spot;
}

static inline void feed_records_cut(struct segment *segment, uint32_t record) {
	struct feed_records *records = (void *)segment;

	if (records->dead)
		return;
	records->list[record].epoch++;
	memset(&records->list[record].spot, 0, sizeof(records->list[record].spot));
}

static inline void feed_records_forget(struct segment *segment, uint32_t record) {
	struct feed_records *records = (void *)segment;

	if (!records->dead)
		records->list[record].log = 0;
}

static inline void feed_records_begin(struct feed_records *records,
    struct feed_keeper *keeper) {
	memset(records, 0, sizeof(*records));
	*keeper = (struct feed_keeper){ feed_records_add, feed_records_move,
		feed_records_cut, feed_records_forget, (void *)records };
}

static inline unsigned feed_records_list(const struct feed_records *records, uint64_t log,
    struct feed_position out[FEED_FILES_MAX], uint32_t numbers[FEED_FILES_MAX]) {
	unsigned count = 0;

	for (uint32_t i = 0; i < FEED_RECORDS && count < FEED_FILES_MAX; i++) {
		unsigned at = count;

		if (records->list[i].log != log)
			continue;
		for (; at > 0 && out[at - 1].rank > records->list[i].rank; at--) {
			out[at] = out[at - 1];
			numbers[at] = numbers[at - 1];
		}
		out[at] = records->list[i];
		numbers[at] = i;
		count++;
	}
	return count;
}

#endif
