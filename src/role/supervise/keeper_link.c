/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  One request and one answer at a time between keeper and supervisor.
 * ERRORS   A keeper that breaks the protocol is killed by the caller; one that is
 *          gone just ends the stream.  Without memory for an answer the stream
 *          is closed, which the keeper reports.
 * THREADS  The supervisor's.
 */
#include "role/supervise/keeper_link.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/datagram.h"
#include "role/supervise/reload.h"
#include "wire/link/control_frame.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

#define FRAME_MAX 8192		/* a message with everything escaped fits */

void keeper_link_init(struct keeper_link *link) {
	*link = (struct keeper_link){ .fd = -1 };
}

int keeper_link_open(struct keeper_link *link, struct diag *diag) {
	int fds[2];

	keeper_link_close(link);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
		fds) != 0)
		return diag_set(diag, errno, "cannot create a socket pair");
	datagram_refuse_descriptors(fds[0]);
	link->fd = fds[0];
	return fds[1];
}

void keeper_link_close(struct keeper_link *link) {
	if (link->fd >= 0)
		close(link->fd);
	free(link->out);
	keeper_link_init(link);
}

short keeper_link_events(const struct keeper_link *link) {
	return link->out != NULL ? POLLOUT : POLLIN;
}

static bool append(struct keeper_link *link, const char *data, size_t length) {
	if (link->out_size - link->out_length < length) {
		size_t size = link->out_size * 2 + length;
		char *larger = realloc(link->out, size);

		if (larger == NULL)
			return false;
		link->out = larger;
		link->out_size = size;
	}
	memcpy(link->out + link->out_length, data, length);
	link->out_length += length;
	return true;
}

static void begin_frame(const struct keeper_link *link,
    struct control_writer *writer, char *frame, const char *kind) {
	control_writer_begin(writer, frame, FRAME_MAX);
	control_writer_add(writer, kind, "1");
	if (link->out_length == 0) {
		control_writer_add(writer, "protocol", "%d", CONTROL_PROTOCOL);
		control_writer_add(writer, "build", "%s", PACKAGE_VERSION);
	}
}

static bool end_frame(struct keeper_link *link, struct control_writer *writer) {
	size_t length = control_writer_finish(writer);

	return length != 0 && append(link, writer->out, length);
}

static bool add_message(struct keeper_link *link,
    const struct config_message *message) {
	char frame[FRAME_MAX];
	struct control_writer writer;

	begin_frame(link, &writer, frame, "row");
	control_writer_add(&writer, "severity", "%s", message_severity_word(message->severity));
	control_writer_add(&writer, "file", "%s", message->file);
	control_writer_add(&writer, "line", "%d", message->line);
	control_writer_add(&writer, "text", "%s", message->text);
	return end_frame(link, &writer);
}

static bool add_setting(struct keeper_link *link, const char *setting) {
	char frame[FRAME_MAX];
	struct control_writer writer;

	begin_frame(link, &writer, frame, "row");
	control_writer_add(&writer, "needs_restart", "%s", setting);
	return end_frame(link, &writer);
}

static bool add_end(struct keeper_link *link, int code, uint64_t generation,
    const char *error) {
	char frame[FRAME_MAX];
	struct control_writer writer;

	begin_frame(link, &writer, frame, "end");
	control_writer_add(&writer, "exit", "%d", code);
	control_writer_add(&writer, "generation", "%" PRIu64, generation);
	if (code != 0)
		control_writer_add(&writer, "error", "%s", error);
	return end_frame(link, &writer);
}

void keeper_link_answer(struct keeper_link *link,
    const struct reload_outcome *outcome) {
	bool fits = true;
	size_t i;

	if (link->fd < 0)
		return;
	for (i = 0; fits && i < outcome->report.messages.count; i++)
		fits = add_message(link, &outcome->report.messages.list[i]);
	for (i = 0; fits && i < outcome->report.needs_count; i++)
		fits = add_setting(link, outcome->report.needs_restart[i]);
	if (!fits || !add_end(link, outcome->exit_code, outcome->generation,
	    outcome->error))
		keeper_link_close(link);
}

static enum keeper_request request_of(const struct control_frame *frame) {
	const char *command = control_frame_get(frame, "command");
	const char *gate = control_frame_get(frame, "gate");

	if (command == NULL)
		return KEEPER_REFUSED;
	if (strcmp(command, "reload") == 0)
		return KEEPER_RELOAD;
	if (strcmp(command, "gate") != 0)
		return KEEPER_REFUSED;
	if (gate != NULL && strcmp(gate, "shut") == 0)
		return KEEPER_GATE_SHUT;
	if (gate != NULL && strcmp(gate, "open") == 0)
		return KEEPER_GATE_OPEN;
	return KEEPER_BROKEN;
}

static enum keeper_request take_request(struct keeper_link *link, const char **why) {
	struct control_frame frame;
	enum keeper_request request;
	long used = control_frame_parse(link->in, link->in_length, &frame, why);

	if (used < 0)
		return KEEPER_BROKEN;
	if (used == 0) {
		*why = "request too long";
		return link->in_length == sizeof(link->in) ? KEEPER_BROKEN :
		    KEEPER_NOTHING;
	}
	request = request_of(&frame);
	if (request == KEEPER_BROKEN)
		*why = "the gate must be shut or open";
	link->in_length -= (size_t)used;
	memmove(link->in, link->in + used, link->in_length);
	if (request == KEEPER_REFUSED &&
	    !add_end(link, EX_USAGE, 0, "unknown command"))
		keeper_link_close(link);
	return request;
}

enum keeper_request keeper_link_next(struct keeper_link *link, const char **why) {
	enum keeper_request there;
	ssize_t length;

	if (link->fd < 0 || link->out != NULL)
		return KEEPER_NOTHING;
	there = take_request(link, why);
	if (there != KEEPER_NOTHING)
		return there;
	length = read(link->fd, link->in + link->in_length,
	    sizeof(link->in) - link->in_length);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return KEEPER_NOTHING;
	if (length <= 0) {
		keeper_link_close(link);
		return KEEPER_NOTHING;
	}
	link->in_length += (size_t)length;
	return take_request(link, why);
}

void keeper_link_write(struct keeper_link *link) {
	ssize_t length;

	if (link->fd < 0 || link->out == NULL)
		return;
	length = send(link->fd, link->out + link->out_sent,
	    link->out_length - link->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (length < 0) {
		keeper_link_close(link);
		return;
	}
	link->out_sent += (size_t)length;
	if (link->out_sent < link->out_length)
		return;
	free(link->out);
	link->out = NULL;
	link->out_length = link->out_size = link->out_sent = 0;
}
