/* SPDX-License-Identifier: ISC */
/*
 * Processes of the simulated machine, and their threads: fibers, one at a time, in virtual time.
 * A fiber goes on until it sleeps, or until a load or store of the segment (hooks.c) where the
 * seed has another one go on, stops its process or kills it.  The world (timers, clients, the
 * kernel) runs between fibers, and is not interrupted.
 *
 * Each fiber has thread-local variables, a thread id and a robust list of its own: what runs on
 * them is the real code of segment/file/lock.c, above a futex(2) and gettid(2) of ours
 * (calls.c).  Whoever is killed leaves its stack, its memory and its locks as they are.
 */
#ifndef TESTS_MACHINE_FIBER_H
#define TESTS_MACHINE_FIBER_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/machine/plan.h"

struct process {
	struct process *next;
	const char *name;
	int32_t pid;
	uint8_t node;				/* machine that it runs on; 0: the whole one */
	bool alive;
	int64_t stopped_until_ns;
	uint64_t dies_after, stops_after;	/* loads and stores of its own; 0: not */
	int64_t stops_ns;
	bool struck_in_lock;			/* after that, while it holds a lock, */
	uint32_t lock_touches;			/* at so many loads and stores under locks */
	void *own;				/* what its main made */
};

/* --- the world's ---------------------------------------------------------------- */

void fibers_begin(const struct plan *plan);
/* `process` is filled by the caller but for what is above `own`. */
void process_start(struct process *process, const char *name, void (*main)(void *), void *own);
/* Another thread of the process of the fiber that calls. */
void process_thread(void (*main)(void *), void *argument);
/* As SIGKILL: nothing of it runs any more, and the kernel gives its robust locks to others. */
void process_kill(struct process *process);
void process_stop(struct process *process, int64_t for_ns);
/* Called with each process that died, as the last thing. */
void processes_on_death(void (*call)(struct process *));

/* Runs everything until that time.  Once it has begun the machine has no other clock. */
void fibers_run(int64_t until_ns);
int64_t fibers_now_ns(void);
/* From now on nobody is interrupted but by time. */
void fibers_calm(void);
/* Time passes while the world itself waits. */
void fibers_pass(int64_t ns);

/* Calls it at that time, in the world. */
void timer_at(int64_t at_ns, void (*call)(void *), void *argument);

/* --- a fiber's ------------------------------------------------------------------ */

/* NULL: the world. */
struct process *process_current(void);
/* Until then, or until it is woken. */
void fiber_sleep(int64_t until_ns);
void process_wake(struct process *process);
int64_t fiber_ran_ns(void);
uint32_t fiber_thread(void);
void fiber_set_robust_list(const void *head);
/* As futex(2), without the system: true: woken. */
bool fiber_wait(const void *word, int64_t until_ns);
unsigned fibers_wake(const void *word, unsigned most);
/* Is another fiber in the middle of giving back, or taking, the lock that has this word? */
bool fibers_pend(const void *word);

/* The segment as this process has it mapped: there it may be interrupted. */
void fiber_watch(const void *low, uint64_t bytes);
/* And one other mapping, the last that it was told of. */
void fiber_watch_also(const void *low, uint64_t bytes);

/* --- of hooks.c ----------------------------------------------------------------- */

struct watched {
	uintptr_t low, bytes, also_low, also_bytes;
	uint64_t left;		/* loads and stores until something happens */
};
extern struct watched watched;
void fiber_interrupt(void);

static inline void fiber_touches(const volatile void *at) {
	if (__builtin_expect((uintptr_t)at - watched.low < watched.bytes ||
	    (uintptr_t)at - watched.also_low < watched.also_bytes, 0) &&
	    --watched.left == 0)
		fiber_interrupt();
}

#endif
