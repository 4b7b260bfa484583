/* SPDX-License-Identifier: ISC */
/* A thread inherits the mask of whoever makes it. */
#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

int thread_start(void *(*run)(void *), void *argument, struct diag *diag) {
	sigset_t all, before;
	pthread_t thread;
	int error;

	sigfillset(&all);
	sigdelset(&all, SIGSYS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error != 0)
		return diag_set(diag, error, "cannot start a thread");
	pthread_detach(thread);
	return 0;
}
