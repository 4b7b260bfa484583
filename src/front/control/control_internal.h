/* SPDX-License-Identifier: ISC */
/* What the parts of the control server share. */
#ifndef FRONT_CONTROL_INTERNAL_H
#define FRONT_CONTROL_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/generation/generation.h"
#include "front/control/control.h"
#include "front/control/control_access.h"
#include "front/control/control_answer.h"
#include "front/serve/stream.h"

#define CONTROL_REQUEST_BYTES	8192	/* a request, its length line included */

struct client;
struct service;

/* Answers a request by client_put, or makes the client wait.  False: the connection is
 * over. */
typedef bool control_serve_fn(struct client *client, const struct control_frame *frame);

struct client {
	struct stream stream;
	struct control *control;
	struct control_peer peer;
	bool waits;			/* for a reload */
	uint64_t reload;		/* its number; 0: it is to be asked for yet */
	bool last;			/* close when all is sent */
	size_t in_length;
	char in[CONTROL_REQUEST_BYTES];
	char *out;			/* behind what waits in the stream; or NULL */
	size_t out_length, out_size;
};

struct control {
	struct engine *engine;
	control_serve_fn *serve;
	void *context;			/* serve's own */
	void (*gone)(struct client *client);	/* it is freed; NULL: nobody wants to know */
	size_t out_most;		/* bytes of answers that wait for one client */
	struct event_base *base;
	struct service *service;
	const struct control_access *accesses[GENERATION_LISTENERS_MAX];
	unsigned listening_count;
	control_reload_fn *reload;
	void *reload_context;
	uint64_t reloads;		/* that were asked for */
	char answer[CONTROL_ANSWER_BYTES];
};

/* control.c */

/* A server without listeners.  0, or -1 with *diag. */
int control_begin(struct control **control, struct event_base *base,
    struct engine *engine, control_serve_fn *serve, struct diag *diag);

void client_free(struct client *client);

/* Adds to what is to be sent; false: it would be too much, or there is no memory. */
bool client_put(struct client *client, const char *data, size_t length);
bool client_end(struct client *client, int exit_code, const char *error);

/* It has asked, or read, something just now. */
void client_progressed(struct client *client);

/* Sends what waits.  False: the connection is over (and still allocated). */
bool client_flush(struct client *client);

/* Goes on with what came meanwhile, when nothing waits any more; may free it. */
void client_resume(struct client *client);

/* control_reload.c */

/* The client waits for a reload that begins from now on. */
void client_reload(struct client *client);

/* Asks the supervisor, where that is due. */
void control_reload_turn(struct control *control);

#endif
