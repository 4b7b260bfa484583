/* SPDX-License-Identifier: ISC */
/* The socketmap front end over real sockets, with an engine and a clock of the
 * test's own. */
#include "tests/unit/test.h"
#include "tests/unit/address_is.h"

#include <sys/wait.h>
#include <time.h>

#include "engine/outbound/outbound.h"
#include "front/outbound/socketmap.h"
#include "tests/unit/front/outbound/fake_engine.h"
#include "tests/unit/front/http/front_clients.h"
#include "wire/ask/socketmap.h"

/* The engine's outbound part */

struct outbound_process {
	struct process_identity identity;
};

static struct outbound_answer next_answer;
static struct outbound_question asked;
static char asked_host[100], asked_name[100];
static char asked_recipient[100], asked_id[100];
static unsigned opened, asks, closed, left, looks;
static bool still_there;		/* the processes go on without their connections */
static struct process_identity last_opened;

struct outbound_process *outbound_process_open(struct engine *engine,
    const struct process_identity *identity) {
	struct outbound_process *process = calloc(1, sizeof(*process));

	assert_non_null(process);
	opened++;
	last_opened = process->identity = *identity;
	return process;
}

bool outbound_is_its_turn(struct engine *engine, const struct generation *generation,
    const char *queue_id, size_t queue_id_length, const char *domain, size_t length,
    int64_t now_ns) {
	assert_int_equal(queue_id_length, 4);
	assert_memory_equal(queue_id, "7AL1", 4);
	return length == 9 && memcmp(domain, "a.example", 9) == 0;
}

void outbound_turn_why(struct engine *engine, const struct generation *generation,
    const char *domain, size_t length, uint8_t mta, int64_t now_ns,
    struct outbound_answer *out) {
	memset(out, 0, sizeof(*out));
	out->answer.decision.reason = REASON_NOT_ITS_TURN;
	if (length != 12 || memcmp(domain, "held.example", 12) != 0)
		return;
	out->answer.decision.reason = REASON_SUSPENDED;
	out->until_ns = INT64_MAX;
	memcpy(out->owner, "held.example", 13);
	memcpy(out->why, "moving", 7);
}

void outbound_process_ask(struct outbound_process *process,
    const struct generation *generation, const struct outbound_question *question,
    int64_t now_ns, struct outbound_answer *answer) {
	(void)generation, (void)now_ns;
	assert_non_null(process);
	asks++;
	asked = *question;
	snprintf(asked_host, sizeof(asked_host), "%.*s", (int)question->destination_length,
	    question->destination);
	snprintf(asked_name, sizeof(asked_name), "%.*s", (int)question->server_name_length,
	    question->server_name == NULL ? "" : question->server_name);
	snprintf(asked_recipient, sizeof(asked_recipient), "%.*s",
	    (int)question->recipient_length, question->recipient == NULL ? "" :
	    question->recipient);
	snprintf(asked_id, sizeof(asked_id), "%.*s", (int)question->queue_id_length,
	    question->queue_id == NULL ? "" : question->queue_id);
	*answer = next_answer;
}

void outbound_process_leave(struct outbound_process *process,
    const struct generation *generation, int64_t now_ns) {
	(void)process, (void)generation, (void)now_ns;
	left++;
}

bool outbound_process_is_over(const struct outbound_process *process) {
	looks++;
	return !still_there;
}

void outbound_process_close(struct outbound_process **process,
    const struct generation *generation, int64_t now_ns) {
	(void)generation, (void)now_ns;
	closed += *process != NULL;
	free(*process);
	*process = NULL;
}

const char *class_source_word(enum class_source source) {
	return source == CLASS_SOURCE_DOMAIN ? "domain" : "relay";
}

/* The front end */

static struct socketmap_front *front;

static void engine_answers(enum verdict verdict, enum reason reason) {
	fake_answer(verdict, reason, 0);
	next_answer = (struct outbound_answer){ .answer = fake.next,
		.found = { .class_index = 0, .rule = 0, .source = CLASS_SOURCE_DOMAIN } };
	next_answer.answer.newly_decided = true;
}

