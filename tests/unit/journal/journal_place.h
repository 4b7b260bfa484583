/* SPDX-License-Identifier: ISC */
/* A journal in a directory of its own, over a real file system whose calls can be made to
 * fail; and what stands in it as a text. */
#ifndef TESTS_UNIT_JOURNAL_PLACE_H
#define TESTS_UNIT_JOURNAL_PLACE_H

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "tests/unit/check.h"
#include "base/clock.h"
#include "journal/log.h"
#include "tests/crash/sync_log.h"

#define S	NS_PER_SECOND

struct place {
	char path[64];
	struct journal_storage *below;
	struct journal_storage_calls calls;	/* those of `below`, but that fail where they are told */
	struct journal_storage storage;
	int fail_write, fail_sync, fail_create, fail_directory, fail_list;	/* an errno */
	int fail_read, fail_positions;	/* the latter: to open them to read */
	bool lists_half;	/* fail_list comes behind the names */
	unsigned busy_locks;	/* so many find it taken */
	const char *removed_by_list;	/* a path */
	unsigned writes, syncs, opens, open, most_open;
	atomic_bool slow;	/* no sync ends while it is set */
	struct journal_log_options options;
	struct journal_log *log;
	int64_t now_ns;
	/* what the log said */
	unsigned failed, good, renewed;
	int error;
	char what[16];
};

static struct place *place;	/* of the test that runs */

static int64_t place_wall(void) {
	return 1700000000 * S;
}

#define BELOW(call, ...) place->below->calls->call(context __VA_OPT__(,) __VA_ARGS__)

static int place_list(void *context, void (*each)(void *each_context, const char *name),
    void *each_context) {
	int error;

	if (place->removed_by_list != NULL)
		unlink(place->removed_by_list);
	if (place->fail_list != 0 && !place->lists_half)
		return -place->fail_list;
	error = BELOW(list, each, each_context);
	return place->fail_list != 0 ? -place->fail_list : error;
}
static int place_open(void *context, const char *name, enum journal_access access) {
	int file;

	if (access == JOURNAL_CREATE && place->fail_create != 0)
		return -place->fail_create;
	if (access == JOURNAL_READ && place->fail_positions != 0 &&
	    strcmp(name, JOURNAL_POSITIONS_NAME) == 0)
		return -place->fail_positions;
	file = BELOW(open, name, access);
	place->opens++;
	place->open += file >= 0;
	if (place->open > place->most_open)
		place->most_open = place->open;
	return file;
}
static void place_close(void *context, int file) {
	place->open--;
	BELOW(close, file);
}
static ssize_t place_read(void *context, int file, void *data, size_t length, uint64_t offset) {
	return place->fail_read != 0 ? -place->fail_read :
	    BELOW(read, file, data, length, offset);
}
static int place_write(void *context, int file, const void *data, size_t length,
    uint64_t offset) {
	place->writes++;
	return place->fail_write != 0 ? -place->fail_write :
	    BELOW(write, file, data, length, offset);
}
static int place_sync(void *context, int file) {
	place->syncs++;
	while (atomic_load(&place->slow))
		usleep(1000);
	return place->fail_sync != 0 ? -place->fail_sync : BELOW(sync, file);
}
static int place_sync_directory(void *context) {
	return place->fail_directory != 0 ? -place->fail_directory : BELOW(sync_directory);
}
static int place_lock(void *context) {
	if (place->busy_locks > 0) {
		place->busy_locks--;
		return -EAGAIN;
	}
	return BELOW(lock);
}

static void place_changed(void *context, enum journal_state state, int error,
    const char *what) {
	if (state == JOURNAL_GOOD)
		place->good++;
	else
		place->failed++;
	place->error = error;
	snprintf(place->what, sizeof(place->what), "%s", what);
}

static void place_renew(void *context) {
	place->renewed++;
}

static void open_log(void) {
	struct diag diag;

	place->below = journal_storage_posix(place->path, false, &diag);
	assert_non_null(place->below);
	place->calls = *place->below->calls;
	place->calls.list = place_list;
	place->calls.open = place_open;
	place->calls.close = place_close;
	place->calls.read = place_read;
	place->calls.write = place_write;
	place->calls.sync = place_sync;
	place->calls.sync_directory = place_sync_directory;
	place->calls.lock = place_lock;
	place->calls.expect = NULL;
	place->calls.doubt = NULL;
	place->storage = (struct journal_storage){ &place->calls, place->below->context };
	assert_int_equal(journal_log_open(&place->log, &place->storage, &place->options,
	    place->now_ns, &diag), 0);
}

