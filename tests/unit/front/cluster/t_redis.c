/* SPDX-License-Identifier: ISC */
/* A connection to a Redis that is not trusted: what good answers become, and that each bad
 * one ends the connection, with its word, and nothing else. */
#define TEST_OWN_MAIN
#include "tests/unit/test.h"

#include <event2/event.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "front/cluster/redis.h"

#ifndef WITH_CLUSTER

int main(void) {
	puts("skipped: this build has no cluster");
	return 77;
}

#else

static struct event_base *base;
static struct redis *redis;
static char directory[] = "/tmp/t_redis.XXXXXX", path[64], address[80];
static int listener = -1, peer = -1;

/* What was told. */
static unsigned opened, ended, subscribed, messages, answers, lost;
static enum cluster_error error;
static char text[300], message[300];
static struct redis_value last;

static void on_opened(void *context) {
	opened++;
}

static void on_ended(void *context, enum cluster_error why, const char *words) {
	ended++;
	error = why;
	snprintf(text, sizeof(text), "%s", words);
}

static void on_message(void *context, const char *words, size_t length) {
	messages++;
	snprintf(message, sizeof(message), "%.*s", (int)length, words);
}

static void on_subscribed(void *context) {
	subscribed++;
}

static void (*judge)(const struct redis_value *);

static void on_answer(void *context, const struct redis_value *value) {
	if (value == NULL) {
		lost++;
		return;
	}
	answers++;
	last = *value;
	if (judge != NULL)
		judge(value);
}

static const struct redis_handlers handlers = { .opened = on_opened, .ended = on_ended,
	.message = on_message, .subscribed = on_subscribed };

/* The server is in the same thread: it takes who comes. */
static void turn(void) {
	(void)event_base_loop(base, EVLOOP_NONBLOCK);
	if (listener >= 0 && peer < 0)
		peer = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

#define WAIT_FOR(condition) \
	do { \
		unsigned tries_ = 0; \
		while (!(condition)) { \
			turn(); \
			if (++tries_ > 100000) \
				fail_msg("never: %s", #condition); \
		} \
	} while (0)

/* Whole, however much that is: the other side reads meanwhile, or has gone. */
static void say(const char *words, size_t length) {
	while (length > 0 && ended == 0) {
		ssize_t sent = send(peer, words, length, MSG_NOSIGNAL);

		if (sent > 0) {
			words += sent;
			length -= (size_t)sent;
		} else if (errno != EAGAIN) {
			return;
		}
		turn();
	}
}

static int begin(void **state) {
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct diag diag;

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&to, sizeof(to)) != 0 || listen(listener, 8) != 0)
		return -1;
	base = event_base_new();
	opened = ended = subscribed = messages = answers = lost = 0;
	judge = NULL;
	return redis_new(&redis, base, &handlers, NULL, &diag);
}

static int end(void **state) {
	redis_free(&redis);
	event_base_free(base);
	if (peer >= 0)
		close(peer);
	if (listener >= 0)
		close(listener);
	peer = listener = -1;
	(void)unlink(path);
	return 0;
}

static void connect_now(void) {
	redis_connect(redis, address);
	WAIT_FOR(opened == 1 && peer >= 0);
}

static void ask(void) {
	const struct span words[] = { { "GET", 3 }, { "a\0b", 3 } };

	assert_true(redis_command(redis, words, 2, on_answer, NULL));
}

TEST_IN(begin, end, test_command_is_sent_whole) {
	static const char wanted[] = "*2\r\n$3\r\nGET\r\n$3\r\na\0b\r\n";
	char got[100];
	ssize_t length = -1;

	connect_now();
	ask();
	WAIT_FOR((length = recv(peer, got, sizeof(got), MSG_DONTWAIT)) > 0);
	assert_int_equal(length, sizeof(wanted) - 1);
	assert_memory_equal(got, wanted, sizeof(wanted) - 1);
}

