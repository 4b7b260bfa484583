/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Find the files of a log.
 * ERRORS   What is no regular file is none of a log's: EINVAL.
 * THREADS  Any; each call by itself.
 */
#include "front/log_files.h"

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

static bool is_known(const struct feed_position *known, unsigned count, uint64_t device,
    uint64_t inode)
{
	for (unsigned i = 0; i < count; i++)
		if (known[i].device == device && known[i].inode == inode)
			return true;
	return false;
}

static bool is_listed(const struct log_files *files, uint64_t device, uint64_t inode)
{
	for (unsigned i = 0; i < files->count; i++)
		if (files->list[i].device == device && files->list[i].inode == inode)
			return true;
	return false;
}

/* Puts it in at `at`. */
static void insert(struct log_files *files, unsigned at, const char *path, uint64_t order,
    const struct stat *status)
{
	char *copy = strdup(path);

	if (copy == NULL || files->count == LOG_FILES_MAX) {
		free(copy);
		files->sure = false;
		return;
	}
	memmove(&files->list[at + 1], &files->list[at],
	    (files->count - at) * sizeof(files->list[0]));
	files->list[at] = (struct log_file){ .path = copy, .order = order,
	    .device = status->st_dev, .inode = status->st_ino, .fd = -1 };
	files->count++;
}

static void remove_at(struct log_files *files, unsigned at)
{
	free(files->list[at].path);
	files->count--;
	memmove(&files->list[at], &files->list[at + 1],
	    (files->count - at) * sizeof(files->list[0]));
}

/* The oldest one that is not known makes room for one to be put in at *at.  False: that
 * one is older.  Behind a known one it was to be read. */
