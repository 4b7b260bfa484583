/* SPDX-License-Identifier: ISC */
/*
 * Roles at work on a segment that one of them, which was taken over, writes to.  Input: a list
 * of operations of 2 bytes (which, and a number), some of which have more bytes; those of the
 * upper half overwrite something.  None may end the process: one that is started again would
 * end again.  Then the state of some is adopted, as by another supervisor, and must be
 * consistent.
 *
 * Words of locks are left out.  With POSTERN_FUZZ_WRITER set a thread overwrites words at
 * random all the while: for double reads, which no input shows.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "engine/feed/feed.h"
#include "segment/file/internal.h"
#include "segment/session/sessions.h"
#include "tests/fuzz/live_segment.h"
#include "tests/unit/site.h"

#define CLASSES "classes = ( { name = \"mail\"; match = [ \"a.example\" ]; " \
	"hold_at = 5; refuse_at = 5; action = \"defer\"; client = { sessions = 3; }; }, " \
	"{ name = \"all\"; match = [ \"*\" ]; hold_at = 40; refuse_at = 30; " \
	"client = { rate = \"10/s\"; }; } );" \
	"mta = ( { name = \"a\"; log = \"/a\"; clone = \"smtp\"; lanes = [ 1, 5 ]; }, " \
	"{ name = \"s\"; kind = \"sendmail\"; log = \"/s\"; } );"
#define SPACES 26

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct live live;
static unsigned char *pristine;
static pthread_mutex_t writer_mutex = PTHREAD_MUTEX_INITIALIZER;

/* A part of the segment: `locked` bytes of each `stride` are a lock's. */
struct space {
	uint64_t offset, bytes, stride, locked;
};

static unsigned char *live_part(void) {
	return (unsigned char *)live.site.segment->header + SEGMENT_FIXED_BYTES;
}

static size_t live_bytes(void) {
	return (size_t)live.site.segment->header->bytes - SEGMENT_FIXED_BYTES;
}

static struct space shards_at(uint64_t offset, uint64_t count) {
	return (struct space){ offset, count * sizeof(struct shard), sizeof(struct shard),
		offsetof(struct shard, seq) };
}

static unsigned table_spaces(const struct table_place *place, uint64_t slot_bytes,
    struct space *out) {
	uint64_t shards = place->shards;

	out[0] = shards_at(place->shards_offset, shards);
	out[1] = (struct space){ .offset = place->tags_offset,
		.bytes = shards * place->buckets_per_shard * sizeof(struct tag_line) };
	out[2] = (struct space){ .offset = place->slots_offset,
		.bytes = shards * place->per_shard * slot_bytes };
	return 3;
}

/* Small ones are hit as often as large ones. */
static unsigned list_spaces(struct space out[SPACES]) {
	const struct segment_header *h = live.site.segment->header;
	uint64_t header_bytes = sizeof(*h) - SEGMENT_FIXED_BYTES;
	unsigned n = 0;

	out[n++] = (struct space){ .offset = SEGMENT_FIXED_BYTES, .bytes = 512 };
	out[n++] = (struct space){ .offset = SEGMENT_FIXED_BYTES, .bytes = header_bytes };
	out[n++] = (struct space){ h->records_offset, 4 * sizeof(struct class_record),
		sizeof(struct class_record), offsetof(struct class_record, seq) };
	out[n++] = (struct space){ .offset = h->lane_uses_offset, .bytes = 512 };
	out[n++] = (struct space){ .offset = h->paced_offset,
		.bytes = SEGMENT_PACED * sizeof(struct paced_slot) };
	out[n++] = shards_at(h->shards_offset, h->shard_count);
	out[n++] = (struct space){ .offset = h->lines_offset,
		.bytes = h->slots_offset - h->lines_offset };
	out[n++] = (struct space){ .offset = h->slots_offset,
		.bytes = h->clients.shards_offset - h->slots_offset };
	n += table_spaces(&h->clients, sizeof(struct client_slot), out + n);
	n += table_spaces(&h->destinations, sizeof(struct destination), out + n);
	n += table_spaces(&h->relays, sizeof(struct relay), out + n);
	n += table_spaces(&h->recipients, sizeof(struct recipient), out + n);
	out[n++] = (struct space){ .offset = h->states_offset,
		.bytes = h->reasons_offset - h->states_offset };
	out[n++] = (struct space){ .offset = h->reasons_offset,
		.bytes = h->flights_offset - h->reasons_offset };
	out[n++] = (struct space){ .offset = h->flights_offset,
		.bytes = h->attempts_offset - h->flights_offset };
	out[n++] = (struct space){ .offset = h->grants_offset,
		.bytes = h->shared_offset - h->grants_offset };
	out[n++] = (struct space){ .offset = h->shared_offset,
		.bytes = h->decided_offset[0] - h->shared_offset };
	out[n++] = (struct space){ .offset = h->decided_offset[0],
		.bytes = h->bytes - h->decided_offset[0] };
	return n;
}

