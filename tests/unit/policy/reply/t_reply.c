/* SPDX-License-Identifier: ISC */
/* What results mean: the phase first, then the reply; the mail server's own words; and
 * what nobody tried. */
#include "tests/unit/test.h"
#include "policy/reply/reply.h"

static struct span span(const char *text) {
	return (struct span){ text, strlen(text) };
}

static void same(struct span got, const char *expected) {
	if (got.length != strlen(expected) || memcmp(got.text, expected, got.length) != 0)
		fail_msg("\"%.*s\" is not \"%s\"", (int)got.length, got.text, expected);
}

struct example {
	const char *text;
	enum result_class class;
	enum delivery_phase phase;
	uint16_t code;
};

static void check(const char *text, const struct reply *got, const struct example *expected) {
	if (got->class != expected->class || got->phase != expected->phase ||
	    got->code != expected->code)
		fail_msg("%s: %s in \"%s\", %u", text, result_class_word(got->class),
		    delivery_phase_word(got->phase), got->code);
}

static void check_all(const struct example *examples, size_t count, struct delivery delivery) {
	for (size_t i = 0; i < count; i++) {
		struct reply reply;

		delivery.text = span(examples[i].text);
		reply_judge(&delivery, &reply);
		check(examples[i].text, &reply, &examples[i]);
	}
}
#define CHECK_ALL(list, ...) \
	check_all(list, sizeof(list) / sizeof(list[0]), (struct delivery){ __VA_ARGS__ })

TEST(before_the_session) {
	static const struct example examples[] = {
		{ "connect to mx.example.net[192.0.2.7]:25: Connection refused",
		    RESULT_SITE_FAILURE, PHASE_CONNECT, 0 },
		{ "connect to mx.example.net[2001:db8::7]:25: Network is unreachable",
		    RESULT_SITE_FAILURE, PHASE_CONNECT, 0 },
		{ "connect to mx.example.net[192.0.2.7]: server dropped connection without sending "
		    "the initial greeting", RESULT_SITE_FAILURE, PHASE_GREETING, 0 },
		{ "connect to mx.example.net[192.0.2.7]: server refused to talk to me: 421 later",
		    RESULT_SITE_FAILURE, PHASE_GREETING, 421 },
		{ "host mx.example.net[192.0.2.7] refused to talk to me: 421 too many connections",
		    RESULT_SITE_FAILURE, PHASE_GREETING, 421 },
		{ "host mx.example.net[192.0.2.7] refused to talk to me: 554 5.7.1 go away",
		    RESULT_SITE_FAILURE, PHASE_GREETING, 554 },
		{ "lost connection with mx.example.net[192.0.2.7] while receiving the initial "
		    "server greeting", RESULT_SITE_FAILURE, PHASE_GREETING, 0 },
		{ "conversation with mx.example.net[192.0.2.7] timed out while performing the EHLO "
		    "handshake", RESULT_SITE_FAILURE, PHASE_EHLO, 0 },
		{ "host mx.example.net[192.0.2.7] said: 451 busy (in reply to EHLO command)",
		    RESULT_SITE_FAILURE, PHASE_EHLO, 451 },
		{ "TLS is required, but was not offered by host mx.example.net[192.0.2.7]",
		    RESULT_SITE_FAILURE, PHASE_STARTTLS, 0 },
		{ "TLS is required, but host mx.example.net[192.0.2.7] refused to start TLS: "
		    "454 4.7.0 no TLS today", RESULT_SITE_FAILURE, PHASE_STARTTLS, 454 },
		{ "Cannot start TLS: handshake failure", RESULT_SITE_FAILURE, PHASE_STARTTLS, 0 },
		{ "Server certificate not verified", RESULT_SITE_FAILURE, PHASE_STARTTLS, 0 },
	};

	CHECK_ALL(examples, .status = DELIVERY_DEFERRED, .dsn = { 4, 4, 2 });
}

