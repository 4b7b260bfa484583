/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  At what level a message went to a destination.
 * MODEL    Four entries a cache line, the line chosen by the key.  An entry is two
 *          words, data and key combined with data by exclusive or: what is half of
 *          one and half of another does not show the key that is looked for.
 *          Who writes takes, of the line, the same key's entry, else the one that
 *          ended or began first.
 * ERRORS   Two that write one entry at once may lose either: its level is not known.
 * THREADS  Any, of any process.
 */
#include "segment/destination/flights_internal.h"

#include "base/failpoint.h"

/* What data holds: 16 bits of level, these, 12 of the flight's number, and 32 of tenths of
 * seconds. */
#define CANARY		(UINT64_C(1) << 16)
#define ENDED		(UINT64_C(1) << 17)
#define VALID		(UINT64_C(1) << 18)
#define CONNECTED	(UINT64_C(1) << 19)
#define FLIGHT_SHIFT	20
#define DS_OF(data)	((uint32_t)((data) >> 32))

#define ENDED_DS	600	/* the log's line may come later than the end */
#define LONGEST_DS	144000	/* four hours: no delivery takes longer */

static struct attempt *line_of(const struct segment *segment, uint64_t key) {
	const struct segment_header *header = segment->header;
	uint64_t line = (key >> 32) * header->attempt_lines >> 32;

	return (struct attempt *)(void *)((char *)(uintptr_t)header +
	    header->attempts_offset) + line * ATTEMPT_PLACES;
}

uint64_t attempts_key(const struct segment *segment, uint64_t queue_hash,
    uint64_t destination_hash) {
	const uint64_t both[2] = { queue_hash, destination_hash };
	uint64_t key = siphash13(&segment->header->key, both, sizeof(both));

	return key == 0 ? 1 : key;
}

static bool is_known(uint64_t data, uint32_t now_ds) {
	uint32_t age_ds = now_ds - DS_OF(data);

	/* another process's clock may be a little ahead of ours */
	return (data & VALID) != 0 && ((int32_t)age_ds < 0 ||
	    age_ds <= ((data & ENDED) != 0 ? ENDED_DS : LONGEST_DS));
}

/* NULL: not known. */
static struct attempt *attempt_find(const struct segment *segment, uint64_t key,
    uint64_t *data) {
	struct attempt *line = line_of(segment, key);

	for (unsigned i = 0; i < ATTEMPT_PLACES; i++) {
		*data = RELAXED(line[i].data);
		if ((*data & VALID) != 0 && (RELAXED(line[i].key) ^ *data) == key)
			return &line[i];
	}
	return NULL;
}

/* The smaller, the rather it makes room. */
static uint64_t attempt_worth(uint64_t data, uint32_t now_ds) {
	if (!is_known(data, now_ds))
		return 0;
	return DS_OF(data) | ((data & ENDED) == 0 ? UINT64_C(1) << 32 : 0);
}

static void attempt_store(struct attempt *attempt, uint64_t key, uint64_t data) {
	STORE(attempt->data, data);
	FAILPOINT();
	STORE(attempt->key, key ^ data);
	FAILPOINT();
}

void attempts_put(struct segment *segment, uint64_t key,
    const struct flight_attempt *attempt, int64_t now_ns) {
	uint32_t now_ds = segment_ds(segment, now_ns);
	struct attempt *line = line_of(segment, key), *chosen;
	uint64_t data, least = UINT64_MAX;

	chosen = attempt_find(segment, key, &data);
	if (chosen == NULL) {
		for (unsigned i = 0; i < ATTEMPT_PLACES; i++) {
			uint64_t here = attempt_worth(RELAXED(line[i].data), now_ds);

			if (here < least) {
				least = here;
				chosen = &line[i];
			}
		}
	}
	attempt_store(chosen, key, attempt->level | (attempt->canary ? CANARY : 0) |
	    (attempt->connected ? CONNECTED : 0) | VALID |
	    (uint64_t)(attempt->place % FLIGHT_PLACES) << FLIGHT_SHIFT |
	    (uint64_t)now_ds << 32);
}

void attempts_end(struct segment *segment, uint64_t key, int64_t now_ns) {
	uint64_t data;
	struct attempt *attempt = attempt_find(segment, key, &data);

	if (attempt != NULL && (data & ENDED) == 0)
		attempt_store(attempt, key, (uint32_t)data | ENDED |
		    (uint64_t)segment_ds(segment, now_ns) << 32);
}

bool attempts_find(const struct segment *segment, uint64_t key, int64_t now_ns,
    struct flight_attempt *out) {
	uint64_t data;

	if (attempt_find(segment, key, &data) == NULL ||
	    !is_known(data, segment_ds(segment, now_ns)))
		return false;
	out->level = (uint16_t)data;
	out->canary = (data & CANARY) != 0;
	out->connected = (data & CONNECTED) != 0;
	out->place = (uint16_t)(data >> FLIGHT_SHIFT & (FLIGHT_PLACES - 1));
	return true;
}
