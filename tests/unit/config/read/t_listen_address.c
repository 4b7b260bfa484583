/* SPDX-License-Identifier: ISC */
#include <arpa/inet.h>
#include <netinet/in.h>
#include "tests/unit/test.h"
#include "config/read/listen_address.h"

TEST(unix_path_is_taken_as_it_is) {
	struct listen_address address;
	const char *why;

	assert_true(listen_address_parse("unix:/run/postern/policy", &address, &why));
	assert_int_equal(address.socket_address.ss_family, AF_UNIX);
	assert_string_equal(address.path, "/run/postern/policy");
	assert_int_equal(address.length, sizeof(struct sockaddr_un));
}

TEST(longest_path_has_107_bytes) {
	struct listen_address address;
	char text[5 + 109];
	const char *why = NULL;

	memset(text, 'x', sizeof(text));
	memcpy(text, "unix:/", 6);
	text[5 + 107] = '\0';
	assert_true(listen_address_parse(text, &address, &why));
	assert_int_equal(strlen(address.path), 107);
	text[5 + 107] = 'x';
	text[5 + 108] = '\0';
	assert_false(listen_address_parse(text, &address, &why));
	assert_non_null(strstr(why, "107"));
}

TEST(inet_and_inet6_are_read) {
	struct listen_address address;
	const struct sockaddr_in *v4 = (const void *)&address.socket_address;
	const struct sockaddr_in6 *v6 = (const void *)&address.socket_address;
	const char *why;

	assert_true(listen_address_parse("inet:127.0.0.1:9471", &address, &why));
	assert_int_equal(v4->sin_family, AF_INET);
	assert_int_equal(ntohs(v4->sin_port), 9471);
	assert_int_equal(ntohl(v4->sin_addr.s_addr), INADDR_LOOPBACK);
	assert_int_equal(address.length, sizeof(*v4));
	assert_string_equal(address.path, "");
	assert_true(listen_address_parse("inet6:[::1]:65535", &address, &why));
	assert_int_equal(v6->sin6_family, AF_INET6);
	assert_int_equal(ntohs(v6->sin6_port), 65535);
	assert_memory_equal(&v6->sin6_addr, &in6addr_loopback, 16);
	assert_int_equal(address.length, sizeof(*v6));
}

TEST(anything_else_says_why) {
	static const char *const bad[] = {
		"", "/run/x", "unix:", "unix:run/x", "unix:/run/", "unix:/a b", "unix:/a\n",
		"local:/x", "inet:", "inet:127.0.0.1", "inet:localhost:25", "inet::25",
		"inet:127.0.0.1:", "inet:127.0.0.1:0", "inet:127.0.0.1:65536", "inet:127.0.0.1:2x",
		"inet:1.2.3.4.5:1", "inet:127.0.0.1:-1", "inet6:::1:25", "inet6:[::1]", "inet6:[::1]25",
		"inet6:[::1]:0", "inet6:[x]:1", "inet6:[]:1", "inet6:]:1", "inet6:[127.0.0.1]:1",
		"inet6:[fe80::1%lo]:1", "INET:127.0.0.1:1",
		"inet:111111111111111111111111111111111111111111111111111111111111111111:1",
	};
	struct listen_address address;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const char *why = NULL;

		if (listen_address_parse(bad[i], &address, &why))
			fail_msg("\"%s\" was taken", bad[i]);
		assert_non_null(why);
	}
}
