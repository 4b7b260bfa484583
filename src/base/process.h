/* SPDX-License-Identifier: ISC */
/* Processes of this machine.  Any thread, where nothing else is said. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* When the process started, in clock ticks since boot: with its pid the name of a
 * process for ever.  False: there is none (a zombie is none), or /proc does not
 * tell. */
bool process_start_ticks(pid_t pid, uint64_t *ticks);

/* Is it proven that the process which started then is gone?  Where /proc does not
 * tell (no descriptors, no permission), it is not. */
bool process_is_over(pid_t pid, uint64_t start_ticks);

/* Is it proven that no process has this pid, but for a zombie? */
bool process_is_gone(pid_t pid);

/* In a new process, of one thread: signals do again what they do by default, but for
 * SIGPIPE, which is ignored; none is blocked. */
void process_reset_signals(void);

/* In a new process: it is killed when `parent` ends, and exits where that has happened; a change
 * of user clears that. */
void process_die_with(pid_t parent);

/* Waits for a child, until then at most (clock_now_ns).  False: it has not ended: after SIGKILL,
 * as something traces it, or it is in a call that does not end. */
bool process_await(pid_t pid, int64_t until_ns);

#endif
