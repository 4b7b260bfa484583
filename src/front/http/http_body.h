/* SPDX-License-Identifier: ISC */
/*
 * What each path answers by HTTP: metrics, health, whole lists; and to a question with parameters
 * pages of lists, history, and all about one class, destination, client or decision.  No I/O but
 * to look at the state and the history.  One thread.
 */
#ifndef FRONT_HTTP_BODY_H
#define FRONT_HTTP_BODY_H

#include <stdio.h>

#include "view/destination_page.h"
#include "view/history.h"
#include "wire/ask/http_request.h"

#define HTTP_TEXT_TYPE	"text/plain; charset=utf-8"
#define HTTP_ROUTES	15

struct http_sources {
	struct view *view;
	struct destination_index *index;
	struct history *history;	/* NULL: none, or it is not looked for yet */
	int64_t history_ns;		/* when it was looked for */
};

struct http_asked {
	struct http_sources *sources;
	struct span query;
	int64_t now_ns;
	FILE *out;
	struct writer writer;		/* JSON, to the same */
};

/* Writes a body; returns the status: 200; 503 (health); 400 or 404, with a line of text; 500: no
 * memory. */
typedef unsigned http_body(struct http_asked *asked);

struct http_route {
	const char *path;
	const char *type;	/* Content-Type of a body */
	http_body *whole;	/* without a query; or NULL */
	http_body *asked;	/* with one; or NULL */
};
extern const struct http_route http_routes[HTTP_ROUTES];

#endif
