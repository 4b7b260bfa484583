/* SPDX-License-Identifier: ISC */
/* Lines about deliveries on their way from the feed role to the queue role, and the table of
 * who is known as delivered. */
#include "tests/unit/test.h"
#include "segment/file/internal.h"
#include "segment/queue/told.h"
#include "tests/unit/own_site.h"

static struct told_line line;

static bool put(uint32_t number, size_t length) {
	struct told_line new = { .pid = number, .written_s = number + INT64_C(5000000000),
		.delay_s = -7, .log = UINT64_C(1) << 60, .offset = number, .what = TOLD_SENT,
		.goes_on = number % 2 == 1, .list_length = (uint16_t)length };

	new.id_length = (uint16_t)snprintf(new.id, sizeof(new.id), "6AR%u", number);
	memset(new.list, 'a' + (int)(number % 26), length);
	return told_put(site.segment, &new);
}

static void takes(uint32_t number, size_t length) {
	char id[32];

	assert_true(told_take(site.segment, &line));
	(void)snprintf(id, sizeof(id), "6AR%u", number);
	assert_string_equal(line.id, id);
	assert_int_equal(line.pid, number);
	assert_true(line.written_s == number + INT64_C(5000000000) && line.delay_s == -7 &&
	    line.log == UINT64_C(1) << 60 && line.offset == number);
	assert_int_equal(line.what, TOLD_SENT);
	assert_int_equal(line.goes_on, number % 2 == 1);
	assert_int_equal(line.list_length, length);
	for (size_t i = 0; i < length; i++)
		assert_int_equal(line.list[i], 'a' + (int)(number % 26));
}

TEST(what_is_told_is_taken_in_its_order) {
	uint32_t in = 0, out = 0;

	assert_true(told_is_empty(site.segment));
	/* several times around */
	for (unsigned round = 0; round < 3000; round++) {
		for (unsigned i = 0; i < 1 + round % 7; i++, in++)
			assert_true(put(in, in * 37 % TOLD_LIST_MAX));
		for (unsigned i = 0; i < 1 + round % 7; i++, out++)
			takes(out, out * 37 % TOLD_LIST_MAX);
		assert_true(told_is_empty(site.segment));
	}
	assert_false(told_take(site.segment, &line));
}

/* Nobody waits: what there is no room for is left out, and what is there stays as it is. */
TEST(a_full_ring_takes_no_more) {
	uint32_t count = 0;

	while (put(count, 1000))
		count++;
	assert_in_range(count, TOLD_RING_BYTES / 1100, TOLD_RING_BYTES / 1000);
	takes(0, 1000);
	assert_true(put(count, 1000));
	assert_false(put(0, 1000));
	for (uint32_t i = 1; i <= count; i++)
		takes(i, 1000);
	assert_true(told_is_empty(site.segment));
}

/* Either role may write what it likes. */
TEST(a_ring_that_makes_no_sense_is_emptied) {
	struct told_table *table = (void *)((char *)site.segment->header +
	    site.segment->header->told_offset);

	srand(1);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned taken = 0;

		(void)put(i, i % 100);
		atomic_store(&table->ring[(unsigned)rand() % (TOLD_RING_BYTES / 8)],
		    (uint64_t)rand() << 33 ^ (uint64_t)rand());
		if (i % 3 == 0)
			atomic_fetch_add(&table->head, (uint64_t)rand() % 5);
		if (i % 7 == 0)
			atomic_store(&table->head, (uint64_t)rand() << 32);
		while (told_take(site.segment, &line)) {
			assert_in_range(line.list_length, 0, TOLD_LIST_MAX);
			assert_in_range(line.id_length, 0, TOLD_ID_MAX);
			assert_int_equal(line.list[line.list_length], 0);
			assert_in_range(++taken, 1, TOLD_RING_BYTES / 8);
		}
		assert_true(told_is_empty(site.segment));
	}
}

static uint64_t key(const char *id, uint32_t made_s, const char *recipient) {
	return told_key(site.segment, id, strlen(id), made_s, recipient, strlen(recipient));
}

TEST(who_is_known_is_of_one_message_and_one_creation) {
	told_begin(site.segment);
	told_publish(site.segment, key("6AR1", 100, "a@b.example"));
	assert_true(told_is_delivered(site.segment, key("6AR1", 100, "a@b.example")));
	assert_false(told_is_delivered(site.segment, key("6AR2", 100, "a@b.example")));
	assert_false(told_is_delivered(site.segment, key("6AR1", 101, "a@b.example")));
	assert_false(told_is_delivered(site.segment, key("6AR1", 100, "A@b.example")));
	assert_false(told_is_delivered(site.segment, key("6AR1", 100, "a@b.exampl")));
	told_withdraw(site.segment, key("6AR1", 100, "a@b.example"));
	assert_false(told_is_delivered(site.segment, key("6AR1", 100, "a@b.example")));
	told_publish(site.segment, key("6AR1", 100, "a@b.example"));
	told_begin(site.segment);
	assert_false(told_is_delivered(site.segment, key("6AR1", 100, "a@b.example")));
}

/* Of a full set one is given up: he gets his mail once more at worst. */
TEST(a_table_with_more_than_it_holds_forgets) {
	unsigned known = 0, most = 4 * TOLD_SETS * TOLD_PLACES;
	char who[32];

	told_begin(site.segment);
	for (unsigned i = 0; i < most; i++) {
		(void)snprintf(who, sizeof(who), "u%u@b.example", i);
		told_publish(site.segment, key("6AR1", 1, who));
		assert_true(told_is_delivered(site.segment, key("6AR1", 1, who)));
	}
	for (unsigned i = 0; i < most; i++) {
		(void)snprintf(who, sizeof(who), "u%u@b.example", i);
		known += told_is_delivered(site.segment, key("6AR1", 1, who));
		(void)snprintf(who, sizeof(who), "v%u@b.example", i);
		assert_false(told_is_delivered(site.segment, key("6AR1", 1, who)));
	}
	assert_in_range(known, TOLD_SETS * TOLD_PLACES / 10 * 9, TOLD_SETS * TOLD_PLACES);
}

TEST_GROUP(site_begin, site_end)
