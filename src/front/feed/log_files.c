/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Find the files of a log.
 * ERRORS   What is no regular file is none of a log's: EINVAL.
 * THREADS  Any; each call by itself.
 */
#include "front/feed/log_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path_pattern.h"
#include "base/text.h"

/* Files that may be the log's, as they were found at one time. */
struct listing {
	struct log_file *list;
	size_t count, room;
};

/* False: no memory. */
static bool listing_add(struct listing *listing, const char *path, uint64_t order,
    const struct stat *status) {
	if (listing->count == listing->room) {
		size_t room = listing->room * 2 + 16;
		struct log_file *larger = reallocarray(listing->list, room, sizeof(*larger));

		if (larger == NULL)
			return false;
		listing->list = larger;
		listing->room = room;
	}
	listing->list[listing->count] = (struct log_file){ .path = strdup(path),
		.order = order, .device = status->st_dev, .inode = status->st_ino,
		.changed_s = status->st_mtime, .fd = -1 };
	return listing->list[listing->count++].path != NULL;
}

static void listing_free(struct listing *listing) {
	for (size_t i = 0; i < listing->count; i++) {
		if (listing->list[i].fd >= 0)
			close(listing->list[i].fd);
		free(listing->list[i].path);
	}
	free(listing->list);
}

static bool is_known(const struct feed_position *known, unsigned count, uint64_t device,
    uint64_t inode) {
	for (unsigned i = 0; i < count; i++)
		if (known[i].device == device && known[i].inode == inode)
			return true;
	return false;
}

static bool is_listed(const struct log_files *files, uint64_t device, uint64_t inode) {
	for (unsigned i = 0; i < files->count; i++)
		if (files->list[i].device == device && files->list[i].inode == inode)
			return true;
	return false;
}

/* Puts it in at `at`. */
static void insert(struct log_files *files, unsigned at, struct log_file *file) {
	char *copy = strdup(file->path);

	if (copy == NULL || files->count == LOG_FILES_MAX) {
		free(copy);
		files->sure = false;
		return;
	}
	memmove(&files->list[at + 1], &files->list[at],
	    (files->count - at) * sizeof(files->list[0]));
	files->list[at] = *file;
	files->list[at].path = copy;
	file->fd = -1;
	files->count++;
}

static void remove_at(struct log_files *files, unsigned at) {
	if (files->list[at].fd >= 0)
		close(files->list[at].fd);
	free(files->list[at].path);
	files->count--;
	memmove(&files->list[at], &files->list[at + 1],
	    (files->count - at) * sizeof(files->list[0]));
}

/* The oldest one that is not known makes room for one to be put in at *at.  False: that
 * one is older.  Behind a known one it was to be read. */
static bool make_room(struct log_files *out, const struct feed_position *known,
    unsigned count, unsigned *at) {
	unsigned oldest = 0;

	while (is_known(known, count, out->list[oldest].device, out->list[oldest].inode))
		oldest++;
	if (*at <= oldest) {
		out->left_out += *at > 0;
		return false;
	}
	out->left_out += oldest > 0;
	remove_at(out, oldest);
	--*at;
	return true;
}

/* --- at a path ------------------------------------------------------------------ */

/* The directory of what the path leads to, and the name there. */
static bool split_path(const char *log, char directory[PATH_MAX], char name[NAME_MAX + 1]) {
	char real[PATH_MAX];
	const char *path = realpath(log, real) == NULL ? log : real;
	const char *slash = strrchr(path, '/');

	/* paths are absolute */
	return slash != NULL && text_copy(name, NAME_MAX + 1, slash + 1, strlen(slash + 1)) &&
	    text_copy(directory, PATH_MAX, path, slash == path ? 1 : (size_t)(slash - path));
}

/* What rotation put behind the log's name: ".1" (the smaller the newer), or a date
 * ("-20260921", the larger the newer). */
struct suffix {
	unsigned digits;	/* 0: it is none */
	uint64_t number;
};

static struct suffix suffix_of(const char *name, const char *log_name) {
	const char *at = name + strlen(log_name);
	struct suffix suffix = { 0, 0 };

	if (*at != '.' && *at != '-')
		return suffix;
	for (at++; (*at >= '0' && *at <= '9') || *at == '-'; at++)
		if (*at != '-') {
			suffix.number = suffix.number * 10 + (uint64_t)(*at - '0');
			suffix.digits++;
		}
	if (*at != '\0' || suffix.digits > 18)
		suffix.digits = 0;
	return suffix;
}

#define NUMBER_DIGITS 3		/* more are a date */

static bool is_newer(struct suffix a, struct suffix b) {
	if (a.digits == 0 || b.digits == 0 ||
	    (a.digits <= NUMBER_DIGITS) != (b.digits <= NUMBER_DIGITS))
		return false;
	return a.digits <= NUMBER_DIGITS ? a.number < b.number : a.number > b.number;
}

/* The regular files of the log's directory whose names begin with the log's: others are none
 * of the feed's business.  False: the directory cannot be read. */
