/* SPDX-License-Identifier: ISC */
/* What the service manager asks for. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "base/sd_notify.h"

static int64_t wanted(const char *usec, const char *pid) {
	assert_int_equal(usec ? setenv("WATCHDOG_USEC", usec, 1) : unsetenv("WATCHDOG_USEC"), 0);
	assert_int_equal(pid ? setenv("WATCHDOG_PID", pid, 1) : unsetenv("WATCHDOG_PID"), 0);
	return sd_notify_watchdog_ns();
}

TEST(a_sign_of_life_comes_twice_as_often_as_it_must) {
	char own[32];

	snprintf(own, sizeof(own), "%ld", (long)getpid());
	assert_true(wanted("3000000", NULL) == 1500 * NS_PER_MS);
	assert_true(wanted("3000000", own) == 1500 * NS_PER_MS);
}

TEST(a_watchdog_of_hours_is_heeded) {
	assert_true(wanted("7200000000", NULL) == 3600 * NS_PER_SECOND);
}

TEST(nobody_watches) {
	assert_true(wanted(NULL, NULL) == 0);
	assert_true(wanted("3000000", "1") == 0);
	assert_true(wanted("", NULL) == 0);
	assert_true(wanted("soon", NULL) == 0);
	assert_true(wanted("18446744073709551615", NULL) == 0);
}
