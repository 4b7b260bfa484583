/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl analyze --sessions.
 * MODEL    A process serves one session at a time, so that Postfix's lines pair by process;
 *          postscreen's by address and port, and one that it hands over is the same
 *          session.  Sendmail tells no end: the last line of the process is taken for
 *          it.
 * ERRORS   Without memory, or a session, nothing is shown: no limit fits nothing.
 * THREADS  One.
 */
#include "ctl/analyze/analyze_sessions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/siphash.h"

#define HANDOVER_MS		INT64_C(60000)

/* --- reading ------------------------------------------------------------------------ */

struct sessions {
	struct analyze_read read;
	struct siphash_key key;
	struct map open;	/* sessions by process, or by address and port */
	struct map clients;	/* by address */
	uint64_t line;
	bool no_memory;
};

/* What a session is known by: a process, a client's port, or a client whose session is
 * being handed over. */
static uint64_t key_of(const struct sessions *s, char kind, struct span program, uint32_t pid,
    const struct log_session *session) {
	char bytes[1 + 16 + 2 + 4 + 128] = { kind };
	size_t length = program.length < 128 ? program.length : 128;
	uint64_t hash;

	if (kind == 'p') {
		memcpy(bytes + 1, &pid, sizeof(pid));
		memcpy(bytes + 23, program.text, length);
		length += 23;
	} else {
		memcpy(bytes + 1, session->address.bytes, 16);
		if (kind == 'c')
			memcpy(bytes + 17, &session->port, sizeof(session->port));
		length = 19;
	}
	hash = siphash13(&s->key, bytes, length);
	return hash == 0 ? 1 : hash;
}

static char *copy_name(struct span name) {
	return name.length == 0 || name.length > ANALYZE_NAME_MAX ? NULL :
	    strndup(name.text, name.length);
}

/* UINT32_MAX: no memory. */
static uint32_t find_client(struct sessions *s, const struct log_session *session) {
	struct analyze_seen *seen = &s->read.seen;
	uint64_t key = siphash13(&s->key, session->address.bytes, 16) | 1;
	uint32_t number = map_index(&s->clients, key);

	if (number != UINT32_MAX) {
		struct analyze_client *client = &seen->clients[number];

		if (client->name == NULL)
			client->name = copy_name(session->name);
		return number;
	}
	if (!array_grow(&seen->clients, &seen->client_size, seen->client_count,
	    sizeof(*seen->clients)) ||
	    !map_set_index(&s->clients, key, (uint32_t)seen->client_count)) {
		s->no_memory = true;
		return UINT32_MAX;
	}
	seen->clients[seen->client_count] = (struct analyze_client){
		.address = session->address, .name = copy_name(session->name),
		.class = ANALYZE_NO_CLASS };
	return (uint32_t)seen->client_count++;
}

/* The service, as master.cf names it usually. */
static uint16_t port_of(struct span program) {
	if (memmem(program.text, program.length, "submission", 10) != NULL)
		return 587;
	return memmem(program.text, program.length, "smtps", 5) != NULL ? 465 : 25;
}

static uint32_t class_of(const struct sessions *s, uint16_t port,
    const struct log_session *session) {
	uint32_t rule = generation_match_inbound(s->read.site.generation, port, &session->address,
	    session->name.length == 0 ? NULL : session->name.text, session->name.length);

	return rule >= s->read.site.generation->rule_count ? ANALYZE_NO_CLASS :
	    generation_rule(s->read.site.generation, rule)->class_index;
}

static void end_session(struct sessions *s, uint64_t key) {
	uint32_t number = map_index(&s->open, key);

	if (number == UINT32_MAX)
		return;
	s->read.seen.sessions[number].end_ms = s->read.clock.now_ms;
	s->read.seen.sessions[number].end_line = s->line;
	map_remove_hash(&s->open, key);
}

