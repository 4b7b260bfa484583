/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Reads the sessions that snapshot.c wrote as text.
 * MODEL    Any role can have put anything there: each number is bounded before it is stored.
 * ERRORS   A line that makes no sense ends the reading: what stood before it is
 *          kept out too (the caller starts empty and adoption does the rest).
 * THREADS  Who prepares the segment.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/file/text_file.h"
#include "segment/session/sessions.h"
#include "segment/session/snapshot_internal.h"

#define LINE_BYTES 512

/* A line's words, in place. */
static unsigned line_split(char *line, char *words[], unsigned size) {
	unsigned count = 0;

	while (*line != '\0' && count < size) {
		words[count++] = line;
		while (*line != ' ' && *line != '\n' && *line != '\0')
			line++;
		if (*line != '\0')
			*line++ = '\0';
	}
	return count;
}

static bool word_number(const char *word, uint64_t max, uint64_t *out) {
	char *end;

	if (*word < '0' || *word > '9')
		return false;
	errno = 0;
	*out = strtoull(word, &end, 10);
	return errno == 0 && *end == '\0' && *out <= max;
}

static bool words_endpoint(const char *address, const char *port,
    struct address *address_out, uint16_t *port_out) {
	uint64_t value;

	if (!word_number(port, UINT16_MAX, &value))
		return false;
	*port_out = (uint16_t)value;
	if (strcmp(address, "unknown") == 0) {
		memset(address_out, 0, sizeof(*address_out));
		return true;
	}
	return address_parse(address, strlen(address), address_out);
}

static bool restore_class(struct segment *segment, char **words, unsigned count,
    int64_t now_ns) {
	uint64_t values[6];
	struct class_record *record;
	uint16_t at;

	if (count != 8 || strlen(words[1]) > SEGMENT_NAME_MAX)
		return false;
	for (unsigned i = 0; i < 6; i++) {
		if (!word_number(words[2 + i], i == 0 ? UINT32_MAX : UINT64_MAX,
			&values[i]))
			return false;
	}
	at = segment_record(segment, words[1], now_ns);
	if (at == SEGMENT_NO_CLASS)
		return false;
	record = &segment->records[at];
	atomic_store(&record->peak, (uint32_t)values[0]);
	atomic_store(&record->admitted, values[1]);
	atomic_store(&record->refused, values[2]);
	atomic_store(&record->deferred, values[3]);
	atomic_store(&record->observed, values[4]);
	atomic_store(&record->adopted, values[5]);
	return true;
}

static bool restore_listener(struct segment *segment, char **words,
    unsigned count) {
	static const uint64_t max[5] = { UINT8_MAX, UINT16_MAX, UINT32_MAX,
		UINT32_MAX, UINT32_MAX };
	struct listener_record *record;
	uint64_t v[5];

	if (count != 6)
		return false;
	for (unsigned i = 0; i < 5; i++) {
		if (!word_number(words[1 + i], max[i], &v[i]))
			return false;
	}
	record = segment_listener(segment, (uint8_t)v[0], (uint16_t)v[1]);
	if (record == NULL)
		return false;
	atomic_store(&record->seen, (uint32_t)v[2]);
	atomic_store(&record->unseen, (uint32_t)v[3]);
	atomic_store(&record->absent, (uint32_t)v[4]);
	return true;
}

static bool restore_carrier(struct segment *segment, char **words, unsigned count,
    int64_t now_ns) {
	struct carrier_record *record = segment->header->carriers;
	struct address address;
	uint16_t port;
	unsigned i = 0;

	if (count != 3 || !words_endpoint(words[1], words[2], &address, &port))
		return false;
	while (i < SEGMENT_CARRIERS && atomic_load(&record[i].seen_ns) != 0)
		i++;
	if (i < SEGMENT_CARRIERS) {
		record[i].address = address;
		record[i].port = port;
		atomic_store(&record[i].seen_ns, now_ns);
	}
	return true;
}

static bool restore_mta(struct segment *segment, char **words, unsigned count) {
	struct mta_record *record;
	uint64_t mta;

	if (count != 3 || !word_number(words[1], SEGMENT_MTAS - 1, &mta) ||
	    strlen(words[2]) > SEGMENT_NAME_MAX)
		return false;
	record = &segment->header->mtas[mta];
	snprintf(record->name, sizeof(record->name), "%s", words[2]);
	return true;
}

