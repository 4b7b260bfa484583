/* SPDX-License-Identifier: ISC */
/* When the segment is built again, by the deaths of roles. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "role/supervise/damage.h"

#define DEATHS 6

static int64_t now_ns;

/* Six deaths, the first now, of the two places in turn, 1 s apart. */
static void six_die(struct damage *damage, unsigned one, unsigned other) {
	for (unsigned i = 0; i < DEATHS; i++) {
		assert_true(i == 0 || !damage_is_found(damage, now_ns));
		damage_note(damage, i % 2 == 0 ? one : other, now_ns);
		now_ns += NS_PER_SECOND;
	}
}

TEST(six_deaths_within_20_s_are_damage) {
	struct damage damage = { 0 };

	now_ns = 1000 * NS_PER_SECOND;
	six_die(&damage, 1, 2);
	assert_true(damage_is_found(&damage, now_ns));
	assert_int_equal(damage.since_ns, 1000 * NS_PER_SECOND);
}

TEST(deaths_far_apart_are_none) {
	struct damage damage = { 0 };

	for (unsigned i = 0; i < 100; i++) {
		now_ns = i * 5 * NS_PER_SECOND;
		damage_note(&damage, 1, now_ns);
		assert_false(damage_is_found(&damage, now_ns));
	}
}

TEST(of_several_roles_it_is_found_each_20_s) {
	struct damage damage = { 0 };

	now_ns = 0;
	for (unsigned i = 0; i < 10; i++) {
		six_die(&damage, 1, 2);
		assert_true(damage_is_found(&damage, now_ns));
		damage_mended(&damage, now_ns);
		six_die(&damage, 1, 2);
		assert_false(damage_is_found(&damage, now_ns));		/* 6 s later */
		now_ns += 14 * NS_PER_SECOND;
		assert_true(damage_is_found(&damage, now_ns));
		damage_mended(&damage, now_ns);
		now_ns += 21 * NS_PER_SECOND;
	}
}

/* A text from outside that ends the feed ended all others every 20 s, for ever. */
TEST(one_role_that_dies_alone_ends_the_others_less_and_less) {
	static const int64_t apart_s[] = { 20, 40, 80, 160, 320, 640, 1280, 2560, 2560, 2560 };
	struct damage damage = { 0 };

	now_ns = 0;
	six_die(&damage, 3, 3);
	assert_true(damage_is_found(&damage, now_ns));
	for (unsigned i = 0; i < sizeof(apart_s) / sizeof(apart_s[0]); i++) {
		damage_mended(&damage, now_ns);
		now_ns += (apart_s[i] - DEATHS) * NS_PER_SECOND;
		six_die(&damage, 3, 3);
		assert_true(damage_is_found(&damage, now_ns));
		assert_false(damage_is_found(&damage, now_ns - 1));
	}
	/* another one dies, too: it is the segment */
	damage_mended(&damage, now_ns);
	now_ns += 20 * NS_PER_SECOND;
	six_die(&damage, 3, 4);
	assert_true(damage_is_found(&damage, now_ns));
}

TEST(after_long_quiet_it_begins_at_20_s) {
	struct damage damage = { 0 };

	now_ns = 0;
	for (unsigned i = 0; i < 3; i++) {
		six_die(&damage, 3, 3);
		damage_mended(&damage, now_ns);
	}
	assert_int_equal(damage.for_one_apart_ns, 80 * NS_PER_SECOND);
	now_ns += 161 * NS_PER_SECOND;
	six_die(&damage, 3, 3);
	damage_mended(&damage, now_ns);
	assert_int_equal(damage.for_one_apart_ns, 20 * NS_PER_SECOND);
}

TEST(a_rebuild_that_fails_is_tried_again_after_5_s) {
	struct damage damage = { 0 };

	now_ns = 0;
	six_die(&damage, 1, 2);
	damage_put_off(&damage, now_ns);
	assert_false(damage_is_found(&damage, now_ns + 5 * NS_PER_SECOND - 1));
	assert_true(damage_is_found(&damage, now_ns + 5 * NS_PER_SECOND));
}
