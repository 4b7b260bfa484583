/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A file that is cut short while it is mapped ends nobody.
 * MODEL    A read behind the file's end is SIGBUS; the handler lays zeros over the whole
 *          mapping, and the read is made once more.  Nothing is jumped over: whoever was
 *          reading goes on, finds nothing that makes sense, and asks at the end.
 * ERRORS   A fault elsewhere ends the process, as without us.
 * THREADS  One.
 */
#include "segment/hints/hints_guard.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "segment/hints/hints.h"

static struct {
	char *volatile base;
	volatile size_t bytes;
	volatile sig_atomic_t was_cut;
} guarded;

static void at_sigbus(int number, siginfo_t *info, void *context) {
	const char *at = info->si_addr;
	char *base = guarded.base;
	int error = errno;

	(void)context;
	if (info->si_code > 0 && base != NULL && at >= base && at < base + guarded.bytes &&
	    mmap(base, guarded.bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED |
		MAP_NORESERVE, -1, 0) == base) {
		guarded.was_cut = 1;
	} else {
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

void hints_guard(void *base, size_t bytes) {
	guarded.base = NULL;
	guarded.bytes = bytes;
	guarded.was_cut = 0;
	guarded.base = base;
}

bool hints_guard_was_cut(void) {
	return guarded.was_cut != 0;
}