TEST(within_the_session) {
	static const struct example examples[] = {
		{ "host mx.example.net[192.0.2.7] said: 451 4.7.1 try later (in reply to MAIL FROM "
		    "command)", RESULT_RCPT_TEMPORARY, PHASE_MAIL, 451 },
		{ "host mx.example.net[192.0.2.7] said: 450 4.2.0 mailbox busy (in reply to RCPT TO "
		    "command)", RESULT_RCPT_TEMPORARY, PHASE_RCPT, 450 },
		{ "host mx.example.net[192.0.2.7] said: 421 4.3.0 data unavailable (in reply to DATA "
		    "command)", RESULT_SITE_FAILURE, PHASE_DATA, 421 },
		{ "host mx.example.net[192.0.2.7] said: 421 too many messages (in reply to end of DATA "
		    "command)", RESULT_REMOTE_THROTTLE, PHASE_END_OF_DATA, 421 },
		{ "host mx.example.net[192.0.2.7] said: 450 4.7.1 (in reply to EHLO command) greylisted "
		    "(in reply to RCPT TO command)", RESULT_RCPT_TEMPORARY, PHASE_RCPT, 450 },
		{ "lost connection with mx.example.net[192.0.2.7] while sending RCPT TO",
		    RESULT_RCPT_TEMPORARY, PHASE_RCPT, 0 },
		{ "conversation with mx.example.net[192.0.2.7] timed out while sending end of data -- "
		    "message may be sent more than once", RESULT_RCPT_TEMPORARY, PHASE_END_OF_DATA, 0 },
		{ "conversation with mx.example.net[192.0.2.7] timed out while sending message body",
		    RESULT_RCPT_TEMPORARY, PHASE_END_OF_DATA, 0 },
		{ "SASL authentication failed; server mx.example.net[192.0.2.7] said: 535 5.7.8 no",
		    RESULT_LOCAL, PHASE_AUTH, 535 },
		{ "Host or domain name not found. Name service error for name=example.net type=MX: "
		    "Host not found, try again", RESULT_LOCAL, PHASE_DNS, 0 },
		{ "mail system configuration error", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
		{ "no idea what happened here", RESULT_RCPT_TEMPORARY, PHASE_UNKNOWN, 0 },
		{ "", RESULT_RCPT_TEMPORARY, PHASE_UNKNOWN, 0 },
	};

	CHECK_ALL(examples, .status = DELIVERY_DEFERRED, .dsn = { 4, 0, 0 });
}

TEST(bounced) {
	static const struct example examples[] = {
		{ "host mx.example.net[192.0.2.7] said: 550 5.1.1 no such user (in reply to RCPT TO "
		    "command)", RESULT_PERMANENT, PHASE_RCPT, 550 },
		{ "host mx.example.net[192.0.2.7] said: 550 too many messages from you (in reply to "
		    "end of DATA command)", RESULT_PERMANENT, PHASE_END_OF_DATA, 550 },
		{ "host mx.example.net[192.0.2.7] refused to talk to me: 554 go away",
		    RESULT_PERMANENT, PHASE_GREETING, 554 },
		{ "Host or domain name not found. Name service error for name=example.net type=A: "
		    "Host not found", RESULT_PERMANENT, PHASE_DNS, 0 },
		{ "mail for example.net loops back to myself", RESULT_PERMANENT, PHASE_DNS, 0 },
		{ "bad address syntax", RESULT_PERMANENT, PHASE_UNKNOWN, 0 },
	};
	struct delivery probe = { .status = DELIVERY_UNDELIVERABLE, .dsn = { 5, 0, 0 } };
	struct reply reply;

	CHECK_ALL(examples, .status = DELIVERY_BOUNCED, .dsn = { 5, 0, 0 });
	CHECK_ALL(examples, .status = DELIVERY_BOUNCED);
	probe.text = span(examples[2].text);
	reply_judge(&probe, &reply);
	assert_int_equal(reply.class, RESULT_SITE_FAILURE);
	probe.text = span(examples[0].text);
	reply_judge(&probe, &reply);
	assert_int_equal(reply.class, RESULT_PERMANENT);
}

TEST(nobody_tried) {
	static const struct example held[] = {
		{ "delivery temporarily suspended: connect to mx.example.net[192.0.2.7]:25: "
		    "Connection refused", RESULT_SUSPENDED, PHASE_NONE, 0 },
		{ "4.7.1 Postern: example.net is held until 12:00", RESULT_SUSPENDED, PHASE_NONE, 0 },
		{ "mail transport unavailable", RESULT_LOCAL, PHASE_NONE, 0 },
		{ "address resolver failure", RESULT_LOCAL, PHASE_NONE, 0 },
	};
	static const struct example refused[] = {
		{ "User unknown in virtual alias table", RESULT_PERMANENT, PHASE_NONE, 0 },
	};
	struct delivery delivery = { .agent = AGENT_ERROR, .status = DELIVERY_DEFERRED };
	struct reply reply;

	CHECK_ALL(held, .agent = AGENT_ERROR, .status = DELIVERY_DEFERRED);
	CHECK_ALL(held, .agent = AGENT_QUEUE, .status = DELIVERY_DEFERRED);
	CHECK_ALL(refused, .agent = AGENT_ERROR, .status = DELIVERY_BOUNCED);
	delivery.text = span(held[0].text);
	reply_judge(&delivery, &reply);
	same(reply.words, "connect to mx.example.net[192.0.2.7]:25: Connection refused");
	delivery.status = DELIVERY_EXPIRED;
	reply_judge(&delivery, &reply);
	assert_int_equal(reply.class, RESULT_PERMANENT);
	delivery.status = DELIVERY_STATUS_OTHER;
	reply_judge(&delivery, &reply);
	assert_int_equal(reply.class, RESULT_LOCAL);
}

TEST(on_this_host) {
	static const struct example examples[] = {
		{ "unknown user: \"x\"", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
		{ "Command died with status 8: \"/bin/x\"", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
		{ "451 4.3.0 whatever", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
		{ "host mx.example.net[/run/lmtp] said: 452 4.2.2 full (in reply to RCPT TO command)",
		    RESULT_RCPT_TEMPORARY, PHASE_RCPT, 452 },
	};
	struct delivery delivery = { .agent = AGENT_LOCAL, .status = DELIVERY_SENT,
		.text = span("delivered to mailbox") };
	struct reply reply;

	CHECK_ALL(examples, .agent = AGENT_LOCAL, .status = DELIVERY_DEFERRED);
	reply_judge(&delivery, &reply);
	assert_int_equal(reply.class, RESULT_OK);
}

TEST(sendmail) {
	static const struct {
		struct example expected;	/* text: stat= */
		const char *reply;
		enum delivery_status status;
		uint16_t dsn[3];
		bool reached;
		int64_t xdelay_ms;
	} examples[] = {
		{ { "Sent (ok)", RESULT_OK, PHASE_UNKNOWN, 0 }, "", DELIVERY_SENT, { 2, 0, 0 },
		    true, 0 },
		{ { "Deferred: Connection refused by mx.example.net.", RESULT_SITE_FAILURE,
		    PHASE_CONNECT, 0 }, "", DELIVERY_DEFERRED, { 4, 4, 1 }, true, 0 },
		{ { "Deferred: Connection timed out with mx.example.net.", RESULT_SITE_FAILURE,
		    PHASE_CONNECT, 0 }, "", DELIVERY_DEFERRED, { 4, 4, 1 }, false, 60000 },
		/* known from before */
		{ { "Deferred: Connection refused by mx.example.net.", RESULT_SUSPENDED,
		    PHASE_NONE, 0 }, "", DELIVERY_DEFERRED, { 4, 0, 0 }, false, 0 },
		{ { "Deferred", RESULT_SUSPENDED, PHASE_NONE, 0 }, "", DELIVERY_DEFERRED,
		    { 4, 2, 0 }, false, 0 },
		/* the connection ended behind the dot */
		{ { "Deferred", RESULT_SITE_FAILURE, PHASE_UNKNOWN, 0 }, "", DELIVERY_DEFERRED,
		    { 4, 4, 2 }, true, 0 },
		{ { "queued", RESULT_SUSPENDED, PHASE_NONE, 0 }, "", DELIVERY_DEFERRED,
		    { 0, 0, 0 }, false, 0 },
		{ { "Deferred: 451 4.7.1 deferred by Postern: window", RESULT_SUSPENDED, PHASE_NONE,
		    0 }, "", DELIVERY_DEFERRED, { 4, 7, 1 }, false, 0 },
		/* the reply goes before the state */
		{ { "Deferred: Connection reset by mx.example.net.", RESULT_REMOTE_THROTTLE,
		    PHASE_UNKNOWN, 421 }, "421 4.7.0 too many messages, slow down",
		    DELIVERY_DEFERRED, { 4, 0, 0 }, true, 0 },
		{ { "Deferred: Connection reset by mx.example.net.", RESULT_SITE_FAILURE,
		    PHASE_CONNECT, 0 }, "250 2.0.0 ok", DELIVERY_DEFERRED, { 4, 4, 2 }, true, 0 },
		/* what Sendmail makes of a greeting */
		{ { "Deferred: 421 too many connections", RESULT_SITE_FAILURE, PHASE_GREETING, 421 },
		    "421 too many connections", DELIVERY_DEFERRED, { 4, 5, 0 }, true, 0 },
		{ { "Deferred: 450 4.2.1 not now", RESULT_RCPT_TEMPORARY, PHASE_UNKNOWN, 450 }, "",
		    DELIVERY_DEFERRED, { 4, 2, 1 }, true, 0 },
		{ { "User unknown", RESULT_PERMANENT, PHASE_UNKNOWN, 550 },
		    "550 5.1.1 no such user", DELIVERY_BOUNCED, { 5, 1, 1 }, true, 0 },
		{ { "Host unknown (Name server: x: host not found)", RESULT_PERMANENT, PHASE_DNS, 0 },
		    "", DELIVERY_BOUNCED, { 5, 1, 2 }, false, 0 },
		{ { "Deferred: Name server: x: host name lookup failure", RESULT_LOCAL, PHASE_DNS,
		    0 }, "", DELIVERY_DEFERRED, { 4, 4, 3 }, false, 0 },
		{ { "Deferred: local mailer (/bin/x) exited with EX_TEMPFAIL", RESULT_LOCAL,
		    PHASE_UNKNOWN, 0 }, "", DELIVERY_DEFERRED, { 4, 0, 0 }, false, 0 },
	};

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		struct delivery delivery = { .source = DELIVERY_OF_SENDMAIL,
			.status = examples[i].status, .text = span(examples[i].expected.text),
			.reply = span(examples[i].reply),
			.delays_ms = { -1, -1, -1, examples[i].xdelay_ms } };
		struct reply reply;

		memcpy(delivery.dsn, examples[i].dsn, sizeof(delivery.dsn));
		if (examples[i].reached)
			delivery.relay_address.bytes[15] = 1;
		reply_judge(&delivery, &reply);
		check(examples[i].expected.text, &reply, &examples[i].expected);
	}
}

TEST(told) {
	struct delivery delivery = { .source = DELIVERY_OF_OTHER, .status = DELIVERY_DEFERRED,
		.phase = PHASE_GREETING, .text = span("421 4.7.0 too many connections") };
	struct reply reply;

	reply_judge(&delivery, &reply);
	assert_int_equal(reply.class, RESULT_SITE_FAILURE);
	assert_int_equal(reply.phase, PHASE_GREETING);
	delivery.phase = PHASE_RCPT;
	reply_judge(&delivery, &reply);
	assert_int_equal(reply.class, RESULT_REMOTE_THROTTLE);
	delivery.phase = PHASE_UNKNOWN;
	reply_judge(&delivery, &reply);
	assert_int_equal(reply.class, RESULT_REMOTE_THROTTLE);
	assert_int_equal(reply.code, 421);
	delivery.phase = PHASE_RCPT;
	delivery.status = DELIVERY_BOUNCED;
	reply_judge(&delivery, &reply);
	assert_int_equal(reply.class, RESULT_PERMANENT);
}

/* After the handshake, or where no phase is known. */
TEST(who_asks_for_less) {
	static const char *const less[] = {
		"450 too many connections from your address", "452 4.3.2 Connection rate limit exceeded",
		"421 4.7.28 unusual rate of 421-4.7.28 mail", "421 slow down, please",
		"451 Server busy, come back later", "450 THROTTLED: 4.7.1", "450 you are rate-limited",
		"451 4.7.1 Too\tmuch mail", "421-too many\n421 concurrent sessions",
		"452 4.5.3 too many recipients this hour", "450 maximum number of connections reached",
		"450 Trop de messages", "421 unexpected volume", "450 high load.",
	};
	static const char *const others[] = {
		"450 4.7.1 greylisted, you are too fast", "450 mailbox busy", "452 mailbox full",
		"450 4.2.1 The user is receiving mail at a rate that 450-4.2.1 prevents more",
		"452 4.5.3 too many recipients", "451 too many hops", "451 operating system error",
		"451 corporate accurate moderate", "451 pseudobusyness", "451 local problem",
		"450 cannot find your hostname", "451 rat", "450 the toomany", "450 too", "450 too ",
	};

	for (size_t i = 0; i < sizeof(less) / sizeof(less[0]); i++) {
		struct reply reply;

		reply_judge_text(span(less[i]), PHASE_RCPT, &reply);
		if (reply.class != RESULT_REMOTE_THROTTLE)
			fail_msg("%s: %s", less[i], result_class_word(reply.class));
	}
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct reply reply;

		reply_judge_text(span(others[i]), PHASE_UNKNOWN, &reply);
		if (reply.class != RESULT_RCPT_TEMPORARY)
			fail_msg("%s: %s", others[i], result_class_word(reply.class));
	}
}

TEST(texts_alone) {
	static const struct {
		struct example expected;
		enum delivery_phase told;
	} examples[] = {
		{ { "421 closing", RESULT_SITE_FAILURE, PHASE_UNKNOWN, 421 }, PHASE_UNKNOWN },
		{ { "550 no", RESULT_PERMANENT, PHASE_UNKNOWN, 550 }, PHASE_UNKNOWN },
		{ { "550 no", RESULT_SITE_FAILURE, PHASE_GREETING, 550 }, PHASE_GREETING },
		{ { "250 ok", RESULT_OK, PHASE_RCPT, 250 }, PHASE_RCPT },
		{ { "<a@b.example>: host mx.example.net [192.0.2.7]: 550 5.1.1 no", RESULT_PERMANENT,
		    PHASE_UNKNOWN, 550 }, PHASE_UNKNOWN },
		{ { "Host unknown", RESULT_PERMANENT, PHASE_DNS, 0 }, PHASE_UNKNOWN },
		{ { "servfail", RESULT_LOCAL, PHASE_DNS, 0 }, PHASE_DNS },
		{ { "the server did not answer: Connection timed out", RESULT_SITE_FAILURE,
		    PHASE_CONNECT, 0 }, PHASE_UNKNOWN },
		{ { "this message was rejected", RESULT_PERMANENT, PHASE_UNKNOWN, 0 }, PHASE_UNKNOWN },
		{ { "5.1.1 nobody", RESULT_PERMANENT, PHASE_UNKNOWN, 0 }, PHASE_UNKNOWN },
		{ { "/var/mail/x: Disk quota exceeded", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
		    PHASE_UNKNOWN },
		{ { "held", RESULT_SUSPENDED, PHASE_NONE, 0 }, PHASE_NONE },
		{ { "535 no", RESULT_LOCAL, PHASE_AUTH, 535 }, PHASE_AUTH },
		{ { "", RESULT_RCPT_TEMPORARY, PHASE_UNKNOWN, 0 }, PHASE_UNKNOWN },
	};

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		struct reply reply;

		reply_judge_text(span(examples[i].expected.text), examples[i].told, &reply);
		check(examples[i].expected.text, &reply, &examples[i].expected);
	}
}

TEST(codes) {
	static const struct {
		const char *text, *words;
		uint16_t code, enhanced[3];
	} examples[] = {
		{ "421 4.7.28 slow", "421 4.7.28 slow", 421, { 4, 7, 28 } },
		{ "  \"450-4.2.1 x", "450-4.2.1 x", 450, { 4, 2, 1 } },
		{ "550 #5.1.0 no", "550 #5.1.0 no", 550, { 5, 1, 0 } },
		{ "550", "550", 550, { 0, 0, 0 } },
		{ "550 4.1.1 liar", "550 4.1.1 liar", 550, { 0, 0, 0 } },
		{ "550 5.1 x", "550 5.1 x", 550, { 0, 0, 0 } },
		{ "550 5.1.1234 x", "550 5.1.1234 x", 550, { 0, 0, 0 } },
		{ "x said 5.7.1 550-'5.7.1 no'", "550-'5.7.1 no'", 550, { 5, 7, 1 } },
		{ "4.3.2 not now", "4.3.2 not now", 0, { 4, 3, 2 } },
		{ "5501 x", "5501 x", 0, { 0, 0, 0 } },
		{ "192.0.2.7 x", "192.0.2.7 x", 0, { 0, 0, 0 } },
	};

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		struct reply reply;

		reply_judge_text(span(examples[i].text), PHASE_RCPT, &reply);
		same(reply.words, examples[i].words);
		assert_int_equal(reply.code, examples[i].code);
		assert_memory_equal(reply.enhanced, examples[i].enhanced, sizeof(reply.enhanced));
	}
}

TEST(words) {
	assert_string_equal(result_class_word(RESULT_OK), "ok");
	assert_string_equal(result_class_word(RESULT_REMOTE_THROTTLE), "remote-throttle");
	assert_string_equal(result_class_word(RESULT_CLASS_COUNT), "");
	assert_string_equal(delivery_phase_word(PHASE_END_OF_DATA), "end-of-data");
	for (int phase = PHASE_UNKNOWN + 1; phase < PHASE_COUNT; phase++)
		assert_true(delivery_phase_word((enum delivery_phase)phase)[0] != '\0');
}

static enum result_class class_of_stat(const char *text) {
	struct delivery delivery = { .source = DELIVERY_OF_SENDMAIL, .status = DELIVERY_DEFERRED,
		.text = span(text), .delays_ms = { -1, -1, -1, 1000 }, .dsn = { 4, 0, 0 } };
	struct reply reply;

	delivery.relay_address.bytes[15] = 1;
	reply_judge(&delivery, &reply);
	return reply.class;
}

/* Sendmail's giveresponse() puts the host first where the network is at fault; each system
 * has its own words for one errno. */
TEST(no_route_to_host_behind_a_hosts_name_is_the_sites) {
	static const char *const sites[] = {
		"No route to host", "Network is unreachable", "Network is down",
		"Host mx.example.net. is down", "Network dropped connection on reset",
		"Network dropped connection because of reset", "Software caused connection abort",
		"Host is unreachable", "Host is down", "Connection refused", "Operation timed out",
		"Connection reset by peer", "Broken pipe", "Machine is not on the network",
		"Transport endpoint is not connected", "Socket is not connected",
		"Cannot send after transport endpoint shutdown", "Link has been severed",
		"Protocol error", "Can't send after socket shutdown",
	};
	static const char *const ours[] = {
		"Too many open files", "Too many open files in system", "Permission denied",
		"Operation not permitted", "Cannot allocate memory", "Not enough space",
		"No buffer space available", "Cannot assign requested address",
		"Can't assign requested address", "Address already in use", "No space left on device",
		"Address family not supported by protocol", "Protocol not supported",
		"Invalid argument", "Read-only file system", "No such file or directory",
		"Resource temporarily unavailable", "Interrupted system call", "No locks available",
		"Stale file handle", "World writable directory", "File changed after open",
		"Bad file descriptor", "Insufficient permission", "Input/output error",
	};
	static const char *const hosts[] = { "", "mx.example.net.: ", "mx.example.net: ",
		"[192.0.2.7]: ", "IPv6:2001:db8::7: ", "mailhub: " };
	char text[256];

	for (size_t h = 0; h < sizeof(hosts) / sizeof(hosts[0]); h++) {
		for (size_t i = 0; i < sizeof(sites) / sizeof(sites[0]); i++) {
			snprintf(text, sizeof(text), "Deferred: %s%s", hosts[h], sites[i]);
			if (class_of_stat(text) != RESULT_SITE_FAILURE)
				fail_msg("%s: %s", text, result_class_word(class_of_stat(text)));
		}
		for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
			snprintf(text, sizeof(text), "Deferred: %s%s", hosts[h], ours[i]);
			if (class_of_stat(text) != RESULT_LOCAL)
				fail_msg("%s: %s", text, result_class_word(class_of_stat(text)));
		}
	}
	/* a remote that says so is believed no more than any other */
	assert_int_equal(class_of_stat("Deferred: 450 4.4.1 x.example: No route to host"),
	    RESULT_RCPT_TEMPORARY);
}

