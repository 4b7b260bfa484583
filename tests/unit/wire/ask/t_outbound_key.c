/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"

#include "wire/ask/outbound_key.h"

static void text_is(struct span text, const char *wanted) {
	if (text.length != strlen(wanted) ||
	    (text.length > 0 && memcmp(text.text, wanted, text.length) != 0))
		fail_msg("\"%.*s\" is not \"%s\"", (int)text.length, text.text, wanted);
}

static struct outbound_key parse(const char *key) {
	struct outbound_key out;

	assert_true(outbound_key_parse(key, strlen(key), &out));
	return out;
}

/* As Sendmail 8.17 makes them out of its tokens. */
TEST(real_keys) {
	struct outbound_key k = parse("compat;h= h2.example.org.;i= 6AL5abcd012345");

	assert_int_equal(k.kind, OUTBOUND_KEY_COMPAT);
	text_is(k.host, "h2.example.org");
	text_is(k.queue_id, "6AL5abcd012345");
	assert_true(address_is_unknown(&k.server));
	k = parse("tlssrv;h=[127.0.0.2];i= 6AL5abcd012345;sn= h2.example.org.;sa= 127.0.0.2");
	assert_int_equal(k.kind, OUTBOUND_KEY_TLSSRV);
	text_is(k.host, "[127.0.0.2]");
	text_is(k.server_name, "h2.example.org");
	address_is(&k.server, "127.0.0.2");
	k = parse("tlssrv;h=a;sa= IPv6:2001:db8::1");
	address_is(&k.server, "2001:db8::1");
	k = parse("compat;i= 6AL5;f= a@example.com;h= h2.example.org.;rh=;rm=;"
	    "n= 0;c= 1;u=;t= b@h2.example.org");
	text_is(k.host, "h2.example.org");
	text_is(k.recipient, "b@h2.example.org");
	k = parse("compat;ca= 192.0.2.7;cp= 46697;da= 198.51.100.1;ia=;dp= 25;h=a;i=1;t=b;ca=1.2.3.4");
	address_is(&k.session.client, "192.0.2.7");
	address_is(&k.session.server, "198.51.100.1");
	assert_int_equal(k.session.client_port, 46697);
	assert_int_equal(k.session.server_port, 25);
	text_is(k.host, "a");
	k = parse("tlssrv;ca=;cp=;da=;ia=;dp=;h=a");
	assert_true(address_is_unknown(&k.session.client) && k.session.client_port == 0);
	k = parse("turn;h= h2.example.org.;i= 6AL5abcd012345");
	assert_int_equal(k.kind, OUTBOUND_KEY_TURN);
	text_is(k.host, "h2.example.org");
	text_is(k.queue_id, "6AL5abcd012345");
}

TEST(the_recipient_is_all_the_rest) {
	static const struct { const char *key, *recipient; } rows[] = {
		{ "compat;h=a;i=1", "" },
		{ "compat;h=a;i=1;t=", "" },
		{ "compat;h=a;i=1;t= u@a.example ", "u@a.example" },
		{ "compat;h=a;i=1;t=<u@a.example>", "u@a.example" },
		{ "compat;h=a;i=1;t=< >", "" },
		{ "compat;h=a;i=1;t=\"x;h=b;i=2\"@a.example", "\"x;h=b;i=2\"@a.example" },
		{ "compat;h=a;i=1;t=\";t=v@b\"@a", "\";t=v@b\"@a" },
		{ "compat;h=a;i=1; t = \"a b\" @ c ;", "\"a b\" @ c ;" },
		{ "compat;h=a;i=1;t=a=b@c", "a=b@c" },
		{ "compat;h=a;i=1;t=\xff\x01@c", "\xff\x01@c" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct outbound_key k = parse(rows[i].key);

		text_is(k.recipient, rows[i].recipient);
		text_is(k.host, "a");
		text_is(k.queue_id, "1");
	}
}

TEST(the_first_of_a_field_counts) {
	struct outbound_key k = parse("compat;h=a.example;i=1;f=\"x;h=b.example;i=2\"@c");

	text_is(k.host, "a.example");
	text_is(k.queue_id, "1");
	k = parse("compat;h=;i=;h=b.example");
	text_is(k.host, "");
}

TEST(hosts) {
	static const struct { const char *key, *host; } rows[] = {
		{ "compat", "" },
		{ "compat;", "" },
		{ "compat;h", "" },
		{ "compat;h=", "" },
		{ "compat;h= ", "" },
		{ "compat;h= .", "" },
		{ "compat;H=a", "" },
		{ "compat;x=h=a", "" },
		{ " compat ; h = a.example. ; ", "a.example" },
		{ "compat;h=a.example..", "a.example." },
		{ "compat;h=a.example.:b.example.", "a.example" },
		{ "compat;h=a : b : c", "a" },
		{ "compat;h=a . : b", "a" },
		{ "compat;h=[IPv6:2001:db8::1]", "[IPv6:2001:db8::1]" },
		{ "compat;h=[IPv6:2001:db8::1]:b", "[IPv6:2001:db8::1]" },
		{ "compat;h=[a.example]:b", "[a.example]" },
		{ "compat;h=:b", "" },
		{ "compat;h=[a:b", "[a:b" },
		{ "compat;h=a=b", "a=b" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		text_is(parse(rows[i].key).host, rows[i].host);
}

TEST(other_keys) {
	static const char *const keys[] = { "", ";", "x", "compatx;h=a", "compat h=a", "Compat;h=a",
		"tls;h=a", ";compat;h=a", "h=a;compat" };
	struct outbound_key k;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		assert_false(outbound_key_parse(keys[i], strlen(keys[i]), &k));
}

TEST(what_is_no_address) {
	static const char *const keys[] = { "tlssrv;h=a;sa=0", "tlssrv;h=a;sa=", "tlssrv;h=a",
		"tlssrv;h=a;sa=localhost", "tlssrv;h=a;sa=1.2.3.4 x", "tlssrv;h=a;sa=;sa=1.2.3.4" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct outbound_key k = parse(keys[i]);

		assert_true(address_is_unknown(&k.server));
	}
}
