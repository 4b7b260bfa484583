/* SPDX-License-Identifier: ISC */
/* Reading a directory of the journal: whatever fails is tried again for a while, as what is
 * not read now is lost when its writer begins anew.  One thread, which waits. */
#include "engine/journal/journal_room.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "engine/internal.h"

#define BUSY_TRIES	75
#define BUSY_WAIT_MS	20
#define FAULT_TRIES	3
#define FAULT_WAIT_MS	1000

bool journal_room_is_missing(int error) {
	return error == ENOENT || error == ENOTDIR;
}

/* Its writer holds the lock; one that was killed does until its last sync is over. */
static bool is_busy(const char *path) {
	char name[PATH_MAX + sizeof(JOURNAL_LOCK_NAME) + 1];
	bool busy;
	int fd;

	snprintf(name, sizeof(name), "%s/%s", path, JOURNAL_LOCK_NAME);
	fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	busy = file_lock(fd, false) != 0 && errno == EAGAIN;
	close(fd);
	return busy;
}

enum journal_room_opened journal_room_open(const struct generation *generation,
    enum journal_room room, struct journal_reader **reader, struct diag *diag) {
	char path[PATH_MAX];
	unsigned tries = 0;

	if (!generation_journal_directory(generation, room, path) ||
	    (access(path, F_OK) != 0 && journal_room_is_missing(errno)))
		return JOURNAL_ROOM_NONE;
	while (is_busy(path)) {
		if (++tries > BUSY_TRIES)
			return JOURNAL_ROOM_BUSY;
		(void)poll(NULL, 0, BUSY_WAIT_MS);
	}
	for (tries = 0; tries < FAULT_TRIES; tries++) {
		if (tries > 0)
			(void)poll(NULL, 0, FAULT_WAIT_MS);
		if (journal_reader_open_path(reader, path, diag) == 0)
			return JOURNAL_ROOM_OPENED;
	}
	return JOURNAL_ROOM_FAULT;
}

void journal_bad_note(struct journal_bad *bad, const struct journal_found *found) {
	switch (found->kind) {
	case JOURNAL_FOUND_FAULT:
		bad->faults++;
		bad->places++;
		break;
	case JOURNAL_FOUND_DAMAGE:
		bad->places++;
		bad->bytes += found->length;
		break;
	case JOURNAL_FOUND_LATER:
		bad->later++;
		break;
	case JOURNAL_FOUND_RECORD:
		bad->later += journal_type_word(found->frame.type) == NULL;
		break;
	case JOURNAL_FOUND_TORN:
	case JOURNAL_FOUND_END:
		break;
	}
}

void journal_bad_no_memory(struct journal_bad *bad) {
	bad->faults++;
	bad->places++;
}

void journal_room_set(struct engine *engine, enum journal_room room, uint64_t journal) {
	atomic_store(&engine->segment->header->journals[room].journal, journal);
}

void journal_room_is_known(struct engine *engine, enum journal_room room,
    const struct journal_files *files) {
	struct journal_record *record = &engine->segment->header->journals[room];

	if (files->count == 0)
		journal_room_set(engine, room, JOURNAL_IS_NONE);
	for (uint32_t i = files->count; i-- > 0;)
		if (files->files[i].head_state == JOURNAL_HEAD_GOOD) {
			atomic_store(&record->journal, files->files[i].head.journal);
			atomic_store(&record->last_file, files->files[files->count - 1].number);
			return;
		}
}

bool journal_room_is_name(const char *name) {
	return journal_file_number(name) != 0 || strcmp(name, JOURNAL_POSITIONS_NAME) == 0 ||
	    strcmp(name, JOURNAL_LOCK_NAME) == 0 || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0;
}