static void check_in_session(const char *const *texts, size_t count, enum result_class class) {
	for (size_t i = 0; i < count; i++) {
		struct reply reply;

		reply_judge_text(span(texts[i]), PHASE_MAIL, &reply);
		if (reply.class != class)
			fail_msg("%s: %s", texts[i], result_class_word(reply.class));
	}
}

/* The next session takes as many: neither is the site ill, nor does it want less. */
TEST(a_session_that_took_its_messages_is_no_site_failure) {
	static const char *const used_up[] = {
		"421 4.7.0 Maximum number of messages per connection exceeded",
		"421 Max message per connection reached, closing transmission channel",
		"421 4.5.0 Too many messages per session, closing",
		"421 too many messages in this connection", "421 4.4.0 Too many mails in one session",
		"421 4.7.0 The mail server has exceeded maximum number of messages per connection",
		"421 Too many recipients for this session", "421 4.5.3 too many recipients this session",
		"421 4.5.3 too many recipients per connection", "421 message limit per connection reached",
		"421 4.7.0 Connection expired, try reconnecting.", "421 Too many messages for this session",
		"421-4.7.0 You reached the limit of messages over 421 4.7.0 this SMTP session",
	};
	static const char *const others[] = {
		"421 4.3.0 closing this connection", "421 Service not available, closing this session",
		"421 4.3.2 this session is over",
	};

	check_in_session(used_up, sizeof(used_up) / sizeof(used_up[0]), RESULT_RCPT_TEMPORARY);
	check_in_session(others, sizeof(others) / sizeof(others[0]), RESULT_SITE_FAILURE);
}