static void judge_tree(const struct redis_value *value) {
	assert_int_equal(value->kind, REDIS_KIND_LIST);
	assert_int_equal(value->count, 4);
	assert_int_equal(value->list[0].kind, REDIS_KIND_NUMBER);
	assert_int_equal(value->list[0].number, -7);
	assert_int_equal(value->list[1].kind, REDIS_KIND_TEXT);
	assert_int_equal(value->list[1].length, 3);
	assert_memory_equal(value->list[1].text, "a\0b\0", 4);
	assert_int_equal(value->list[2].kind, REDIS_KIND_NOTHING);
	assert_int_equal(value->list[3].kind, REDIS_KIND_LIST);
	assert_int_equal(value->list[3].count, 2);
	assert_string_equal(value->list[3].list[0].text, "OK");
	assert_int_equal(value->list[3].list[1].kind, REDIS_KIND_ERROR);
	assert_string_equal(value->list[3].list[1].text, "ERR x");
}

TEST_IN(begin, end, test_answer_becomes_a_tree) {
	static const char tree[] = "*4\r\n:-7\r\n$3\r\na\0b\r\n$-1\r\n*2\r\n+OK\r\n-ERR x\r\n";

	connect_now();
	judge = judge_tree;
	for (unsigned i = 1; i <= 3; i++) {
		ask();
		say(tree, sizeof(tree) - 1);
		WAIT_FOR(answers == i);
	}
	assert_int_equal(ended, 0);
}

TEST_IN(begin, end, test_as_much_as_may_be_is_taken) {
	const size_t most = 1000 * 1000;
	char *big = malloc(most + 30);
	size_t head = (size_t)snprintf(big, 30, "$%zu\r\n", most);

	memset(big + head, 'x', most);
	memcpy(big + head + most, "\r\n", 2);
	connect_now();
	ask();
	say(big, head + most + 2);
	WAIT_FOR(answers == 1 || ended > 0);
	assert_int_equal(last.length, most);
	free(big);
}

TEST_IN(begin, end, test_too_many_at_once_wait) {
	connect_now();
	for (unsigned i = 0; i < REDIS_AT_ONCE; i++)
		ask();
	assert_false(redis_command(redis, &(const struct span){ "GET", 3 }, 1, on_answer,
	    NULL));
	redis_drop(redis, CLUSTER_ERROR_TIMEOUT, "too late");
	assert_int_equal(ended, 0);	/* not from within our call */
	WAIT_FOR(ended == 1);
	assert_int_equal(lost, REDIS_AT_ONCE);
	assert_int_equal(error, CLUSTER_ERROR_TIMEOUT);
	assert_string_equal(text, "too late");
	assert_false(redis_command(redis, &(const struct span){ "GET", 3 }, 1, on_answer,
	    NULL));
}

TEST_IN(begin, end, test_nobody_is_there) {
	close(listener);
	listener = -1;
	(void)unlink(path);
	redis_connect(redis, address);
	WAIT_FOR(ended == 1);
	assert_int_equal(error, CLUSTER_ERROR_CONNECT);
	assert_int_equal(opened, 0);
	assert_true(text[0] != '\0');
}

TEST_IN(begin, end, test_the_server_ends_it_and_is_back) {
	connect_now();
	ask();
	turn();
	close(peer);
	peer = -1;
	WAIT_FOR(ended == 1);
	assert_int_equal(error, CLUSTER_ERROR_CLOSED);
	assert_int_equal(lost, 1);
	ended = 0;
	redis_connect(redis, address);
	WAIT_FOR(opened == 2 && peer >= 0);
	ask();
	say("+OK\r\n", 5);
	WAIT_FOR(answers == 1);
}

static void judge_and_drop(const struct redis_value *value) {
	redis_drop(redis, CLUSTER_ERROR_SERVER, "not so");
}

