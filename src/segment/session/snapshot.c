/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The sessions as text, for the day when the layout is another one: writing it
 *          (snapshot_read.c reads it).
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
 * ERRORS   Of the environment: diag; the file before stays.
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
#include "segment/session/snapshot_internal.h"

#define PROOF_TEXT_MAX 64	/* an address, or a process */
_Static_assert(PROOF_TEXT_MAX >= ADDRESS_TEXT_MAX, "either");

static unsigned write_classes(const struct segment *segment, FILE *file) {
	unsigned lines = 0;

	for (uint32_t i = 0; i < segment->header->record_count; i++) {
		const struct class_record *record = &segment->records[i];
		char name[SEGMENT_NAME_MAX + 1];

		if (atomic_load(&record->in_use) == CLASS_FREE)
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

#define HEAD_FORMAT	SNAPSHOT_FORM "boot %s\nsaved "

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