TEST(a_limit_of_a_time_asks_for_less) {
	static const char *const less[] = {
		"450 4.7.1 limit exceeded", "421 4.7.0 Limit has been reached for your address",
		"451 You have exceeded 100 e-mails", "450 no more than 20 messages per 10 minutes",
		"450 only 5 per 60-second interval", "421 4.3.2 Resources temporarily unavailable",
		"451 Resources temporarily not available - Please try again later [#4.16.5]",
		"450 4.3.2 100 connections in 60 seconds", "452 hourly quota used up",
		"421 4.7.0 limits reached", "450 too many recipients, 200 per 1 hour",
		"421 system resources are currently unavailable", "450 10 messages per sec.",
		"421 too many messages per session, at most 100 per hour",
		"450 too many recipients per sender", "450 4.7.1 too many mails this hour",
	};
	static const char *const others[] = {
		"452 4.3.4 message size limit exceeded", "450 mailbox limit exceeded",
		"451 header limit exceeded", "452 4.5.3 recipient limit exceeded",
		"451 command time limit exceeded", "451 hop limit reached", "451 storage limit reached",
		"452 4.5.3 too many recipients per message", "450 try again in 10 minutes",
		"451 Internal resources are temporarily unavailable", "450 line length limit exceeded",
		"432 4.3.2 recipient thread limit exceeded", "450 mailbox is in the last stage",
	};

	check_in_session(less, sizeof(less) / sizeof(less[0]), RESULT_REMOTE_THROTTLE);
	check_in_session(others, sizeof(others) / sizeof(others[0]), RESULT_RCPT_TEMPORARY);
}

