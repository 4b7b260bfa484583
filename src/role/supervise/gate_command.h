/* SPDX-License-Identifier: ISC */
/*
 * The gate's command (gate.command), run by the supervisor as root when the
 * keeper says so: with one word more, shut or open, no shell, no input, a clean
 * environment.  One at a time; it is killed after 2 s.
 */
#ifndef ROLE_GATE_COMMAND_H
#define ROLE_GATE_COMMAND_H

#include "role/supervise/supervised.h"

/* The keeper asks.  Nothing is run yet; where there is no command, nothing ever. */
void gate_command_want(struct supervisor *supervisor, enum gate_word word);

/* Starts what is due; never waits.  The keeper is not trusted:
 * changes are a second apart, and so is the same word said again. */
void gate_command_turn(struct supervisor *supervisor, int64_t now_ns);

/* When gate_command_turn has something to do, or INT64_MAX. */
int64_t gate_command_next_ns(const struct supervisor *supervisor);

#endif