/* Whoever leased shares is still itself; what it leased is leased anew. */
static bool restore_instance(struct segment *segment, char **words, unsigned count) {
	uint64_t instance;

	if (count != 2 || !word_number(words[1], UINT64_MAX, &instance))
		return false;
	atomic_store(&segment->header->cluster_instance, instance);
	return true;
}

/* process:PID:TICKS */
static bool parse_process(char *text, struct address *out) {
	char *ticks_text = strchr(text, ':');
	uint64_t pid, ticks;
	uint32_t pid_bytes;

	if (ticks_text == NULL)
		return false;
	*ticks_text++ = '\0';
	if (!word_number(text, INT32_MAX, &pid) || pid == 0 ||
	    !word_number(ticks_text, UINT64_MAX, &ticks))
		return false;
	memset(out, 0, sizeof(*out));
	pid_bytes = (uint32_t)pid;
	memcpy(out->bytes, &pid_bytes, sizeof(pid_bytes));
	memcpy(out->bytes + sizeof(pid_bytes), &ticks, sizeof(ticks));
	return true;
}

/* sockets:POLICY:MILTER */
static bool parse_sockets(char *text, struct session *s) {
	char *milter_text = strchr(text, ':');
	uint64_t policy, milter;

	if (milter_text == NULL)
		return false;
	*milter_text++ = '\0';
	if (!word_number(text, UINT32_MAX, &policy) || !word_number(milter_text, UINT32_MAX, &milter))
		return false;
	s->policy_socket = (uint32_t)policy;
	s->milter_socket = (uint32_t)milter;
	return true;
}

static bool parse_proof(char *text, const char *port, struct session *s) {
	static const char process[] = "process:", sockets[] = "sockets:";
	bool is_process = (s->control.flags & SESSION_FLAG_PROCESS) != 0;
	struct address none;

	if (strncmp(text, sockets, sizeof(sockets) - 1) == 0)
		return words_endpoint("unknown", port, &none, &s->proof_port) &&
		    session_has_sockets(s) &&
		    parse_sockets(text + sizeof(sockets) - 1, s);
	if (is_process != (strncmp(text, process, sizeof(process) - 1) == 0))
		return false;
	if (!is_process)
		return words_endpoint(text, port, &s->proof_address, &s->proof_port);
	return words_endpoint("unknown", port, &none, &s->proof_port) &&
	    s->control.direction == SESSION_OUTBOUND &&
	    parse_process(text + sizeof(process) - 1, &s->proof_address);
}

static uint32_t number_less(uint64_t value, uint64_t by) {
	return value > by ? (uint32_t)(value - by) : 0;
}

static bool parse_session(char **words, struct session *s, uint32_t now_ds,
    uint32_t kept_ds) {
	uint64_t v[8];
	static const unsigned at[8] = { 1, 2, 10, 11, 12, 13, 14, 15 };
	static const uint64_t max[8] = { SESSION_OUTBOUND, SESSION_STATES - 1,
		SESSION_PROOF_LEASE, 255, 255, 255, UINT32_MAX, UINT32_MAX };

	memset(s, 0, sizeof(*s));
	for (unsigned i = 0; i < 8; i++) {
		if (!word_number(words[at[i]], max[i], &v[i]))
			return false;
	}
	if (!words_endpoint(words[3], words[4], &s->client, &s->client_port) ||
	    !words_endpoint(words[5], words[6], &s->server, &s->server_port))
		return false;
	s->control.direction = (uint8_t)v[0];
	s->control.state = (uint8_t)v[1];
	s->control.proof = (uint8_t)v[2];
	s->control.flags = (uint8_t)v[3] | SESSION_FLAG_RESTORED;
	s->control.listener = (uint8_t)v[4];
	s->control.client_bits = (uint8_t)v[5];
	s->opened_ds = number_less(now_ds, v[6] + kept_ds);
	s->until_ds = now_ds + number_less(v[7], kept_ds);
	return s->control.state != SESSION_FREE &&
	    (v[5] <= 128 || v[5] == 255) && parse_proof(words[7], words[8], s);
}

