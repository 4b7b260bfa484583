/* SPDX-License-Identifier: ISC */
/* A role's own look at real connections of this host, while no keeper is there. */
#include "tests/unit/test.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "engine/session/witness.h"
#include "role/run/own_look.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"

#define ONE "classes = ( { name = \"all\"; match = [ \"*\" ]; refuse_at = 1; } );"

static int listening, client, served;

static struct sockaddr_in name_of(int fd) {
	struct sockaddr_in name;
	socklen_t length = sizeof(name);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &length), 0);
	return name;
}

/* A connection whose server's half is bound to `interface` (NULL: to none).  False:
 * we may not. */
static bool connect_through(const char *interface) {
	struct sockaddr_in name = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (interface != NULL && setsockopt(listening, SOL_SOCKET,
		SO_BINDTODEVICE, interface, (socklen_t)strlen(interface)) != 0)
		return false;
	assert_int_equal(bind(listening, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(listening, 4), 0);
	name = name_of(listening);
	assert_int_equal(connect(client, (struct sockaddr *)&name, sizeof(name)), 0);
	served = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	assert_true(served >= 0);
	return true;
}

/* The session of the connection, as the witness has seen it. */
static void open_session(void) {
	struct question question = site_question("127.0.0.1",
	    ntohs(name_of(client).sin_port), NULL);
	struct connection connection = { .client = question.client,
		.client_port = question.client_port, .alive = true };
	struct answer answer;

	connection.server = question.server = question.client;
	connection.server_port = question.server_port =
	    ntohs(name_of(listening).sin_port);
	answer = site_ask(&question, clock_now_ns());
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	engine_session_seen(site.engine, &answer.session, &connection,
	    clock_now_ns());
}

static int open_site(void **state) {
	struct sockaddr_nl name = { .nl_family = AF_NETLINK };
	struct role_context context = { .netlink_count = 1 };

	site_open(&site, 100, ONE);
	engine_heartbeat(site.engine, clock_now_ns());
	context.netlink_fds[0] = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC,
	    NETLINK_SOCK_DIAG);
	assert_int_equal(bind(context.netlink_fds[0], (struct sockaddr *)&name,
	    sizeof(name)), 0);
	own_look_open(&context, site.engine);
	return 0;
}

/* The class is full of one: may another one come? */
static void lives_until_it_ends(const char *interface) {
	enum verdict verdict = VERDICT_REFUSE;
	struct session_ref next;

	if (!connect_through(interface)) {
		close(listening);
		close(client);
		skip();
	}
	open_session();
	assert_int_equal(site_verdict("192.0.2.1", 1, NULL), VERDICT_REFUSE);
	close(served);
	for (int tries = 0; tries < 100 && verdict != VERDICT_ADMIT; tries++) {
		usleep(20000);
		verdict = site_inbound(&site, "192.0.2.1", 1, NULL, &next);
	}
	assert_int_equal(verdict, VERDICT_ADMIT);
	engine_session_close(site.engine, &next, clock_now_ns());
	close(listening);
	close(client);
}

TEST(a_living_session_is_not_taken_for_ended) {
	lives_until_it_ends(NULL);
}

TEST(nor_one_that_is_bound_to_an_interface) {
	lives_until_it_ends("lo");
}

TEST_GROUP(open_site, site_end)
