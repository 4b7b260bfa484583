/* SPDX-License-Identifier: ISC */
/*
 * What a role whose code is somebody else's would try, on a test's demand: a value sent
 * with SIGUSR2 (sigqueue) tells which.  Nothing at all unless built with
 * -DPOSTERN_FAILPOINTS.
 */
#ifndef ROLE_MISDEED_H
#define ROLE_MISDEED_H

#ifdef POSTERN_FAILPOINTS

/* In a role, before its sandbox. */
void misdeed_listen(void);

#else
#define misdeed_listen()	((void)0)
#endif

#endif
