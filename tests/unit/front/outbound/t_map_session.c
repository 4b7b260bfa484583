/* SPDX-License-Identifier: ISC */
/* What questions of Sendmail about clients mean, and what refused ones read. */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"
#include "front/outbound/map_session.h"
#include "tests/unit/caught_log.h"
#include "tests/unit/front/outbound/fake_engine.h"

static struct map_session session;
static char reply[SOCKETMAP_REPLY_MAX + 1];

static int set_up(void **state) {
	fake_reset();
	memset(&session, 0, sizeof(session));
	catch_log(state);
	return 0;
}

static void ask(const char *key) {
	struct inbound_key parsed;
	size_t length;

	assert_true(inbound_key_parse(key, strlen(key), &parsed));
	length = map_session_answer(&session, &fake, &fake_block.generation, 3, 9, 4711, &parsed,
	    1000, reply);
	assert_true(length < sizeof(reply));
	reply[length] = '\0';
}

#define ADMITTED "5:OK OK,"
#define CLIENT(port) "connect;ca=192.0.2.7;cp=" port ";da=198.51.100.1;dp=25;cr=OK;" \
	"n=mx.customer.example"

TEST_IN(set_up, NULL, a_connect_asks_with_all_that_is_known) {
	ask(CLIENT("46407"));
	assert_string_equal(reply, ADMITTED);
	assert_int_equal(fake.opens, 1);
	assert_int_equal(fake.asked.process, 4711);
	address_is(&fake.asked.client, "192.0.2.7");
	address_is(&fake.asked.server, "198.51.100.1");
	assert_int_equal(fake.asked.client_port, 46407);
	assert_int_equal(fake.asked.server_port, 25);
	assert_string_equal(fake.name, "mx.customer.example");
	assert_int_equal(fake.asked.listener, 3);
	assert_int_equal(fake.asked.owner, OWNER_POLICY);
	assert_int_equal(fake.asked.owner_socket, 4711);
	assert_true(fake.asked.connect_only);
	assert_int_equal(logged, 0);
	ask("connect;ca=192.0.2.7;cp=1;cr=FAIL;n=forged.example");
	assert_string_equal(fake.name, "");
}

/* "sendmail -bs" has neither. */
TEST_IN(set_up, NULL, nobody_is_asked_about_without_address_and_port) {
	static const char *const keys[] = { "connect", "connect;ca=;cp=;n=localhost",
		"connect;ca=192.0.2.7;cp=0", "connect;ca=0;cp=25" };

	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		ask(keys[i]);
		assert_string_equal(reply, ADMITTED);
	}
	assert_int_equal(fake.opens, 0);
}

TEST_IN(set_up, NULL, sessions_follow_each_other) {
	ask(CLIENT("1"));
	ask(CLIENT("1"));
	assert_int_equal(fake.ended, 0);
	ask(CLIENT("2"));
	assert_int_equal(fake.ended, 1);
	assert_int_equal(fake.last_ended.client_port, 1);
	map_session_over(&session, &fake, &fake_block.generation, 2000);
	assert_int_equal(fake.ended, 2);
	assert_int_equal(fake.last_ended.client_port, 2);
	map_session_over(&session, &fake, &fake_block.generation, 2000);
	assert_int_equal(fake.ended, 2);
}

TEST_IN(set_up, NULL, a_refusal_has_its_text_and_its_line) {
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	ask(CLIENT("46407"));
	assert_string_equal(reply,
	    "55:OK REFUSE \"421 4.7.0 Too many of you (id=0000000000ww)\",");
	assert_string_equal(last_line, "event=refused id=0000000000ww class=plain "
	    "client=192.0.2.7[46407] name=mx.customer.example count=80 limit=80 "
	    "reason=class-inbound rule=/etc/postern/postern.conf:14 mask=* action=421");
	fake.next.observed = true;
	fake.next.decision.verdict = VERDICT_ADMIT;
	ask(CLIENT("46408"));
	assert_string_equal(reply, ADMITTED);
	assert_non_null(strstr(last_line, "event=observed"));
	assert_int_equal(logged, 2);
}

/* The text of the class in a block of the test's own. */
static void refuse_with(const char *text) {
	char *place = fake_block.text + FAKE_TEXT_MAX / 2;

	assert_true(strlen(text) < FAKE_TEXT_MAX / 2);
	memcpy(place, text, strlen(text) + 1);
	fake_block.classes[0].text = (uint32_t)(place - (char *)&fake_block);
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	ask(CLIENT("1"));
}

TEST_IN(set_up, NULL, what_sendmail_would_read_otherwise) {
	refuse_with("a \"b\" \\ 100% {id}");
	assert_string_equal(reply,
	    "53:OK REFUSE \"421 4.7.0 a \\\"b\\\" \\\\ 100%%%% 0000000000ww\",");
	refuse_with("$#error $: <x> (");
	assert_non_null(strstr(reply, "\"421 4.7.0 $#error $: <x> ( (id=0000000000ww)\""));
}

/* The token as Sendmail measures it, without the quotes. */
static size_t token_length(void) {
	const char *begin = strchr(reply, '"'), *end = strrchr(reply, '"');

	assert_non_null(begin);
	assert_true(end > begin);
	return (size_t)(end - begin) - 1;
}

TEST_IN(set_up, NULL, no_token_is_too_long) {
	char text[FAKE_TEXT_MAX / 2], after[20];

	for (size_t length = 1; length <= 399; length++) {
		for (unsigned kind = 0; kind < 3; kind++) {
			memset(text, "x\\%"[kind], length);
			text[length] = '\0';
			refuse_with(text);
			assert_true(token_length() <= 250);
			assert_non_null(strstr(reply, " (id=0000000000ww)\","));
		}
	}
	assert_true(token_length() > 240);
	/* an ID in the middle stays there; one that would be cut stands behind */
	memset(text, 'x', 300);
	memcpy(text, "{id}", 4);
	text[300] = '\0';
	refuse_with(text);
	assert_non_null(strstr(reply, " 0000000000wwxxx"));
	snprintf(after, sizeof(after), "xx\",");
	assert_string_equal(reply + strlen(reply) - strlen(after), after);
	memset(text, 'x', 290);
	memcpy(text + 290, "{id}", 5);
	refuse_with(text);
	assert_non_null(strstr(reply, "xx (id=0000000000ww)\","));
}
