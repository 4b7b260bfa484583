/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl's end of the control protocol.
 * MODEL    One connection, one request, rows until the frame that ends them.
 *          The first frame of each side tells its protocol: where the numbers
 *          differ both can still say so.
 *          Whoever answers may mean harm: a reply is bounded in time, bytes and rows.
 * ERRORS   All are told to the caller; control_order alone prints any.
 * THREADS  Any; nothing is shared.
 */
#include "ctl/act/control_client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "config/read/listen_address.h"
#include "ctl/cli/ctl.h"

/* a body, its length line, and room to read on */
#define BUFFER_BYTES	(CONTROL_BODY_MAX + 4096)
#define ROWS_MAX	1000000		/* a queue's have 100 bytes and more */
#define WHOLE_TIMEOUTS	10		/* that a whole reply may take */

struct conversation {
	int fd;
	const char *address;
	int timeout_ms;
	int64_t end_ns;		/* by then the reply has ended */
	size_t bytes, rows;	/* of it so far */
	bool greeted;		/* the daemon's first frame was seen */
	size_t length;
	char buffer[BUFFER_BYTES];
};

/* One that accepts nothing has us wait; the same bounds the sending. */
static int connect_within(int fd, const struct listen_address *to, int timeout_ms) {
	const struct timeval limit = { .tv_sec = timeout_ms / 1000,
		.tv_usec = timeout_ms % 1000 * 1000 };

	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0)
		return errno;
	if (connect(fd, (const struct sockaddr *)&to->socket_address, to->length) == 0)
		return 0;
	return errno == EAGAIN || errno == EINPROGRESS ? ETIMEDOUT : errno;
}

