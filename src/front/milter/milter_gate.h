/* SPDX-License-Identifier: ISC */
/*
 * The door before libmilter, which has a thread read the first packet of a connection as
 * soon as it is accepted, for as long as it may take: whoever connects and says nothing
 * would hold a thread each.  Connections wait here, without one, until their first packet
 * has come whole.  One gate a process.
 */
#ifndef FRONT_MILTER_GATE_H
#define FRONT_MILTER_GATE_H

#include <stdbool.h>

#include "base/diag.h"

/* What became of those that did not come in. */
struct milter_gate_calls {
	void (*stalled)(void);		/* said nothing for too long */
	void (*too_many)(unsigned waiting, unsigned inside);
};

/* Serves a listening socket.  Returns a descriptor to be given to libmilter instead: whose
 * accept() then takes connections out of the gate; or -1 with *diag.  `calls` stays. */
int milter_gate_open(int listening_fd, const struct milter_gate_calls *calls,
    struct diag *diag);

/* Did libmilter's calls come to the gate?  Otherwise the socket itself has to do. */
bool milter_gate_is_used(void);

/* In a callback of libmilter's: the socket that this thread read last, which is that of the
 * connection that it is called for; -1: none. */
int milter_gate_socket(void);

/* This thread reads from that socket (milter_read.c). */
void milter_gate_read(int fd);

/* Is no connection there, inside or waiting?  Any thread. */
bool milter_gate_is_empty(void);

/* In a callback of libmilter's: its connection has ended, or says that it is a new one from
 * now on; and it goes on.  Each counts once. */
void milter_gate_left(void);
void milter_gate_goes_on(void);

#endif
