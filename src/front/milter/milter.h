/* SPDX-License-Identifier: ISC */
/*
 * The milter front end: asks once a session, at its connect, and sees its end; or, on a socket
 * for accounts, at each recipient and message of a client that logged in.
 * It works through libmilter, which serves one socket a process, brings its own
 * threads, and owns SIGHUP, SIGTERM and SIGINT.
 */
#ifndef FRONT_MILTER_H
#define FRONT_MILTER_H

#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"

/* Serves a bound, listening stream socket, number `listener` of the generation, which is for
 * accounts, or for sessions.  Returns only when it cannot go on: -1 with *diag.  Once a
 * process. */
int milter_front_run(struct engine *engine, int fd, uint8_t listener, bool for_accounts,
    struct diag *diag);

#endif
