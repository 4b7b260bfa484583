/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "wire/queue/group_key.h"

static void is(const char *text, uint32_t groups, const char *queue_id, const char *domain) {
	struct group_key key;

	assert_true(group_key_parse(text, strlen(text), &key));
	assert_int_equal(key.groups, groups);
	assert_int_equal(key.queue_id.length, strlen(queue_id));
	assert_memory_equal(queue_id, key.queue_id.length > 0 ? key.queue_id.text : "",
	    key.queue_id.length);
	assert_int_equal(key.domain.length, strlen(domain));
	assert_memory_equal(domain, key.domain.length > 0 ? key.domain.text : "",
	    key.domain.length);
}

/* As Sendmail 8.17 makes them out of its tokens. */
TEST(keys) {
	is("group;n=40;i= 6AR1Wdog000038;h= h3.far.example", 40, "6AR1Wdog000038", "h3.far.example");
	is("group;n=40;i=6AR1Wdog000038;h=[192.0.2.1]", 40, "6AR1Wdog000038", "[192.0.2.1]");
	is("group;n=1;i=a;h=d.example.", 1, "a", "d.example");
	/* whoever chooses the domain changes nothing else */
	is("group;n=40;i=a;h=x;n=1;i=b", 40, "a", "x;n=1;i=b");
	is("group;n=40;n=2;i=a;i=b;h=x", 40, "a", "x");
	is("group", 0, "", "");
	is("group;n=x;i=;h=", 0, "", "");
	is("group;n=99999999999999999999;h=x", GROUP_KEY_GROUPS_MAX, "", "x");
	is("group;n=-1;h=x", 0, "", "x");
}

TEST(others) {
	struct group_key key;

	assert_false(group_key_parse("turn;h=x;i=a", 12, &key));
	assert_false(group_key_parse("groups;h=x", 10, &key));
	assert_false(group_key_parse("", 0, &key));
}
