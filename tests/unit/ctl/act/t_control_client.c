/* SPDX-License-Identifier: ISC */
/* posternctl's end of the control protocol against a server that answers what
 * the test wants, in pieces of any size. */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/test.h"
#include "ctl/act/control_client.h"
#include "tests/unit/scratch.h"

struct server {
	char path[80];
	int listener;
	pthread_t thread;
	const char *reply;
	size_t length;
	size_t piece;		/* bytes sent at a time */
	bool hold;		/* never hang up (until the client does) */
	unsigned again;		/* the reply is sent so many times more, */
	unsigned pause_ms;	/* after each piece of it */
	char request[4096];
};

static void *serve(void *argument) {
	struct server *server = argument;
	int fd = accept(server->listener, NULL, NULL);
	ssize_t got = recv(fd, server->request, sizeof(server->request) - 1, 0);
	char byte;

	server->request[got > 0 ? got : 0] = '\0';
	for (unsigned i = 0; i <= server->again; i++)
		for (size_t sent = 0; sent < server->length; sent += server->piece) {
			size_t left = server->length - sent;

			if (send(fd, server->reply + sent, left < server->piece ? left :
				server->piece, MSG_NOSIGNAL) < 0)
				i = server->again;
			(void)poll(NULL, 0, (int)server->pause_ms);
		}
	if (server->hold)
		(void)!recv(fd, &byte, 1, 0);
	close(fd);
	return NULL;
}

static void server_listen(struct server *server) {
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	assert_int_equal(scratch_open(NULL), 0);
	snprintf(server->path, sizeof(server->path), "%s/c", scratch);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", server->path);
	server->listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(server->listener, (struct sockaddr *)&address,
		sizeof(address)), 0);
	assert_int_equal(listen(server->listener, 1), 0);
}

static void server_close(struct server *server) {
	close(server->listener);
	scratch_close(NULL);
}

struct rows {
	unsigned count;
	char texts[256];
};

static void take_row(void *context, const struct control_frame *frame) {
	struct rows *rows = context;
	const char *text = control_frame_get(frame, "text");
	size_t length = strlen(rows->texts);

	rows->count++;
	snprintf(rows->texts + length, sizeof(rows->texts) - length, "%s,",
	    text == NULL ? "?" : text);
}

static char whole[200000];
static size_t whole_length;

static void add_frame(const char *body) {
	whole_length += (size_t)snprintf(whole + whole_length,
	    sizeof(whole) - whole_length, "%zu\n%s", strlen(body), body);
}

static int ask_server(struct server server, int timeout_ms, struct rows *rows,
    struct control_reply *reply, struct diag *diag) {
	static const struct control_field fields[] = {
		{ "command", "explain session" }, { "name", "a\nb=\\" },
	};
	int result;

	server.reply = whole;
	server.length = whole_length;
	memset(rows, 0, sizeof(*rows));
	memset(diag, 0, sizeof(*diag));
	server_listen(&server);
	assert_int_equal(pthread_create(&server.thread, NULL, serve, &server), 0);
	result = control_ask(server.path, fields, 2, timeout_ms, take_row, rows, reply,
	    diag);
	pthread_join(server.thread, NULL);
	assert_non_null(strstr(server.request, "\nprotocol=1\nbuild="));
	assert_non_null(strstr(server.request, "\ncommand=explain session\n"));
	assert_non_null(strstr(server.request, "\nname=a\\nb=\\\\\n"));
	server_close(&server);
	return result;
}

static int ask(size_t piece, bool hold, int timeout_ms, struct rows *rows,
    struct control_reply *reply, struct diag *diag) {
	return ask_server((struct server){ .piece = piece, .hold = hold }, timeout_ms, rows,
	    reply, diag);
}

TEST(rows_and_end_in_pieces_of_any_size) {
	static const size_t pieces[] = { 1, 2, 3, 7, 64, 100000 };
	struct control_reply reply;
	struct rows rows;
	struct diag diag;

	whole_length = 0;
	add_frame("protocol=1\nbuild=x\nfuture=thing\n");
	add_frame("row=1\ntext=one\n");
	add_frame("row=1\nother=1\n");
	add_frame("unknown=1\n");
	add_frame("row=1\ntext=three\n");
	add_frame("end=1\nexit=78\nerror=no\\ngood\ngeneration=12\n");
	for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		assert_int_equal(ask(pieces[i], false, 10000, &rows, &reply, &diag), 0);
		assert_int_equal(rows.count, 3);
		assert_string_equal(rows.texts, "one,?,three,");
		assert_int_equal(reply.exit, 78);
		assert_string_equal(reply.error, "no\ngood");
		assert_string_equal(reply.generation, "12");
	}
}