static bool list_siblings(const char *log, struct listing *listing) {
	char directory[PATH_MAX], name[NAME_MAX + 1], path[PATH_MAX + NAME_MAX + 2];
	const struct dirent *entry;
	DIR *stream = NULL;
	struct stat status;
	bool all = true;

	if (split_path(log, directory, name))
		stream = opendir(directory);
	if (stream == NULL)
		return false;
	while ((entry = readdir(stream)) != NULL) {
		if (strncmp(entry->d_name, name, strlen(name)) != 0 ||
		    fstatat(dirfd(stream), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(status.st_mode))
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		all &= listing_add(listing, path, 0, &status);
	}
	closedir(stream);
	return all;
}

struct renamed {
	const struct feed_position *known;	/* the last one was read last */
	unsigned count;
	struct listing *siblings;
	char name[NAME_MAX + 1];	/* of the log */
	struct suffix newest;		/* of the known file that came last */
};

static const char *base_name(const char *path) {
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/* Before the one at the path, and before those that are newer. */
static void insert_sibling(const struct renamed *r, struct log_files *out,
    struct log_file *file, struct suffix suffix) {
	unsigned at = 0;

	file->order = suffix.digits == 0 ? 0 :
	    suffix.digits <= NUMBER_DIGITS ? 1000 - suffix.number : suffix.number;
	while (at < out->count && !out->list[at].at_path &&
	    out->list[at].order <= file->order)
		at++;
	if (out->count < LOG_FILES_MAX || make_room(out, r->known, r->count, &at))
		insert(out, at, file);
}

/* Those that were read before. */
static void find_known(struct renamed *r, struct log_files *out) {
	const struct feed_position *newest = &r->known[r->count - 1];

	for (size_t i = 0; i < r->siblings->count; i++) {
		struct log_file *file = &r->siblings->list[i];

		if (is_listed(out, file->device, file->inode) ||
		    !is_known(r->known, r->count, file->device, file->inode))
			continue;
		if (file->device == newest->device && file->inode == newest->inode)
			r->newest = suffix_of(base_name(file->path), r->name);
		insert_sibling(r, out, file, (struct suffix){ 0, 0 });
	}
}

/* Those that came and were renamed in their turn while nobody looked. */
static void find_missed(struct renamed *r, struct log_files *out) {
	for (size_t i = 0; i < r->siblings->count; i++) {
		struct log_file *file = &r->siblings->list[i];
		struct suffix suffix = suffix_of(base_name(file->path), r->name);

		if (!is_listed(out, file->device, file->inode) &&
		    is_newer(suffix, r->newest))
			insert_sibling(r, out, file, suffix);
	}
}

static void find_renamed(const char *log, struct listing *siblings,
    const struct feed_position *known, unsigned count, struct log_files *out) {
	struct renamed r = { .known = known, .count = count, .siblings = siblings };
	char directory[PATH_MAX];

	if (!split_path(log, directory, r.name)) {
		out->sure = false;
		return;
	}
	find_known(&r, out);
	if (r.newest.digits > 0)
		find_missed(&r, out);
}

static bool is_one_missing(const struct log_files *out, const struct feed_position *known,
    unsigned count) {
	for (unsigned i = 0; i < count; i++)
		if (known[i].inode != 0 &&
		    !is_listed(out, known[i].device, known[i].inode))
			return true;
	return false;
}

/* What stands at the path.  False with *out's error: nothing, or no file. */
static bool list_path(const char *log, struct listing *listing, struct log_files *out) {
	struct stat status;

	if (stat(log, &status) != 0) {
		out->error = errno;
		out->sure = errno == ENOENT;
	} else if (!S_ISREG(status.st_mode)) {
		out->error = EINVAL;
	} else if (listing_add(listing, log, 0, &status)) {
		listing->list[listing->count - 1].at_path = true;
		return true;
	}
	return false;
}

static void find_plain(const char *log, const struct feed_position *known, unsigned count,
    struct log_files *out) {
	struct listing listing = { NULL, 0, 0 };

	if (list_path(log, &listing, out))
		insert(out, 0, &listing.list[0]);
	if (is_one_missing(out, known, count)) {
		if (!list_siblings(log, &listing))
			out->sure = false;
		find_renamed(log, &listing, known, count, out);
	}
	listing_free(&listing);
}

/* --- by a pattern ---------------------------------------------------------------- */

static _Thread_local int glob_error;

static int on_glob_error(const char *path, int error) {
	(void)path;
	if (error != ENOENT && error != ENOTDIR)
		glob_error = error;
	return 0;
}

static bool list_matches(const char *pattern, struct listing *listing, struct log_files *out) {
	char text[PATH_MAX];
	struct stat status;
	uint64_t order;
	glob_t found;
	int result;

	if (!path_pattern_glob(pattern, text, sizeof(text))) {
		out->error = ENAMETOOLONG;
		return false;
	}
	glob_error = 0;
	result = glob(text, GLOB_NOSORT | GLOB_NOESCAPE, on_glob_error, &found);
	for (size_t i = 0; result == 0 && i < found.gl_pathc; i++)
		if (path_pattern_match(pattern, found.gl_pathv[i], &order) &&
		    lstat(found.gl_pathv[i], &status) == 0 && S_ISREG(status.st_mode) &&
		    !listing_add(listing, found.gl_pathv[i], order, &status))
			glob_error = ENOMEM;
	if (result == 0 || result == GLOB_NOMATCH)
		globfree(&found);
	else
		glob_error = result == GLOB_NOSPACE ? ENOMEM : EIO;
	return glob_error == 0;
}

/* Those that are known, or the others. */
static void find_matches(struct listing *listing, bool are_known,
    const struct feed_position *known, unsigned count, struct log_files *out) {
	unsigned others = 0;

	for (size_t i = 0; i < listing->count; i++) {
		struct log_file *file = &listing->list[i];
		unsigned at = out->count;

		if (is_listed(out, file->device, file->inode) ||
		    is_known(known, count, file->device, file->inode) != are_known)
			continue;
		while (at > 0 && path_pattern_compare(out->list[at - 1].path,
		    out->list[at - 1].order, file->path, file->order) > 0)
			at--;
		if (are_known || others++ < FEED_FILES_MAX || make_room(out, known, count, &at))
			insert(out, at, file);
	}
}

static void find_pattern(const char *pattern, const struct feed_position *known,
    unsigned count, struct log_files *out) {
	struct listing listing = { NULL, 0, 0 };

	out->sure = list_matches(pattern, &listing, out);
	find_matches(&listing, true, known, count, out);
	find_matches(&listing, false, known, count, out);
	if (out->count == 0 && out->error == 0)
		out->error = glob_error != 0 ? glob_error : ENOENT;
	listing_free(&listing);
}

void log_files_find(const char *log, const struct feed_position *known, unsigned count,
    struct log_files *out) {
	*out = (struct log_files){ .log = log, .sure = true };
	if (path_pattern_is_plain(log))
		find_plain(log, known, count, out);
	else
		find_pattern(log, known, count, out);
}

bool log_file_open(struct log_file *file) {
	struct stat status;
	int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (file->at_path ? 0 : O_NOFOLLOW);
	int fd = open(file->path, flags), error;

	if (fd < 0)
		return false;
	error = fstat(fd, &status) != 0 ? errno : S_ISREG(status.st_mode) ? 0 : EINVAL;
	if (error != 0) {
		close(fd);
		errno = error;
		return false;
	}
	file->fd = fd;
	file->device = status.st_dev;
	file->inode = status.st_ino;
	return true;
}

static int compare_changed(const void *a, const void *b) {
	const struct log_file *one = a, *other = b;

	/* what stands at the path comes first */
	if (one->at_path != other->at_path)
		return one->at_path ? -1 : 1;
	return (one->changed_s < other->changed_s) - (one->changed_s > other->changed_s);
}

void log_files_open_all(const char *log, struct log_candidates *out) {
	struct listing listing = { NULL, 0, 0 };
	struct log_files first = { .sure = true };
	bool all;

	*out = (struct log_candidates){ .log = log };
	if (path_pattern_is_plain(log)) {
		(void)list_path(log, &listing, &first);
		all = list_siblings(log, &listing) && first.sure;
	} else {
		all = list_matches(log, &listing, &first);
		if (first.error == 0)
			first.error = glob_error;
	}
	if (listing.count > 0)
		qsort(listing.list, listing.count, sizeof(listing.list[0]), compare_changed);
	for (size_t i = 0; i < listing.count; i++) {
		struct log_file *file = &listing.list[i];

		if (out->count == LOG_CANDIDATES_MAX) {
			all = false;
			break;
		}
		if (i > 0 && file->device == listing.list[0].device &&
		    file->inode == listing.list[0].inode)
			continue;	/* the one at the path, by its own name */
		if (!log_file_open(file)) {
			first.error = errno;
			all = false;
			continue;
		}
		out->list[out->count++] = *file;
		file->path = NULL;
		file->fd = -1;
	}
	out->error = first.error;
	out->sure = all;
	listing_free(&listing);
}

void log_files_choose(struct log_candidates *from, const struct feed_position *known,
    unsigned count, struct log_files *out) {
	struct listing listing = { from->list, from->count, 0 };

	*out = (struct log_files){ .log = from->log, .error = from->error, .sure = from->sure };
	if (!path_pattern_is_plain(from->log)) {
		find_matches(&listing, true, known, count, out);
		find_matches(&listing, false, known, count, out);
		if (out->count == 0 && out->error == 0)
			out->error = ENOENT;
	} else {
		if (from->count > 0 && from->list[0].at_path)
			insert(out, 0, &from->list[0]);
		if (is_one_missing(out, known, count))
			find_renamed(from->log, &listing, known, count, out);
	}
	for (unsigned i = 0; i < from->count; i++) {
		if (from->list[i].fd >= 0)
			close(from->list[i].fd);
		free(from->list[i].path);
	}
	from->count = 0;
}

void log_files_free(struct log_files *files) {
	for (unsigned i = 0; i < files->count; i++) {
		if (files->list[i].fd >= 0)
			close(files->list[i].fd);
		free(files->list[i].path);
	}
	files->count = 0;
}
