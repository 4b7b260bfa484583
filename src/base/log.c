/* SPDX-License-Identifier: ISC */
/*
 * The log.
 *
 * MODEL: a line is built on the stack, counted against the rate of its event
 * (a window of one second), and leaves in one system call that cannot block: a
 * log daemon that hangs, or a pipe that nobody reads, must not hold up mail.
 * What could not be written is counted as left out.  Hence no syslog(3), which
 * waits.  Where stderr has hung up, or takes no more, lines go to the log daemon.
 *
 * ERRORS: none are reported; there is no better place to report them to.
 * THREADS: any; one mutex guards the windows and the syslog socket.
 * BUGS: two processes that write to one nearly full pipe at the same instant
 * may still wait for its reader.
 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

#define LINE_MAX_BYTES	2048
#define HEAD_MAX_BYTES	160
#define ROLE_MAX	32

static const struct {
	const char *word;
	int severity;
	uint32_t per_second;
} events[EVENT_COUNT] = {
#define EVENT(symbol, word, severity, per_second, text) \
	[EVENT_##symbol] = { word, severity, per_second },
#include "defs/events.def"
#undef EVENT
};

static struct {
	pthread_mutex_t mutex;
	enum log_target target;
	const char *identity;
	int facility;
	int syslog_fd;
	bool to_journal;		/* stderr is a stream of systemd's journal */
	char role[ROLE_MAX];
	void (*sink)(void *context, const char *line);
	void *sink_context;
	struct {
		int64_t window_ns;	/* when it began */
		uint32_t passed;
		/* without the mutex, too: */
		_Atomic int64_t full_until_ns;	/* no line passes before */
		_Atomic uint64_t left_out;
	} flood[EVENT_COUNT];
} state = {
	.mutex = PTHREAD_MUTEX_INITIALIZER,
	.target = LOG_TO_STDERR,
	.identity = "posternd",
	.facility = LOG_MAIL,
	.syslog_fd = -1,
};

/* The manager tells which file it gave us: another one is no stream of the journal. */
static bool stderr_is_journal(void) {
	const char *stream = getenv("JOURNAL_STREAM");
	struct stat status;
	char own[64];

	if (stream == NULL || fstat(STDERR_FILENO, &status) != 0)
		return false;
	text_append(own, sizeof(own), 0, "%ju:%ju", (uintmax_t)status.st_dev,
	    (uintmax_t)status.st_ino);
	return strcmp(own, stream) == 0;
}

void log_open(enum log_target target, const char *identity, int facility) {
	bool to_journal = target == LOG_TO_STDERR && stderr_is_journal();

	pthread_mutex_lock(&state.mutex);
	state.to_journal = to_journal;
	state.target = target;
	state.identity = identity;
	state.facility = facility;
	pthread_mutex_unlock(&state.mutex);
}

void log_set_role(const char *role) {
	pthread_mutex_lock(&state.mutex);
	text_copy(state.role, sizeof(state.role), role, strlen(role));
	pthread_mutex_unlock(&state.mutex);
}

void log_redirect(void (*sink)(void *context, const char *line), void *context) {
	pthread_mutex_lock(&state.mutex);
	state.sink = sink;
	state.sink_context = context;
	memset(state.flood, 0, sizeof(state.flood));
	pthread_mutex_unlock(&state.mutex);
}

