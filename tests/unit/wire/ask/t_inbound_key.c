/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"

#include "wire/ask/inbound_key.h"

static struct inbound_key parse(const char *key) {
	struct inbound_key out;

	assert_true(inbound_key_parse(key, strlen(key), &out));
	return out;
}

static void is_name(const struct inbound_key *key, const char *wanted) {
	if (key->name.length != strlen(wanted) ||
	    (key->name.length > 0 && memcmp(key->name.text, wanted, key->name.length) != 0))
		fail_msg("\"%.*s\" is not \"%s\"", (int)key->name.length, key->name.text, wanted);
}

/* As Sendmail 8.17 makes them out of its tokens. */
TEST(real_keys) {
	struct inbound_key k = parse("connect;ca= 192.0.2.7;cp= 46697;da= 198.51.100.1;ia=;"
	    "dp= 25;cr= OK;n= mx.customer.example");

	address_is(&k.session.client, "192.0.2.7");
	address_is(&k.session.server, "198.51.100.1");
	assert_int_equal(k.session.client_port, 46697);
	assert_int_equal(k.session.server_port, 25);
	is_name(&k, "mx.customer.example");
	k = parse("connect;ca= 127.0.0.3;cp= 46697;da= 0.0.0.0;ia=;dp= 2025;cr= FAIL;n=[127.0.0.3]");
	address_is(&k.session.client, "127.0.0.3");
	assert_true(address_is_unknown(&k.session.server));
	assert_int_equal(k.session.server_port, 2025);
	is_name(&k, "");
	k = parse("connect;ca= IPv6:2001:db8:0:0:0:0:0:1;cp= 52870;da= IPv6:0:0:0:0:0:0:0:0;"
	    "ia=[IPv6:2001:db8:0:0:0:0:0:2];dp= 25;cr= OK;n= localhost");
	address_is(&k.session.client, "2001:db8::1");
	address_is(&k.session.server, "2001:db8::2");
	is_name(&k, "localhost");
}

/* The owner of an address chooses its name. */
TEST(the_name_changes_nothing_else) {
	struct inbound_key k = parse("connect;ca=192.0.2.7;cp=1;da=0.0.0.0;dp=25;cr=OK;"
	    "n= x;ca=192.0.2.8;cp=2;ia=192.0.2.9;dp=26;cr=OK;n=y ");

	address_is(&k.session.client, "192.0.2.7");
	assert_true(k.session.client_port == 1 && k.session.server_port == 25);
	assert_true(address_is_unknown(&k.session.server));
	is_name(&k, "x;ca=192.0.2.8;cp=2;ia=192.0.2.9;dp=26;cr=OK;n=y");
	k = parse("connect;cr=FAIL;n=x;cr=OK");
	is_name(&k, "");
	k = parse("connect;ca=;ca=192.0.2.8;cp=;cp=1;cr=;cr=OK;n=a");
	assert_true(address_is_unknown(&k.session.client) && k.session.client_port == 0);
	is_name(&k, "");
}

TEST(names) {
	static const struct { const char *key, *name; } rows[] = {
		{ "connect", "" }, { "connect;n=", "" }, { "connect;n= ", "" },
		{ "connect;n", "" }, { "connect;N=a", "" }, { "connect;n=a", "a" },
		{ "connect;n=unknown", "" }, { "connect;n=unknown.example", "unknown.example" },
		{ "connect;n=[192.0.2.1]", "" }, { "connect;n=a=b", "a=b" },
		{ "connect;cr=OK;n=a", "a" }, { "connect;cr=TEMP;n=a", "" },
		{ "connect;cr=FORGED;n=a", "" }, { "connect;cr=ok;n=a", "" },
		{ " connect ; n = a ", "a" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct inbound_key k = parse(rows[i].key);

		is_name(&k, rows[i].name);
	}
}

TEST(what_is_no_address_or_port) {
	static const char *const keys[] = { "connect", "connect;ca=0;cp=0;da=0;ia=0;dp=0",
		"connect;ca=localhost;cp=smtp;da=MTA;ia=lo;dp=smtp", "connect;ca=1.2.3.4 x;cp=-1",
		"connect;ca=1.2.3;cp=65536;dp=99999999999", "connect;cp=1 2;dp=0x19",
		"connect;da=0.0.0.0;ia=::;dp=" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct inbound_key k = parse(keys[i]);

		assert_true(address_is_unknown(&k.session.client) && k.session.client_port == 0);
		assert_true(address_is_unknown(&k.session.server) && k.session.server_port == 0);
	}
}

TEST(other_keys) {
	static const char *const keys[] = { "", ";", "x", "connects;ca=1.2.3.4", "compat;h=a",
		"connect ca=1.2.3.4", "Connect;n=a", ";connect", "ca=1.2.3.4;connect" };
	struct inbound_key k;

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		assert_false(inbound_key_parse(keys[i], strlen(keys[i]), &k));
}
