/* SPDX-License-Identifier: ISC */
/*
 * A disk on which a queue file is written late, for LD_PRELOAD: Sendmail's rename to a qf file
 * and its unlink of one take as many milliseconds, at most, as the file SLOW_QUEUE says.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *from;

/* Sendmail makes itself an environment of its own. */
__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("SLOW_QUEUE");

	from = path == NULL ? NULL : strdup(path);
}

static void wait_for(const char *path) {
	const char *name = strrchr(path, '/');
	FILE *file;
	int ms = 0;

	name = name == NULL ? path : name + 1;
	if (strncmp(name, "qf", 2) != 0 || from == NULL || (file = fopen(from, "re")) == NULL)
		return;
	if (fscanf(file, "%d", &ms) == 1 && ms > 0) {
		const struct timespec time = { ms / 1000, ms % 1000 * 1000000L };

		(void)nanosleep(&time, NULL);
	}
	(void)fclose(file);
}

int unlink(const char *path) {
	wait_for(path);
	return ((int (*)(const char *))dlsym(RTLD_NEXT, "unlink"))(path);
}

int rename(const char *old, const char *new) {
	wait_for(new);
	return ((int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename"))(old, new);
}
