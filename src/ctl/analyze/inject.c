/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl inject: lines from the standard input to the event socket.
 * MODEL    Lines are kept until the daemon says that it has dealt with them ("sync",
 *          postern-events(5)).  When the connection ends (the feed is started anew now
 *          and then), the next one begins with those that it did not speak of; their
 *          numbers keep the daemon from counting any twice.
 * ERRORS   What the daemon says of a line goes to stderr.  A daemon that is away, or
 *          hangs up on us at once, for AWAY_NS ends us.
 * THREADS  One.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/act/control_client.h"
#include "ctl/cli/ctl.h"

#define ROOM		((size_t)1 << 20)	/* for lines that were not spoken of yet */
#define INPUT_BYTES	((size_t)64 << 10)
#define LINE_KEPT	70000	/* more than the daemon takes for one */
#define ANSWER_MAX	512
#define AWAY_NS		(10 * NS_PER_SECOND)
#define RETRY_MS	100
#define SERVED_NS	NS_PER_SECOND	/* a shorter connection without an answer was none */

struct feeder {
	const char *address;
	char prefix[128];	/* of each line */
	char source[96];	/* "source NAME" */
	bool events;		/* the input is of postern-events(5) */
	int fd;			/* -1: not connected */
	int64_t connected_ns;
	bool heard;		/* there was an answer on this connection */
	int64_t away_since_ns;
	/* whole lines as they are sent, then what was read behind the last of them */
	char *lines;
	size_t length, whole;
	size_t sent;		/* of the whole ones */
	uint64_t taken;		/* lines that the daemon has spoken of; they are gone */
	uint64_t known;		/* lines so far */
	bool begun;		/* within a line of the input */
	size_t line_length;	/* of that one */
	bool ended;		/* the input */
	bool asked;		/* sync was sent, its answer not read */
	char say[128];		/* a line of our own, to be sent before more lines */
	size_t say_length, said;
	char answer[ANSWER_MAX];
	size_t answer_length;
	uint64_t errors;
	uint64_t errors_before;	/* on connections before this one */
};

/* --- the input -------------------------------------------------------------------- */

/* Room for the input, each line of which may grow by the prefix. */
static bool has_room(const struct feeder *f) {
	return f->length + INPUT_BYTES * (1 + strlen(f->prefix)) < ROOM * 16;
}

static void feeder_add(struct feeder *f, const char *bytes, size_t length) {
	memcpy(f->lines + f->length, bytes, length);
	f->length += length;
}

static bool begins_with_word(const char *line, size_t length, const char *word) {
	size_t of_word = strlen(word);

	return length >= of_word && memcmp(line, word, of_word) == 0 &&
	    (length == of_word || line[of_word] == ' ' || line[of_word] == '\r');
}

/* "sync" and "source" are ours to say: the daemon does not count them as lines, so that
 * we would wait for them for ever.  A comment has the place of one. */
static void pass_over_own_words(struct feeder *f) {
	const char *line = f->lines + f->whole;
	size_t length = f->length - f->whole;

	if (!f->events || !(begins_with_word(line, length, "sync") ||
		begins_with_word(line, length, "source")))
		return;
	f->length = f->whole;
	feeder_add(f, "#", 1);
}

static void end_line(struct feeder *f) {
	pass_over_own_words(f);
	feeder_add(f, "\n", 1);
	f->whole = f->length;
	f->known++;
	f->begun = false;
}

static void take_input(struct feeder *f, const char *bytes, size_t length) {
	while (length > 0) {
		const char *newline = memchr(bytes, '\n', length);
		size_t piece = newline == NULL ? length : (size_t)(newline - bytes);

		size_t kept = piece;

		if (!f->begun) {
			feeder_add(f, f->prefix, strlen(f->prefix));
			f->line_length = 0;
		}
		f->begun = true;
		if (f->line_length + kept > LINE_KEPT)
			kept = LINE_KEPT - f->line_length;
		feeder_add(f, bytes, kept);
		f->line_length += kept;
		if (newline == NULL)
			return;
		end_line(f);
		bytes = newline + 1;
		length -= piece + 1;
	}
}