/* The word that a number means: of the first ones, or of all. */
static unsigned char *word_of(const struct space *space, uint32_t number) {
	uint64_t words = space->bytes / 8, at;

	at = (number & 0x8000) == 0 ? number % words : (number & 0x7fff) * words >> 15;
	if (space->stride != 0 && at * 8 % space->stride < space->locked)
		return NULL;
	return (unsigned char *)live.site.segment->header + space->offset + at * 8;
}

static void store(unsigned char *to, uint64_t value, unsigned kind) {
	uint32_t half = (uint32_t)value;

	if ((kind & 2) == 0)
		__atomic_store_n((uint64_t *)(void *)to, value, __ATOMIC_RELAXED);
	else
		__atomic_store_n((uint32_t *)(void *)(to + (kind & 1) * 4), half,
		    __ATOMIC_RELAXED);
}

static void overwrite(uint8_t kind, uint8_t which, uint32_t where, uint64_t value) {
	static const uint64_t edges[] = { 0, UINT64_MAX, UINT64_C(1) << 63, INT64_MAX,
		UINT64_C(0x0000000100000001), UINT64_C(0x7fffffff7fffffff), 1, 2 };
	struct space spaces[SPACES];
	const struct space *space = &spaces[which % list_spaces(spaces)];
	unsigned char *to = word_of(space, where), *other = word_of(space, (uint32_t)value);

	if (to == NULL)
		return;
	switch (kind >> 2 & 3) {
	case 0:
		value = edges[value % 8];
		break;
	case 1:
		value %= 256;
		break;
	case 2:
		if (other != NULL)
			memcpy(&value, other, sizeof(value));
		break;
	case 3:
		break;
	}
	store(to, value, kind);
}

/* --- another one at the same time ----------------------------------------------------- */

static uint64_t next_random(uint64_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void *write_on(void *context) {
	const struct timespec pause = { .tv_nsec = 100000 };
	uint64_t state = (uint64_t)clock_now_ns() | 1;

	for (;;) {
		pthread_mutex_lock(&writer_mutex);
		for (unsigned i = 0; i < 32; i++) {
			uint64_t r = next_random(&state);

			overwrite((uint8_t)r, (uint8_t)(r >> 8), (uint32_t)(r >> 16) & 0xffff,
			    next_random(&state));
		}
		pthread_mutex_unlock(&writer_mutex);
		(void)nanosleep(&pause, NULL);
	}
	return context;
}

/* --- one input -------------------------------------------------------------------------- */

static void open_live(void) {
	pthread_t thread;

	site_open_sized(&live.site, 64, 64, CLASSES);
	live.first = live.site.generation->number;
	free(pristine);
	pristine = malloc(live_bytes());
	if (pristine == NULL)
		abort();
	memcpy(pristine, live_part(), live_bytes());
	if (getenv("POSTERN_FUZZ_WRITER") != NULL && !live.has_writer &&
	    pthread_create(&thread, NULL, write_on, NULL) == 0)
		live.has_writer = true;
}

/* As it was before the first input; the process's own memory, too. */
static void begin(void) {
	struct site site;
	struct diag diag;

	if (live.site.segment != NULL &&
	    segment_generation_is_there(live.site.segment, live.first)) {
		site = live.site;
		engine_unpin(site.engine, site.generation);
		engine_feed_close(site.engine);
		engine_close(&site.engine);
		memcpy(live_part(), pristine, live_bytes());
		if (engine_open(&site.engine, site.segment, site.place, &diag) != 0)
			abort();
		site.generation = engine_pin(site.engine);
		live = (struct live){ .site = site, .first = live.first,
			.has_writer = live.has_writer };
	} else {
		if (live.site.segment != NULL)
			site_close(&live.site);
		live = (struct live){ .has_writer = live.has_writer };
		open_live();
	}
	live_begin(&live);
}

static void end(bool adopts) {
	live_end(&live);
	if (!adopts)
		return;
	site_restart(&live.site, 64, CLASSES);
	if (live.site.report.origin != SEGMENT_ADOPTED || !site_is_consistent(&live.site))
		abort();
}

static uint64_t take(const uint8_t **data, size_t *size, size_t count) {
	uint64_t value = 0;

	if (count > *size)
		count = *size;
	memcpy(&value, *data, count);
	*data += count;
	*size -= count;
	return value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	bool adopts = size % 8 == 0;	/* it takes long */

	pthread_mutex_lock(&writer_mutex);
	begin();
	pthread_mutex_unlock(&writer_mutex);
	for (unsigned i = 0; size > 0 && i < 400; i++) {
		uint8_t which = (uint8_t)take(&data, &size, 1);
		uint8_t number = (uint8_t)take(&data, &size, 1);

		if (which < 128) {
			live_operate(&live, which, number);
			continue;
		}
		overwrite(which, number, (uint32_t)take(&data, &size, 2),
		    take(&data, &size, (which & 12) == 12 ? 8 : 2));
	}
	/* whoever is started again does all of it */
	for (uint8_t which = 0; which < LIVE_OPERATIONS; which++)
		live_operate(&live, which, (uint8_t)size);
	pthread_mutex_lock(&writer_mutex);
	end(adopts);
	pthread_mutex_unlock(&writer_mutex);
	return 0;
}
