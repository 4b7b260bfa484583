/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A file that is cut short while it is mapped ends nobody.
 * MODEL    A read behind the file's end is SIGBUS; the handler lays zeros over the whole
 *          mapping, and the read is made once more.  Nothing is jumped over: whoever was
 *          reading goes on, finds nothing that makes sense, and asks at the end.
 * ERRORS   A fault elsewhere ends the process, as without us.
 * THREADS  One for each of the two mappings.
 */
#include "segment/hints/hints_guard.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "segment/hints/hints.h"

struct guard {
	char *volatile base;
	volatile size_t bytes;
	int access;
	volatile sig_atomic_t was_cut;
};
static struct guard guarded = { .access = PROT_READ }, numbers = { .access = PROT_READ | PROT_WRITE };

static bool lay_zeros(struct guard *guard, const char *at) {
	char *base = guard->base;

	if (base == NULL || at < base || at >= base + guard->bytes ||
	    mmap(base, guard->bytes, guard->access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
		MAP_NORESERVE, -1, 0) != base)
		return false;
	guard->was_cut = 1;
	return true;
}

static void at_sigbus(int number, siginfo_t *info, void *context) {
	int error = errno;

	(void)context;
	if (info->si_code <= 0 ||
	    (!lay_zeros(&guarded, info->si_addr) && !lay_zeros(&numbers, info->si_addr))) {
		(void)signal(number, SIG_DFL);
		(void)raise(number);
	}
	errno = error;
}

void hints_reader_outlive_cuts(void) {
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_sigaction = at_sigbus;
	action.sa_flags = SA_SIGINFO;
	(void)sigaction(SIGBUS, &action, NULL);
}

static void guard_begin(struct guard *guard, void *base, size_t bytes) {
	guard->base = NULL;
	guard->bytes = bytes;
	guard->was_cut = 0;
	guard->base = base;
}

void hints_guard(void *base, size_t bytes) {
	guard_begin(&guarded, base, bytes);
}

bool hints_guard_was_cut(void) {
	return guarded.was_cut != 0;
}

void given_guard(void *base, size_t bytes) {
	guard_begin(&numbers, base, bytes);
}

bool given_guard_was_cut(const void *base) {
	return numbers.base == base && numbers.was_cut != 0;
}