static int set_up(void **state) {
	int fd = begin();
	struct diag diag;

	engine_answers(VERDICT_ADMIT, REASON_BELOW_LIMIT);
	opened = asks = closed = left = looks = 0;
	still_there = false;
	loop = event_base_new();
	assert_int_equal(socketmap_front_open(&front, &fake, loop, &diag), 0);
	assert_int_equal(socketmap_front_listen(front, fd, 3, &diag), 0);
	return 0;
}

static int tear_down(void **state) {
	if (front != NULL)
		socketmap_front_close(&front);
	assert_null(front);
	event_base_free(loop);
	assert_int_equal(fake.pins, 0);
	assert_int_equal(opened, closed);
	return 0;
}

static void request(int fd, const char *content) {
	char text[400];

	say(fd, text, (size_t)snprintf(text, sizeof(text), "%zu:%s,", strlen(content), content));
}

#define COMPAT "postern compat;h=a.example"

/* One that has asked about mail. */
static int asking(void) {
	int fd = client();

	request(fd, COMPAT);
	hear(fd, "5:OK OK,");
	return fd;
}

TEST_IN(set_up, tear_down, the_process_is_known) {
	int fd = client(), other;

	assert_int_equal(opened, 0);
	request(fd, COMPAT);
	request(fd, COMPAT);
	assert_int_equal(opened, 1);
	assert_int_equal(last_opened.pid, getpid());
	assert_true(last_opened.start_ticks > 0);
	other = asking();
	assert_int_equal(opened, 2);
	close(fd);
	turn();
	assert_int_equal(closed, 1);
	close(other);
	turn();
	assert_true(closed == 2 && lines == 0);
}

/* What it was admitted to in a class is free at once, its places in windows later. */
TEST_IN(set_up, tear_down, a_process_outlives_its_connection) {
	time_t limit = time(NULL) + 20;
	int fd = asking(), other = asking();

	still_there = true;
	close(fd);
	turn();
	assert_true(left == 1 && closed == 0);
	still_there = false;
	while (closed == 0 && time(NULL) < limit)
		event_base_loop(loop, EVLOOP_ONCE);
	assert_int_equal(closed, 1);
	still_there = true;
	close(other);
	turn();
	assert_true(left == 2 && closed == 1);
	test_now_ns += 2 * NS_PER_SECOND;	/* the keeper has to find out */
	while (closed == 1 && time(NULL) < limit)
		event_base_loop(loop, EVLOOP_ONCE);
	assert_int_equal(closed, 2);
	fd = asking();
	close(fd);
	turn();
	assert_int_equal(closed, 2);	/* and at our own end */
}

