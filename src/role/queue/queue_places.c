/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Find, open and watch queue directories.
 * MODEL    Sendmail's own rules: QueueDirectory may end with a *, and a directory may
 *          keep its qf files in a subdirectory qf.
 * ERRORS   What cannot be opened is left out and logged; without inotify all is scanned
 *          now and then.
 * THREADS  The supervisor's.
 */
#include "role/queue/queue_places.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

/* A file is written to its end, put in place of another one, gone or renamed. */
#define WATCHED	(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR)

/* Called for each directory; false: no more of them. */
typedef bool each_fn(void *context, unsigned mta, bool is_local, const char *path);

static bool is_directory(const char *path) {
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Where "/var/spool/mqueue/q*" is cut: the directory, and how names begin. */
static bool split_pattern(const char *pattern, char directory[PATH_MAX], const char **begin,
    size_t *length) {
	const char *slash = strrchr(pattern, '/');

	*begin = slash + 1;
	*length = strlen(slash + 1) - 1;
	return text_copy(directory, PATH_MAX, pattern,
	    slash == pattern ? 1 : (size_t)(slash - pattern));
}

static bool each_match(const char *pattern, unsigned mta, bool is_local, each_fn *each,
    void *context) {
	char directory[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
	struct dirent **names = NULL;
	const char *begin;
	size_t length;
	int count = -1;
	bool go_on = true;

	if (split_pattern(pattern, directory, &begin, &length))
		count = scandir(directory, &names, NULL, alphasort);
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory[1] == '\0' ? "" : directory,
		    names[i]->d_name);
		if (go_on && names[i]->d_name[0] != '.' &&
		    strncmp(names[i]->d_name, begin, length) == 0 && is_directory(path))
			go_on = each(context, mta, is_local, path);
		free(names[i]);
	}
	free(names);
	return go_on;
}

static void each_place(const struct generation *generation, each_fn *each, void *context) {
	bool go_on = true;

	for (uint32_t i = 0; i < generation->mta_count && go_on; i++) {
		const struct generation_mta *mta = &generation->mtas[i];

		for (uint32_t k = 0; mta->drive != 0 && k < mta->queue_count && go_on; k++) {
			const char *path = generation_text(generation, mta->queues[k]);
			bool is_local = (mta->local_queues >> k & 1) != 0;

			go_on = strchr(path, '*') != NULL ?
			    each_match(path, i, is_local, each, context) :
			    each(context, i, is_local, path);
		}
	}
}

/* The directory, or its subdirectory qf, where it has one.  A link is not followed: who
 * may write to the directory would choose what is opened. */
