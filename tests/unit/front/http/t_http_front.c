/* SPDX-License-Identifier: ISC */
/* The HTTP front end over real sockets, with a clock of the test's own: its limits.  There
 * is no state file: what needs one says so. */
#include "tests/unit/test.h"

#include "front/http/http.h"
#include "tests/unit/front/outbound/fake_engine.h"
#include "tests/unit/front/http/front_clients.h"

const char *engine_state_path(const struct engine *engine) {
	return "/nonexistent/state";
}

/* The rest of base/clock.c, in place of which front_clients.h stands. */
int64_t clock_wall_ms(void) {
	return 1000;
}

void clock_pair(int64_t *now_ns, int64_t *wall_ns) {
	*now_ns = test_now_ns;
	*wall_ns = NS_PER_SECOND;
}

int64_t clock_thread_cpu_ns(void) {
	return test_now_ns;
}

bool clock_boot_id(char out[CLOCK_BOOT_ID]) {
	memset(out, 0, CLOCK_BOOT_ID);
	return false;
}

static struct http_front *front;

static int open_front(void **state) {
	struct diag diag;
	int fd = begin();

	if (http_front_open(&front, &fake, &diag) != 0 ||
	    http_front_listen(front, fd, 3, &diag) != 0)
		fail_msg("%s", diag.text);
	fake_block.generation.policy_connections = 1000;
	loop = http_front_base(front);
	return 0;
}

static int close_front(void **state) {
	http_front_close(&front);
	assert_null(front);
	assert_int_equal(fake.pins, 0);
	return 0;
}

/* What can be read; *end: and then the end. */
static const char *answer(int fd, bool *end) {
	static char text[1 << 20];
	size_t length = 0;
	ssize_t n;

	turn();
	while ((n = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)n;
	*end = n == 0;
	text[length] = '\0';
	return text;
}

static void expect(int fd, const char *status, const char *body, bool end) {
	bool ended;
	const char *text = answer(fd, &ended), *at = strstr(text, "\r\n\r\n");
	size_t length;

	assert_memory_equal(text, status, strlen(status));
	assert_non_null(at);
	assert_non_null(strstr(text, "\r\nContent-Security-Policy: default-src 'none'; "));
	assert_non_null(strstr(text, "\r\nX-Content-Type-Options: nosniff\r\n"));
	assert_non_null(strstr(text, end ? "\r\nConnection: close\r\n" :
	    "\r\nConnection: keep-alive\r\n"));
	length = strtoul(strstr(text, "Content-Length: ") + 16, NULL, 10);
	if (body != NULL) {
		assert_int_equal(strlen(at + 4), *body == '\0' ? 0 : length);
		assert_non_null(strstr(at + 4, body));
	}
	assert_int_equal(ended, end);
}

#define SAY(fd, text) say(fd, text, sizeof(text) - 1)
#define HOST "Host: 127.0.0.1\r\n"

TEST_IN(open_front, close_front, answers_follow_requests) {
	int fd = client();

	SAY(fd, "GET / HTTP/1.1\r\n" HOST);
	SAY(fd, "\r\n");
	expect(fd, "HTTP/1.1 200 OK\r\n", "<title>Postern", false);
	SAY(fd, "HEAD /page.css HTTP/1.1\r\n" HOST "\r\n");
	expect(fd, "HTTP/1.1 200 OK\r\n", "", false);
	SAY(fd, "GET /nothing HTTP/1.1\r\n" HOST "\r\n");
	expect(fd, "HTTP/1.1 404 Not Found\r\n", "no such page", false);
	SAY(fd, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
	expect(fd, "HTTP/1.1 503 Service Unavailable\r\n", "no state file", false);
	SAY(fd, "DELETE / HTTP/1.1\r\n" HOST "\r\n");
	expect(fd, "HTTP/1.1 405 Method Not Allowed\r\n", "only GET and HEAD", false);
	SAY(fd, "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
	expect(fd, "HTTP/1.1 405 Method Not Allowed\r\n", "only GET and HEAD", true);
	close(fd);
	assert_int_equal(fake.counted[COUNTER_BAD_HTTP_REQUESTS], 0);
}

TEST_IN(open_front, close_front, a_bad_request_ends_its_connection) {
	int fd = client(), other = client();

	SAY(fd, "GET / HTTP/1.1\r\nHost: a\r\nHost: \x1b[2J\r\n\r\n");
	expect(fd, "HTTP/1.1 400 Bad Request\r\n", "a control character in a header",
	    true);
	close(fd);
	assert_int_equal(fake.counted[COUNTER_BAD_HTTP_REQUESTS], 1);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(line, "from=http"));
	assert_null(strchr(line, '\x1b'));
	SAY(other, "GET /icon.svg HTTP/1.0\r\n\r\n");
	expect(other, "HTTP/1.1 200 OK\r\n", "<svg", true);
	close(other);
}

/* Two hundred that say nothing: the one who comes last is served all the same. */
TEST_IN(open_front, close_front, slow_clients_keep_nobody_out) {
	int slow[200], fd;
	unsigned open = 0;
	bool end;

	for (unsigned i = 0; i < 200; i++) {
		test_now_ns += NS_PER_MS;
		slow[i] = client();
		SAY(slow[i], "GET / HTTP/1.1\r\nHo");
	}
	fd = client();
	SAY(fd, "GET /icon.svg HTTP/1.1\r\n" HOST "\r\n");
	expect(fd, "HTTP/1.1 200 OK\r\n", "<svg", false);
	close(fd);
	turn();
	for (unsigned i = 0; i < 200; i++) {
		(void)answer(slow[i], &end);
		open += !end;
		/* the oldest had to go */
		assert_int_equal(end, i < 200 - (HTTP_CONNECTIONS - 1));
		close(slow[i]);
	}
	assert_int_equal(open, HTTP_CONNECTIONS - 1);
}

/* A byte now and then does not help. */
TEST_IN(open_front, close_front, patience_has_an_end) {
	const struct timeval a_second = { .tv_sec = 1, .tv_usec = 100000 };
	int fd = client();
	bool end;

	SAY(fd, "GET / HTTP/1.1\r\n");
	test_now_ns += HTTP_PATIENCE_NS / 2;
	SAY(fd, "x: y\r\n");
	test_now_ns += HTTP_PATIENCE_NS / 2;
	event_base_loopexit(loop, &a_second);
	event_base_dispatch(loop);
	assert_string_equal(answer(fd, &end), "");
	assert_true(end);
	close(fd);
}

#define REQUEST "GET /page.js HTTP/1.1\r\n" HOST "\r\n"

/* Nothing is read while an answer waits; no more than that is kept. */
TEST_IN(open_front, close_front, a_client_that_does_not_read) {
	char requests[64 * (sizeof(REQUEST) - 1)];
	size_t one, got = 0;
	int fd = client();
	bool end;

	say(fd, REQUEST, sizeof(REQUEST) - 1);
	one = strlen(answer(fd, &end));
	assert_true(one > 500);
	for (unsigned i = 0; i < 64; i++)
		memcpy(requests + i * (sizeof(REQUEST) - 1), REQUEST, sizeof(REQUEST) - 1);
	say(fd, requests, sizeof(requests));
	for (unsigned i = 0; i < 1000 && got < 64 * one; i++) {
		got += strlen(answer(fd, &end));
		assert_false(end);
	}
	assert_int_equal(got, 64 * one);
	close(fd);
}