TEST_IN(set_up, tear_down, a_process_that_is_gone_counts_nothing) {
	int fd, status;
	pid_t pid = fork();

	if (pid == 0) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		try_connect(fd);
		_exit(send(fd, "18:postern compat;h=a,", 22, MSG_NOSIGNAL) == 22 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	turn();
	assert_int_equal(opened, 0);
	assert_int_equal(asks, 0);
	assert_int_equal(fake.counted[COUNTER_UNTRACKED], 1);
	assert_non_null(strstr(line, "event=untracked"));
}

TEST_IN(set_up, tear_down, questions_before_a_connect) {
	int fd = client();

	request(fd, "postern compat;h= a.example.;i= 6AL5abcd");
	hear(fd, "5:OK OK,");
	assert_int_equal(asked.stage, OUTBOUND_BEFORE_CONNECT);
	assert_string_equal(asked_host, "a.example");
	assert_int_equal(asked.mta, UINT8_MAX);
	assert_string_equal(asked_recipient, "");
	assert_string_equal(asked_id, "6AL5abcd");
	request(fd, "postern compat;h= a.example.;i= 6AL5abcd;t=<u;h=b@a.example>");
	hear(fd, "5:OK OK,");
	assert_string_equal(asked_host, "a.example");
	assert_string_equal(asked_recipient, "u;h=b@a.example");
	assert_int_equal(lines, 0);
	engine_answers(VERDICT_DEFER, REASON_CLASS_SESSIONS);
	request(fd, "postern compat;h= a.example.;i= 6AL5abcd");
	hear(fd, "58:OK DEFER class plain has 80 of 80 sessions id 0000000000ww,");
	assert_int_equal(lines, 1);
	assert_non_null(strstr(line, "event=deferred"));
	assert_non_null(strstr(line, "id=0000000000ww cause=- class=plain destination=a.example "
	    "found_by=domain window=- relay=- name=- queue_id=6AL5abcd"));
	assert_non_null(strstr(line, "stage=before-connect count=80 limit=80 "
	    "reason=class-sessions"));
	assert_non_null(strstr(line, "action=defer"));
	engine_answers(VERDICT_DEFER, REASON_CLASS_SHARE);
	next_answer.answer.decision.whole = 100;
	next_answer.answer.decision.lease = LEASE_ENDED;
	request(fd, "postern compat;h= a.example.;i= 6AL5abcd");
	hear(fd, "82:OK DEFER class plain has 80 of its 80 of 100 sessions and no lease "
	    "id 0000000000ww,");
	assert_non_null(strstr(line, "count=80 limit=80 cluster_limit=100 lease=ended "
	    "reason=class-share"));
	close(fd);
}

TEST_IN(set_up, tear_down, questions_when_connected) {
	int fd = client();

	request(fd, "postern tlssrv;h= a.example.;i= 6AL5;sn= mx.example.net.;sa= 192.0.2.1");
	hear(fd, "5:OK OK,");
	assert_int_equal(asked.stage, OUTBOUND_CONNECTED);
	assert_string_equal(asked_name, "mx.example.net");
	address_is(&asked.server, "192.0.2.1");
	request(fd, "postern tlssrv;h=detail;sn=localhost;sa=0");
	hear(fd, "5:OK OK,");
	request(fd, "postern compat;h=;i=6AL5");
	hear(fd, "5:OK OK,");
	assert_int_equal(asks, 1);
	close(fd);
}

TEST_IN(set_up, tear_down, windows_are_told) {
	int fd = client();

	engine_answers(VERDICT_DEFER, REASON_WINDOW_FULL);
	snprintf(next_answer.owner, sizeof(next_answer.owner), "provider:big");
	request(fd, "postern compat;h=a.example");
	hear(fd, "61:OK DEFER provider:big has 80 of 80 deliveries id 0000000000ww,");
	assert_non_null(strstr(line, "window=provider:big"));
	assert_non_null(strstr(line, "reason=window-full"));
	engine_answers(VERDICT_DEFER, REASON_SUSPENDED);
	snprintf(next_answer.owner, sizeof(next_answer.owner), "a.example");
	snprintf(next_answer.why, sizeof(next_answer.why), "421 4.7.0 \"<no>\"  (really)");
	/* the wall clock of these tests stands at 0 */
	next_answer.until_ns = test_now_ns + 10 * 24 * 3600 * NS_PER_SECOND;
	request(fd, "postern compat;h=a.example");
	hear(fd, "92:OK DEFER a.example is suspended until 1970-01-11 id 0000000000ww - 421 "
	    "4.7.0 __no__ _really_,");
	next_answer.until_ns = test_now_ns + 3 * NS_PER_SECOND - 1;
	request(fd, "postern compat;h=a.example");
	hear(fd, "88:OK DEFER a.example is suspended until 00:01Z id 0000000000ww - 421 "
	    "4.7.0 __no__ _really_,");
	next_answer.until_ns = test_now_ns;
	request(fd, "postern compat;h=a.example");
	hear(fd, "75:OK DEFER a.example is suspended id 0000000000ww - 421 4.7.0 __no__ _really_,");
	next_answer.until_ns = INT64_MAX;
	next_answer.why[0] = '\0';
	request(fd, "postern compat;h=a.example");
	hear(fd, "67:OK DEFER a.example is suspended until it is resumed id 0000000000ww,");
	engine_answers(VERDICT_DEFER, REASON_RECIPIENT_HELD);
	request(fd, "postern compat;h=a.example");
	hear(fd, "47:OK DEFER this recipient is held id 0000000000ww,");
	engine_answers(VERDICT_DEFER, REASON_NOT_ITS_TURN);
	next_answer.answer.newly_decided = false;
	request(fd, "postern compat;h=a.example");
	hear(fd, "27:OK DEFER waits for its turn,");
	request(fd, "postern turn;h= a.example.;i= 7AL1");
	hear(fd, "5:OK OK,");
	request(fd, "posternturn turn;i=7AL1;h=b.example");
	hear(fd, "26:OK WAIT waits for its turn,");
	request(fd, "postern turn;i=7AL1;h=held.example");
	hear(fd, "62:OK WAIT held.example is suspended until it is resumed - moving,");
	engine_answers(VERDICT_DEFER, REASON_CLASS_HELD);
	memset(next_answer.why, 'x', OUTBOUND_WHY_MAX);
	request(fd, "postern compat;h=a.example");
	assert_int_equal(lines, 7);
	close(fd);
	turn();
}

TEST_IN(set_up, tear_down, what_observe_mode_admits_is_logged) {
	int fd = client();

	engine_answers(VERDICT_ADMIT, REASON_CLASS_SESSIONS);
	next_answer.answer.observed = true;
	request(fd, "postern compat;h=a.example");
	hear(fd, "5:OK OK,");
	assert_non_null(strstr(line, "event=observed"));
	assert_non_null(strstr(line, "action=defer"));
	next_answer.answer.newly_decided = false;
	request(fd, "postern compat;h=a.example");
	hear(fd, "5:OK OK,");
	assert_int_equal(lines, 1);
	close(fd);
}

TEST_IN(set_up, tear_down, an_unusable_state_is_told) {
	int fd = client();

	engine_answers(VERDICT_DEFER, REASON_UNUSABLE);
	request(fd, "postern compat;h=a.example");
	hear(fd, "58:OK DEFER the shared state is not available id 0000000000ww,");
	assert_non_null(strstr(line, "event=fault"));
	close(fd);
}

TEST_IN(set_up, tear_down, class_names_in_the_text_are_plain) {
	int fd = client();
	char *name = (char *)&fake_block + fake_block.classes[0].name;

	memcpy(name, "p<\")$", 6);
	engine_answers(VERDICT_DEFER, REASON_CLASS_SESSIONS);
	request(fd, "postern compat;h=a.example");
	hear(fd, "58:OK DEFER class p____ has 80 of 80 sessions id 0000000000ww,");
	close(fd);
}

TEST_IN(set_up, tear_down, other_maps_and_keys_are_not_found) {
	static const char *const requests[] = { "mailertable a.example", "postern a.example",
		"poster compat;h=a", "posterns compat;h=a", "postern ", "postern check;h=a" };
	int fd = client();

	for (unsigned i = 0; i < 6; i++) {
		request(fd, requests[i]);
		hear(fd, "9:NOTFOUND ,");
		assert_int_equal(fake.counted[COUNTER_BAD_MAP_REQUESTS], i + 1);
	}
	assert_non_null(strstr(line, "event=bad-request"));
	assert_int_equal(asks, 0);
	close(fd);
}

TEST_IN(set_up, tear_down, requests_in_pieces) {
	static const char text[] = "19:postern compat;h=ab,19:postern compat;h=cd,";
	int fd = client();

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		say(fd, text + i, 1);
	hear(fd, "5:OK OK,5:OK OK,");
	for (size_t cut = 1; cut < sizeof(text) - 1; cut++) {
		say(fd, text, cut);
		say(fd, text + cut, sizeof(text) - 1 - cut);
		hear(fd, "5:OK OK,5:OK OK,");
	}
	assert_string_equal(asked_host, "cd");
	close(fd);
	turn();
	assert_int_equal(lines, 0);
}

/* Sends as much as goes without reading a reply; then reads all of them. */
TEST_IN(set_up, tear_down, a_slow_reader_costs_nothing) {
	static const char text[] = "19:postern compat;h=ab,";
	const size_t length = sizeof(text) - 1;
	int fd = client();
	size_t sent = 0, got = 0;
	unsigned before;
	char bytes[4096];
	ssize_t n;

	for (;;) {
		n = send(fd, text + sent % length, length - sent % length,
		    MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0) {
			before = asks;
			turn();
			if (before == asks)
				break;
			continue;
		}
		sent += (size_t)n;
	}
	assert_int_equal(errno, EAGAIN);
	before = asks;
	assert_true(before < sent / length);	/* it is not read any more */
	while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
		got += (size_t)n;
		turn();
	}
	assert_int_equal(asks, sent / length);
	assert_int_equal(got, sent / length * 8);
	if (sent % length != 0)
		say(fd, text + sent % length, length - sent % length);
	request(fd, "postern compat;h=z");
	assert_string_equal(asked_host, "z");
	close(fd);
}

