/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Follow the files of a log.
 * MODEL    A list of files in the order in which they came.  At a path the last one
 *          is, or was, the one that it leads to; whatever appears there is new.  Of
 *          a pattern's matches that is new which comes after the oldest of the list.
 * ERRORS   What cannot be opened is tried again with each look.
 * THREADS  One.
 */
#include "front/feed/followed_log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path_pattern.h"
#include "base/text.h"

/* A removed file may be held by its writer for a while. */
#define REMOVED_NS	(60 * NS_PER_SECOND)
/* So may a renamed one; but nobody writes to one for good. */
#define RENAMED_NS	(24 * 3600 * NS_PER_SECOND)
#define QUIET_NS	(60 * NS_PER_SECOND)
#define LOOK_NS		(NS_PER_SECOND / 2)

static void close_at(struct followed_log *log, unsigned at) {
	close(log->files[at].fd);
	free(log->files[at].path);
	log->count--;
	memmove(&log->files[at], &log->files[at + 1],
	    (log->count - at) * sizeof(log->files[0]));
}

static void let_go(struct followed_log *log, unsigned at) {
	log->keeper->forget(log->keeper->segment, log->files[at].record);
	close_at(log, at);
}

void followed_log_close(struct followed_log *log) {
	while (log->count > 0)
		close_at(log, log->count - 1);
	free(log->newest);
	log->newest = NULL;
}

static bool has_more(const struct followed_file *file) {
	struct stat status;

	return fstat(file->fd, &status) == 0 && status.st_size > 0 &&
	    (uint64_t)status.st_size > file->position.spot.offset;
}

/* Puts the opened file where it belongs in the list: of a plain log at its end. */
static struct followed_file *add(struct followed_log *log, struct log_file *file) {
	unsigned at;

	if (log->count == FEED_FILES_MAX) {
		log->counts.lost += has_more(&log->files[0]);
		let_go(log, 0);
	}
	at = log->count;
	while (!log->plain && at > 0 && path_pattern_compare(log->files[at - 1].path,
	    log->files[at - 1].order, file->path, file->order) > 0)
		at--;
	memmove(&log->files[at + 1], &log->files[at],
	    (log->count - at) * sizeof(log->files[0]));
	log->files[at] = (struct followed_file){ .path = file->path, .order = file->order,
		.fd = file->fd, .record = FEED_NO_RECORD };
	log->count++;
	file->path = NULL;
	file->fd = -1;
	return &log->files[at];
}

/* So that the same file is another one the next time. */
static uint32_t first_epoch(int64_t now_ns) {
	return (uint32_t)((uint64_t)now_ns >> 20);
}

/* A file that was not read before. */
static void begin(struct followed_log *log, struct log_file *opened,
    const struct feed_spot *spot, int64_t now_ns) {
	struct feed_position position = { .log = log->id, .device = opened->device,
		.inode = opened->inode, .epoch = first_epoch(now_ns) };
	struct followed_file *file;

	if (spot != NULL)
		position.spot = *spot;	/* of another file, which moves now */
	file = add(log, opened);
	file->position = position;
	file->grew_ns = now_ns;
	if (spot == NULL)
		(void)followed_file_to_end(file);
	followed_file_read_head(file);
	file->origin = feed_origin_id(&file->position);
	file->record = log->keeper->begin(log->keeper->segment, &file->position);
}

static void remember_newest(struct followed_log *log) {
	const struct followed_file *last;
	char *path;

	if (log->plain || log->count == 0)
		return;
	last = &log->files[log->count - 1];
	path = strdup(last->path);
	if (path != NULL) {
		free(log->newest);
		log->newest = path;
		log->newest_order = last->order;
	}
}

/* A file that appeared while the log was followed: all of it is to be read, unless it
 * goes on with what a file of the list has.  A copy beside its original (a pattern
 * matches both) has nothing new, unless that was cut: then the rest is there alone. */
static void begin_new(struct followed_log *log, struct log_file *opened, bool was_another,
    int64_t now_ns) {
	static const struct feed_spot start;
	const struct feed_spot *spot = &start;

	for (unsigned i = 0; i < log->count; i++) {
		const struct followed_file *file = &log->files[i];

		if (followed_file_continues(opened->fd, &file->position.spot, file->head))
			spot = log->plain ? &file->position.spot : NULL;
		else if (followed_file_continues(opened->fd, &file->before_cut,
		    file->head_before))
			spot = &file->before_cut;
	}
	if (log->unseen)
		spot = log->from_begin ? &start : NULL;
	log->counts.replaced += was_another;
	begin(log, opened, spot, now_ns);
}

