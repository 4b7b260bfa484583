/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Deliveries whose start a mail server told: their levels are exact.
 * MODEL    A table of starts by destination and queue id, and of how many are under way
 *          at each destination, both of fixed size.  A start whose end is not told for an
 *          hour is over.
 * ERRORS   Without a place the level is not known.
 * THREADS  One.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/feed/feed_internal.h"

#define PLACES		65536
#define WAYS		16
#define OVER_NS		(3600 * NS_PER_SECOND)

struct start {
	uint64_t hash;		/* of the destination; 0: free */
	uint64_t queue;
	int64_t began_ns;
	uint32_t level;
};

struct underway {
	uint64_t hash;
	uint32_t count;
};

struct feed_starts {
	struct start starts[PLACES];
	struct underway underway[PLACES];
};

struct feed_starts *feed_starts_open(void) {
	return calloc(1, sizeof(struct feed_starts));
}

void feed_starts_close(struct feed_starts **starts) {
	free(*starts);
	*starts = NULL;
}

/* How many are under way there, in a place that others must not need; NULL: none free. */
static struct underway *underway(struct feed_starts *starts, uint64_t hash) {
	struct underway *found = NULL;

	for (unsigned i = 0; i < WAYS; i++) {
		struct underway *one = &starts->underway[(hash + i) % PLACES];

		if (one->hash == hash)
			return one;
		if (found == NULL && one->count == 0)
			found = one;
	}
	if (found != NULL)
		*found = (struct underway){ .hash = hash };
	return found;
}

static void end(struct feed_starts *starts, struct start *start) {
	struct underway *there = underway(starts, start->hash);

	if (there != NULL && there->count > 0)
		there->count--;
	start->hash = 0;
}

static struct start *place(struct feed_starts *starts, uint64_t hash, uint64_t queue,
    unsigned way) {
	return &starts->starts[((hash ^ queue) + way) % PLACES];
}

uint32_t feed_starts_begin(struct feed_starts *starts, uint64_t hash, uint64_t queue,
    int64_t now_ns) {
	struct start *found = NULL;
	struct underway *there;

	for (unsigned i = 0; i < WAYS; i++) {
		struct start *one = place(starts, hash, queue, i);

		if (one->hash != 0 && (now_ns - one->began_ns > OVER_NS ||
		    (one->hash == hash && one->queue == queue)))
			end(starts, one);
		if (found == NULL && one->hash == 0)
			found = one;
	}
	there = underway(starts, hash);
	if (found == NULL || there == NULL)
		return 0;
	there->count++;
	*found = (struct start){ hash, queue, now_ns, there->count };
	return there->count;
}

uint32_t feed_starts_end(struct feed_starts *starts, uint64_t hash, uint64_t queue,
    int64_t now_ns, uint32_t *running) {
	struct underway *there;
	uint32_t level = 0;

	for (unsigned i = 0; i < WAYS; i++) {
		struct start *one = place(starts, hash, queue, i);

		if (one->hash != hash || one->queue != queue)
			continue;
		if (now_ns - one->began_ns <= OVER_NS)
			level = one->level;
		end(starts, one);
		break;
	}
	there = underway(starts, hash);
	*running = there == NULL ? 0 : there->count;
	return level;
}
