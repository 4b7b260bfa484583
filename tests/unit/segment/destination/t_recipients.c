/* SPDX-License-Identifier: ISC */
/* Recipients that are held. */
#include "tests/unit/test.h"

#include "tests/unit/segment/destination/states_site.h"

#define SECONDS	NS_PER_SECOND

static bool hold(const char *address, int64_t until_ns,
    const char *reason) {
	const struct recipient_hold it = { .address = address,
		.length = strlen(address), .rule = 9,
		.until_ns = until_ns, .reason = reason };

	return recipients_hold(site.segment, &it, clock_now_ns());
}

static bool held(const char *address, int64_t at_ns,
    struct recipient_held *out) {
	return recipients_find(site.segment, address, strlen(address), at_ns,
	    out);
}

static bool release(const char *address) {
	return recipients_release(site.segment, address, strlen(address),
	    clock_now_ns());
}

TEST_IN(site_begin, site_end, an_address_is_held_until_its_time) {
	int64_t now_ns = clock_now_ns();
	struct recipient_held out;

	assert_false(held("joe@example.com", now_ns, &out));
	assert_true(hold("Joe@Example.COM", now_ns + 10 * SECONDS, "full"));
	assert_true(held("jOE@example.com.", now_ns, &out));
	assert_string_equal(out.address, "joe@example.com");
	assert_string_equal(out.reason, "full");
	assert_int_equal(out.rule, 9);
	assert_true(out.until_ns == now_ns + 10 * SECONDS);
	assert_true(out.since_ns <= clock_now_ns());
	assert_false(held("jo@example.com", now_ns, &out));
	assert_true(held("joe@example.com", now_ns + 10 * SECONDS - 1, &out));
	assert_false(held("joe@example.com", now_ns + 10 * SECONDS, &out));
	assert_true(release("JOE@example.com"));
	assert_false(release("JOE@example.com"));
	assert_false(held("joe@example.com", now_ns, &out));
}

TEST_IN(site_begin, site_end, one_may_be_held_until_it_is_released) {
	struct recipient_held out;

	assert_true(hold("a@b", INT64_MAX, NULL));
	assert_true(held("a@b", clock_now_ns(), &out));
	assert_true(out.until_ns == INT64_MAX);
	assert_string_equal(out.reason, "");
	assert_true(release("a@b"));
	assert_false(held("a@b", clock_now_ns(), &out));
}

TEST_IN(site_begin, site_end, a_hold_is_changed_in_place) {
	int64_t now_ns = clock_now_ns();
	struct recipient_held out;

	assert_true(hold("a@b", now_ns + 10 * SECONDS, "one"));
	assert_true(hold("a@b", now_ns + 5 * SECONDS, "one"));
	assert_true(held("a@b", now_ns, &out));
	assert_true(out.until_ns == now_ns + 5 * SECONDS);
	assert_true(hold("a@b", now_ns + 5 * SECONDS, "two"));
	assert_true(held("a@b", now_ns, &out));
	assert_string_equal(out.reason, "two");
	assert_int_equal(recipients_used(site.segment), 1);
}

TEST_IN(site_begin, site_end, what_is_no_address_is_not_held) {
	char address[RECIPIENT_MAX + 2], reason[SEGMENT_REASON_MAX + 10];
	struct recipient_held out;

	assert_false(hold("", INT64_MAX, NULL));
	assert_false(hold("a b@c", INT64_MAX, NULL));
	assert_false(hold("a\n@c", INT64_MAX, NULL));
	memset(address, 'x', sizeof(address));
	address[RECIPIENT_MAX + 1] = '\0';
	assert_false(hold(address, INT64_MAX, NULL));
	assert_int_equal(counted(COUNTER_RECIPIENTS_UNUSABLE), 4);
	address[RECIPIENT_MAX] = '\0';
	memset(reason, 'r', sizeof(reason));
	reason[sizeof(reason) - 1] = '\0';
	assert_true(hold(address, INT64_MAX, reason));
	assert_true(held(address, clock_now_ns(), &out));
	assert_string_equal(out.address, address);
	assert_int_equal(strlen(out.reason), SEGMENT_REASON_MAX);
}

