/* SPDX-License-Identifier: ISC */
/* Locks in shared memory: whose owner dies, and whose words others overwrite. */
#include "tests/unit/test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/tsan.h"
#include "segment/file/lock.h"

#define SECOND	NS_PER_SECOND

/* Four locks that a child shares. */
static struct lock *shared_locks(void) {
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	return memory;
}

static void in_a_child_that_dies(void (*run)(struct lock *locks), struct lock *locks) {
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		run(locks);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static enum lock_result acquire(struct lock *lock) {
	return lock_acquire(lock, clock_now_ns());
}

static void take_four_and_free_two(struct lock *locks) {
	for (int i = 0; i < 4; i++)
		if (acquire(&locks[i]) != LOCK_HELD)
			_exit(1);
	lock_release(&locks[1]);
	lock_release(&locks[3]);
}

TEST(what_a_dead_process_held_is_inherited_and_nothing_else) {
	struct lock *locks = shared_locks();

	for (int round = 0; round < 2; round++) {
		in_a_child_that_dies(take_four_and_free_two, locks);
		assert_int_equal(acquire(&locks[0]), LOCK_INHERITED);
		assert_int_equal(acquire(&locks[1]), LOCK_HELD);
		assert_int_equal(acquire(&locks[2]), LOCK_INHERITED);
		assert_int_equal(acquire(&locks[3]), LOCK_HELD);
		for (int i = 0; i < 4; i++)
			lock_release(&locks[i]);
		assert_int_equal(acquire(&locks[0]), LOCK_HELD);
		lock_release(&locks[0]);
	}
	munmap(locks, 4096);
}

static void inherit_and_die(struct lock *locks) {
	if (acquire(&locks[0]) != LOCK_INHERITED)
		_exit(1);
}

TEST(whoever_dies_in_the_middle_of_a_repair_leaves_it_to_the_next) {
	struct lock *locks = shared_locks();

	in_a_child_that_dies(take_four_and_free_two, locks);
	in_a_child_that_dies(inherit_and_die, locks);
	assert_int_equal(acquire(&locks[0]), LOCK_INHERITED);
	lock_release(&locks[0]);
	munmap(locks, 4096);
}

static void nothing(struct lock *locks) {
}

TEST(a_child_that_dies_leaves_its_parent_what_that_holds) {
	struct lock *locks = shared_locks();
	uint32_t word;

	assert_int_equal(acquire(&locks[0]), LOCK_HELD);
	word = atomic_load(&locks[0].word);
	in_a_child_that_dies(nothing, locks);
	assert_int_equal(atomic_load(&locks[0].word), word);
	lock_release(&locks[0]);
	assert_int_equal(atomic_load(&locks[0].word), 0);
	munmap(locks, 4096);
}

/* A mutex of the C library's would be unlinked here: a write to where its pointers lead. */
TEST(pointers_that_others_write_into_a_lock_lead_its_owner_nowhere) {
	struct lock locks[3];
	uintptr_t target[16];

	memset(locks, 0, sizeof(locks));
	memset(target, 0, sizeof(target));
	for (int i = 0; i < 3; i++)
		assert_int_equal(acquire(&locks[i]), LOCK_HELD);
	for (int i = 0; i < 3; i++)
		locks[i].next = (uintptr_t)&target[8];
	lock_release(&locks[1]);
	lock_release(&locks[2]);
	lock_release(&locks[0]);
	for (int i = 0; i < 16; i++)
		assert_int_equal(target[i], 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(acquire(&locks[i]), LOCK_HELD);
		lock_release(&locks[i]);
	}
}

TEST(a_lock_that_names_no_owner_is_waited_for_once_a_second_and_had_after_five) {
	struct lock lock;
	int64_t begin_ns = clock_now_ns(), now_ns = begin_ns;
	unsigned waits = 0;

	memset(&lock, 0xff, sizeof(lock));
	atomic_store(&lock.word, 1);
	while (lock_acquire(&lock, now_ns) == LOCK_TIMED_OUT) {
		int64_t before_ns = clock_now_ns();

		/* half a second later nobody waits */
		assert_int_equal(lock_acquire(&lock, now_ns + SECOND / 2), LOCK_TIMED_OUT);
		waits += clock_now_ns() - before_ns >= 50 * NS_PER_MS;
		now_ns += SECOND;
		assert_true(now_ns - begin_ns <= 5 * SECOND);
	}
	assert_int_equal(now_ns - begin_ns, 5 * SECOND);
	assert_true(waits < 3);	/* a busy machine */
	lock_release(&lock);
	assert_int_equal(lock_acquire(&lock, now_ns), LOCK_HELD);
	lock_release(&lock);
	assert_int_equal(atomic_load(&lock.stuck_until_ns), 0);
}

/* More than any thread's number can be. */
TEST(a_lock_of_random_words_is_had_at_once) {
	struct lock lock;

	memset(&lock, 0xff, sizeof(lock));
	assert_int_equal(acquire(&lock), LOCK_INHERITED);
	lock_release(&lock);
	assert_int_equal(acquire(&lock), LOCK_HELD);
	lock_release(&lock);
}

/* A role that waits 50 ms for each would not come to its heartbeat. */
TEST(many_locks_without_an_owner_are_not_all_waited_for) {
	static struct lock locks[200];
	int64_t begin_ns = clock_now_ns();

	for (int i = 0; i < 200; i++) {
		atomic_store(&locks[i].word, 1);
		assert_int_equal(acquire(&locks[i]), LOCK_TIMED_OUT);
	}
	assert_true(clock_now_ns() - begin_ns < 3 * SECOND);
	for (int i = 0; i < 200; i++) {
		assert_int_equal(lock_acquire(&locks[i], clock_now_ns() + 6 * SECOND), LOCK_INHERITED);
		lock_release(&locks[i]);
	}
}

TEST(a_lock_that_changes_hands_is_never_taken_for_one_without_an_owner) {
	struct lock lock;
	int64_t now_ns = clock_now_ns();

	lock_reset(&lock);
	for (uint32_t i = 0; i < 13; i++) {
		atomic_store(&lock.word, 1 + i % 2);
		assert_int_equal(lock_acquire(&lock, now_ns + i * SECOND), LOCK_TIMED_OUT);
	}
}

TEST(times_to_come_in_a_lock_keep_nobody_from_it) {
	struct lock lock;
	int64_t now_ns = clock_now_ns();

	lock_reset(&lock);
	atomic_store(&lock.word, 1);
	atomic_store(&lock.stuck_word, 1);
	atomic_store(&lock.stuck_until_ns, INT64_MAX);
	atomic_store(&lock.stuck_since_ns, INT64_MAX);
	assert_int_equal(lock_acquire(&lock, now_ns), LOCK_TIMED_OUT);
	assert_int_equal(atomic_load(&lock.stuck_until_ns), now_ns + SECOND);
	assert_int_equal(lock_acquire(&lock, now_ns + 5 * SECOND), LOCK_INHERITED);
	lock_release(&lock);
}

TEST(a_lock_that_was_overwritten_while_it_was_held_is_left_to_others) {
	struct lock lock;

	lock_reset(&lock);
	assert_int_equal(acquire(&lock), LOCK_HELD);
	atomic_store(&lock.word, 1);
	lock_release(&lock);
	assert_int_equal(atomic_load(&lock.word), 1);
	atomic_store(&lock.word, 0);
	assert_int_equal(acquire(&lock), LOCK_HELD);
	lock_release(&lock);
}

/* Each of several threads adds to what the lock guards, and dies with it at the end.  To
 * ThreadSanitizer, which does not see what the kernel hands over, they give it back. */
#ifdef BASE_TSAN
#define DIES_WITH_IT	false
#else
#define DIES_WITH_IT	true
#endif

struct race {
	struct lock lock;
	uint64_t guarded, inherited;
	_Atomic uint64_t timed_out;
};

static void *race_run(void *argument) {
	struct race *race = argument;

	for (uint32_t i = 0; i < 20000; i++) {
		enum lock_result result = acquire(&race->lock);

		if (result == LOCK_TIMED_OUT) {
			atomic_fetch_add(&race->timed_out, 1);
			continue;
		}
		race->guarded++;
		race->inherited += result == LOCK_INHERITED;
		if (DIES_WITH_IT && i + 1 == 20000)
			return NULL;
		lock_release(&race->lock);
	}
	return NULL;
}

TEST(threads_that_race_and_die_lose_no_turn) {
	struct race race = { .guarded = 0 };
	pthread_t threads[6];

	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, race_run, &race), 0);
	for (int i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(race.guarded + atomic_load(&race.timed_out), 6 * 20000);
	assert_int_equal(atomic_load(&race.timed_out), 0);
	assert_int_equal(race.inherited, DIES_WITH_IT ? 5 : 0);
	assert_int_equal(acquire(&race.lock), DIES_WITH_IT ? LOCK_INHERITED : LOCK_HELD);
	lock_release(&race.lock);
}