/* --- the beginning ---------------------------------------------------------------- */

static bool is_listed(const struct followed_log *log, const struct log_file *file) {
	for (unsigned i = 0; i < log->count; i++)
		if (log->files[i].position.device == file->device &&
		    log->files[i].position.inode == file->inode)
			return true;
	return false;
}

/* Takes up the files that were read before. */
static void go_on(struct followed_log *log, const struct followed_start *start,
    struct log_files *files, int64_t now_ns) {
	for (unsigned i = 0; i < start->known_count; i++) {
		const struct feed_position *known = &start->known[i];
		struct log_file *found = NULL;
		struct followed_file *file;

		for (unsigned k = 0; k < files->count; k++)
			if (files->list[k].fd >= 0 && files->list[k].device == known->device &&
			    files->list[k].inode == known->inode)
				found = &files->list[k];
		if (found != NULL) {
			file = add(log, found);
			file->position = *known;
			file->origin = feed_origin_id(known);
			file->record = start->records[i];
			file->grew_ns = now_ns;
			followed_file_read_head(file);
		} else if (known->inode != 0 && files->sure) {
			log->counts.lost++;
			log->keeper->forget(log->keeper->segment, start->records[i]);
		}
	}
}

/* Takes up those that were not. */
static void begin_others(struct followed_log *log, const struct followed_start *start,
    struct log_files *files, int64_t now_ns) {
	static const struct feed_spot at_start;
	unsigned known = log->count;
	const struct feed_position *newest = start->known_count > 0 ?
	    &start->known[start->known_count - 1] : NULL;
	bool was_another = newest != NULL && newest->inode != 0;

	for (unsigned k = 0; k < files->count; k++) {
		struct log_file *file = &files->list[k];

		if (file->fd < 0 || is_listed(log, file))
			continue;
		if (start->known_count == 0)
			begin(log, file, start->from_begin ? &at_start : NULL, now_ns);
		else if (log->plain || (known == 0 ? k + 1 == files->count :
		    path_pattern_compare(log->files[0].path, log->files[0].order, file->path,
		    file->order) < 0))
			begin_new(log, file, was_another, now_ns);
	}
}

static bool is_record_of_file(const struct followed_log *log, uint32_t record) {
	for (unsigned i = 0; i < log->count; i++)
		if (log->files[i].record == record)
			return true;
	return false;
}

/* That there is no file, so far or any more, is remembered as a file without a number: the
 * first one will be new, whoever reads it.  `sure`: those that were known are forgotten. */
static void keep_absence(struct followed_log *log, const struct followed_start *start,
    bool sure) {
	bool was_absent = start->known_count > 0 && start->known[0].inode == 0;

	/* its record was the oldest: it may be a file's by now */
	if (was_absent && log->count > 0 && !is_record_of_file(log, start->records[0]))
		log->keeper->forget(log->keeper->segment, start->records[0]);
	else if (!was_absent && (start->known_count == 0 || sure) && log->count == 0 &&
	    log->error == ENOENT)
		(void)log->keeper->begin(log->keeper->segment,
		    &(struct feed_position){ .log = log->id });
}

static bool is_refused(int error) {
	return error == EACCES || error == EPERM;
}

static void open_all(struct followed_log *log, struct log_files *files) {
	for (unsigned i = 0; i < files->count; i++)
		if (files->list[i].fd < 0 && !log_file_open(&files->list[i])) {
			if (files->list[i].at_path || !log->plain)
				files->error = errno;
			/* one that cannot be opened now is not gone */
			files->sure = false;
		}
}

void followed_log_open(struct followed_log *log, const char *text,
    const struct followed_start *start, const struct feed_keeper *keeper,
    int64_t now_ns) {
	struct log_files own, *files = start->files;

	memset(log, 0, sizeof(*log));
	(void)text_copy(log->log, sizeof(log->log), text, strlen(text));
	log->id = feed_log_id(text);
	log->plain = path_pattern_is_plain(text);
	log->keeper = keeper;
	log->from_begin = start->from_begin;
	log->looked_ns = now_ns;
	if (files == NULL) {
		log_files_find(log->log, start->known, start->known_count, &own);
		files = &own;
		open_all(log, files);
	}
	log->error = files->error;
	log->counts.lost += files->left_out;
	go_on(log, start, files, now_ns);
	begin_others(log, start, files, now_ns);
	keep_absence(log, start, files->sure);
	log->unseen = start->known_count == 0 && log->count == 0 && is_refused(log->error);
	remember_newest(log);
	if (files == &own)
		log_files_free(files);
}