static int open_place(const char *path, int *error) {
	static const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK;
	int fd = open(path, flags), inner;
	struct stat status;

	*error = errno;
	if (fd < 0)
		return -1;
	inner = openat(fd, "qf", flags | O_NOFOLLOW);
	if (inner < 0 && (fstatat(fd, "qf", &status, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISLNK(status.st_mode)))
		return fd;
	*error = ELOOP;
	close(fd);
	return inner;
}

static void watch_place(const struct queue_places *places, struct queue_directory *place) {
	char path[64], quoted[PATH_MAX];
	int error;

	if (places->notify_fd < 0)
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", place->fd);
	place->watch = inotify_add_watch(places->notify_fd, path, WATCHED);
	error = errno;
	if (place->watch < 0)
		log_event(EVENT_SYSTEM, "path=%s text=\"cannot watch the directory; scanning "
		    "it periodically: %s\"", log_quote(quoted, sizeof(quoted), place->path,
		    strlen(place->path)), strerror(error));
}

static bool is_listed(const struct queue_places *places, const struct stat *status) {
	for (unsigned i = 0; i < places->count; i++)
		if (places->list[i].device == status->st_dev &&
		    places->list[i].inode == status->st_ino)
			return true;
	return false;
}

/* Does "/queue/d1*" name other directories, too? */
static bool has_namesake(const char *path) {
	char directory[PATH_MAX];
	const char *name = strrchr(path, '/') + 1;
	struct dirent *entry;
	bool found = false;
	DIR *stream;

	if (!text_copy(directory, sizeof(directory), path, (size_t)(name - path)))
		return true;
	stream = opendir(directory);
	if (stream == NULL)
		return true;
	while (!found && (entry = readdir(stream)) != NULL)
		found = strncmp(entry->d_name, name, strlen(name)) == 0 &&
		    entry->d_name[strlen(name)] != '\0';
	closedir(stream);
	return found;
}

struct opening {
	struct queue_places *places;
	const struct generation *generation;
};

static bool add_place(void *context, unsigned mta, bool is_local, const char *path) {
	const struct opening *opening = context;
	struct queue_places *places = opening->places;
	struct queue_directory *place = &places->list[places->count];
	const char *name = generation_text(opening->generation,
	    opening->generation->mtas[mta].name);
	char quoted[PATH_MAX];
	struct stat status;
	int error, fd = open_place(path, &error);

	log_quote(quoted, sizeof(quoted), path, strlen(path));
	if (fd < 0) {
		log_event(EVENT_SYSTEM, "path=%s text=\"this queue is not managed until it can "
		    "be opened: %s\"", quoted, error == ELOOP ?
		    "its subdirectory qf is a symbolic link" : strerror(error));
		return true;
	}
	/* two patterns may match one directory */
	if (fstat(fd, &status) != 0 || is_listed(places, &status)) {
		close(fd);
		return true;
	}
	*place = (struct queue_directory){ .mta = mta, .fd = fd, .is_local = is_local,
		.has_namesake = has_namesake(path), .watch = -1,
		.device = status.st_dev, .inode = status.st_ino };
	text_copy(place->mta_name, sizeof(place->mta_name), name, strlen(name));
	text_copy(place->path, sizeof(place->path), path, strlen(path));
	places->count++;
	watch_place(places, place);
	if (places->count < QUEUE_PLACES_MAX)
		return true;
	log_event(EVENT_SYSTEM, "text=\"more than %d queue directories: the others are not "
	    "managed\"", QUEUE_PLACES_MAX);
	return false;
}

void queue_places_open(struct queue_places *places, const struct generation *generation) {
	struct opening opening = { places, generation };

	places->count = 0;
	places->notify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (places->notify_fd < 0)
		log_event(EVENT_SYSTEM, "text=\"inotify: %s\"", strerror(errno));
	each_place(generation, add_place, &opening);
}

void queue_places_close(struct queue_places *places) {
	for (unsigned i = 0; i < places->count; i++)
		close(places->list[i].fd);
	if (places->notify_fd >= 0)
		close(places->notify_fd);
	places->count = 0;
	places->notify_fd = -1;
}

/* --- whose is it today? ------------------------------------------------------------ */

/* Does "/queue/q*" or "/queue" name it? */
static bool names_place(const char *pattern, const char *path) {
	size_t length = strcspn(pattern, "*");

	if (pattern[length] == '\0')
		return strcmp(pattern, path) == 0;
	return strncmp(pattern, path, length) == 0 && strchr(path + length, '/') == NULL;
}

const struct generation_mta *queue_place_owner(const struct queue_directory *place,
    const struct generation *generation) {
	const struct generation_mta *mta = &generation->mtas[place->mta];

	if (place->mta >= generation->mta_count || mta->drive == 0 ||
	    strcmp(generation_text(generation, mta->name), place->mta_name) != 0)
		return NULL;
	for (uint32_t i = 0; i < mta->queue_count; i++)
		if (names_place(generation_text(generation, mta->queues[i]), place->path))
			return mta;
	return NULL;
}

/* --- others than before? --------------------------------------------------------- */

struct comparison {
	const struct queue_places *places;
	unsigned seen;
	bool differs;
};

static bool compare_place(void *context, unsigned mta, bool is_local, const char *path) {
	struct comparison *c = context;
	struct stat status;
	int error, fd = open_place(path, &error);
	const struct queue_directory *place;

	if (fd < 0)
		return true;
	if (fstat(fd, &status) != 0) {
		close(fd);
		return true;
	}
	close(fd);
	for (unsigned i = 0; i < c->places->count; i++) {
		place = &c->places->list[i];
		if (place->device != status.st_dev || place->inode != status.st_ino)
			continue;
		/* the second name of one directory is none */
		c->seen += place->mta == mta && place->is_local == is_local &&
		    strcmp(place->path, path) == 0;
		return true;
	}
	c->differs = c->places->count < QUEUE_PLACES_MAX;
	return !c->differs;
}

bool queue_places_changed(const struct queue_places *places,
    const struct generation *generation) {
	struct comparison comparison = { .places = places };

	each_place(generation, compare_place, &comparison);
	return comparison.differs || comparison.seen != places->count;
}
