/* SPDX-License-Identifier: ISC */
/*
 * What is answered by HTTP to a question with parameters: pages of lists, history, and all
 * about one class, destination, client or decision.  No I/O but to look at the state and the
 * history.  One thread.
 */
#ifndef FRONT_HTTP_QUERY_H
#define FRONT_HTTP_QUERY_H

#include <stdio.h>

#include "view/destination_page.h"
#include "view/history.h"
#include "wire/ask/http_request.h"

struct http_sources {
	struct view *view;
	struct destination_index *index;
	struct history *history;	/* NULL: none, or it is not looked for yet */
	int64_t history_ns;		/* when it was looked for */
};

/* Is it a question of these?  /api/classes, /api/destinations and /api/decisions only with a
 * query: without one they are lists. */
bool http_query_is(const struct http_request *request);

/* Writes the body, JSON; returns the status: 200; 400, 404 or 500 (then with a line of text). */
unsigned http_query_answer(struct http_sources *sources, const struct http_request *request,
    int64_t now_ns, FILE *out);

#endif
