/* SPDX-License-Identifier: ISC */
/*
 * The gate's command (gate.command), run by the supervisor as root when the
 * keeper says so: with one word more, shut or open, no shell, no input, a clean
 * environment.  One at a time; it is killed after 2 s.
 */
#ifndef ROLE_GATE_COMMAND_H
#define ROLE_GATE_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/subprocess.h"

struct supervisor;

enum gate_word { GATE_WORD_NONE, GATE_WORD_SHUT, GATE_WORD_OPEN };

struct gate_command {
	enum gate_word wanted;	/* waits to be run */
	enum gate_word last;	/* that was run, or is */
	struct subprocess child;	/* that runs now */
	int64_t started_ns;	/* the last one */
	int64_t changed_ns;	/* the last one that differed from the one before */
};

/* The keeper asks.  Nothing is run yet; where there is no command, nothing ever. */
void gate_command_want(struct supervisor *supervisor, enum gate_word word);

/* Starts what is due; never waits.  The keeper is not trusted:
 * changes are a second apart, and so is the same word said again. */
void gate_command_turn(struct supervisor *supervisor, int64_t now_ns);

/* When gate_command_turn has something to do, or INT64_MAX. */
int64_t gate_command_next_ns(const struct supervisor *supervisor);

#endif
