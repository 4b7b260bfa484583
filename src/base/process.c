/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Tell processes apart by pid and start time.
 * MODEL    /proc/PID/stat: the command stands in parentheses and may hold any
 *          byte, so the fields are counted after the last ')'.
 * THREADS  Any.
 */
#include "base/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELDS_BEFORE_START 19	/* after the state: fields 4 to 22 of proc(5) */

bool process_start_ticks(pid_t pid, uint64_t *ticks) {
	char path[40], text[1024], *at;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return false;
	text[length] = '\0';
	at = strrchr(text, ')');
	if (at == NULL || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X')
		return false;
	at += 3;
	for (unsigned i = 1; i < FIELDS_BEFORE_START && at != NULL; i++)
		at = strchr(at + 1, ' ');
	if (at == NULL)
		return false;
	*ticks = strtoull(at, NULL, 10);
	return *ticks != 0;
}