static int read_input(struct feeder *f) {
	char bytes[INPUT_BYTES];
	/* a full buffer of newlines takes the most room */
	ssize_t n = read(STDIN_FILENO, bytes, strlen(f->prefix) == 0 ? sizeof(bytes) :
	    sizeof(bytes) / 4);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0) {
		ctl_complain("standard input: %s", strerror(errno));
		return EX_IOERR;
	}
	if (n == 0) {
		f->ended = true;
		if (f->begun)
			end_line(f);
	}
	take_input(f, bytes, (size_t)n);
	return 0;
}

/* --- the daemon ------------------------------------------------------------------- */

static void feeder_say(struct feeder *f, const char *format, uint64_t number) {
	f->say_length = text_append(f->say, sizeof(f->say), 0, "%s", f->source);
	if (format == NULL)
		f->say_length = text_append(f->say, sizeof(f->say), 0, "sync\n");
	else
		f->say_length = text_append(f->say, sizeof(f->say), f->say_length,
		    " %" PRIu64 "\n", number);
	f->said = 0;
}

static void feeder_hang_up(struct feeder *f) {
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
	f->asked = false;
	f->answer_length = 0;
	f->errors_before = f->errors;
	if (f->heard || clock_now_ns() - f->connected_ns > SERVED_NS)
		f->away_since_ns = clock_now_ns();
	else
		(void)poll(NULL, 0, RETRY_MS);
}

/* 0 when connected, or when it is to be tried again. */
static int feeder_call(struct feeder *f, bool first) {
	struct diag diag;

	if (first)
		f->away_since_ns = clock_now_ns();
	else if (clock_now_ns() - f->away_since_ns >= AWAY_NS) {
		ctl_complain("lost the daemon after %" PRIu64 " processed lines",
		    f->taken);
		return EX_UNAVAILABLE;
	}
	f->fd = control_connect(f->address, (int)(AWAY_NS / NS_PER_MS), &diag);
	if (f->fd < 0 && first)
		return ctl_fail(&diag);
	if (f->fd < 0) {
		(void)poll(NULL, 0, RETRY_MS);
		return 0;
	}
	f->connected_ns = clock_now_ns();
	f->heard = false;
	(void)fcntl(f->fd, F_SETFL, O_NONBLOCK);
	f->sent = 0;
	feeder_say(f, f->source, f->taken);
	return 0;
}

/* The daemon has dealt with lines up to this one. */
static void feeder_forget(struct feeder *f, uint64_t taken) {
	size_t at = 0;

	for (; f->taken < taken && at < f->whole; f->taken++)
		at = (size_t)((char *)memchr(f->lines + at, '\n', f->whole - at) -
		    f->lines) + 1;
	memmove(f->lines, f->lines + at, f->length - at);
	f->length -= at;
	f->whole -= at;
	f->sent -= at < f->sent ? at : f->sent;
}

/* "ok LINE ERRORS", "error LINE OFFSET REASON" */
static void take_answer(struct feeder *f, char *answer) {
	char *end;
	uint64_t line;

	if (strncmp(answer, "ok ", 3) == 0) {
		feeder_forget(f, strtoull(answer + 3, &end, 10));
		f->errors = f->errors_before + strtoull(end, NULL, 10);
		f->asked = false;
	} else if (strncmp(answer, "error ", 6) == 0) {
		line = strtoull(answer + 6, &end, 10);
		while (*end == ' ' || (*end >= '0' && *end <= '9'))
			end++;
		ctl_complain("line %" PRIu64 ": %s", line, end);
	}
}

static void read_answers(struct feeder *f) {
	ssize_t n = recv(f->fd, f->answer + f->answer_length,
	    sizeof(f->answer) - 1 - f->answer_length, 0);
	char *at = f->answer, *newline;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		feeder_hang_up(f);
		return;
	}
	f->heard = true;
	f->answer_length += (size_t)n;
	f->answer[f->answer_length] = '\0';
	while ((newline = strchr(at, '\n')) != NULL) {
		*newline = '\0';
		take_answer(f, at);
		at = newline + 1;
	}
	f->answer_length = strlen(at);
	memmove(f->answer, at, f->answer_length);
	if (f->answer_length == sizeof(f->answer) - 1)
		feeder_hang_up(f);	/* it is no daemon of ours */
}

