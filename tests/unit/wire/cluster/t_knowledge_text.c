/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"

#include "wire/cluster/knowledge_text.h"

#define SECOND	INT64_C(1000000000)
#define NOW	(100 * SECOND)

static bool read_text(const char *text, int64_t age_ms, struct knowledge_told *out) {
	return knowledge_text_read(text, strlen(text), age_ms, NOW, out);
}

TEST(written_as_it_lies_in_redis) {
	struct knowledge_told told = {
		.record = {
			.manual = { .stamp = 65, .what = KNOWLEDGE_HOLD, .until_ns = INT64_MAX },
			.learned = { .stamp = 130, .until_ns = NOW + 90 * SECOND },
			.ceiling = { .stamp = 195, .level = 4, .by_hand = true },
			.raised = { .stamp = 260, .level = 5 },
		},
		.manual_id = 65, .learned_id = 1000, .learned_by = KNOWLEDGE_BY_COHORTS,
		.manual_reason = "they move, 100% sure",
		.learned_reason = "421",
	};
	char text[KNOWLEDGE_TEXT_MAX];
	size_t length = knowledge_text_write(&told, NOW, text);

	text[length] = '\0';
	assert_string_equal(text, "m=hold,65,-,they%20move%2C%20100%25%20sure l=130,90000,421 "
	    "c=195,4,told r=260,5 i=000000000217 j=000000000z8e,cohorts");
}

/* 1000 is 31 * 32 + 8, z and 8, and 1000 mod 29 is 14, e. */
TEST(decisions_are_told_where_they_are_known) {
	char text[KNOWLEDGE_TEXT_MAX];
	struct knowledge_told told;
	size_t length;

	assert_true(read_text("m=hold,65,-,x j=000000000z8e,rule i=000000000217 l=130,1,x", 0,
	    &told));
	assert_int_equal(told.manual_id, 65);
	assert_int_equal(told.learned_id, 1000);
	assert_int_equal(told.learned_by, KNOWLEDGE_BY_RULE);
	/* by what, and not which */
	assert_true(read_text("l=130,1,x j=-,cohorts", 0, &told));
	assert_int_equal(told.learned_id, 0);
	assert_int_equal(told.learned_by, KNOWLEDGE_BY_COHORTS);
	/* of nothing that is said: nothing is said of it */
	assert_true(read_text("c=64,7,found i=000000000217 j=-,rule", 0, &told));
	length = knowledge_text_write(&told, NOW, text);
	text[length] = '\0';
	assert_string_equal(text, "c=64,7,found");
}

/* 90 s were left 30 s ago. */
TEST(read_on_our_clock) {
	struct knowledge_told told;

	assert_true(read_text("l=130,90000,451%20busy z=what%20comes%20later c=64,7,found", 30000,
	    &told));
	assert_int_equal(told.record.learned.until_ns, NOW + 60 * SECOND);
	assert_string_equal(told.learned_reason, "451 busy");
	assert_int_equal(told.record.ceiling.level, 7);
	assert_false(told.record.ceiling.by_hand);
	assert_int_equal(told.record.manual.stamp, 0);
	/* over since, whatever its clock says */
	assert_true(read_text("l=130,90000,x", 90000, &told));
	assert_int_equal(told.record.learned.until_ns, NOW);
	assert_true(read_text("l=130,90000,x", -5000, &told));
	assert_int_equal(told.record.learned.until_ns, NOW + 90 * SECOND);
}

TEST(refused) {
	static const char *const texts[] = { "", " ", "l", "l=", "l=1", "l=0,1,x", "l=1,-,x",
		"l=1,1,%4", "l=1,1,%zz", "l=1,99999999999999,x", "l=9007199254740993,1,x",
		"l=1,1,x l=2,1,x", "m=stop,1,1,x", "m=hold,1,1x,x", "c=1,65536,told",
		"c=1,1,maybe", "r=1,1,1", "=1", "L=1,1,x", "l=18446744073709551617,1,x", "i=-", "i=",
		"i=000000000218", "i=000000000217 i=000000000217", "j=-", "j=-,", "j=-,hand",
		"j=-,rule j=-,rule", "j=000000000218,rule", "i=0000000000000217x" };
	struct knowledge_told told;
	char longest[2 * KNOWLEDGE_TEXT_MAX + 2];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (read_text(texts[i], 0, &told))
			fail_msg("\"%s\" was read", texts[i]);
	memset(longest, 'a', sizeof(longest));
	memcpy(longest, "l=1,1,", 6);
	assert_false(knowledge_text_read(longest, 6 + KNOWLEDGE_REASON_MAX + 1, 0, NOW, &told));
	assert_true(knowledge_text_read(longest, 6 + KNOWLEDGE_REASON_MAX, 0, NOW, &told));
	longest[1] = 'x';
	assert_false(knowledge_text_read(longest, sizeof(longest), 0, NOW, &told));
}

/* Bytes that are not printable never reach a log. */
TEST(unprintable) {
	struct knowledge_told told;

	assert_true(read_text("l=1,1000,a%0Ab%00c%FF\x01", 0, &told));
	assert_string_equal(told.learned_reason, "a?b?c??");
}

TEST(messages) {
	static const char text[] = "17 mx1 example.com c=64,7,found r=64,7";
	struct knowledge_news news;
	struct span record;
	int64_t ms;

	assert_true(knowledge_news_read(text, strlen(text), &news));
	assert_int_equal(news.number, 17);
	assert_int_equal(news.node.length, 3);
	assert_memory_equal(news.name.text, "example.com ", 12);
	assert_memory_equal(news.record.text, "c=64,7,found r=64,7", news.record.length);
	assert_false(knowledge_news_read("x mx1 a b", 9, &news));
	assert_false(knowledge_news_read("1  a b", 6, &news));
	assert_false(knowledge_news_read("", 0, &news));
	assert_true(knowledge_stored_read("1700000000000 c=1,2,told", 24, &ms, &record));
	assert_int_equal(ms, INT64_C(1700000000000));
	assert_int_equal(record.length, 10);
	assert_false(knowledge_stored_read("17", 2, &ms, &record));
}
