/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Locks in shared memory, by futex(2) and set_robust_list(2).
 * MODEL    word: 0, or the owner's thread id, with FUTEX_WAITERS while somebody may wait.
 *          When a thread dies the kernel walks the list from its head (`held.head`) over
 *          `next` of each lock, sets FUTEX_OWNER_DIED in the words that still name the
 *          thread, and wakes one who waits.  list_op_pending names the lock that is being
 *          taken or given back, where the thread dies between that and the change of list.
 *          The list of the C library is replaced, thread by thread: robust mutexes of its
 *          own would not be seen any more, and there are none.
 * ERRORS   A word that names another owner when a lock is given back was overwritten, and
 *          is left as it is: whoever comes next finds it free, waits, or inherits it.
 *          Without set_robust_list (qemu) what a dead thread held is inherited after 5 s.
 */
#include "segment/file/lock.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/diag.h"

#define LOCK_WAIT_NS	(50 * NS_PER_MS)
#define LOCK_STUCK_NS	NS_PER_SECOND
#define LOCK_LOST_NS	(5 * NS_PER_SECOND)
/* What one thread waits in vain in a second, whatever the number of locks: a process that is
 * stopped holds few, and a role that does not come to its heartbeat is killed. */
#define VAIN_WAIT_NS	(150 * NS_PER_MS)
/* No thread has a larger number (PID_MAX_LIMIT of the kernel). */
#define THREAD_MAX	(UINT32_C(1) << 22)

/* What this thread holds.  The kernel reads `head`, at the thread's death. */
static _Thread_local struct {
	struct robust_list_head head;
	uint32_t thread;		/* its id; 0: not registered */
	uint32_t count;
	struct lock *locks[LOCKS_HELD_MAX];
	int64_t vain_since_ns, vain_ns;	/* this second's waits in vain */
} held;

/* A child has neither its parent's list nor what it holds. */
static void held_reset(void) {
	held.thread = 0;
	held.count = 0;
}

static void watch_forks(void) {
	MUST(pthread_atfork(NULL, NULL, held_reset) == 0);
}

static struct robust_list *lock_link(struct lock *lock) {
	return (struct robust_list *)(void *)&lock->next;
}

static void held_register(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_forks);
	held.head.list.next = &held.head.list;
	held.head.futex_offset = (long)offsetof(struct lock, word) -
	    (long)offsetof(struct lock, next);
	held.head.list_op_pending = NULL;
	held.thread = (uint32_t)gettid();
	(void)syscall(SYS_set_robust_list, &held.head, sizeof(held.head));
}

/* The kernel sees the order in which this thread stores, if the compiler keeps it. */
static void held_pend(struct lock *lock) {
	atomic_signal_fence(memory_order_seq_cst);
	held.head.list_op_pending = lock == NULL ? NULL : lock_link(lock);
	atomic_signal_fence(memory_order_seq_cst);
}

static struct robust_list *held_link_below(uint32_t index) {
	return index == 0 ? &held.head.list : lock_link(held.locks[index - 1]);
}

static void held_push(struct lock *lock) {
	MUST(held.count < LOCKS_HELD_MAX);
	lock->next = (uintptr_t)held_link_below(held.count);
	atomic_signal_fence(memory_order_seq_cst);
	held.head.list.next = lock_link(lock);
	held.locks[held.count++] = lock;
}

static void held_remove(const struct lock *lock) {
	uint32_t index = held.count;

	do
		MUST(index > 0);
	while (held.locks[--index] != lock);
	if (index + 1 == held.count)
		held.head.list.next = held_link_below(index);
	else
		held.locks[index + 1]->next = (uintptr_t)held_link_below(index);
	held.count--;
	for (; index < held.count; index++)
		held.locks[index] = held.locks[index + 1];
}

static void word_wait(_Atomic uint32_t *word, uint32_t value, int64_t wait_ns) {
	struct timespec wait = {
		.tv_sec = 0,
		.tv_nsec = (long)(wait_ns < NS_PER_SECOND ? wait_ns : NS_PER_SECOND - 1),
	};
	long number = SYS_futex;

#ifdef SYS_futex_time64
	if (sizeof(wait.tv_sec) > sizeof(long))
		number = SYS_futex_time64;
#endif
	(void)syscall(number, word, FUTEX_WAIT, value, &wait);
}

static void word_wake(_Atomic uint32_t *word) {
	(void)syscall(SYS_futex, word, FUTEX_WAKE, 1);
}

static bool word_names_owner(uint32_t word) {
	uint32_t owner = word & FUTEX_TID_MASK;

	return owner != 0 && owner <= THREAD_MAX;
}

/* True: the word is ours; *seen is what stood there, with FUTEX_OWNER_DIED for nonsense. */
static bool word_take(struct lock *lock, uint32_t *seen, uint32_t flags) {
	if (!atomic_compare_exchange_strong_explicit(&lock->word, seen,
		held.thread | (*seen & FUTEX_WAITERS) | flags, memory_order_acquire,
		memory_order_relaxed))
		return false;
	if ((*seen & FUTEX_TID_MASK) != 0)
		*seen |= FUTEX_OWNER_DIED;
	return true;
}

