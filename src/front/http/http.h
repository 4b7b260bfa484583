/* SPDX-License-Identifier: ISC */
/*
 * The front end for metrics and the status page: HTTP on listening sockets of this host's
 * own.  64 connections at most; whoever comes then takes the place of the one that has
 * kept us waiting longest, so that slow clients keep nobody out.  One event loop, one
 * thread.
 */
#ifndef FRONT_HTTP_H
#define FRONT_HTTP_H

#include <stdint.h>

#include "base/diag.h"
#include "engine/engine.h"

struct event_base;
struct http_front;

#define HTTP_CONNECTIONS	64
/* From one answer (or the connection) to the end of the next request, and as long for the
 * client to read an answer. */
#define HTTP_PATIENCE_NS	(INT64_C(20) * 1000 * 1000 * 1000)

/* 0, or -1 with *diag.  `engine` outlives the front end. */
int http_front_open(struct http_front **front, struct engine *engine, struct diag *diag);

/* Serves a listening, non-blocking socket, which the front end closes. */
int http_front_listen(struct http_front *front, int fd, uint8_t listener,
    struct diag *diag);

struct event_base *http_front_base(struct http_front *front);

/* Runs for good; returns only when the loop fails. */
void http_front_run(struct http_front *front);

void http_front_close(struct http_front **front);

#endif