TEST_IN(set_up, tear_down, stalled) {
	int fd = client(), quiet = client();
	time_t limit = time(NULL) + 20;

	request(quiet, "postern compat;h=a");
	hear(quiet, "5:OK OK,");
	say(fd, "19:postern comp", 15);
	test_now_ns += SOCKETMAP_PATIENCE_NS;
	while (fake.counted[COUNTER_STALLED_MAP_CLIENTS] == 0 && time(NULL) < limit)
		event_base_loop(loop, EVLOOP_ONCE);
	hear_end(fd);
	assert_int_equal(fake.counted[COUNTER_STALLED_MAP_CLIENTS], 1);
	assert_non_null(strstr(line, "event=client-limit"));
	assert_non_null(strstr(line, "does not complete its request"));
	request(quiet, "postern compat;h=a");
	hear(quiet, "5:OK OK,");
	close(quiet);
}

TEST_IN(set_up, tear_down, mistakes_cost_the_connection) {
	static const struct { const char *text, *reason; } rows[] = {
		{ "postern a,", "the request does not start with its length" },
		{ "03:p a,", "leading zeros" },
		{ "99999:", "too long" },
		{ "3:p ab", "no comma" },
		{ "3:pab,", "no map name" },
	};

	for (unsigned i = 0; i < 5; i++) {
		int fd = asking();

		say(fd, rows[i].text, strlen(rows[i].text));
		hear_end(fd);
		assert_non_null(strstr(line, rows[i].reason));
		assert_int_equal(fake.counted[COUNTER_BAD_MAP_REQUESTS], i + 1);
		assert_int_equal(closed, i + 1);
	}
}