/* Others wrote these, perhaps nonsense: a time beyond the second counts as over. */
static bool lock_is_stuck(const struct lock *lock, int64_t now_ns) {
	int64_t until_ns = atomic_load_explicit(&lock->stuck_until_ns, memory_order_relaxed);

	return now_ns < until_ns && until_ns <= now_ns + LOCK_STUCK_NS;
}

/* Somebody waited in vain for the owner in `word`.  False: too long for it to be one. */
static bool lock_note_stuck(struct lock *lock, uint32_t word, int64_t now_ns) {
	uint32_t owner = word & FUTEX_TID_MASK;
	/* stored last, and read first: another one who waits may be noting the same now */
	bool is_noted = atomic_load_explicit(&lock->stuck_until_ns, memory_order_acquire) != 0;
	int64_t since_ns = clock_bounded_ns(atomic_load_explicit(&lock->stuck_since_ns,
	    memory_order_relaxed));
	bool is_same = is_noted && since_ns <= now_ns &&
	    atomic_load_explicit(&lock->stuck_word, memory_order_relaxed) == owner;

	if (is_same && now_ns - since_ns >= LOCK_LOST_NS)
		return false;
	if (!is_same) {
		atomic_store_explicit(&lock->stuck_word, owner, memory_order_relaxed);
		atomic_store_explicit(&lock->stuck_since_ns, now_ns, memory_order_relaxed);
	}
	atomic_store_explicit(&lock->stuck_until_ns, now_ns + LOCK_STUCK_NS,
	    memory_order_release);
	return true;
}

/* Waits while there is an owner, at most for wait_ns.  True: the word is ours. */
static bool lock_wait(struct lock *lock, uint32_t *seen, int64_t wait_ns) {
	int64_t until_ns = clock_now_ns() + wait_ns;
	uint32_t flags = 0;

	do {
		if (!word_names_owner(*seen)) {
			if (word_take(lock, seen, flags))
				return true;
		} else if ((*seen & FUTEX_WAITERS) != 0 ||
		    atomic_compare_exchange_strong_explicit(&lock->word, seen,
			*seen | FUTEX_WAITERS, memory_order_relaxed, memory_order_relaxed)) {
			word_wait(&lock->word, *seen | FUTEX_WAITERS, wait_ns);
			/* others may wait, too: whoever gives it back has to wake them */
			flags = FUTEX_WAITERS;
			*seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
		}
		wait_ns = until_ns - clock_now_ns();
	} while (wait_ns > 0);
	return !word_names_owner(*seen) && word_take(lock, seen, flags);
}

/* How long this thread may wait for an owner now. */
static int64_t held_wait_ns(void) {
	int64_t now_ns = clock_now_ns();

	if (now_ns - held.vain_since_ns > NS_PER_SECOND) {
		held.vain_since_ns = now_ns;
		held.vain_ns = 0;
	}
	return held.vain_ns < VAIN_WAIT_NS ? LOCK_WAIT_NS : 1;
}

/* The slow path: somebody holds it, or died with it.  True: the word is ours. */
static bool lock_contend(struct lock *lock, uint32_t *seen, int64_t now_ns) {
	int64_t wait_ns;

	if (word_names_owner(*seen) && lock_is_stuck(lock, now_ns))
		return false;
	wait_ns = held_wait_ns();
	if (lock_wait(lock, seen, wait_ns))
		return true;
	held.vain_ns += wait_ns;
	return !lock_note_stuck(lock, *seen, now_ns) && word_take(lock, seen, FUTEX_WAITERS);
}

void lock_reset(struct lock *lock) {
	memset(lock, 0, sizeof(*lock));
}

enum lock_result lock_acquire(struct lock *lock, int64_t now_ns) {
	uint32_t seen = 0;
	bool taken;

	if (held.thread == 0)
		held_register();
	held_pend(lock);
	taken = word_take(lock, &seen, 0) || lock_contend(lock, &seen, now_ns);
	if (taken)
		held_push(lock);
	held_pend(NULL);
	if (!taken)
		return LOCK_TIMED_OUT;
	if (atomic_load_explicit(&lock->stuck_until_ns, memory_order_relaxed) != 0)
		atomic_store_explicit(&lock->stuck_until_ns, 0, memory_order_relaxed);
	return (seen & FUTEX_OWNER_DIED) != 0 ? LOCK_INHERITED : LOCK_HELD;
}

bool lock_is_orphaned(const struct lock *lock) {
	return (atomic_load_explicit(&lock->word, memory_order_relaxed) & FUTEX_OWNER_DIED) != 0;
}

void lock_release(struct lock *lock) {
	uint32_t seen = held.thread;

	held_pend(lock);
	held_remove(lock);
	if (!atomic_compare_exchange_strong_explicit(&lock->word, &seen, 0,
		memory_order_release, memory_order_relaxed) &&
	    (seen & FUTEX_TID_MASK) == held.thread) {
		/* should this thread die before it wakes anybody, the kernel does */
		atomic_store_explicit(&lock->word, 0, memory_order_release);
		word_wake(&lock->word);
	}
	held_pend(NULL);
}