static bool make_room(struct log_files *out, const struct feed_position *known,
    unsigned count, unsigned *at)
{
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
static bool split_path(const char *log, char directory[PATH_MAX], char name[NAME_MAX + 1])
{
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

static struct suffix suffix_of(const char *name, const char *log_name)
{
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

static bool is_newer(struct suffix a, struct suffix b)
{
	if (a.digits == 0 || b.digits == 0 ||
	    (a.digits <= NUMBER_DIGITS) != (b.digits <= NUMBER_DIGITS))
		return false;
	return a.digits <= NUMBER_DIGITS ? a.number < b.number : a.number > b.number;
}

struct renamed {
	const struct feed_position *known;	/* the last one was read last */
	unsigned count;
	DIR *stream;
	char directory[PATH_MAX];
	char name[NAME_MAX + 1];	/* of the log */
	struct suffix newest;		/* of the known file that came last */
};

/* The next file of the directory whose name begins with the log's: any role can write
 * which files were read, and we may be root, so others are none of the feed's
 * business. */
static const char *next_sibling(const struct renamed *r, const struct log_files *out,
    struct stat *status)
{
	const struct dirent *entry;

	while ((entry = readdir(r->stream)) != NULL)
		if (strncmp(entry->d_name, r->name, strlen(r->name)) == 0 &&
		    fstatat(dirfd(r->stream), entry->d_name, status, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(status->st_mode) && !is_listed(out, status->st_dev, status->st_ino))
			return entry->d_name;
	return NULL;
}

/* Before the one at the path, and before those that are newer. */
static void insert_sibling(const struct renamed *r, struct log_files *out, const char *name,
    const struct stat *status, struct suffix suffix)
{
	uint64_t order = suffix.digits == 0 ? 0 :
	    suffix.digits <= NUMBER_DIGITS ? 1000 - suffix.number : suffix.number;
	unsigned at = 0;
	char path[PATH_MAX + NAME_MAX + 2];

	snprintf(path, sizeof(path), "%s/%s", r->directory, name);
	while (at < out->count && !out->list[at].at_path && out->list[at].order <= order)
		at++;
	if (out->count < LOG_FILES_MAX || make_room(out, r->known, r->count, &at))
		insert(out, at, path, order, status);
}

/* Those that were read before. */
static void find_known(struct renamed *r, struct log_files *out)
{
	const struct feed_position *newest = &r->known[r->count - 1];
	struct stat status;
	const char *name;

	while ((name = next_sibling(r, out, &status)) != NULL) {
		if (!is_known(r->known, r->count, status.st_dev, status.st_ino))
			continue;
		if (status.st_dev == newest->device && status.st_ino == newest->inode)
			r->newest = suffix_of(name, r->name);
		insert_sibling(r, out, name, &status, (struct suffix){ 0, 0 });
	}
}

/* Those that came and were renamed in their turn while nobody looked. */
static void find_missed(struct renamed *r, struct log_files *out)
{
	struct stat status;
	const char *name;

	rewinddir(r->stream);
	while ((name = next_sibling(r, out, &status)) != NULL) {
		struct suffix suffix = suffix_of(name, r->name);

		if (is_newer(suffix, r->newest))
			insert_sibling(r, out, name, &status, suffix);
	}
}

static void find_renamed(const char *log, const struct feed_position *known, unsigned count,
    struct log_files *out)
{
	struct renamed r = { .known = known, .count = count };

	if (split_path(log, r.directory, r.name))
		r.stream = opendir(r.directory);
	if (r.stream == NULL) {
		out->sure = false;
		return;
	}
	find_known(&r, out);
	if (r.newest.digits > 0)
		find_missed(&r, out);
	closedir(r.stream);
}

static void find_plain(const char *log, const struct feed_position *known, unsigned count,
    struct log_files *out)
{
	struct stat status;
	bool more = false;

	if (stat(log, &status) != 0) {
		out->error = errno;
		out->sure = errno == ENOENT;
	} else if (!S_ISREG(status.st_mode)) {
		out->error = EINVAL;
	} else {
		insert(out, 0, log, 0, &status);
		out->list[0].at_path = true;
	}
	for (unsigned i = 0; i < count; i++)
		more |= known[i].inode != 0 &&
		    !is_listed(out, known[i].device, known[i].inode);
	if (more)
		find_renamed(log, known, count, out);
}

/* --- by a pattern ---------------------------------------------------------------- */

static _Thread_local int glob_error;

static int on_glob_error(const char *path, int error)
{
	(void)path;
	if (error != ENOENT && error != ENOTDIR)
		glob_error = error;
	return 0;
}

/* Those that are known, or the others. */
static void find_matches(const char *pattern, const glob_t *found, bool are_known,
    const struct feed_position *known, unsigned count, struct log_files *out)
{
	unsigned others = 0;

	for (size_t i = 0; i < found->gl_pathc; i++) {
		const char *path = found->gl_pathv[i];
		unsigned at = out->count;
		struct stat status;
		uint64_t order;

		if (!path_pattern_match(pattern, path, &order) ||
		    lstat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
		    is_listed(out, status.st_dev, status.st_ino) ||
		    is_known(known, count, status.st_dev, status.st_ino) != are_known)
			continue;
		while (at > 0 && path_pattern_compare(out->list[at - 1].path,
		    out->list[at - 1].order, path, order) > 0)
			at--;
		if (are_known || others++ < FEED_FILES_MAX || make_room(out, known, count, &at))
			insert(out, at, path, order, &status);
	}
}

static void find_pattern(const char *pattern, const struct feed_position *known,
    unsigned count, struct log_files *out)
{
	char text[PATH_MAX];
	glob_t found;
	int result;

	if (!path_pattern_glob(pattern, text, sizeof(text))) {
		out->error = ENAMETOOLONG;
		out->sure = false;
		return;
	}
	glob_error = 0;
	result = glob(text, GLOB_NOSORT | GLOB_NOESCAPE, on_glob_error, &found);
	if (result == 0) {
		find_matches(pattern, &found, true, known, count, out);
		find_matches(pattern, &found, false, known, count, out);
	}
	if (result == 0 || result == GLOB_NOMATCH)
		globfree(&found);
	else
		glob_error = result == GLOB_NOSPACE ? ENOMEM : EIO;
	if (glob_error != 0)
		out->sure = false;
	if (out->count == 0)
		out->error = glob_error != 0 ? glob_error : ENOENT;
}

void log_files_find(const char *log, const struct feed_position *known, unsigned count,
    struct log_files *out)
{
	*out = (struct log_files){ .log = log, .sure = true };
	if (path_pattern_is_plain(log))
		find_plain(log, known, count, out);
	else
		find_pattern(log, known, count, out);
}

bool log_file_open(struct log_file *file)
{
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

void log_files_free(struct log_files *files)
{
	for (unsigned i = 0; i < files->count; i++) {
		if (files->list[i].fd >= 0)
			close(files->list[i].fd);
		free(files->list[i].path);
	}
	files->count = 0;
}
