/* SPDX-License-Identifier: ISC */
/* The policy front end over real sockets, with an engine and a clock of the
 * test's own. */
#include "tests/unit/test.h"

#include <poll.h>
#include <sys/resource.h>
#include <time.h>

#include "front/policy/policy.h"
#include "tests/unit/front/outbound/fake_engine.h"
#include "tests/unit/front/http/front_clients.h"
#include "wire/ask/policy_request.h"

#define HEAD "request=smtpd_access_policy\n"
#define CONNECT(port) HEAD "protocol_state=CONNECT\nclient_address=192.0.2.7\n" \
	"client_port=" port "\n\n"
#define OTHER HEAD "protocol_state=DATA\n\n"
#define DUNNO "action=DUNNO\n\n"
#define REFUSAL "action=421 4.7.0 Too many of you (id=0000000000ww)\n\n"

static struct policy_front *front;

static int set_up(void **state) {
	int fd = begin();
	struct diag diag;

	assert_int_equal(policy_front_open(&front, &fake, &diag), 0);
	loop = policy_front_base(front);
	assert_int_equal(policy_front_listen(front, fd, 3, &diag), 0);
	return 0;
}

static int tear_down(void **state) {
	policy_front_close(&front);
	assert_null(front);
	assert_int_equal(fake.pins, 0);
	return 0;
}

/* Until the timer of the front end has fired once more. */
static void turn_for_a_second(void) {
	unsigned before = fake.heartbeats;
	time_t limit = time(NULL) + 20;

	while (fake.heartbeats == before && time(NULL) < limit)
		event_base_loop(loop, EVLOOP_ONCE);
	assert_true(fake.heartbeats > before);
}

#define SAY(fd, text) say(fd, text, sizeof(text) - 1)

static void hear_nothing(int fd) {
	char c;

	assert_int_equal(read(fd, &c, 1), -1);
	assert_int_equal(errno, EAGAIN);
}

TEST_IN(set_up, tear_down, requests_are_answered_one_by_one) {
	int fd = client();

	SAY(fd, CONNECT("1"));
	hear(fd, DUNNO);
	assert_int_equal(fake.asked.listener, 3);
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	SAY(fd, CONNECT("2"));
	hear(fd, REFUSAL);
	SAY(fd, OTHER);
	hear(fd, DUNNO);
	assert_int_equal(fake.opens, 2);
	close(fd);
	turn();
	assert_int_equal(fake.ended, 2);
}

TEST_IN(set_up, tear_down, requests_in_pieces) {
	static const char text[] = CONNECT("7") OTHER;
	int fd = client();

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		say(fd, text + i, 1);
	hear(fd, DUNNO DUNNO);
	for (size_t cut = 1; cut < sizeof(text) - 1; cut += 7) {
		say(fd, text, cut);
		say(fd, text + cut, sizeof(text) - 1 - cut);
		hear(fd, DUNNO DUNNO);
	}
	close(fd);
	turn();
	assert_int_equal(lines, 0);
}

TEST_IN(set_up, tear_down, pipelined_requests) {
	int fd = client();
	char text[60000];
	size_t length = 0, got = 0;
	unsigned asked = 0;

	while (length + sizeof(OTHER) < sizeof(text)) {
		memcpy(text + length, OTHER, sizeof(OTHER) - 1);
		length += sizeof(OTHER) - 1;
		asked++;
	}
	say(fd, text, length);
	for (ssize_t n; (n = read(fd, text, sizeof(text))) > 0;)
		got += (size_t)n;
	assert_int_equal(got, asked * (sizeof(DUNNO) - 1));
	close(fd);
}

/* The buffer of an unfinished request is small at first. */
TEST_IN(set_up, tear_down, requests_behind_an_unfinished_one_are_all_read) {
	enum { REQUESTS = 400 };
	static char text[REQUESTS * sizeof(OTHER)], wanted[REQUESTS * sizeof(DUNNO)];
	char got[REQUESTS * sizeof(DUNNO)];
	int fd = client();
	ssize_t n;

	for (size_t i = 0; i < REQUESTS; i++) {
		memcpy(text + i * (sizeof(OTHER) - 1), OTHER, sizeof(OTHER));
		memcpy(wanted + i * (sizeof(DUNNO) - 1), DUNNO, sizeof(DUNNO));
	}
	say(fd, text, 10);
	say(fd, text + 10, strlen(text) - 10);
	n = read(fd, got, sizeof(got));
	assert_int_equal(n, strlen(wanted));
	assert_memory_equal(got, wanted, (size_t)n);
	SAY(fd, OTHER);
	hear(fd, DUNNO);
	close(fd);
	turn();
	assert_int_equal(lines, 0);
}

