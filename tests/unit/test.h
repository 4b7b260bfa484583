/* SPDX-License-Identifier: ISC */
/*
 * A unit program: its tests register themselves, in the order in which they stand.  Included
 * by the one file that has them.
 *
 *	TEST(name) { ... }			a test
 *	TEST_IN(set_up, tear_down, name) { ... }	one with a fixture; *state is set_up's;
 *						NULL: none
 *	TEST_GROUP(set_up, tear_down)		a fixture for all of them
 *
 * A program with a main of its own defines TEST_OWN_MAIN first, and calls test_run().  With an
 * argument, only tests whose names match that pattern (* and ?) run.
 */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include "tests/unit/check.h"

#define TEST_MAX 128

static struct CMUnitTest test_registered[TEST_MAX];
static size_t test_count;
static CMFixtureFunction test_group_set_up, test_group_tear_down;

static inline void test_register(const char *name, CMUnitTestFunction run,
    CMFixtureFunction set_up, CMFixtureFunction tear_down) {
	if (test_count == TEST_MAX)
		__builtin_trap();
	test_registered[test_count++] = (struct CMUnitTest){ name, run, set_up, tear_down, NULL };
}

#define TEST_IN(set_up, tear_down, name) \
	static void name(void **state); \
	__attribute__((constructor)) static void name##_register(void) { \
		test_register(#name, name, set_up, tear_down); \
	} \
	static void name(void **state)
#define TEST(name) TEST_IN(NULL, NULL, name)
#define TEST_GROUP(set_up, tear_down) \
	__attribute__((constructor)) static void test_group(void) { \
		test_group_set_up = (set_up); \
		test_group_tear_down = (tear_down); \
	}

/* How many failed. */
static inline int test_run(void) {
	return _cmocka_run_group_tests("tests", test_registered, test_count, test_group_set_up,
	    test_group_tear_down);
}

#ifndef TEST_OWN_MAIN
int main(int argc, char **argv) {
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return test_run();
}
#endif

#endif
