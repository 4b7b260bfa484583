/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Delays of deliveries by provider, and the age of what waits.
 * MODEL    A row for each provider by its number, beside a hash of its name: after a reload the
 *          number may be another's.
 * ERRORS   None.  Who reads while a row begins anew may see some of the one before.
 * THREADS  One writer; any readers.
 */
#include "segment/file/delays.h"

#include <string.h>

#include "base/relaxed.h"
#include "base/text.h"
#include "segment/file/internal.h"

#define MINUTE	60
#define HOUR	(60 * MINUTE)
#define DAY	(24 * HOUR)

const int64_t delay_bounds_s[DELAY_BUCKETS - 1] = {
	1, 5, 15, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 4 * HOUR, 12 * HOUR, DAY, 3 * DAY, 7 * DAY,
};

static uint64_t key_of(const char *provider) {
	return text_hash(0, provider, strlen(provider)) | 1;
}

uint32_t delay_row(const struct generation *generation, uint32_t provider) {
	if (provider >= generation->provider_count || provider >= SEGMENT_DELAYS - 1 ||
	    strcmp(generation_text(generation, generation_provider(generation, provider)->name),
	    DELAY_OTHER) == 0)
		return 0;
	return provider + 1;
}

static void begin_row(struct segment *segment, uint32_t row, const char *provider) {
	struct delay_record *record = &segment->header->delays[row];
	uint64_t key = key_of(provider);

	if (RELAXED(record->key) == key)
		return;
	STORE(record->key, 0);
	for (unsigned i = 0; i < DELAY_BUCKETS; i++)
		STORE(record->buckets[i], 0);
	STORE(record->sum_ms, 0);
	atomic_store_explicit(&record->key, key, memory_order_release);
}

void delays_take_up(struct segment *segment, const struct generation *generation) {
	begin_row(segment, 0, DELAY_OTHER);
	for (uint32_t i = 0; i < generation->provider_count && i < SEGMENT_DELAYS - 1; i++)
		begin_row(segment, i + 1,
		    generation_text(generation, generation_provider(generation, i)->name));
}

void delay_note(struct segment *segment, uint32_t row, int64_t ms) {
	struct delay_record *record = &segment->header->delays[row];
	unsigned bucket = 0;

	while (bucket < DELAY_BUCKETS - 1 && ms > delay_bounds_s[bucket] * 1000)
		bucket++;
	atomic_fetch_add_explicit(&record->buckets[bucket], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&record->sum_ms, (uint64_t)ms, memory_order_relaxed);
}

bool delays_read(const struct segment *segment, uint32_t row, const char *provider,
    struct delays *out) {
	const struct delay_record *record = &segment->header->delays[row];

	memset(out, 0, sizeof(*out));
	if (atomic_load_explicit(&record->key, memory_order_acquire) != key_of(provider))
		return false;
	for (unsigned i = 0; i < DELAY_BUCKETS; i++)
		out->count += out->buckets[i] = RELAXED(record->buckets[i]);
	out->sum_ms = RELAXED(record->sum_ms);
	return true;
}

const char *waiting_word(enum waiting_kind kind) {
	static const char *const words[WAITING_KINDS] = {
		[WAITING_PACE] = "pace", [WAITING_WARM] = "warm-up", [WAITING_WINDOW] = "window",
	};

	return words[kind];
}

void waiting_note(struct segment *segment, enum waiting_kind kind, int64_t arrival_ns) {
	STORE(segment->header->waiting_ns[kind], arrival_ns);
}

int64_t waiting_age_ns(const struct segment *segment, enum waiting_kind kind, int64_t now_ns) {
	int64_t arrival_ns = RELAXED(segment->header->waiting_ns[kind]);

	if (arrival_ns == 0 || arrival_ns >= now_ns)
		return 0;
	return arrival_ns < INT64_MIN / 4 ? 0 : now_ns - arrival_ns;
}
