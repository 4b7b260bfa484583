/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The sessions as text, for the day when the layout is another one.
 * MODEL    PATH.sessions, renewed through a rename:
 *
 *	postern-sessions 6
 *	boot BOOT-ID
 *	saved BOOTTIME-NS HEARD-NS	(20 digits each)
 *	class NAME PEAK ADMITTED REFUSED DEFERRED OBSERVED ADOPTED
 *	listener NUMBER PORT SEEN UNSEEN ABSENT
 *	carrier ADDRESS PORT
 *	mta NUMBER NAME
 *	instance NUMBER
 *	session DIRECTION STATE CLIENT PORT SERVER PORT PROOF-CLIENT PORT
 *		CLASS PROOF FLAGS LISTENER BITS AGE-DS LEFT-DS	(one line)
 *	end LINES
 *
 *          Class names hold no blank.  PROOF-CLIENT of a session that a delivering
 *          process holds is process:PID:START-TICKS; its own PORT stands for the
 *          class, whose record may be another one.  That of a client which the kernel does
 *          not show is sockets:POLICY:MILTER.  AGE and LEFT are as of BOOTTIME-NS; up to HEARD-NS,
 *          which is written in place while nothing changes (saved.c), all was as the file
 *          says.  A file without its last line, of another form or boot, is as good as none.
 * ERRORS   A line that makes no sense ends the reading: what stood before it is
 *          kept out too (the caller starts empty and adoption does the rest).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/file/name.h"
#include "segment/session/sessions.h"
#include "segment/file/text_file.h"

#define LINE_BYTES 512
#define PROOF_TEXT_MAX 64	/* an address, or a process */
_Static_assert(PROOF_TEXT_MAX >= ADDRESS_TEXT_MAX, "either");

static int snapshot_path(const struct segment *segment, const char *suffix,
    char out[PATH_MAX + 16]) {
	return snprintf(out, PATH_MAX + 16, "%s.sessions%s", segment->path,
	    suffix);
}

static unsigned write_classes(const struct segment *segment, FILE *file) {
	unsigned lines = 0;

	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		const struct class_record *record = &segment->records[i];
		char name[SEGMENT_NAME_MAX + 1];

		if (atomic_load(&record->in_use) == 0)
			continue;
		name_copy(record->name, name);
		fprintf(file, "class %s %u %llu %llu %llu %llu %llu\n",
		    name, atomic_load(&record->peak),
		    (unsigned long long)atomic_load(&record->admitted),
		    (unsigned long long)atomic_load(&record->refused),
		    (unsigned long long)atomic_load(&record->deferred),
		    (unsigned long long)atomic_load(&record->observed),
		    (unsigned long long)atomic_load(&record->adopted));
		lines++;
	}
	return lines;
}

/* What was learned of the listeners: without it connections of a proxy would be
 * adopted as sessions of their own. */
static unsigned write_listeners(const struct segment *segment, FILE *file) {
	unsigned lines = 0;

	for (unsigned i = 0; i < SEGMENT_LISTENERS; i++) {
		const struct listener_record *record =
		    &segment->header->listeners[i];
		uint32_t key = atomic_load(&record->key);

		if (key == 0)
			continue;
		fprintf(file, "listener %u %u %u %u %u\n", key >> 16 & UINT8_MAX,
		    key & UINT16_MAX, atomic_load(&record->seen),
		    atomic_load(&record->unseen), atomic_load(&record->absent));
		lines++;
	}
	return lines;
}

static unsigned write_carriers(const struct segment *segment, FILE *file) {
	unsigned lines = 0;

	for (unsigned i = 0; i < SEGMENT_CARRIERS; i++) {
		const struct carrier_record *record = &segment->header->carriers[i];
		char address[ADDRESS_TEXT_MAX];

		if (atomic_load(&record->seen_ns) == 0)
			continue;
		address_format(&record->address, address);
		fprintf(file, "carrier %s %u\n", address, record->port);
		lines++;
	}
	return lines;
}

static unsigned write_mtas(const struct segment *segment, FILE *file) {
	unsigned lines = 0;

	for (unsigned i = 0; i < SEGMENT_MTAS; i++) {
		char name[SEGMENT_NAME_MAX + 1];

		name_copy(segment->header->mtas[i].name, name);
		if (name[0] == '\0')
			continue;
		fprintf(file, "mta %u %s\n", i, name);
		lines++;
	}
	return lines;
}

