/* SPDX-License-Identifier: ISC */
/* What the control server answers by itself, without a socket in sight. */
#ifndef FRONT_CONTROL_ANSWER_H
#define FRONT_CONTROL_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "engine/engine.h"
#include "front/control/control_access.h"
#include "wire/link/control_frame.h"

/* Large enough for every answer made here. */
#define CONTROL_ANSWER_BYTES	(2 * CONTROL_BODY_MAX)

/* What a request asks for. */
enum control_request {
	CONTROL_REQUEST_ANSWERED,	/* the answer stands in `out` */
	CONTROL_REQUEST_RELOAD,		/* to be asked of the supervisor */
};

/* The first frame of ours on a connection.  Returns its length. */
size_t control_answer_hello(char *out, size_t size);

/* The last frame of an answer: exit code of sysexits(3), and a text if it is not
 * 0.  Returns its length. */
size_t control_answer_end(char *out, size_t size, int exit_code,
    const char *error);

/* Looks at one request and answers it where that needs nobody else; `out` has
 * CONTROL_ANSWER_BYTES. */
enum control_request control_answer(struct engine *engine,
    const struct control_frame *request, const struct control_peer *peer, char *out,
    size_t *length);

#endif