static void begin_session(struct sessions *s, const struct log_line *line, uint64_t key) {
	struct analyze_seen *seen = &s->read.seen;
	uint32_t client = find_client(s, &line->session);
	struct analyze_session *session;

	end_session(s, key);
	if (client == UINT32_MAX)
		return;
	if (!array_grow(&seen->sessions, &seen->session_size, seen->session_count,
	    sizeof(*seen->sessions)) ||
	    !map_set_index(&s->open, key, (uint32_t)seen->session_count)) {
		s->no_memory = true;
		return;
	}
	session = &seen->sessions[seen->session_count++];
	*session = (struct analyze_session){ .start_ms = s->read.clock.now_ms, .end_ms = INT64_MIN,
		.start_line = s->line, .client = client, .port = port_of(line->program),
		.of_sendmail = line->daemon.length == line->program.length };
	session->class = class_of(s, session->port, &line->session);
	seen->clients[client].class = session->class;
}

/* postscreen let it through: smtpd's "connect" of the same client is the same session. */
static void hand_over(struct sessions *s, const struct log_line *line) {
	uint64_t from = key_of(s, 'c', line->program, 0, &line->session);
	uint64_t to = key_of(s, 'h', line->program, 0, &line->session);
	uint32_t number = map_index(&s->open, from);

	if (number == UINT32_MAX)
		return;
	map_remove_hash(&s->open, from);
	end_session(s, to);
	(void)map_set_index(&s->open, to, number);
}

static bool take_over(struct sessions *s, const struct log_line *line, uint64_t key) {
	uint64_t from = key_of(s, 'h', line->program, 0, &line->session);
	uint32_t number = map_index(&s->open, from);

	if (number == UINT32_MAX ||
	    s->read.clock.now_ms - s->read.seen.sessions[number].start_ms > HANDOVER_MS)
		return false;
	end_session(s, key);
	map_remove_hash(&s->open, from);
	(void)find_client(s, &line->session);	/* smtpd knows its name */
	s->read.seen.sessions[number].class = class_of(s, 25, &line->session);
	s->read.seen.clients[s->read.seen.sessions[number].client].class =
	    s->read.seen.sessions[number].class;
	return map_set_index(&s->open, key, number);
}

static void count_refused(struct sessions *s, const struct log_line *line) {
	uint32_t client = find_client(s, &line->session);

	s->read.seen.refused++;
	if (client != UINT32_MAX)
		s->read.seen.clients[client].refused++;
}

static void on_session(struct sessions *s, const struct log_line *line) {
	uint64_t key = key_of(s, line->session.postscreen ? 'c' : 'p', line->program, line->pid,
	    &line->session);

	switch (line->session.event) {
	case LOG_SESSION_CONNECT:
		if (line->session.postscreen || !take_over(s, line, key))
			begin_session(s, line, key);
		break;
	case LOG_SESSION_DISCONNECT:
		end_session(s, key);
		break;
	case LOG_SESSION_PASSED:
		hand_over(s, line);
		break;
	case LOG_SESSION_REFUSED:
		count_refused(s, line);
		break;
	case LOG_SESSION_LOST:
		break;
	}
}

/* "from=..., daemon=MTA, relay=NAME [ADDRESS]": below LogLevel 10 Sendmail tells of a
 * session only by the messages that it brought. */
static bool read_arrival(const struct log_line *line, struct log_session *out) {
	static const char from[] = "from=", relay[] = ", relay=";
	const char *end = line->message.text + line->message.length, *at, *open;

	if (line->message.length < sizeof(from) || line->queue_id.length == 0 ||
	    memcmp(line->message.text, from, sizeof(from) - 1) != 0 ||
	    memmem(line->message.text, line->message.length, ", daemon=", 9) == NULL)
		return false;
	/* the last one: a sender may hold anything */
	open = memrchr(line->message.text, '[', line->message.length);
	at = open;
	while (at != NULL && at > line->message.text &&
	    ((size_t)(end - at) < sizeof(relay) || memcmp(at, relay, sizeof(relay) - 1) != 0))
		at--;
	if (at == NULL || at == line->message.text)
		return false;
	at += sizeof(relay) - 1;
	*out = (struct log_session){ .event = LOG_SESSION_CONNECT };
	if (open > at + 1)
		out->name = (struct span){ at, (size_t)(open - at) - 1 };
	end = memchr(open, ']', (size_t)(end - open));
	return end != NULL && address_parse(open, (size_t)(end - open) + 1, &out->address) &&
	    memchr(at, ' ', out->name.length) == NULL;
}