static bool send_some(struct feeder *f, const char *bytes, size_t length, size_t *sent) {
	ssize_t n = send(f->fd, bytes + *sent, length - *sent, MSG_NOSIGNAL);

	if (n >= 0)
		*sent += (size_t)n;
	else if (errno != EAGAIN && errno != EINTR)
		feeder_hang_up(f);
	return f->fd >= 0 && *sent == length;
}

static bool has_to_send(const struct feeder *f) {
	return f->said < f->say_length || f->sent < f->whole ||
	    (!f->asked && f->taken < f->known && f->whole > 0);
}

static void send_lines(struct feeder *f) {
	if (f->said < f->say_length &&
	    !send_some(f, f->say, f->say_length, &f->said))
		return;
	if (f->sent < f->whole && !send_some(f, f->lines, f->whole, &f->sent))
		return;
	if (!f->asked && f->whole > 0) {
		feeder_say(f, NULL, 0);
		f->asked = true;
		(void)send_some(f, f->say, f->say_length, &f->said);
	}
}

static bool is_done(const struct feeder *f) {
	return f->ended && f->taken == f->known && !f->asked;
}

static int feeder_turn(struct feeder *f) {
	bool reads = !f->ended && has_room(f);
	struct pollfd polled[] = {
		{ .fd = reads ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = f->fd, .events = (short)(POLLIN | (has_to_send(f) ? POLLOUT : 0)) },
	};

	if (f->fd < 0)
		return feeder_call(f, false);
	if (poll(polled, 2, -1) < 0)
		return errno == EINTR ? 0 : EX_OSERR;
	if (polled[1].revents != 0)
		read_answers(f);
	if (f->fd >= 0 && has_to_send(f))
		send_lines(f);
	return polled[0].revents != 0 ? read_input(f) : 0;
}

static void write_summary(struct ctl *ctl, const struct feeder *f) {
	writer_object_begin(&ctl->writer, NULL);
	writer_number(&ctl->writer, "lines", f->taken);
	writer_number(&ctl->writer, "errors", f->errors);
	writer_object_end(&ctl->writer);
}

static int feeder_run(struct ctl *ctl, struct feeder *f) {
	int code = feeder_call(f, true);

	while (code == 0 && !is_done(f))
		code = feeder_turn(f);
	if (f->fd >= 0)
		close(f->fd);
	if (code == 0)
		write_summary(ctl, f);
	return code != 0 ? code : f->errors > 0 ? EX_DATAERR : EX_OK;
}

int command_INJECT(struct ctl *ctl) {
	struct feeder *f;
	struct places places;
	int code;

	if (ctl->mta != NULL && (ctl->events || strlen(ctl->mta) > 80 ||
	    strpbrk(ctl->mta, " \n") != NULL || *ctl->mta == '\0'))
		return ctl_usage(COMMAND_INJECT, ctl->events ?
		    "--mta cannot be used with --events: events name their own mail servers" : "--mta: not a valid name");
	code = places_find(ctl, &places);
	if (code != EX_OK)
		return code;
	if (ctl->socket == NULL && places.events[0] == '\0') {
		ctl_complain("%s: listen.events is not configured", ctl->config_path);
		return EX_CONFIG;
	}
	f = calloc(1, sizeof(*f));
	if (f != NULL)
		f->lines = malloc(ROOM * 16);
	if (f == NULL || f->lines == NULL) {
		free(f);
		return EX_OSERR;
	}
	f->address = ctl->socket != NULL ? ctl->socket : places.events;
	f->fd = -1;
	f->events = ctl->events;
	if (!f->events)
		text_append(f->prefix, sizeof(f->prefix), 0, "log %s ",
		    ctl->mta != NULL ? ctl->mta : "*");
	text_append(f->source, sizeof(f->source), 0, "source feed-%ld-%" PRId64,
	    (long)getpid(), clock_wall_ms());
	code = feeder_run(ctl, f);
	free(f->lines);
	free(f);
	return code;
}
