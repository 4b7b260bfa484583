/* SPDX-License-Identifier: ISC */
/*
 * What is answered by HTTP: metrics, health, the status page and what it shows, as JSON
 * with the names of posternctl --json.  No I/O but to look at the state; nothing that is
 * asked changes anything.  One thread.
 */
#ifndef FRONT_HTTP_ANSWER_H
#define FRONT_HTTP_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "wire/ask/http_request.h"

struct http_answers;

/* What was made is told again to whoever asks so soon after. */
#define HTTP_ANSWER_AGE_NS	(INT64_C(250) * 1000 * 1000)

struct http_answer {
	unsigned status;
	const char *type;	/* Content-Type */
	const char *allow;	/* of 405, else NULL */
	const char *body;	/* until the next call */
	size_t length;
};

/* `state_path` is copied.  NULL: no memory. */
struct http_answers *http_answers_open(const char *state_path);
void http_answers_close(struct http_answers **answers);

/* `any_host`: the listener is nothing that a browser could be led to (a unix socket). */
void http_answer(struct http_answers *answers, const struct http_request *request,
    bool any_host, int64_t now_ns, struct http_answer *out);

/* To a request that is none. */
void http_answer_error(unsigned status, const char *reason, struct http_answer *out);

/* "OK" ... */
const char *http_status_text(unsigned status);

#endif