static bool connect_syslog(void) {
	static const struct sockaddr_un to = {
		.sun_family = AF_UNIX, .sun_path = "/dev/log",
	};

	if (state.syslog_fd >= 0)
		close(state.syslog_fd);
	state.syslog_fd = socket(AF_UNIX,
	    SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (state.syslog_fd < 0)
		return false;
	if (connect(state.syslog_fd, (const struct sockaddr *)&to,
	    sizeof(to)) == 0)
		return true;
	close(state.syslog_fd);
	state.syslog_fd = -1;
	return false;
}

/* The log daemon may have been restarted: a second try with a new socket. */
static bool write_syslog(int severity, const char *line, size_t length) {
	static const char months[12][4] = { "Jan", "Feb", "Mar", "Apr", "May",
	    "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	char packet[HEAD_MAX_BYTES + LINE_MAX_BYTES];
	time_t now = (time_t)clock_wall_s();
	struct tm tm;
	size_t head;

	if (localtime_r(&now, &tm) == NULL)
		return false;
	head = text_append(packet, HEAD_MAX_BYTES, 0,
	    "<%d>%s %2d %02d:%02d:%02d %.64s[%ld]: ",
	    state.facility | severity, months[tm.tm_mon % 12], tm.tm_mday,
	    tm.tm_hour, tm.tm_min, tm.tm_sec, state.identity, (long)getpid());
	memcpy(packet + head, line, length);
	length += head;
	for (int try = 0; try < 2; try++) {
		if ((state.syslog_fd < 0 || try > 0) && !connect_syslog())
			return false;
		if (send(state.syslog_fd, packet, length,
		    MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return true;
		if (errno == EAGAIN)
			return false;
	}
	return false;
}

/* The journal has time, identity and pid of its own. */
static bool write_stderr(int severity, const char *line, size_t length) {
	struct pollfd ready = { .fd = STDERR_FILENO, .events = POLLOUT };
	char text[HEAD_MAX_BYTES + LINE_MAX_BYTES + 1];
	time_t now = (time_t)clock_wall_s();
	struct tm tm;
	size_t head;
	int count = poll(&ready, 1, 0);

	/* who else has it, a role too, can have shut it down for all */
	if (count == 1 && (ready.revents & (POLLERR | POLLHUP)) != 0)
		return write_syslog(severity, line, length);
	if (count != 1 || (ready.revents & POLLOUT) == 0 || gmtime_r(&now, &tm) == NULL)
		return false;
	if (state.to_journal)
		head = text_append(text, HEAD_MAX_BYTES, 0, "<%d>", severity);
	else
		head = text_append(text, HEAD_MAX_BYTES, 0,
		    "%04d-%02d-%02dT%02d:%02d:%02dZ %.64s[%ld]: ", tm.tm_year + 1900,
		    tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		    state.identity, (long)getpid());
	memcpy(text + head, line, length);
	text[head + length] = '\n';
	return write(STDERR_FILENO, text, head + length + 1) >= 0 ||
	    (errno != EAGAIN && write_syslog(severity, line, length));
}

/* Called with the mutex held; `line` has a NUL at [length]. */
static bool write_line(enum event_kind event, const char *line, size_t length) {
	if (state.sink != NULL) {
		state.sink(state.sink_context, line);
		return true;
	}
	if (state.target == LOG_TO_SYSLOG)
		return write_syslog(events[event].severity, line, length);
	return write_stderr(events[event].severity, line, length);
}

static size_t begin_line(enum event_kind event, char *line) {
	size_t length = text_append(line, LINE_MAX_BYTES, 0, "event=%s",
	    events[event].word);

	if (state.role[0] != '\0')
		length = text_append(line, LINE_MAX_BYTES, length, " role=%s",
		    state.role);
	return length;
}

static void leave_out(enum event_kind event, uint64_t lines) {
	atomic_fetch_add_explicit(&state.flood[event].left_out, lines, memory_order_relaxed);
}

/* With the mutex held.  False: the line is left out, and counted. */
static bool within_rate(enum event_kind event, int64_t now_ns) {
	if (events[event].per_second == 0)
		return true;
	if (now_ns - state.flood[event].window_ns >= NS_PER_SECOND) {
		state.flood[event].window_ns = now_ns;
		state.flood[event].passed = 0;
	}
	if (state.flood[event].passed < events[event].per_second)
		return true;
	atomic_store_explicit(&state.flood[event].full_until_ns,
	    state.flood[event].window_ns + NS_PER_SECOND, memory_order_relaxed);
	leave_out(event, 1);
	return false;
}

bool log_wants(enum event_kind event) {
	int64_t now_ns = clock_coarse_ns();
	bool wants;

	if (now_ns < atomic_load_explicit(&state.flood[event].full_until_ns,
		memory_order_relaxed)) {
		leave_out(event, 1);
		return false;
	}
	pthread_mutex_lock(&state.mutex);
	wants = within_rate(event, now_ns);
	pthread_mutex_unlock(&state.mutex);
	return wants;
}

/* Values went through log_quote; this keeps the promise of one line an event
 * even where somebody forgot. */
static void tame(char *line, size_t length) {
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = '?';
}

bool log_event(enum event_kind event, const char *format, ...) {
	char line[LINE_MAX_BYTES];
	int saved_errno = errno;
	uint64_t left_out;
	bool written = false;
	size_t length;
	va_list args;
	int n;

	pthread_mutex_lock(&state.mutex);
	if (!within_rate(event, clock_coarse_ns()))
		goto out;
	state.flood[event].passed++;
	length = begin_line(event, line);
	left_out = atomic_exchange(&state.flood[event].left_out, 0);
	if (left_out > 0)
		length = text_append(line, sizeof(line), length,
		    " left_out=%llu", (unsigned long long)left_out);
	length = text_append(line, sizeof(line), length, " ");
	va_start(args, format);
	n = vsnprintf(line + length, sizeof(line) - length, format, args);
	va_end(args);
	if (n > 0)
		length = (size_t)n < sizeof(line) - length ?
		    length + (size_t)n : sizeof(line) - 1;
	tame(line, length);
	written = write_line(event, line, length);
	if (!written)
		leave_out(event, left_out + 1);
out:
	pthread_mutex_unlock(&state.mutex);
	errno = saved_errno;
	return written;
}

void log_flush(void) {
	char line[LINE_MAX_BYTES];
	int saved_errno = errno;

	pthread_mutex_lock(&state.mutex);
	for (unsigned i = 0; i < EVENT_COUNT; i++) {
		uint64_t left_out = atomic_exchange(&state.flood[i].left_out, 0);
		size_t length;

		if (left_out == 0)
			continue;
		length = begin_line((enum event_kind)i, line);
		length = text_append(line, sizeof(line), length,
		    " left_out=%llu",
		    (unsigned long long)left_out);
		if (!write_line((enum event_kind)i, line, length))
			leave_out((enum event_kind)i, left_out);
	}
	pthread_mutex_unlock(&state.mutex);
	errno = saved_errno;
}

const char *log_quote(char *out, size_t size, const char *text, size_t length) {
	static const char hex[] = "0123456789abcdef";
	size_t at = 0, cut = 0;

	if (size == 0)
		return "";
	if (length == 0 && size > 1) {
		out[at++] = '-';
		out[at] = '\0';
		return out;
	}
	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		bool plain = c > 0x20 && c < 0x7f && c != '"' && c != '\\';
		size_t need = plain ? 1 : 4;

		if (at + need >= size) {
			/* `cut` is the last place where "..." still fits */
			at = text_append(out, size, cut, "...");
			break;
		}
		if (plain)
			out[at++] = (char)c;
		else {
			out[at++] = '\\';
			out[at++] = 'x';
			out[at++] = hex[c >> 4];
			out[at++] = hex[c & 15];
		}
		if (at + 4 <= size)
			cut = at;
	}
	out[at] = '\0';
	return out;
}

const char *log_sentence(char *out, size_t size, const char *text) {
	size_t length = 0;

	out[0] = '\0';
	for (; *text != '\0' && length + 4 < size; text++) {
		if (*text == '"')
			length = text_append(out, size, length, "'");
		else if (*text >= ' ' && *text <= '~')
			length = text_append(out, size, length, "%c", *text);
		else
			length = text_append(out, size, length, "\\x%02x",
			    (unsigned)(unsigned char)*text);
	}
	return out;
}
