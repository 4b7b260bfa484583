/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "segment/file/internal.h"
#include "segment/hints/lane_uses.h"
#include "tests/unit/own_site.h"

static const struct lane_use some = { .ended_ns = INT64_C(123456789012345), .waited_ms = 7,
	.took_ms = LANE_USE_MS_MOST, .width = 10000, .mta = 7, .tried = true, .failed = true };

static void note(uint64_t domain) {
	struct lane_use use = some;

	use.domain = domain;
	lane_uses_note(site.segment, &use);
}

TEST_IN(site_begin, site_end, what_was_noted_is_read_in_order) {
	struct lane_uses_cursor cursor = { .begun = false };
	struct lane_use use;
	bool lost = false;

	assert_false(lane_uses_next(site.segment, &cursor, &use, &lost));
	for (uint64_t i = 1; i <= 3; i++)
		note(i);
	for (uint64_t i = 1; i <= 3; i++) {
		assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
		assert_int_equal(use.domain, i);
		assert_int_equal(use.ended_ns, some.ended_ns);
		assert_int_equal(use.waited_ms, 7);
		assert_int_equal(use.took_ms, LANE_USE_MS_MOST);
		assert_int_equal(use.width, 10000);
		assert_int_equal(use.mta, 7);
		assert_true(use.tried);
		assert_true(use.failed);
	}
	assert_false(lane_uses_next(site.segment, &cursor, &use, &lost));
	assert_false(lost);
	/* longer times are cut, and spoil nothing */
	lane_uses_note(site.segment, &(struct lane_use){ .waited_ms = UINT32_MAX,
		.took_ms = UINT32_MAX });
	assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
	assert_int_equal(use.waited_ms, LANE_USE_MS_MOST);
	assert_int_equal(use.took_ms, LANE_USE_MS_MOST);
	assert_int_equal(use.width, 0);
	assert_int_equal(use.mta, 0);
	assert_false(use.tried);
	assert_false(use.failed);
}

TEST_IN(site_begin, site_end, who_is_late_is_told) {
	struct lane_uses_cursor cursor = { .begun = false };
	struct lane_use use;
	bool lost = false;

	note(1);
	assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
	for (uint64_t i = 0; i < SEGMENT_LANE_USES + 5; i++)
		note(i);
	assert_false(lost);
	for (uint64_t i = 5; i < SEGMENT_LANE_USES + 5; i++) {
		assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
		assert_true(lost);
		assert_int_equal(use.domain, i);
	}
	assert_false(lane_uses_next(site.segment, &cursor, &use, &lost));
	/* who begins, begins with what is there, and lost nothing */
	lost = false;
	cursor = (struct lane_uses_cursor){ .begun = false };
	assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
	assert_int_equal(use.domain, 5);
	assert_false(lost);
}

TEST_IN(site_begin, site_end, what_is_half_written_is_lost) {
	struct lane_uses_cursor cursor = { .begun = false };
	struct segment_header *header = site.segment->header;
	struct lane_use_slot *slots = (void *)((char *)header + header->lane_uses_offset);
	struct lane_use use;
	bool lost = false;

	note(1);
	note(2);
	note(3);
	atomic_store(&slots[1].number, 0);
	assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
	assert_false(lost);
	assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
	assert_true(lost);
	assert_int_equal(use.domain, 3);
	/* a number that went back */
	atomic_store(&header->lane_uses_next, 1);
	lost = false;
	assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
	assert_int_equal(use.domain, 1);
}

TEST_IN(site_begin, site_end, a_time_before_the_boot_is_none) {
	struct lane_uses_cursor cursor = { .begun = false };
	struct lane_use use = some;
	bool lost = false;

	use.ended_ns = INT64_MIN;
	lane_uses_note(site.segment, &use);
	assert_true(lane_uses_next(site.segment, &cursor, &use, &lost));
	assert_int_equal(use.ended_ns, 0);
}

TEST_IN(site_begin, site_end, names_are_told_apart) {
	assert_true(lane_uses_hash(site.segment, "A.Example.", 10) ==
	    lane_uses_hash(site.segment, "a.example", 9));
	assert_true(lane_uses_hash(site.segment, "b.example", 9) !=
	    lane_uses_hash(site.segment, "a.example", 9));
	assert_true(lane_uses_hash(site.segment, "", 0) == 0);
}