static int64_t last_heard(const struct analyze_session *session) {
	return session->end_ms == INT64_MIN ? session->start_ms : session->end_ms;
}

/* A Sendmail process is heard of: its session lasts, or is told of now. */
static void hear_sendmail(struct sessions *s, const struct log_line *line) {
	struct log_line begun = *line;
	uint64_t key = key_of(s, 'p', line->program, line->pid, &line->session);
	uint32_t number;

	if (line->pid == 0)
		return;
	number = map_index(&s->open, key);
	if (number != UINT32_MAX && s->read.clock.now_ms - last_heard(&s->read.seen.sessions[number]) >
	    ANALYZE_UNENDED_MS) {
		map_remove_hash(&s->open, key);	/* another process by now */
		number = UINT32_MAX;
	}
	if (number == UINT32_MAX) {
		/* one that is told of at its end alone is none the less one */
		if ((line->kind == LOG_LINE_SESSION &&
		    line->session.event == LOG_SESSION_DISCONNECT) ||
		    (line->kind == LOG_LINE_OTHER && read_arrival(line, &begun.session)))
			begin_session(s, &begun, key);
		return;
	}
	s->read.seen.sessions[number].end_ms = s->read.clock.now_ms;
	s->read.seen.sessions[number].end_line = s->line;
}

static void on_line(void *context, const struct analyze_line *at) {
	struct sessions *s = context;
	struct log_line line;

	s->line++;
	mail_log_scan(at->text, at->length, &line);
	if (line.kind == LOG_LINE_FOREIGN || !analyze_clock_read(&s->read.clock, line.head))
		return;
	if (line.daemon.length == line.program.length)
		hear_sendmail(s, &line);
	if (line.kind == LOG_LINE_SESSION)
		on_session(s, &line);
}

/* --- the command ---------------------------------------------------------------------- */

static void sessions_free(struct sessions *s) {
	for (size_t i = 0; i < s->read.seen.client_count; i++)
		free(s->read.seen.clients[i].name);
	free(s->read.seen.clients);
	free(s->read.seen.sessions);
	free(s->read.seen.order);
	map_free(&s->open);
	map_free(&s->clients);
	analyze_site_close(&s->read.site);
}

static void complain_of_none(const struct sessions *s) {
	unsigned long long lines = s->read.lines.lines;

	if (lines == 0)
		ctl_complain("analyze: no log lines, so no limits are recommended");
	else
		ctl_complain("analyze: no sessions in %llu log line%s, so no limits are "
		    "recommended (Sendmail logs sessions from LogLevel 10 on)",
		    lines, lines == 1 ? "" : "s");
}

int analyze_sessions(struct ctl *ctl) {
	struct sessions s = { .read = { .ctl = ctl }, .key = { (uint64_t)clock_now_ns(),
		(uint64_t)clock_thread_cpu_ns() } };
	int result = analyze_clock_begin(ctl, &s.read.clock);

	if (result == EX_OK)
		result = analyze_site_open(ctl, &s.read.site);
	if (result != EX_OK)
		return result;
	result = analyze_lines(ctl, &s.read.lines, on_line, &s);
	if (s.read.seen.session_count == 0 && !s.no_memory) {
		if (result == EX_OK)
			complain_of_none(&s);
		sessions_free(&s);
		return result != EX_OK ? result : EX_DATAERR;
	}
	if (s.no_memory || !analyze_write_sessions(&s.read))
		result = ctl_os_error(ENOMEM);
	sessions_free(&s);
	return result;
}