TEST_IN(site_begin, site_end, a_full_table_gives_up_who_ends_first) {
	int64_t now_ns = clock_now_ns();
	struct recipient_held out;
	char address[32];
	unsigned known = 0;

	/* 64 of them, in 8 shards */
	for (unsigned i = 0; i < 300; i++) {
		snprintf(address, sizeof(address), "r%u@example.com", i);
		assert_true(hold(address, now_ns + (i + 100) * SECONDS, NULL));
		assert_true(held(address, now_ns, &out));
	}
	assert_true(counted(COUNTER_RECIPIENTS_EVICTED) >= 300 - 64);
	for (unsigned i = 0; i < 300; i++) {
		snprintf(address, sizeof(address), "r%u@example.com", i);
		known += held(address, now_ns, &out);
		/* far from the last ones of any shard */
		assert_true(i > 150 || !held(address, now_ns, &out));
	}
	assert_int_equal(known, 300 - counted(COUNTER_RECIPIENTS_EVICTED));
}

TEST_IN(site_begin, site_end, what_is_held_by_hand_is_given_up_last) {
	int64_t now_ns = clock_now_ns();
	const struct recipient_hold hand = { .address = "hand@example.com", .length = 16,
		.rule = RECIPIENT_NO_RULE,
		.until_ns = now_ns + SECONDS };
	struct recipient_held out;
	char address[32];

	assert_true(recipients_hold(site.segment, &hand, now_ns));
	for (unsigned i = 0; i < 300; i++) {
		snprintf(address, sizeof(address), "r%u@example.com", i);
		assert_true(hold(address, now_ns + 3600 * SECONDS, NULL));
	}
	assert_true(held("hand@example.com", now_ns, &out));
}

static void count_one(void *context, const struct recipient_held *one) {
	++*(unsigned *)context;
}

TEST_IN(site_begin, site_end, ends_are_told) {
	uint64_t version = recipients_version(site.segment);
	int64_t now_ns = clock_now_ns();
	unsigned listed = 0;

#define RISES(by, what) do { \
	assert_true(what); \
	assert_int_equal(recipients_version(site.segment), version + (by)); \
	version = recipients_version(site.segment); \
} while (0)
	RISES(1, hold("a@b", now_ns + 10 * SECONDS, NULL));
	RISES(1, hold("c@d", now_ns + 20 * SECONDS, NULL));
	RISES(1, hold("e@f", INT64_MAX, NULL));
	recipients_each(site.segment, now_ns, count_one, &listed);
	assert_int_equal(listed, 3);
	listed = 0;
	recipients_each(site.segment, now_ns + 15 * SECONDS, count_one, &listed);
	assert_int_equal(listed, 2);
	RISES(0, recipients_expire(site.segment, now_ns) == 0);
	RISES(1, recipients_expire(site.segment, now_ns + 10 * SECONDS) == 1);
	RISES(1, recipients_expire(site.segment, now_ns + 1000 * SECONDS) == 1);
	RISES(0, recipients_expire(site.segment, now_ns + 1000 * SECONDS) == 0);
	RISES(0, !release("a@b"));
	RISES(1, release("e@f"));
#undef RISES
}

TEST_IN(site_begin, site_end, a_scribbled_recipient_is_not_adopted) {
	static const struct {
		size_t at;
		uint8_t byte;
	} rows[] = {
		{ 0, 2 }, { offsetof(struct recipient, address), 'A' },
		{ offsetof(struct recipient, address) + 1, '\n' },
		{ offsetof(struct recipient, address) + 2, '\0' },
		{ offsetof(struct recipient, rule) + 2, 1 },
		{ offsetof(struct recipient, until_ns) + 7, 0x80 },
		{ offsetof(struct recipient, reason) + 1, '\n' },
	};
	struct recipient_held out;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct segment_header *header = site.segment->header;
		struct recipient *slots = (void *)((char *)site.segment->header +
		    header->recipients.slots_offset);
		uint32_t all = header->recipients.shards *
		    header->recipients.per_shard;

		assert_true(hold("abc@def", INT64_MAX, "why"));
		for (uint32_t k = 0; k < all; k++) {
			if (slots[k].control.used)
				((uint8_t *)&slots[k])[rows[i].at] = rows[i].byte;
		}
		site_restart(&site, 64, CLASSES);
		assert_int_equal(site.report.origin, SEGMENT_ADOPTED);
		assert_false(held("abc@def", clock_now_ns(), &out));
		assert_int_equal(recipients_used(site.segment), 0);
	}
}