static void close_log(void) {
	journal_log_close(&place->log);
	journal_storage_close(&place->below);
}

static int set_up(void **state) {
	static struct place opened;

	memset(&opened, 0, sizeof(opened));
	place = &opened;
	snprintf(opened.path, sizeof(opened.path), "/dev/shm/t_journal.XXXXXX");
	assert_non_null(mkdtemp(opened.path));
	opened.now_ns = 1000 * S;
	opened.options = (struct journal_log_options){ .kind = JOURNAL_QUEUE,
		.file_size = 64 << 10, .random = 7, .wall_ns = place_wall,
		.calls = { place_changed, place_renew, &opened } };
	open_log();
	return 0;
}

static int tear_down(void **state) {
	struct dirent *entry;
	DIR *directory;

	close_log();
	directory = opendir(place->path);
	while (directory != NULL && (entry = readdir(directory)) != NULL)
		unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory != NULL)
		closedir(directory);
	return rmdir(place->path);
}

static inline uint64_t append(const char *text, struct journal_place *at) {
	return journal_log_append(place->log, JOURNAL_GROUP, text, strlen(text), at);
}

static inline void sync_all(void) {
	assert_int_equal(sync_log(place->log, place->now_ns), 0);
}

static inline void append_and_sync(const char *text) {
	append(text, NULL);
	sync_all();
}

/* Its calls after so much time. */
static inline int64_t after(int64_t ns) {
	place->now_ns += ns;
	return journal_log_turn(place->log, place->now_ns) - place->now_ns;
}

/* The records that count from the cursor's place on, heads left out, joined by blanks;
 * garbage in [ ], of a later version in { }, what cannot be read as <kind:bytes>. */
static char told[8192];
static inline const char *tell(struct journal_cursor *cursor) {
	struct journal_found found;

	told[0] = '\0';
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END) {
		static const char *const words[] = { [JOURNAL_FOUND_DAMAGE] = "damage",
			[JOURNAL_FOUND_TORN] = "torn", [JOURNAL_FOUND_FAULT] = "fault" };
		size_t at = strlen(told);

		if (found.kind == JOURNAL_FOUND_RECORD && found.frame.type == JOURNAL_HEAD)
			continue;
		if (found.kind == JOURNAL_FOUND_RECORD || found.kind == JOURNAL_FOUND_LATER)
			snprintf(told + at, sizeof(told) - at,
			    found.kind == JOURNAL_FOUND_LATER ? "{%.*s} " :
			    journal_mark_is_live(found.frame.mark) ? "%.*s " : "[%.*s] ",
			    (int)found.frame.length, (const char *)found.frame.payload);
		else
			snprintf(told + at, sizeof(told) - at, "<%s:%u> ", words[found.kind],
			    found.length);
	}
	return told;
}

/* All of them, as the log itself reads them. */
static inline const char *all_of(void) {
	struct journal_cursor *cursor = journal_cursor_open(journal_log_files(place->log));

	journal_log_flush(place->log);
	tell(cursor);
	journal_cursor_close(&cursor);
	return told;
}

/* All of them, as a reader from outside finds them. */
static inline const char *seen_of(void) {
	struct journal_reader *reader;
	struct journal_cursor *cursor;
	struct diag diag;

	assert_int_equal(journal_reader_open_path(&reader, place->path, &diag), 0);
	cursor = journal_cursor_open(&reader->files);
	journal_cursor_seek(cursor, journal_reader_begin(reader));
	tell(cursor);
	journal_cursor_close(&cursor);
	journal_reader_close(&reader);
	return told;
}

static inline char *file_path(const uint32_t number) {
	static char path[128];

	snprintf(path, sizeof(path), "%s/%010u.log", place->path, number);
	return path;
}

/* Changes bytes of a file. */
static inline void poke(const uint32_t number, long offset,
    const void *data, size_t length) {
	int fd = open(file_path(number), O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, length, offset), length);
	close(fd);
}

#endif