/* --- as it grows -------------------------------------------------------------------- */

/* Lets go of files that nobody writes any more. */
static void let_go_old(struct followed_log *log, int64_t now_ns) {
	for (unsigned i = log->count; i-- > 0;) {
		const struct followed_file *file = &log->files[i];
		int64_t quiet_ns = now_ns - file->grew_ns;
		struct stat status;

		if (quiet_ns < REMOVED_NS || fstat(file->fd, &status) != 0 ||
		    i + 1 == log->count)
			continue;
		if (status.st_nlink == 0 || (log->plain && quiet_ns > RENAMED_NS))
			let_go(log, i);
	}
}

/* A file of the list stands at the path: the last one is never let go of. */
static void put_last(struct followed_log *log, const struct log_file *at_path) {
	for (unsigned i = 0; i + 1 < log->count; i++) {
		struct followed_file file = log->files[i];

		if (file.position.device != at_path->device ||
		    file.position.inode != at_path->inode)
			continue;
		memmove(&log->files[i], &log->files[i + 1],
		    (log->count - 1 - i) * sizeof(log->files[0]));
		log->files[log->count - 1] = file;
		return;
	}
}

static void look_at_path(struct followed_log *log, struct log_files *files, int64_t now_ns) {
	for (unsigned i = 0; i < files->count; i++) {
		struct log_file *file = &files->list[i];
		if (!is_listed(log, file) && !log_file_open(file)) {
			files->error = errno;
		} else if (is_listed(log, file)) {
			if (file->at_path)
				put_last(log, file);
		} else {
			begin_new(log, file, log->count > 0, now_ns);
		}
	}
	if (log->count > 0)
		log->unseen = false;
}

/* Is it newer than the oldest that is followed, or than all that were?  So is another file
 * of the same name. */
static bool is_newer(const struct followed_log *log, const struct log_file *file) {
	for (unsigned i = 0; i < log->count; i++)
		if (strcmp(log->files[i].path, file->path) == 0)
			return true;
	if (log->count > 0)
		return path_pattern_compare(log->files[0].path, log->files[0].order,
		    file->path, file->order) < 0;
	return log->newest == NULL || path_pattern_compare(log->newest, log->newest_order,
	    file->path, file->order) < 0;
}

static void look_at_matches(struct followed_log *log, struct log_files *files,
    int64_t now_ns) {
	for (unsigned i = 0; i < files->count; i++) {
		if (is_listed(log, &files->list[i]) || !is_newer(log, &files->list[i]))
			continue;
		if (!log_file_open(&files->list[i]))
			files->error = errno;
		else if (!is_listed(log, &files->list[i]))
			begin_new(log, &files->list[i], log->count > 0, now_ns);
	}
	if (log->count > 0)
		log->unseen = false;
	remember_newest(log);
}

/* The directory is not ours to look into: has somebody renamed or removed the file, or
 * may there be a newer one? */
static bool is_left(const struct followed_log *log, int64_t now_ns) {
	const struct followed_file *last;
	struct stat status;

	if (log->count == 0)
		return true;
	last = &log->files[log->count - 1];
	if (!log->plain)
		return now_ns - last->grew_ns > QUIET_NS;
	return fstat(last->fd, &status) == 0 && (status.st_nlink == 0 ||
	    status.st_ctim.tv_sec > status.st_mtim.tv_sec);
}

static bool is_same_file(const struct followed_log *log) {
	const struct followed_file *last;
	struct stat status;

	if (log->count == 0 || !log->plain || stat(log->log, &status) != 0)
		return false;
	last = &log->files[log->count - 1];
	return status.st_dev == last->position.device && status.st_ino == last->position.inode;
}

bool followed_log_look(struct followed_log *log, int64_t now_ns) {
	struct feed_position known[FEED_FILES_MAX];
	struct log_files files;
	bool found;

	let_go_old(log, now_ns);
	if (is_same_file(log)) {
		log->error = 0;
		return false;
	}
	if (!log->plain && now_ns - log->looked_ns < LOOK_NS)
		return false;
	log->looked_ns = now_ns;
	for (unsigned i = 0; i < log->count; i++)
		known[i] = log->files[i].position;
	log_files_find(log->log, known, log->plain ? log->count : 0, &files);
	log->counts.lost += files.left_out;
	if (log->plain)
		look_at_path(log, &files, now_ns);
	else
		look_at_matches(log, &files, now_ns);
	log->error = files.error;
	found = files.count > 0;
	log_files_free(&files);
	return is_refused(log->error) && (found || is_left(log, now_ns));
}