int control_connect(const char *address, int timeout_ms, struct diag *diag) {
	struct listen_address parsed;
	char text[sizeof(parsed.path) + 16];
	const char *why = "";
	int fd, error;

	text_append(text, sizeof(text), 0, "%s%s",
	    address[0] == '/' || address[0] == '.' ? "unix:" : "", address);
	if (!listen_address_parse(text, &parsed, &why))
		return diag_set(diag, EINVAL, "%s: %s", address, why);
	fd = socket(parsed.socket_address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return diag_set(diag, errno, "%s", address);
	error = connect_within(fd, &parsed, timeout_ms);
	if (error != 0) {
		close(fd);
		return diag_set(diag, error, error == ENOENT || error == ECONNREFUSED ?
		    "%s: no answer (is posternd running?)" :
		    "%s: cannot connect", address);
	}
	return fd;
}

static int send_all(struct conversation *talk, const char *data, size_t length,
    struct diag *diag) {
	while (length > 0) {
		ssize_t n = send(talk->fd, data, length, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return diag_set(diag, errno, "%s: cannot send the request",
			    talk->address);
		data += n;
		length -= (size_t)n;
	}
	return 0;
}

static int send_request(struct conversation *talk, const struct control_field *fields,
    size_t count, struct diag *diag) {
	struct control_writer writer;
	size_t length;

	control_writer_begin(&writer, talk->buffer, sizeof(talk->buffer));
	control_writer_add(&writer, "protocol", "%d", CONTROL_PROTOCOL);
	control_writer_add(&writer, "build", "%s", PACKAGE_VERSION);
	for (size_t i = 0; i < count; i++)
		control_writer_add(&writer, fields[i].key, "%s", fields[i].value);
	length = control_writer_finish(&writer);
	if (length == 0)
		return diag_set(diag, EMSGSIZE, "the request is too long");
	return send_all(talk, talk->buffer, length, diag);
}

/* Waits for more bytes behind those in the buffer. */
static int receive_more(struct conversation *talk, int64_t until_ns,
    struct diag *diag) {
	struct pollfd poller = { .fd = talk->fd, .events = POLLIN };
	bool is_whole = talk->end_ns <= until_ns;
	int64_t left_ms = ((is_whole ? talk->end_ns : until_ns) - clock_now_ns()) / NS_PER_MS;
	ssize_t n;
	int ready;

	ready = left_ms <= 0 ? 0 : poll(&poller, 1, (int)left_ms);
	if (ready < 0)
		return errno == EINTR ? 0 : diag_set(diag, errno, "%s", talk->address);
	if (ready == 0)
		return diag_set(diag, ETIMEDOUT, is_whole ?
		    "%s: the answer is incomplete after %d s" : "%s: no answer for %d s",
		    talk->address, talk->timeout_ms / 1000 * (is_whole ? WHOLE_TIMEOUTS : 1));
	n = recv(talk->fd, talk->buffer + talk->length,
	    sizeof(talk->buffer) - talk->length, 0);
	if (n < 0)
		return errno == EINTR ? 0 : diag_set(diag, errno, "%s", talk->address);
	if (n == 0)
		return diag_set(diag, ECONNRESET,
		    "%s: the daemon closed the connection before it answered", talk->address);
	talk->length += (size_t)n;
	talk->bytes += (size_t)n;
	return talk->bytes <= CONTROL_REPLY_MAX + BUFFER_BYTES ? 0 : diag_set(diag, EPROTO,
	    "%s: the answer is too long", talk->address);
}

static int greet(struct conversation *talk, const struct control_frame *frame,
    struct diag *diag) {
	const char *protocol = control_frame_get(frame, "protocol");
	const char *build = control_frame_get(frame, "build");
	uint32_t number;

	if (talk->greeted)
		return 0;
	talk->greeted = true;
	if (protocol != NULL && text_to_u32(protocol, strlen(protocol), UINT32_MAX,
		&number) && number == CONTROL_PROTOCOL)
		return 0;
	return diag_set(diag, EPROTO,
	    "%s: the daemon is another build (%s) and uses protocol %s instead of %d",
	    talk->address, build == NULL ? "unknown" : build,
	    protocol == NULL ? "unknown" : protocol, CONTROL_PROTOCOL);
}

static int take_end(const struct conversation *talk, const struct control_frame *frame,
    struct control_reply *reply, struct diag *diag) {
	const char *code = control_frame_get(frame, "exit");
	const char *error = control_frame_get(frame, "error");
	const char *generation = control_frame_get(frame, "generation");
	uint32_t number;

	if (code == NULL || !text_to_u32(code, strlen(code), 255, &number))
		return diag_set(diag, EPROTO, "%s: the answer has no exit code",
		    talk->address);
	reply->exit = (int)number;
	if (error != NULL)
		text_copy(reply->error, sizeof(reply->error), error, strlen(error));
	if (generation != NULL)
		text_copy(reply->generation, sizeof(reply->generation), generation,
		    strlen(generation));
	return 0;
}

struct row_call {
	void (*row)(void *context, const struct control_frame *frame);
	void *context;
	struct control_reply *reply;
};

/* Takes every whole frame out of the buffer: 1 when the end was among them. */
static int take_frames(struct conversation *talk, const struct row_call *call,
    struct diag *diag) {
	struct control_frame frame;
	const char *why = "";
	size_t used = 0;
	int result = 0;

	while (result == 0) {
		long n = control_frame_parse(talk->buffer + used, talk->length - used,
		    &frame, &why);

		if (n == 0)
			break;
		if (n < 0)
			return diag_set(diag, EPROTO, "%s: bad frame: %s",
			    talk->address, why);
		used += (size_t)n;
		if (greet(talk, &frame, diag) != 0)
			return -1;
		if (control_frame_get(&frame, "end") != NULL)
			result = take_end(talk, &frame, call->reply, diag) == 0 ? 1 : -1;
		else if (control_frame_get(&frame, "row") != NULL && ++talk->rows > ROWS_MAX)
			return diag_set(diag, EPROTO, "%s: the answer has too many rows",
			    talk->address);
		else if (control_frame_get(&frame, "row") != NULL && call->row != NULL)
			call->row(call->context, &frame);
	}
	memmove(talk->buffer, talk->buffer + used, talk->length - used);
	talk->length -= used;
	return result;
}

int control_ask(const char *address, const struct control_field *fields,
    size_t count, int timeout_ms,
    void (*row)(void *context, const struct control_frame *frame), void *context,
    struct control_reply *reply, struct diag *diag) {
	struct conversation talk = { .address = address, .timeout_ms = timeout_ms };
	struct row_call call = { row, context, reply };
	int64_t until_ns;
	int result;

	memset(reply, 0, sizeof(*reply));
	talk.fd = control_connect(address, timeout_ms, diag);
	if (talk.fd < 0)
		return -1;
	result = send_request(&talk, fields, count, diag);
	until_ns = clock_now_ns() + timeout_ms * NS_PER_MS;
	talk.end_ns = clock_now_ns() + WHOLE_TIMEOUTS * timeout_ms * NS_PER_MS;
	while (result == 0) {
		size_t before = talk.length;

		result = receive_more(&talk, until_ns, diag);
		if (result == 0 && talk.length > before) {
			until_ns = clock_now_ns() + timeout_ms * NS_PER_MS;
			result = take_frames(&talk, &call, diag);
		}
	}
	close(talk.fd);
	return result == 1 ? 0 : -1;
}

int control_order(const char *address, const struct control_field *fields, size_t count,
    void (*row)(void *context, const struct control_frame *frame), void *context) {
	struct control_reply reply;
	struct diag diag;

	if (control_ask(address, fields, count, CONTROL_TIMEOUT_MS, row, context, &reply,
		&diag) != 0)
		return ctl_fail(&diag);
	if (reply.exit != EX_OK)
		ctl_complain("%s", reply.error);
	return reply.exit;
}

struct value control_value(const struct control_frame *frame, const char *name,
    enum column_kind kind) {
	const char *text = control_frame_get(frame, name);
	uint32_t number;

	if (text == NULL)
		return value_unknown();
	if (kind == COLUMN_TEXT)
		return value_text(text);
	if (kind == COLUMN_DECIMAL)
		return value_decimal(strtod(text, NULL));
	if (!text_to_u32(text, strlen(text), UINT32_MAX, &number))
		return value_unknown();
	return kind == COLUMN_TRUTH ? value_truth(number != 0) : value_number(number);
}