/* Whatever proves that it lives, besides what its other fields tell. */
static void format_proof(const struct session *s, char text[PROOF_TEXT_MAX]) {
	uint32_t pid;
	uint64_t ticks;

	if (session_has_sockets(s)) {
		snprintf(text, PROOF_TEXT_MAX, "sockets:%u:%u", s->policy_socket,
		    s->milter_socket);
		return;
	}
	if ((s->control.flags & SESSION_FLAG_PROCESS) == 0) {
		address_format(&s->proof_address, text);
		return;
	}
	memcpy(&pid, s->proof_address.bytes, sizeof(pid));
	memcpy(&ticks, s->proof_address.bytes + sizeof(pid), sizeof(ticks));
	snprintf(text, PROOF_TEXT_MAX, "process:%u:%llu", pid,
	    (unsigned long long)ticks);
}

static void write_session(const struct segment *segment, FILE *file,
    const struct session *s, uint32_t now_ds) {
	char client[ADDRESS_TEXT_MAX], server[ADDRESS_TEXT_MAX];
	char proof[PROOF_TEXT_MAX], class[SEGMENT_NAME_MAX + 1] = "-";

	if (s->control.class_record < segment->header->record_count)
		name_copy(segment->records[s->control.class_record].name, class);
	address_format(&s->client, client);
	address_format(&s->server, server);
	format_proof(s, proof);
	fprintf(file, "session %u %u %s %u %s %u %s %u %s %u %u %u %u %u %u\n",
	    s->control.direction, s->control.state, client, s->client_port,
	    server, s->server_port, proof, s->proof_port, class,
	    s->control.proof, s->control.flags, s->control.listener,
	    s->control.client_bits,
	    now_ds >= s->opened_ds ? now_ds - s->opened_ds : 0,
	    s->until_ds >= now_ds ? s->until_ds - now_ds : 0);
}

static unsigned write_sessions(const struct segment *segment, FILE *file,
    int64_t now_ns) {
	uint32_t first, count, now_ds = segment_ds(segment, now_ns);
	unsigned lines = 0;

	for (uint32_t shard = 0; shard < segment->header->shard_count; shard++) {
		sessions_range(segment, shard, &first, &count);
		for (uint32_t i = 0; i < count; i++) {
			struct session session;

			if (session_load_control(segment, first + i).state ==
				SESSION_FREE ||
			    !session_read(segment, shard, first + i, &session))
				continue;
			write_session(segment, file, &session, now_ds);
			lines++;
		}
	}
	return lines;
}

/* All lines before those of the sessions; returns how many. */
static unsigned write_head(const struct segment *segment, FILE *file) {
	uint64_t instance = atomic_load(&segment->header->cluster_instance);
	unsigned lines = write_classes(segment, file);

	if (instance != 0 && fprintf(file, "instance %" PRIu64 "\n", instance) > 0)
		lines++;
	lines += write_listeners(segment, file);
	lines += write_carriers(segment, file);
	return lines + write_mtas(segment, file);
}

uint64_t segment_sessions_head_mark(const struct segment *segment) {
	char *text = NULL;
	size_t length = 0;
	FILE *file = open_memstream(&text, &length);
	uint64_t mark;

	/* no memory: as if it changed */
	if (file == NULL)
		return (uint64_t)clock_now_ns();
	(void)write_head(segment, file);
	mark = fclose(file) == 0 ? siphash13(&segment->header->key, text, length) :
	    (uint64_t)clock_now_ns();
	free(text);
	return mark;
}

#define HEARD_FORMAT	"%020lld"
#define HEARD_DIGITS	20

#define HEAD_FORMAT	"postern-sessions 6\nboot %s\nsaved "

bool segment_sessions_heard(const struct segment *segment, int64_t now_ns) {
	char path[PATH_MAX + 16], text[HEARD_DIGITS + 1];
	int at = snprintf(NULL, 0, HEAD_FORMAT, segment->header->boot_id), fd;
	bool done;

	snapshot_path(segment, "", path);
	fd = open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	snprintf(text, sizeof(text), HEARD_FORMAT, (long long)now_ns);
	done = pwrite(fd, text, HEARD_DIGITS, at + HEARD_DIGITS + 1) == HEARD_DIGITS;
	close(fd);
	return done;
}

int segment_save_sessions(const struct segment *segment, int64_t now_ns,
    struct diag *diag) {
	char temporary[PATH_MAX + 16], path[PATH_MAX + 16];
	unsigned lines;
	FILE *file;
	int fd;

	snapshot_path(segment, ".new", temporary);
	snapshot_path(segment, "", path);
	unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
	    0640);
	if (fd < 0)
		return diag_set(diag, errno, "cannot create %s", temporary);
	file = fdopen(fd, "w");
	if (file == NULL) {
		close(fd);
		return diag_set(diag, errno, "cannot write to %s", temporary);
	}
	fprintf(file, HEAD_FORMAT HEARD_FORMAT " " HEARD_FORMAT "\n",
	    segment->header->boot_id, (long long)now_ns, (long long)now_ns);
	lines = write_head(segment, file);
	lines += write_sessions(segment, file, now_ns);
	fprintf(file, "end %u\n", lines);
	if (ferror(file)) {
		fclose(file);
		unlink(temporary);
		return diag_set(diag, EIO, "cannot write to %s", temporary);
	}
	if (fclose(file) != 0 || rename(temporary, path) != 0) {
		diag_set(diag, errno, "cannot renew %s", path);
		unlink(temporary);
		return -1;
	}
	return 0;
}

