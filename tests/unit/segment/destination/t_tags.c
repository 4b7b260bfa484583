/* SPDX-License-Identifier: ISC */
/* Buckets of what was learned: which places fit, where a key may lie, and how full a table
 * becomes before it forgets anything. */
#define TEST_OWN_MAIN
#include "tests/unit/test.h"

#include "base/clock.h"
#include "tests/unit/random.h"
#include "segment/destination/destinations.h"
#include "segment/file/internal.h"
#include "segment/destination/tags.h"
#include "tests/unit/own_site.h"

static struct random rnd;

static uint32_t fitting_one_by_one(const struct tag_line *line, uint16_t tag) {
	uint32_t bits = 0;

	for (unsigned i = 0; i < TAG_PLACES; i++) {
		if (line->tag[i] == tag)
			bits |= UINT32_C(1) << i;
	}
	return bits;
}

TEST(all_places_that_fit_are_found_at_once) {
	for (unsigned i = 0; i < 20000; i++) {
		_Alignas(64) struct tag_line line;
		uint16_t tag = (uint16_t)random_below(&rnd, 3);

		for (unsigned k = 0; k < TAG_PLACES; k++)
			line.tag[k] = (uint16_t)(random_below(&rnd, 2) == 0 ? tag :
			    random_below(&rnd, 65536));
		assert_int_equal(tags_fitting(&line, tag), fitting_one_by_one(&line, tag));
	}
}

TEST(no_hash_has_the_tag_of_a_free_place) {
	assert_int_equal(tags_of_hash(UINT64_C(0x1234567890abcdef)), 0x1234);
	assert_int_equal(tags_of_hash(UINT64_C(0x0000ffffffffffff)), 1);
}

TEST(a_key_lies_within_its_table) {
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t hash = random_next(&rnd);
		uint32_t buckets = 1 + random_below(&rnd, 1000);
		uint32_t places = 1 + random_below(&rnd, TAG_PLACES);

		assert_true(tags_bucket(hash, 0, buckets) < buckets);
		assert_true(tags_bucket(hash, 1, buckets) < buckets);
		assert_true(tags_home(hash, places) < places);
	}
	assert_int_equal(tags_home(UINT64_MAX, TAG_PLACES), TAG_PLACES - 1);
	assert_int_equal(tags_bucket(UINT64_MAX, 0, 7), 6);
}

#define KNOWN	20000

/* Two buckets a key and one slot of 21 for room: in a model of it 2 of 10,000 keys find both
 * full; one bucket a key would lose 6 of 100. */
TEST(a_table_holds_nearly_as_many_as_it_is_configured_for) {
	struct destination_seen found;
	unsigned known = 0;

	site_open_sized(&site, 64, KNOWN, "classes = ( { name = \"all\"; match = [ \"*\" ]; "
	    "hold_at = 10; } );");
	for (unsigned pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < KNOWN; i++) {
			char name[32];
			struct delivery_seen seen = { .name = name, .name_length =
				(size_t)snprintf(name, sizeof(name), "d%u.example", i) };

			if (pass == 0)
				assert_true(destinations_note(site.segment, &seen,
				    clock_now_ns()));
			else
				known += destinations_find(site.segment, name,
				    seen.name_length, &found);
		}
	}
	assert_true(known >= KNOWN - KNOWN / 500);
	assert_int_equal(known, KNOWN - atomic_load(
	    &site.segment->counters[COUNTER_DESTINATIONS_EVICTED]));
	site_close(&site);
}

int main(void) {
	rnd = random_seeded("tags");
	return test_run();
}