TEST_IN(set_up, tear_down, cut_short) {
	int fd = client();

	say(fd, "19:postern", 10);
	close(fd);
	turn();
	assert_non_null(strstr(line, "in the middle of a request"));
}

/* A thousand that closed their connections and lived on hung the role: each of them had
 * all others looked at. */
TEST_IN(set_up, tear_down, many_that_leave_stall_nobody) {
	const unsigned many = 400;

	still_there = true;
	for (unsigned i = 0; i < many; i++) {
		close(asking());
		turn();
	}
	assert_int_equal(left, many);
	assert_true(looks >= many && looks < many * many / 4);
}

#define CONNECT(port) "posternconnect connect;ca= 192.0.2.7;cp= " port ";da= 198.51.100.1;" \
	"ia=;dp= 25;cr= OK;n= mx.customer.example"

TEST_IN(set_up, tear_down, questions_about_a_client) {
	int fd = client();

	request(fd, CONNECT("46407"));
	hear(fd, "5:OK OK,");
	assert_int_equal(fake.opens, 1);
	assert_int_equal(fake.asked.listener, 3);
	assert_int_equal(fake.asked.owner_socket, 4711);
	assert_string_equal(fake.name, "mx.customer.example");
	fake_answer(VERDICT_REFUSE, REASON_CLASS_INBOUND, 0);
	request(fd, CONNECT("46408"));
	hear(fd, "55:OK REFUSE \"421 4.7.0 Too many of you (id=0000000000ww)\",");
	assert_non_null(strstr(line, "event=refused"));
	request(fd, "posternconnect compat;h=a");
	hear(fd, "9:NOTFOUND ,");
	request(fd, "postern connect;ca=192.0.2.7;cp=1");
	hear(fd, "9:NOTFOUND ,");
	assert_true(asks == 0 && fake.opens == 2);
	close(fd);
}