/* A line's words, in place. */
static unsigned split(char *line, char *words[], unsigned size) {
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

static bool number(const char *word, uint64_t max, uint64_t *out) {
	char *end;

	if (*word < '0' || *word > '9')
		return false;
	errno = 0;
	*out = strtoull(word, &end, 10);
	return errno == 0 && *end == '\0' && *out <= max;
}

static bool endpoint(const char *address, const char *port,
    struct address *address_out, uint16_t *port_out) {
	uint64_t value;

	if (!number(port, UINT16_MAX, &value))
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
		if (!number(words[2 + i], i == 0 ? UINT32_MAX : UINT64_MAX,
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
		if (!number(words[1 + i], max[i], &v[i]))
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

	if (count != 3 || !endpoint(words[1], words[2], &address, &port))
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

	if (count != 3 || !number(words[1], SEGMENT_MTAS - 1, &mta) ||
	    strlen(words[2]) > SEGMENT_NAME_MAX)
		return false;
	record = &segment->header->mtas[mta];
	snprintf(record->name, sizeof(record->name), "%s", words[2]);
	return true;
}

/* Whoever leased shares is still itself; what it leased is leased anew. */
static bool restore_instance(struct segment *segment, char **words, unsigned count) {
	uint64_t instance;

	if (count != 2 || !number(words[1], UINT64_MAX, &instance))
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
	if (!number(text, INT32_MAX, &pid) || pid == 0 ||
	    !number(ticks_text, UINT64_MAX, &ticks))
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
	if (!number(text, UINT32_MAX, &policy) || !number(milter_text, UINT32_MAX, &milter))
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
		return endpoint("unknown", port, &none, &s->proof_port) &&
		    session_has_sockets(s) &&
		    parse_sockets(text + sizeof(sockets) - 1, s);
	if (is_process != (strncmp(text, process, sizeof(process) - 1) == 0))
		return false;
	if (!is_process)
		return endpoint(text, port, &s->proof_address, &s->proof_port);
	return endpoint("unknown", port, &none, &s->proof_port) &&
	    s->control.direction == SESSION_OUTBOUND &&
	    parse_process(text + sizeof(process) - 1, &s->proof_address);
}

static uint32_t less(uint64_t value, uint64_t by) {
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
		if (!number(words[at[i]], max[i], &v[i]))
			return false;
	}
	if (!endpoint(words[3], words[4], &s->client, &s->client_port) ||
	    !endpoint(words[5], words[6], &s->server, &s->server_port))
		return false;
	s->control.direction = (uint8_t)v[0];
	s->control.state = (uint8_t)v[1];
	s->control.proof = (uint8_t)v[2];
	s->control.flags = (uint8_t)v[3] | SESSION_FLAG_RESTORED;
	s->control.listener = (uint8_t)v[4];
	s->control.client_bits = (uint8_t)v[5];
	s->opened_ds = less(now_ds, v[6] + kept_ds);
	s->until_ds = now_ds + less(v[7], kept_ds);
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

	return fscanf(file, "postern-sessions 6\nboot %39s\nsaved %lld %lld", boot, saved_ns,
	    heard_ns) == 3 && fgetc(file) == '\n' && strcmp(boot, segment->header->boot_id) == 0 &&
	    *saved_ns >= 0 && *heard_ns >= *saved_ns && *heard_ns <= now_ns;
}

static int64_t restore(struct segment *segment, struct text_file *text, int64_t now_ns,
    struct diag *diag) {
	char line[LINE_BYTES], *words[17];
	int64_t sessions = 0;
	long long saved_ns, heard_ns;
	uint64_t lines = 0, said;

	if (!read_head(segment, text->file, now_ns, &saved_ns, &heard_ns))
		return diag_set(diag, 0, "no saved sessions of this boot");
	while (text_file_line(text, line, sizeof(line), diag)) {
		unsigned count = split(line, words, 17);
		bool good = false;

		if (count == 2 && strcmp(words[0], "end") == 0 &&
		    number(words[1], UINT64_MAX, &said) && said == lines) {
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
	result = restore(segment, &text, now_ns, diag);
	text_file_close(&text);
	if (result < 0)
		forget_all(segment);
	sessions_rebuild(segment);
	return result;
}
