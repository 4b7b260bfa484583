/* SPDX-License-Identifier: ISC */
/*
 * The stream between the supervisor and the keeper, by which posternctl's
 * "reload" and the state of the gate reach the supervisor.  Frames as on the control socket
 * (wire/link/control_frame.h); the supervisor trusts nothing that comes.
 */
#ifndef ROLE_KEEPER_LINK_H
#define ROLE_KEEPER_LINK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"

struct reload_outcome;

#define KEEPER_LINK_REQUEST_MAX 4096

struct keeper_link {
	int fd;			/* -1: there is no keeper */
	char in[KEEPER_LINK_REQUEST_MAX];
	size_t in_length;
	char *out;		/* answer that is being sent, or NULL */
	size_t out_length;
	size_t out_size;
	size_t out_sent;
};

enum keeper_request {
	KEEPER_NOTHING,
	KEEPER_RELOAD,		/* answer with keeper_link_answer */
	KEEPER_GATE_SHUT,	/* the gate's command is to be run; no answer */
	KEEPER_GATE_OPEN,
	KEEPER_REFUSED,		/* answered already */
	KEEPER_BROKEN,		/* what came is no request: restart the keeper */
};

void keeper_link_init(struct keeper_link *link);

/* A new stream for a new keeper; returns the keeper's end, or -1 with *diag. */
int keeper_link_open(struct keeper_link *link, struct diag *diag);
void keeper_link_close(struct keeper_link *link);

/* What to poll for: nothing new is read while an answer waits. */
short keeper_link_events(const struct keeper_link *link);

/* The next request, if it is there or can be read without waiting; none while
 * an answer waits.  *why is static text for KEEPER_BROKEN. */
enum keeper_request keeper_link_next(struct keeper_link *link, const char **why);

/* Puts the answer together: a row for each message and each setting that waits
 * for a restart, and the end. */
void keeper_link_answer(struct keeper_link *link,
    const struct reload_outcome *outcome);

/* Sends as much as goes without waiting. */
void keeper_link_write(struct keeper_link *link);

#endif
