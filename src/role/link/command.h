/* SPDX-License-Identifier: ISC */
/*
 * One program that the supervisor runs, as root unless another identity is given: an
 * argument list, no shell, no input, an environment of its own making, the root directory,
 * a session of its own that is killed as a whole.
 */
#ifndef ROLE_COMMAND_H
#define ROLE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct identity;

#define COMMAND_SAID_MAX	400

struct command {
	pid_t pid;		/* 0: none runs */
	int output_fd;		/* what it says; valid with pid */
	char said[COMMAND_SAID_MAX + 1];	/* the beginning of it; the rest is dropped */
	uint32_t said_length;
	bool killed;		/* its time was over */
	int64_t started_ns;
	int64_t life_ns;
};

struct command_line {
	const char *const *arguments;	/* [0] is the program's path; ends with NULL */
	const char *const *variables;	/* up to 12 "NAME=value" besides PATH and LC_ALL, then
					 * NULL; or NULL */
	const struct identity *identity;	/* whom it runs as, or NULL: as we do */
	int64_t life_ns;		/* it is killed after so long */
	int stdout_fd;			/* its standard output, the caller's; -1: as its
					 * standard error */
};

/* 0, or -1 with errno: nothing runs, and *command is as before.  It stays where it is until it
 * is buried or ended. */
int command_start(struct command *command, const struct command_line *line,
    int64_t now_ns);

/* What commands say has to be read, or they stand still once a pipe is full: to be polled for
 * POLLIN, -1 before the first one; and to be called then. */
int command_outputs_fd(void);
void command_read_outputs(void);

/* Kills it when its time is over. */
void command_turn(struct command *command, int64_t now_ns);
/* When command_turn has something to do, or INT64_MAX. */
int64_t command_next_ns(const struct command *command);

/* It was waited for: `said` gets its first line. */
void command_bury(struct command *command, char *said, size_t size);

/* Kills it and waits until it is gone. */
void command_end(struct command *command);

#endif