/* Puts the slot in; the counters follow from sessions_rebuild. */
static bool restore_session(struct segment *segment, char **words,
    unsigned count, int64_t now_ns, int64_t kept_ns) {
	struct session_lock lock;
	struct session_key key;
	struct session session;
	uint32_t slot;

	if (count != 16 ||
	    !parse_session(words, &session, segment_ds(segment, now_ns),
		(uint32_t)(kept_ns / (NS_PER_SECOND / 10))))
		return false;
	session.control.class_record = SEGMENT_NO_CLASS;
	if (strcmp(words[9], "-") != 0 && strlen(words[9]) <= SEGMENT_NAME_MAX)
		session.control.class_record =
		    segment_record(segment, words[9], now_ns);
	if ((session.control.flags & SESSION_FLAG_PROCESS) != 0)
		session.client_port =
		    (uint16_t)(session.control.class_record + 1);
	key = (struct session_key){ session.client, session.client_port,
		session.control.direction };
	sessions_aim(segment, &key, now_ns, &lock);
	if (!sessions_lock(&lock))
		return false;
	slot = sessions_take(&lock);
	if (slot != SEGMENT_NO_SLOT) {
		sessions_link(&lock, slot);
		session_store(segment, slot, &session);
	}
	sessions_unlock(&lock);
	return true;
}

/* When the old segment was last heard of: from then on nobody counted. */
static void restore_gap(struct segment *segment, int64_t heard_ns) {
	static const enum role_kind kinds[] = { ROLE_POLICY, ROLE_MILTER,
		ROLE_KEEPER };

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		unsigned place = segment_role_place(kinds[i], 0);

		atomic_store(&segment->header->roles[place].heartbeat_ns,
		    heard_ns);
	}
}

/* The lines before the others: of this boot? */
static bool read_head(const struct segment *segment, FILE *file, int64_t now_ns,
    long long *saved_ns, long long *heard_ns) {
	char boot[64];

	return fscanf(file, SNAPSHOT_FORM "boot %39s\nsaved %lld %lld", boot, saved_ns,
	    heard_ns) == 3 && fgetc(file) == '\n' && strcmp(boot, segment->header->boot_id) == 0 &&
	    *saved_ns >= 0 && *heard_ns >= *saved_ns && *heard_ns <= now_ns;
}

static int64_t restore_lines(struct segment *segment, struct text_file *text, int64_t now_ns,
    struct diag *diag) {
	char line[LINE_BYTES], *words[17];
	int64_t sessions = 0;
	long long saved_ns, heard_ns;
	uint64_t lines = 0, said;

	if (!read_head(segment, text->file, now_ns, &saved_ns, &heard_ns))
		return diag_set(diag, 0, "no saved sessions of this boot");
	while (text_file_line(text, line, sizeof(line), diag)) {
		unsigned count = line_split(line, words, 17);
		bool good = false;

		if (count == 2 && strcmp(words[0], "end") == 0 &&
		    word_number(words[1], UINT64_MAX, &said) && said == lines) {
			restore_gap(segment, heard_ns);
			return sessions;
		}
		lines++;
		if (count > 0 && strcmp(words[0], "class") == 0)
			good = restore_class(segment, words, count, now_ns);
		else if (count > 0 && strcmp(words[0], "listener") == 0)
			good = restore_listener(segment, words, count);
		else if (count > 0 && strcmp(words[0], "carrier") == 0)
			good = restore_carrier(segment, words, count, now_ns);
		else if (count > 0 && strcmp(words[0], "mta") == 0)
			good = restore_mta(segment, words, count);
		else if (count > 0 && strcmp(words[0], "instance") == 0)
			good = restore_instance(segment, words, count);
		else if (count > 0 && strcmp(words[0], "session") == 0) {
			good = restore_session(segment, words, count, now_ns,
			    heard_ns - saved_ns);
			sessions++;
		}
		if (!good)
			break;
	}
	return diag->error != 0 ? -1 : diag_set(diag, 0,
	    "the saved sessions are incomplete after line %llu", (unsigned long long)lines + 3);
}

/* What was read before a torn line must not stay. */
static void forget_all(struct segment *segment) {
	struct session_control control = { .class_record = SEGMENT_NO_CLASS };
	uint32_t first, count;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t i = 0; i < count; i++)
			session_store_control(segment, first + i, control);
	}
}

int64_t segment_restore_sessions(struct segment *segment, int64_t now_ns,
    struct diag *diag) {
	char path[PATH_MAX + 16];
	struct text_file text;
	int64_t result;

	snapshot_path(segment, "", path);
	if (text_file_open(&text, path, diag) != 0)
		return -1;
	result = restore_lines(segment, &text, now_ns, diag);
	text_file_close(&text);
	if (result < 0)
		forget_all(segment);
	sessions_rebuild(segment);
	return result;
}