/* Whoever defers may say anything. */
TEST(a_deferral_that_begins_with_250_is_not_ok) {
	static const struct {
		const char *text;
		enum result_class class;
	} cases[] = {
		{ "250 2.0.0 ok, but later", RESULT_RCPT_TEMPORARY },
		{ "220 mx.example.net", RESULT_RCPT_TEMPORARY },
		{ "354 go ahead", RESULT_RCPT_TEMPORARY },
		{ "220-mx.example.net 450 4.2.1 not now", RESULT_RCPT_TEMPORARY },
		{ "220-mx.example.net 421 4.2.1 Service refused", RESULT_SITE_FAILURE },
		{ "200 messages per hour are enough", RESULT_REMOTE_THROTTLE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (unsigned source = DELIVERY_OF_SENDMAIL; source <= DELIVERY_OF_OTHER; source++) {
			struct delivery delivery = { .source = (enum delivery_source)source,
				.status = DELIVERY_DEFERRED, .text = span(cases[i].text),
				.phase = source == DELIVERY_OF_OTHER ? PHASE_RCPT : PHASE_UNKNOWN };
			struct reply reply;

			reply_judge(&delivery, &reply);
			if (reply.class != cases[i].class)
				fail_msg("%s: %s", cases[i].text, result_class_word(reply.class));
		}
}

/* smtp_tls_policy.c, smtp_proto.c, smtp_connect.c, smtp_addr.c, dns_lookup.c */
TEST(what_postfix_says_once_a_year) {
	static const struct example deferred[] = {
		{ "TLSA records unusable", RESULT_SITE_FAILURE, PHASE_STARTTLS, 0 },
		{ "TLSA lookup error for mx.example.net:25", RESULT_SITE_FAILURE, PHASE_STARTTLS, 0 },
		{ "no TLSA records found", RESULT_SITE_FAILURE, PHASE_STARTTLS, 0 },
		{ "Verification not possible, MX RRset is insecure", RESULT_SITE_FAILURE,
		    PHASE_STARTTLS, 0 },
		{ "unexpected server message", RESULT_SITE_FAILURE, PHASE_STARTTLS, 0 },
		{ "all network protocols are disabled", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
		{ "network address conversion failed: Invalid argument", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
		{ "mx.example.net: host not found", RESULT_LOCAL, PHASE_DNS, 0 },
		{ "Name server loop for mx.example.net", RESULT_LOCAL, PHASE_DNS, 0 },
		{ "Name service initialization failure", RESULT_LOCAL, PHASE_DNS, 0 },
		{ "server configuration error", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
		{ "Temporary lookup error", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
		{ "REQUIRETLS policy configuration error. The last attempted server was "
		    "mx.example.net", RESULT_LOCAL, PHASE_UNKNOWN, 0 },
	};
	static const struct example bounced[] = {
		{ "mx.example.net: host not found", RESULT_PERMANENT, PHASE_DNS, 0 },
		{ "Error looking up name=example.net type=MX: DNS reply filter drops all results",
		    RESULT_PERMANENT, PHASE_DNS, 0 },
	};

	CHECK_ALL(deferred, .status = DELIVERY_DEFERRED, .dsn = { 4, 4, 4 });
	CHECK_ALL(bounced, .status = DELIVERY_BOUNCED, .dsn = { 5, 4, 4 });
}