TEST(many_large_rows) {
	static char body[60000];
	struct control_reply reply;
	struct rows rows;
	struct diag diag;

	whole_length = 0;
	snprintf(body, sizeof(body), "protocol=1\nbuild=x\nrow=1\ntext=a\nlong=");
	memset(body + strlen(body), 'x', 59000 - strlen(body));
	body[59000] = '\n';
	body[59001] = '\0';
	for (unsigned i = 0; i < 3; i++)
		add_frame(body);
	add_frame("end=1\nexit=0\n");
	assert_int_equal(ask(5000, false, 10000, &rows, &reply, &diag), 0);
	assert_int_equal(rows.count, 3);
	assert_int_equal(reply.exit, 0);
}

static void fails(const char *reply_text, int error, const char *text) {
	struct control_reply reply;
	struct rows rows;
	struct diag diag;

	whole_length = (size_t)snprintf(whole, sizeof(whole), "%s", reply_text);
	assert_int_equal(ask(1000, error == ETIMEDOUT, error == ETIMEDOUT ? 200 : 10000,
		&rows, &reply, &diag), -1);
	assert_int_equal(diag.error, error);
	if (strstr(diag.text, text) == NULL)
		assert_string_equal(diag.text, text);
}

TEST(what_is_no_answer_is_told) {
	fails("", ECONNRESET, "closed the connection");
	fails("", ETIMEDOUT, "no answer for");
	fails("11\nprotocol=1", ETIMEDOUT, "no answer for");
	fails("HTTP/1.0 400 Bad Request\r\n", EPROTO, "bad frame");
	fails("20\nprotocol=2\nbuild=b7\n", EPROTO, "the daemon is another build (b7)");
	fails("13\nend=1\nexit=0", ECONNRESET, "closed the connection");
	fails("13\nend=1\nexit=0\n", EPROTO, "the daemon is another build (unknown)");
	fails("24\nprotocol=1\nend=1\nexit=x\n", EPROTO, "no exit code");
	fails("17\nprotocol=1\nend=1\n", EPROTO, "no exit code");
}

/* Each byte comes in time: 3 s of them. */
TEST(rows_that_drip_for_ever_end_in_ten_times_the_time) {
	struct control_reply reply;
	struct rows rows;
	struct diag diag;

	whole_length = 0;
	add_frame("protocol=1\nrow=1\n");
	assert_int_equal(ask_server((struct server){ .piece = 1, .pause_ms = 10, .again = 14 },
	    100, &rows, &reply, &diag), -1);
	assert_int_equal(diag.error, ETIMEDOUT);
}

static void flood(size_t row_bytes, const char *text) {
	static char body[60000];
	struct control_reply reply;
	struct rows rows;
	struct diag diag;

	whole_length = 0;
	memset(body, 'x', row_bytes);
	memcpy(body, "protocol=1\nrow=1\nlong=", 22);
	memcpy(body + row_bytes, "\n", 2);
	while (whole_length + row_bytes + 8 < sizeof(whole))
		add_frame(body);
	/* 70 MB, or 2.5 million rows */
	assert_int_equal(ask_server((struct server){ .piece = sizeof(whole), .again = 400 },
	    10000, &rows, &reply, &diag), -1);
	assert_int_equal(diag.error, EPROTO);
	assert_non_null(strstr(diag.text, text));
}

TEST(rows_without_end_do_not_fill_the_memory) {
	flood(59000, ": the answer is too long");
	flood(24, ": the answer has too many rows");
}

TEST(a_server_that_accepts_nobody_is_given_up) {
	static const struct control_field field = { "command", "queue" };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct server server = { .piece = 1 };
	struct control_reply reply;
	int fds[16], count = 0;
	struct rows rows;
	struct diag diag;

	server_listen(&server);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", server.path);
	do {
		fds[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	} while (connect(fds[count++], (struct sockaddr *)&address, sizeof(address)) == 0 &&
	    count < 16);
	(void)alarm(20);
	assert_int_equal(control_ask(server.path, &field, 1, 100, take_row, &rows, &reply,
		&diag), -1);
	(void)alarm(0);
	assert_int_equal(diag.error, ETIMEDOUT);
	while (count > 0)
		close(fds[--count]);
	server_close(&server);
}

TEST(nobody_there) {
	static const struct control_field field = { "command", "reload" };
	struct control_reply reply;
	struct server server = { .piece = 1 };
	struct rows rows;
	struct diag diag;

	server_listen(&server);
	close(server.listener);
	assert_int_equal(control_ask(server.path, &field, 1, 1000, take_row, &rows, &reply,
		&diag), -1);
	assert_int_equal(diag.error, ECONNREFUSED);
	assert_non_null(strstr(diag.text, "is posternd running?"));
	server_close(&server);
	assert_int_equal(control_ask(server.path, &field, 1, 1000, take_row, &rows, &reply,
		&diag), -1);
	assert_int_equal(diag.error, ENOENT);
	assert_int_equal(control_ask("nonsense", &field, 1, 1000, take_row, &rows, &reply,
		&diag), -1);
	assert_int_equal(diag.error, EINVAL);
}