/* Sends without a turn of the loop. */
static void put(int fd, const char *text) {
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

#define TOGETHER 40	/* more than replies that wait for each other */

static void clients(int *fds, size_t count) {
	fake_block.generation.policy_connections = TOGETHER;
	for (size_t i = 0; i < count; i++)
		fds[i] = client();
}

TEST_IN(set_up, tear_down, clients_that_ask_together_are_answered_together) {
	int fds[TOGETHER];

	clients(fds, TOGETHER);
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	for (int i = 0; i < TOGETHER; i++)
		put(fds[i], i % 3 == 0 ? CONNECT("1") : OTHER);
	turn();
	for (int i = 0; i < TOGETHER; i++) {
		hear(fds[i], i % 3 == 0 ? REFUSAL : DUNNO);
		close(fds[i]);
	}
	assert_int_equal(lines, 14);
}

static void repeat(char *out, const char *text, unsigned times) {
	size_t length = strlen(text);

	for (unsigned i = 0; i < times; i++)
		memcpy(out + i * length, text, length + 1);
}

/* More than one piece, of clients that are ready together. */
TEST_IN(set_up, tear_down, pipelined_requests_of_many_clients_keep_to_their_own) {
	enum { REQUESTS = 70 };
	static char asked[2][REQUESTS * sizeof(CONNECT("1"))];
	static char wanted[2][REQUESTS * sizeof(REFUSAL)];
	int fds[TOGETHER / 2];

	clients(fds, TOGETHER / 2);
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	repeat(asked[0], OTHER, REQUESTS);
	repeat(wanted[0], DUNNO, REQUESTS);
	repeat(asked[1], CONNECT("1"), REQUESTS);
	repeat(wanted[1], REFUSAL, REQUESTS);
	for (int i = 0; i < TOGETHER / 2; i++)
		put(fds[i], asked[i % 2]);
	turn();
	for (int i = 0; i < TOGETHER / 2; i++) {
		hear(fds[i], wanted[i % 2]);
		close(fds[i]);
	}
}

TEST_IN(set_up, tear_down, a_client_that_ends_costs_no_other_its_reply) {
	int gone = client(), broken = client(), good = client();

	put(gone, CONNECT("1"));
	put(broken, CONNECT("2") "GET / HTTP/1.0\r\n\r\n");
	put(good, OTHER);
	close(gone);
	turn();
	hear(good, DUNNO);
	hear(broken, DUNNO);
	hear_end(broken);
	assert_int_equal(fake.ended, 2);
	SAY(good, OTHER);
	hear(good, DUNNO);
	close(good);
}

TEST_IN(set_up, tear_down, a_half_closed_client_gets_what_it_asked_for) {
	int fd = client();

	assert_int_equal(send(fd, CONNECT("1"), sizeof(CONNECT("1")) - 1, 0),
	    sizeof(CONNECT("1")) - 1);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	turn();
	hear(fd, DUNNO);
	hear_end(fd);
	assert_int_equal(fake.counted[COUNTER_BAD_POLICY_REQUESTS], 0);
	assert_int_equal(fake.ended, 1);
}

TEST_IN(set_up, tear_down, an_end_in_the_middle_is_malformed) {
	int fd = client();

	SAY(fd, CONNECT("1") HEAD "proto");
	hear(fd, DUNNO);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	hear_end(fd);
	assert_int_equal(fake.counted[COUNTER_BAD_POLICY_REQUESTS], 1);
	assert_non_null(strstr(line, "event=bad-request from=policy listener=3 offset=0 "
	    "text=\"the connection ended in the middle of a request\" "
	    "bytes=request=smtpd_access_policy\\x0aproto action=close"));
}

TEST_IN(set_up, tear_down, malformed_requests_end_their_connection_only) {
	int good = client(), bad = client();

	SAY(bad, CONNECT("5") "request=smtpd_access_policy\nGET / HTTP/1.0\r\n\r\n");
	hear(bad, DUNNO);
	hear_end(bad);
	assert_int_equal(fake.counted[COUNTER_BAD_POLICY_REQUESTS], 1);
	assert_int_equal(fake.ended, 1);
	assert_non_null(strstr(line, "offset=28 text=\"line without name=value\" "
	    "bytes=GET\\x20/\\x20HTTP/1.0"));
	SAY(good, OTHER);
	hear(good, DUNNO);
	close(good);
}

TEST_IN(set_up, tear_down, endless_requests_end) {
	static char text[200000];
	int fd = client();
	size_t sent = 0;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "a=bcdefghijklmn\n"[i % 16];
	while (sent < sizeof(text)) {
		ssize_t n = send(fd, text + sent, 8000, MSG_NOSIGNAL);

		if (n < 0 && errno == EPIPE)
			break;
		if (n > 0)
			sent += (size_t)n;
		turn();
	}
	assert_true(sent < sizeof(text));
	assert_int_equal(fake.counted[COUNTER_BAD_POLICY_REQUESTS], 1);
	assert_non_null(strstr(line, "text=\"request too long\""));
	close(fd);
}

TEST_IN(set_up, tear_down, an_unfinished_request_has_ten_seconds) {
	int slow = client(), idle = client();

	SAY(idle, OTHER);
	hear(idle, DUNNO);
	SAY(slow, HEAD);
	test_now_ns += 9 * NS_PER_SECOND;
	SAY(slow, "a=b\n");
	turn_for_a_second();
	hear_nothing(slow);
	test_now_ns += 1 * NS_PER_SECOND;
	turn_for_a_second();
	hear_end(slow);
	assert_int_equal(fake.counted[COUNTER_STALLED_POLICY_CLIENTS], 1);
	assert_non_null(strstr(line, "event=client-limit from=policy listener=3 text=\"the "
	    "client does not complete its request\""));
	test_now_ns += 1000 * NS_PER_SECOND;
	turn_for_a_second();
	SAY(idle, OTHER);
	hear(idle, DUNNO);
	close(idle);
}

/* Asks and never reads, until the front end stops to read, too. */
static unsigned stuff(int fd) {
	unsigned asked = 0, turns = 0;

	for (;;) {
		ssize_t n = send(fd, OTHER, sizeof(OTHER) - 1, MSG_NOSIGNAL);

		if (n == (ssize_t)sizeof(OTHER) - 1) {
			asked++;
			turns = 0;
		} else if (n < 0 && errno == EAGAIN) {
			if (++turns > 20)
				return asked;
			turn();
		} else {
			fail_msg("a piece of a request was sent");
		}
	}
}

TEST_IN(set_up, tear_down, a_client_that_reads_late_gets_all) {
	int fd = client();
	unsigned asked = stuff(fd);
	size_t wanted = asked * (sizeof(DUNNO) - 1), got = 0;
	char text[4096];

	assert_true(asked > 100);
	for (int i = 0; i < 100000 && got < wanted; i++) {
		ssize_t n = read(fd, text, sizeof(text));

		if (n > 0)
			got += (size_t)n;
		else
			turn();
	}
	assert_int_equal(got, wanted);
	SAY(fd, CONNECT("1"));
	hear(fd, DUNNO);
	assert_int_equal(lines, 0);
	close(fd);
}

TEST_IN(set_up, tear_down, a_client_that_never_reads_has_ten_seconds) {
	int fd = client(), other = client();

	stuff(fd);
	SAY(other, CONNECT("1"));
	hear(other, DUNNO);
	test_now_ns += 10 * NS_PER_SECOND;
	turn_for_a_second();
	assert_int_equal(fake.counted[COUNTER_STALLED_POLICY_CLIENTS], 1);
	assert_non_null(strstr(line, "the client does not read its reply"));
	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
	SAY(other, OTHER);
	hear(other, DUNNO);
	close(other);
	close(fd);
}

TEST_IN(set_up, tear_down, a_client_that_went_away_before_its_reply) {
	int fd = client();

	stuff(fd);
	close(fd);
	turn();
	fd = client();
	assert_int_equal(send(fd, CONNECT("1"), sizeof(CONNECT("1")) - 1, 0),
	    sizeof(CONNECT("1")) - 1);
	close(fd);
	turn();
	assert_int_equal(fake.opens, 1);
	assert_int_equal(fake.ended, 1);
}

TEST_IN(set_up, tear_down, connections_have_a_cap) {
	int fds[8], more, silent;

	for (int i = 0; i < 8; i++) {
		fds[i] = client();
		SAY(fds[i], OTHER);
		hear(fds[i], DUNNO);
	}
	more = client();
	hear_end(more);
	assert_non_null(strstr(line, "event=client-limit from=policy listener=3 connections=8 "
	    "limit=8 action=close"));
	close(fds[0]);
	turn();
	/* who has asked nothing so far makes room */
	silent = client();
	fds[0] = client();
	hear_end(silent);
	assert_non_null(strstr(line, "action=close-idle"));
	for (int i = 0; i < 8; i++) {
		SAY(fds[i], OTHER);
		hear(fds[i], DUNNO);
		close(fds[i]);
	}
}

/* With a reply unread, behind a piece of a request: the kernel tells of an error, not of an end. */
TEST_IN(set_up, tear_down, a_client_that_dies_in_a_request_is_over_at_once) {
	int fd = client();

	SAY(fd, CONNECT("1"));
	put(fd, HEAD);
	close(fd);
	turn();
	assert_int_equal(fake.ended, 1);
	assert_int_equal(fake.counted[COUNTER_STALLED_POLICY_CLIENTS], 0);
}

/* No descriptors: accepting pauses, those that are served stay so. */
TEST_IN(set_up, tear_down, accepting_pauses_without_descriptors) {
	int fd = client(), late = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct rlimit before, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = (rlim_t)late + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	try_connect(late);
	turn();
	assert_int_equal(lines, 1);
	assert_non_null(strstr(line, "event=system from=policy text=\"cannot accept: "));
	SAY(fd, OTHER);
	hear(fd, DUNNO);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(send(late, OTHER, sizeof(OTHER) - 1, MSG_NOSIGNAL), sizeof(OTHER) - 1);
	turn_for_a_second();
	turn();
	hear(late, DUNNO);
	close(late);
	close(fd);
}
