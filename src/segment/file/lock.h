/* SPDX-License-Identifier: ISC */
/*
 * Locks in shared memory that survive their owner's death, are not waited for beyond 50 ms,
 * and trust nothing that another process wrote there.
 *
 * Not the C library's robust mutexes: these keep the list of what a thread holds as pointers
 * in the mutexes themselves, and follow them when they unlock.  Whoever can write to the
 * segment would have the owner write to any address of its own.  Here the kernel alone
 * follows the list, when the owner dies; the owner knows from memory of its own what it holds.
 */
#ifndef SEGMENT_LOCK_H
#define SEGMENT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zero: free. */
struct lock {
	_Atomic uint32_t word;		/* as set_robust_list(2) has it: thread id, flags */
	_Atomic uint32_t stuck_word;	/* who holds it since stuck_since_ns */
	_Alignas(8) uintptr_t next;	/* for the kernel: what the owner took before; never read here */
	_Alignas(8) _Atomic int64_t stuck_until_ns;	/* nobody waits until then; 0: not stuck */
	_Atomic int64_t stuck_since_ns;
};
_Static_assert(sizeof(struct lock) == 32, "half a cache line, on every platform");

enum lock_result {
	LOCK_HELD,
	LOCK_INHERITED,		/* held; its owner died in the middle: repair first */
	LOCK_TIMED_OUT,		/* not held: the state counts as unusable */
};

/* Makes a lock that nobody uses a free one. */
void lock_reset(struct lock *lock);

/*
 * Waits 50 ms at most; not at all within a second after somebody waited in vain, so that one
 * stopped process does not make every question cost 50 ms.  A lock that is stuck with one
 * owner for 5 s is inherited: a role that is stopped is killed after 3 s, so what stands
 * there names no owner.  now_ns is of CLOCK_MONOTONIC.  A thread may hold LOCKS_HELD_MAX
 * at once, of any segments; it may not take one that it holds.  Any thread of any process.
 */
#define LOCKS_HELD_MAX 8
enum lock_result lock_acquire(struct lock *lock, int64_t now_ns);

/* Has its owner died, and nobody taken it since?  A look. */
bool lock_is_orphaned(const struct lock *lock);

/* By the thread that holds it, in any order. */
void lock_release(struct lock *lock);

#endif