/* Tells of a client, closes its connection, and ends when it is sent a byte. */
static pid_t one_that_told(int *to, bool closes) {
	int pair[2], fd;
	pid_t pid;
	char byte;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		close(pair[0]);
		try_connect(fd);
		dprintf(fd, "%zu:%s,", strlen(CONNECT("7")), CONNECT("7"));
		if (read(fd, &byte, 1) != 1)
			_exit(1);
		if (closes)
			close(fd);
		_exit(read(pair[1], &byte, 1) == 1 ? 0 : 1);
	}
	close(pair[1]);
	*to = pair[0];
	return pid;
}

static void await(const unsigned *count, unsigned wanted) {
	time_t limit = time(NULL) + 20;

	while (*count < wanted && time(NULL) < limit)
		event_base_loop(loop, EVLOOP_ONCE);
	assert_int_equal(*count, wanted);
}

static bool waits_for_a_process(void) {
	char path[40], name[40] = "";

	for (int fd = 0; fd < 64; fd++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, name, sizeof(name) - 1) > 0 && strstr(name, "pidfd") != NULL)
			return true;
	}
	return false;
}

/* Sendmail closes its maps when it forks to deliver, and goes on with its client. */
TEST_IN(set_up, tear_down, a_session_lasts_as_its_process) {
	time_t limit = time(NULL) + 20;
	int to, status;
	pid_t pid;

	for (int closes = 0; closes < 2; closes++) {
		pid = one_that_told(&to, closes == 1);
		await(&fake.opens, (unsigned)closes + 1);
		while (closes == 1 && !waits_for_a_process() && time(NULL) < limit)
			event_base_loop(loop, EVLOOP_NONBLOCK);
		turn();
		assert_int_equal(fake.ended, closes);
		assert_int_equal(write(to, "x", 1), 1);
		await(&fake.ended, (unsigned)closes + 1);
		assert_int_equal(fake.last_ended.client_port, 7);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		close(to);
	}
	/* ... and is over with the front end */
	pid = one_that_told(&to, true);
	await(&fake.opens, 3);
	socketmap_front_close(&front);
	assert_int_equal(fake.ended, 3);
	close(to);
	assert_int_equal(waitpid(pid, &status, 0), pid);
}

TEST_IN(set_up, tear_down, connections_are_bounded) {
	int fds[9];

	for (unsigned i = 0; i < 8; i++) {
		fds[i] = client();
		request(fds[i], "postern compat;h=a");
		hear(fds[i], "5:OK OK,");
	}
	fds[8] = client();
	hear_end(fds[8]);
	assert_non_null(strstr(line, "connections=8 limit=8"));
	close(fds[0]);
	turn();
	/* who has asked nothing so far makes room */
	fds[8] = client();
	fds[0] = client();
	hear_end(fds[8]);
	request(fds[0], "postern compat;h=a");
	hear(fds[0], "5:OK OK,");
	for (unsigned i = 0; i < 8; i++)
		close(fds[i]);
}
