/* SPDX-License-Identifier: ISC */
/* The countdown behind FAILPOINT(): one pair of atomics a process, inherited
 * by fork.  SIGKILL, as a crash must not run anything of ours. */
#include "base/failpoint.h"

#ifdef POSTERN_FAILPOINTS

#include <signal.h>
#include <stdatomic.h>

static _Atomic uint64_t armed;
static _Atomic uint64_t passed;

void failpoint_arm(uint64_t n) {
	atomic_store(&passed, 0);
	atomic_store(&armed, n);
}

uint64_t failpoint_passed(void) {
	return atomic_load(&passed);
}

void failpoint_pass(void) {
	uint64_t count = atomic_fetch_add(&passed, 1) + 1;

	if (count == atomic_load(&armed))
		(void)raise(SIGKILL);
}

#else

/* ISO C wants something in each file. */
extern int failpoint_unused;

#endif
