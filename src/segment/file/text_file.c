/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See text_file.h.
 * ERRORS   A sparse file of many terabytes costs nothing to make: reading stops at what is no
 *          line, its first zero byte.
 * THREADS  One a file.
 */
#include "segment/file/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOK_LINES	1024	/* at the clock, after so many */

int text_file_open(struct text_file *text, const char *path, struct diag *diag) {
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat status;
	int error = 0;

	diag->error = 0;
	*text = (struct text_file){ .path = path,
		.end_ns = clock_now_ns() + TEXT_FILE_MOST_NS };
	if (fd < 0)
		return diag_set(diag, errno, "cannot open %s", path);
	if (fstat(fd, &status) != 0)
		error = errno;
	else if (!S_ISREG(status.st_mode))
		error = EINVAL;
	else if ((text->file = fdopen(fd, "r")) == NULL)
		error = errno;
	if (error == 0)
		return 0;
	close(fd);
	return diag_set(diag, error, "cannot read %s", path);
}

/* As diag_set does, but false. */
static bool reading_stop(const struct text_file *text, const char *why, struct diag *diag) {
	(void)diag_set(diag, EFBIG, "%s: not read beyond line %llu: %s", text->path,
	    (unsigned long long)text->lines, why);
	return false;
}

bool text_file_line(struct text_file *text, char *line, size_t size, struct diag *diag) {
	size_t length;

	if (text->lines % LOOK_LINES == 0 && clock_now_ns() > text->end_ns)
		return reading_stop(text, "timeout", diag);
	if (fgets(line, (int)size, text->file) == NULL)
		return false;
	length = strlen(line);
	if (length > 0 && line[length - 1] == '\n')
		line[length - 1] = '\0';
	else if (length == 0 || length + 1 == size || !feof(text->file))
		return reading_stop(text, "invalid text follows", diag);
	text->lines++;
	return true;
}

void text_file_close(struct text_file *text) {
	fclose(text->file);
}

bool text_file_put_aside(const char *state_path) {
	char from[PATH_MAX + 16], to[PATH_MAX + 32];

	snprintf(from, sizeof(from), "%s.sessions", state_path);
	snprintf(to, sizeof(to), "%s.unread", from);
	return rename(from, to) == 0;
}
