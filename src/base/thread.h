/* SPDX-License-Identifier: ISC */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/diag.h"

/* One that lasts as long as the process.  Signals are for others, but for SIGSYS, which reports
 * what its sandbox stopped.  0, or -1 with *diag. */
int thread_start(void *(*run)(void *), void *argument, struct diag *diag);

#endif
