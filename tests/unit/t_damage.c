/* SPDX-License-Identifier: ISC */
/* When the segment is built again, by the deaths of roles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "role/damage.h"

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

static void six_deaths_within_20_s_are_damage(void **state) {
	struct damage damage = { 0 };

	(void)state;
	now_ns = 1000 * NS_PER_SECOND;
	six_die(&damage, 1, 2);
	assert_true(damage_is_found(&damage, now_ns));
	assert_int_equal(damage.since_ns, 1000 * NS_PER_SECOND);
}

static void deaths_far_apart_are_none(void **state) {
	struct damage damage = { 0 };

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		now_ns = i * 5 * NS_PER_SECOND;
		damage_note(&damage, 1, now_ns);
		assert_false(damage_is_found(&damage, now_ns));
	}
}

static void of_several_roles_it_is_found_each_20_s(void **state) {
	struct damage damage = { 0 };

	(void)state;
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
static void one_role_that_dies_alone_ends_the_others_less_and_less(void **state) {
	static const int64_t apart_s[] = { 20, 40, 80, 160, 320, 640, 1280, 2560, 2560, 2560 };
	struct damage damage = { 0 };

	(void)state;
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

static void after_long_quiet_it_begins_at_20_s(void **state) {
	struct damage damage = { 0 };

	(void)state;
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

static void a_rebuild_that_fails_is_tried_again_after_5_s(void **state) {
	struct damage damage = { 0 };

	(void)state;
	now_ns = 0;
	six_die(&damage, 1, 2);
	damage_put_off(&damage, now_ns);
	assert_false(damage_is_found(&damage, now_ns + 5 * NS_PER_SECOND - 1));
	assert_true(damage_is_found(&damage, now_ns + 5 * NS_PER_SECOND));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(six_deaths_within_20_s_are_damage),
		cmocka_unit_test(deaths_far_apart_are_none),
		cmocka_unit_test(of_several_roles_it_is_found_each_20_s),
		cmocka_unit_test(one_role_that_dies_alone_ends_the_others_less_and_less),
		cmocka_unit_test(after_long_quiet_it_begins_at_20_s),
		cmocka_unit_test(a_rebuild_that_fails_is_tried_again_after_5_s),
	};

	return cmocka_run_group_tests_name("damage", tests, NULL, NULL);
}
