/* SPDX-License-Identifier: ISC */
/*
 * Places where a test may kill the process: before every store that a crash must
 * not spoil.  Nothing at all unless built with -DPOSTERN_FAILPOINTS.
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#include <stdint.h>

#ifdef POSTERN_FAILPOINTS

/* The n-th FAILPOINT() from now on, counted over all threads of this process,
 * raises SIGKILL; 0 disarms. */
void failpoint_arm(uint64_t n);

/* How many points were passed since failpoint_arm. */
uint64_t failpoint_passed(void);

void failpoint_pass(void);
#define FAILPOINT()	failpoint_pass()

#else
#define FAILPOINT()	((void)0)
#endif

#endif
