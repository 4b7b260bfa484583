/* SPDX-License-Identifier: ISC */
/*
 * The feed role: the logs are often for root alone, hence opened before the
 * privileges are gone.  Whatever else they are (a device, a pipe) is not read.
 */
#include "role/feed_role.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "base/log.h"
#include "base/text.h"
#include "engine/engine.h"
#include "segment/feed_position.h"

bool feed_role_needed(const struct generation *generation) {
	uint32_t i;

	for (i = 0; i < generation->mta_count; i++)
		if (generation->mtas[i].kind == MTA_POSTFIX &&
		    generation->mtas[i].log != 0)
			return true;
	return false;
}

static bool is_opened(const struct role_context *context, const char *path) {
	unsigned i;

	for (i = 0; i < context->log_count; i++)
		if (strcmp(context->logs[i].path, path) == 0)
			return true;
	return false;
}

/* The file that was read last, when it is no longer `fd`: renamed within its
 * directory, with more behind its name.  We are root, and any role can write which
 * file it is: another name is none of the feed's business.  -1: it is `fd`, or it
 * cannot be found. */
static int open_before(const struct segment *segment, unsigned mta,
    const char *path, int fd) {
	struct feed_position all[FEED_FILES_MAX], position;
	uint32_t records[FEED_FILES_MAX];
	struct stat status;
	const char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	char directory[PATH_MAX];
	const struct dirent *entry;
	DIR *stream;
	int found = -1;

	if (feed_positions(segment, mta + 1, all, records) == 0)
		return -1;
	position = all[0];
	if ((fd >= 0 && fstat(fd, &status) == 0 &&
		status.st_dev == position.device &&
		status.st_ino == position.inode) ||
	    !text_copy(directory, sizeof(directory), path, strlen(path)))
		return -1;
	stream = opendir(dirname(directory));
	if (stream == NULL)
		return -1;
	while (found < 0 && (entry = readdir(stream)) != NULL)
		if (entry->d_ino == position.inode &&
		    strncmp(entry->d_name, name, strlen(name)) == 0)
			found = openat(dirfd(stream), entry->d_name,
			    O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW |
			    O_CLOEXEC);
	closedir(stream);
	return found;
}

void feed_role_open(const struct generation *generation,
    struct role_context *context) {
	uint32_t i;

	for (i = 0; context->kind == ROLE_FEED && i < generation->mta_count; i++) {
		const char *path = generation_text(generation,
		    generation->mtas[i].log);
		struct feed_opened *log = &context->logs[context->log_count];

		if (generation->mtas[i].kind != MTA_POSTFIX || *path == '\0' ||
		    is_opened(context, path))
			continue;
		log->path = path;
		log->fd = open(path,
		    O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		log->error = log->fd < 0 ? errno : 0;
		log->before_fd = open_before(context->segment, i, path, log->fd);
		context->log_count++;
	}
}

int feed_role_main(const struct role_context *context) {
	struct engine *engine;
	struct diag diag;

	if (engine_open(&engine, context->segment, context->role_slot, &diag) ==
		0 &&
	    feed_run(engine, context->logs, context->log_count, &diag) == 0)
		return EX_OK;
	log_event(EVENT_SYSTEM, "from=feed text=\"%s\"", diag.text);
	return EX_OSERR;
}