TEST_IN(begin, end, test_more_comes_behind_an_answer_that_ends_it) {
	connect_now();
	judge = judge_and_drop;
	ask();
	say("+OK\r\n+OK\r\n:1\r\n*1\r\n:1\r\n", 22);
	WAIT_FOR(ended == 1);
	assert_int_equal(error, CLUSTER_ERROR_SERVER);
	assert_string_equal(text, "not so");
	assert_int_equal(answers, 1);
	assert_int_equal(lost, 0);
}

/* Each read was counted as 16 kB: 4096 short answers in a second were a flood. */
TEST_IN(begin, end, test_many_answers_to_many_questions_are_no_flood) {
	char words[4096];

	connect_now();
	for (unsigned i = 1; i <= 6000; i++) {
		ask();
		say("+OK\r\n", 5);
		WAIT_FOR(answers == i || ended > 0);
		assert_int_equal(ended, 0);
		while (recv(peer, words, sizeof(words), MSG_DONTWAIT) > 0)
			;
	}
}

/* --- what is none ---------------------------------------------------------------------- */

static const struct bad {
	const char *name, *words;
	bool asked;
	bool hears;			/* after SUBSCRIBE */
	const char *piece;		/* again and again behind it */
	enum cluster_error error;
} bad[] = {
	{ "an answer to no question", "+OK\r\n", false, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a list to no question", "*2\r\n:1\r\n:2\r\n", false, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "an error to no question", "-ERR max number of clients reached\r\n", false, false, NULL,
	    CLUSTER_ERROR_SERVER },
	{ "two answers to one question", "+OK\r\n+OK\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a web server", "HTTP/1.1 400 Bad Request\r\n\r\n", true, false, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	{ "a line without an end", "+", true, false, "aaaaaaaaaaaaaaaa", CLUSTER_ERROR_PROTOCOL },
	{ "a string of 500 MB", "$524288000\r\n", true, false, "aaaaaaaaaaaaaaaa",
	    CLUSTER_ERROR_PROTOCOL },
	{ "a string of 2^62", "$4611686018427387904\r\n", true, false, "aaaaaaaaaaaaaaaa",
	    CLUSTER_ERROR_PROTOCOL },
	{ "2^31 of a list", "*2147483647\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "many in a list", "*16384\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "many in lists", "*16000\r\n", true, false, "*3\r\n:1\r\n:2\r\n:3\r\n", CLUSTER_ERROR_PROTOCOL },
	{ "long ones in a list", "*16000\r\n", true, false,
	    "$128\r\n0123456789012345678901234567890123456789012345678901234567890123"
	    "0123456789012345678901234567890123456789012345678901234567890123\r\n",
	    CLUSTER_ERROR_PROTOCOL },
	{ "lists in lists", "", true, false, "*1\r\n", CLUSTER_ERROR_PROTOCOL },
	{ "a length below 0", "$-5\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a number too large", ":99999999999999999999\r\n", true, false, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	/* version 3 of the protocol is never asked for */
	{ "version 3", "%1\r\n+a\r\n+b\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a double", ",3.14\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a double to no question", ",inf\r\n", false, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a double in a list", "*2\r\n:1\r\n,1\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a truth", "#t\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a nil of version 3", "_\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a set", "~1\r\n:1\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "an empty map", "%0\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "2^62 of a map", "%4611686018427387904\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "an attribute", "|1\r\n+a\r\n+b\r\n:1\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a large number", "(3492890328409238509324850943850943825024385\r\n", true, false, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	{ "a text of a type", "=5\r\ntxt:a\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a text of no type", "=1\r\na\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a push", ">1\r\n+invalidate\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a push to no question", ">2\r\n$10\r\ninvalidate\r\n*0\r\n", false, false, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	{ "an empty push", ">0\r\n", false, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a push in a list", "*1\r\n>1\r\n:1\r\n", true, false, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a channel's number", ":1\r\n", false, true, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a channel's nothing", "$-1\r\n", false, true, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a channel's status", "+OK\r\n", false, true, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a message of two parts", "*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n", false, true, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	{ "an empty message", "*0\r\n", false, true, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a message without a kind", "*3\r\n:1\r\n$1\r\nc\r\n$1\r\nx\r\n", false, true, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	{ "a message without a channel", "*3\r\n$7\r\nmessage\r\n$-1\r\n$1\r\nx\r\n", false, true, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	{ "a channel's double", ",1\r\n", false, true, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a channel's push", ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", false, true, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	{ "a message of a double", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n,1\r\n", false, true, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	{ "a subscription to another channel", "*3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:1\r\n", false,
	    true, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a message of another channel", "*3\r\n$7\r\nmessage\r\n$2\r\ncc\r\n$1\r\nx\r\n", false,
	    true, NULL, CLUSTER_ERROR_PROTOCOL },
	{ "a message of a list", "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n*1\r\n:1\r\n", false, true, NULL,
	    CLUSTER_ERROR_PROTOCOL },
	{ "an end that nobody asked for", "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n$1\r\nx\r\n", false, true,
	    NULL, CLUSTER_ERROR_PROTOCOL },
	{ "no permission for the channel", "-NOPERM this user has no permissions\r\n", false, true,
	    NULL, CLUSTER_ERROR_SERVER },
};

static void say_again_and_again(const char *piece) {
	static char block[65536];
	size_t length = strlen(piece), used = 0;

	for (; used + length < sizeof(block); used += length)
		memcpy(block + used, piece, length);
	for (unsigned i = 0; i < 100 && ended == 0; i++)
		say(block, used);
}

TEST_IN(begin, end, test_bad_answers_end_it) {
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		unsigned before = answers;

		if (peer >= 0)
			close(peer);
		peer = -1;
		opened = ended = lost = 0;
		connect_now();
		if (bad[i].asked)
			ask();
		if (bad[i].hears)
			assert_true(redis_subscribe(redis, "c"));
		turn();
		say(bad[i].words, strlen(bad[i].words));
		if (bad[i].piece != NULL)
			say_again_and_again(bad[i].piece);
		for (unsigned tries = 0; ended == 0 && tries < 10000; tries++)
			turn();
		if (ended != 1 || error != bad[i].error || text[0] == '\0')
			fail_msg("%s: ended %u times, error %d, %s", bad[i].name, ended, (int)error,
			    text);
		/* only the first of two was one */
		assert_true(answers - before <= 1);
		assert_int_equal(lost + (answers - before), bad[i].asked ? 1 : 0);
	}
}

/* --- channels -------------------------------------------------------------------------- */

#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"

TEST_IN(begin, end, test_messages_come) {
	static const char words[] = SUBSCRIBED "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\nhello\r\n";

	connect_now();
	assert_true(redis_subscribe(redis, "c"));
	assert_false(redis_command(redis, &(const struct span){ "GET", 3 }, 1, on_answer,
	    NULL));
	say(words, sizeof(words) - 1);
	WAIT_FOR(messages == 1);
	assert_int_equal(subscribed, 1);
	assert_string_equal(message, "hello");
	assert_int_equal(ended, 0);
}

TEST_IN(begin, end, test_a_flood_of_messages_ends_it) {
	connect_now();
	assert_true(redis_subscribe(redis, "c"));
	say(SUBSCRIBED, sizeof(SUBSCRIBED) - 1);
	say_again_and_again("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n");
	WAIT_FOR(ended == 1);
	assert_int_equal(error, CLUSTER_ERROR_PROTOCOL);
	assert_true(messages <= 20000);
}

int main(void) {
	int failed;

	if (mkdtemp(directory) == NULL)
		return 1;
	snprintf(path, sizeof(path), "%s/redis", directory);
	snprintf(address, sizeof(address), "unix:%s", path);
	failed = test_run();
	(void)unlink(path);
	(void)rmdir(directory);
	return failed;
}

#endif
