/* SPDX-License-Identifier: ISC */
/* Delays of deliveries: the bucket of each, rows of providers over reloads, ages of what waits. */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/file/delays.h"
#include "segment/file/internal.h"

static struct segment_header header;
static struct segment segment = { .header = &header };
static struct {
	struct generation generation;
	struct generation_provider providers[70];
	char texts[64];
} block;

static void provider_is(uint32_t number, const char *name) {
	static uint32_t end;
	struct generation *g = &block.generation;

	if (number == 0)
		end = 1;
	g->bytes = sizeof(block);
	g->providers = offsetof(__typeof__(block), providers);
	g->provider_count = number + 1;
	memcpy(block.texts + end, name, strlen(name) + 1);
	block.providers[number].name = (uint32_t)offsetof(__typeof__(block), texts) + end;
	end += (uint32_t)strlen(name) + 1;
}

static struct delays row(uint32_t number, const char *provider) {
	struct delays out;

	(void)delays_read(&segment, number, provider, &out);
	return out;
}

TEST(buckets_end_at_their_bounds) {
	static const struct {
		int64_t ms;
		unsigned bucket;
	} cases[] = {
		{ 0, 0 }, { 1000, 0 }, { 1001, 1 }, { 5000, 1 }, { 5001, 2 }, { 15000, 2 },
		{ 15001, 3 }, { 60000, 3 }, { 60001, 4 }, { 300000, 4 }, { 300001, 5 },
		{ 900000, 5 }, { 900001, 6 }, { 3600000, 6 }, { 3600001, 7 }, { 14400000, 7 },
		{ 14400001, 8 }, { 43200000, 8 }, { 43200001, 9 }, { 86400000, 9 }, { 86400001, 10 },
		{ 259200000, 10 }, { 259200001, 11 }, { 604800000, 11 }, { 604800001, 12 },
		{ INT64_MAX, 12 },
	};

	provider_is(0, "a");
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct delays delays;

		memset(&header, 0, sizeof(header));
		delays_take_up(&segment, &block.generation);
		delay_note(&segment, 1, cases[i].ms);
		delays = row(1, "a");
		assert_int_equal(delays.buckets[cases[i].bucket], 1);
		assert_int_equal(delays.count, 1);
		assert_int_equal(delays.sum_ms, cases[i].ms);
	}
}

TEST(a_reload_does_not_mix_providers) {
	struct delays out;

	memset(&header, 0, sizeof(header));
	provider_is(0, "a");
	provider_is(1, "b");
	delays_take_up(&segment, &block.generation);
	delay_note(&segment, 0, 1);
	delay_note(&segment, 1, 1);
	delay_note(&segment, 2, 1);
	/* the same again, and with another at the place of the second */
	delays_take_up(&segment, &block.generation);
	assert_int_equal(row(2, "b").count, 1);
	provider_is(0, "a");
	provider_is(1, "c");
	assert_false(delays_read(&segment, 2, "c", &out));
	assert_int_equal(out.count, 0);
	delays_take_up(&segment, &block.generation);
	assert_int_equal(row(0, DELAY_OTHER).count, 1);
	assert_int_equal(row(1, "a").count, 1);
	assert_true(delays_read(&segment, 2, "c", &out));
	assert_int_equal(out.count + out.sum_ms, 0);
}

TEST(some_have_no_row_of_their_own) {
	provider_is(0, "a");
	provider_is(1, "other");
	assert_int_equal(delay_row(&block.generation, 0), 1);
	assert_int_equal(delay_row(&block.generation, 1), 0);
	assert_int_equal(delay_row(&block.generation, 2), 0);
	assert_int_equal(delay_row(&block.generation, GENERATION_NO_PROVIDER), 0);
	block.generation.provider_count = 70;
	for (unsigned i = 2; i < 70; i++)
		block.providers[i].name = block.providers[0].name;
	assert_int_equal(delay_row(&block.generation, 62), 63);
	assert_int_equal(delay_row(&block.generation, 63), 0);
	delays_take_up(&segment, &block.generation);
}

TEST(what_waits_has_an_age) {
	int64_t now_ns = 100 * NS_PER_SECOND;

	memset(&header, 0, sizeof(header));
	assert_int_equal(waiting_age_ns(&segment, WAITING_PACE, now_ns), 0);
	waiting_note(&segment, WAITING_PACE, 40 * NS_PER_SECOND);
	assert_int_equal(waiting_age_ns(&segment, WAITING_PACE, now_ns), 60 * NS_PER_SECOND);
	assert_int_equal(waiting_age_ns(&segment, WAITING_WINDOW, now_ns), 0);
	/* before the boot, to come, and nonsense */
	waiting_note(&segment, WAITING_PACE, -100 * NS_PER_SECOND);
	assert_int_equal(waiting_age_ns(&segment, WAITING_PACE, now_ns), 200 * NS_PER_SECOND);
	waiting_note(&segment, WAITING_PACE, 101 * NS_PER_SECOND);
	assert_int_equal(waiting_age_ns(&segment, WAITING_PACE, now_ns), 0);
	waiting_note(&segment, WAITING_PACE, INT64_MIN);
	assert_int_equal(waiting_age_ns(&segment, WAITING_PACE, now_ns), 0);
}
