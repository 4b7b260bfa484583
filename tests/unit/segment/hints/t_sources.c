/* SPDX-License-Identifier: ISC */
/* States of sources in the segment. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/test.h"
#include "segment/hints/sources.h"
#include "tests/unit/own_site.h"

static struct source_held held;

static void store(uint64_t key, uint32_t sent, uint32_t reserved) {
	assert_true(source_lock(site.segment, key, clock_now_ns(), &held));
	held.state.warm = (struct warm){ .day_ns = 5, .sent = sent };
	held.state.reserved = reserved;
	source_put(&held);
	source_unlock(&held);
}

static uint32_t sent_of(uint64_t key) {
	struct source_state found;

	(void)source_look(site.segment, key, &found);
	return found.warm.sent;
}

TEST_IN(site_begin, site_end, each_source_and_provider_has_a_state) {
	uint64_t one = source_key("ip2", ""), other = source_key("ip2", "google");
	struct source_state found;

	assert_int_not_equal(one, other);
	assert_int_not_equal(source_key("ip", "2google"), other);
	assert_int_equal(source_look(site.segment, one, &found), 0);
	assert_int_equal(found.warm.sent, 0);
	store(one, 7, 0);
	store(other, 9, 0);
	store(one, 8, 0);
	assert_int_equal(sent_of(one), 8);
	assert_int_equal(sent_of(other), 9);
	assert_int_equal(source_look(site.segment, one, &found), 2);
}

TEST_IN(site_begin, site_end, it_outlives_the_daemon_and_another_size_of_the_state) {
	uint64_t key = source_key("ip2", "");

	store(key, 7, 3);
	site_restart(&site, 64, ONE_CLASS);
	assert_int_equal(sent_of(key), 7);
	site_restart(&site, 128, ONE_CLASS);
	assert_int_equal(sent_of(key), 7);
	store(key, 8, 3);
	assert_int_equal(sent_of(key), 8);
}

TEST_IN(site_begin, site_end, what_the_journal_has) {
	uint64_t key = source_key("ip2", "");
	struct source_state found;

	store(key, 7, 3);
	(void)source_look(site.segment, key, &found);
	assert_int_equal(source_kept(site.segment, key, &found), 0);
	source_note_kept(site.segment, key, &found);
	assert_int_equal(source_kept(site.segment, key, &found), 10);
	/* in the next day only what was taken ahead would count */
	found.warm.day_ns++;
	assert_int_equal(source_kept(site.segment, key, &found), 3);
}

/* Mail of a row without a place would be held for ever.  More than there are places for: those that
 * have none count nothing. */
TEST_IN(site_begin, site_end, each_row_of_all_sources_has_a_place) {
	char name[32];
	unsigned count = 0;

	for (unsigned i = 0; i < 2 * SEGMENT_SOURCES; i++) {
		snprintf(name, sizeof(name), "source %u", i);
		if (!source_lock(site.segment, source_key(name, ""), clock_now_ns(), &held))
			continue;
		source_put(&held);
		source_unlock(&held);
		count++;
	}
	assert_int_equal(count, SEGMENT_SOURCES);
	assert_false(source_lock(site.segment, source_key(name, "x"), clock_now_ns(), &held));
}

/* Whoever is killed at any instruction leaves the state before or the one after. */
TEST_IN(site_begin, site_end, whoever_is_killed_leaves_a_whole_state) {
	uint64_t key = source_key("ip2", "");

	for (unsigned round = 0; round < 40; round++) {
		struct source_state found;
		pid_t child = fork();

		if (child == 0)
			for (uint32_t i = 1;; i++)
				if (source_lock(site.segment, key, clock_now_ns(), &held)) {
					held.state = (struct source_state){ .warm = { .day_ns = i, .sent = i,
						.answered = i, .throttled = i }, .asked = i, .lines = i, .log = i,
						.offset = i };
					source_put(&held);
					source_unlock(&held);
				}
		for (unsigned looks = 0; looks < 2000; looks++) {
			if (source_look(site.segment, key, &found) == 0)
				continue;
			assert_true(found.warm.sent == found.offset && found.warm.answered == found.lines &&
			    found.warm.day_ns == (int64_t)found.log);
		}
		usleep(1000 + round * 37);
		assert_int_equal(kill(child, SIGKILL), 0);
		assert_int_equal(waitpid(child, NULL, 0), child);
		assert_true(source_lock(site.segment, key, clock_now_ns(), &held));
		assert_true(held.state.warm.sent == held.state.offset &&
		    held.state.warm.throttled == held.state.asked);
		source_unlock(&held);
	}
}
