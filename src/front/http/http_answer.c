/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Paths to answers.
 * MODEL    Answers out of the state are made at most every 250 ms,
 *          however many ask; one look at the state serves all of them.
 * ERRORS   All are answers: 503 where the state cannot be read, 500 without memory.
 * THREADS  One.
 */
#include "front/http/http_answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/http/http_body.h"
#include "front/http/page.h"

#define METHODS		"GET, HEAD"

struct made {
	char *body;
	size_t length;
	unsigned status;
	int64_t made_ns;	/* 0: never */
};

struct http_answers {
	struct view view;
	bool is_open;
	int64_t looked_ns;
	struct diag why;	/* it is not */
	struct made made[HTTP_ROUTES];
	struct made asked;	/* the answer to a question with parameters */
	struct http_sources sources;
	char error[sizeof(((struct diag *)0)->text) + 2];
};

/* --- what is kept ---------------------------------------------------------------- */

static void answers_look(struct http_answers *answers, int64_t now_ns) {
	if (answers->is_open && now_ns - answers->looked_ns < HTTP_ANSWER_AGE_NS)
		return;
	answers->is_open = view_refresh(&answers->view, &answers->why) == 0;
	answers->looked_ns = now_ns;
}

/* False: no memory. */
static bool body_make(struct http_answers *answers, http_body *write, struct span query,
    int64_t now_ns, struct made *made) {
	struct http_asked asked = { .sources = &answers->sources, .query = query,
		.now_ns = now_ns };

	free(made->body);
	*made = (struct made){ .body = NULL };
	asked.out = open_memstream(&made->body, &made->length);
	if (asked.out == NULL)
		return false;
	writer_init(&asked.writer, asked.out, true);
	made->status = write(&asked);
	if (ferror(asked.out) != 0)
		made->status = 500;
	if (fclose(asked.out) != 0 || made->status == 500)
		return false;
	made->made_ns = now_ns;
	return true;
}

static void answer_route(struct http_answers *answers, const struct http_route *route,
    struct span query, int64_t now_ns, struct http_answer *out) {
	bool is_asked = route->whole == NULL || (route->asked != NULL && query.length > 0);
	struct made *made = is_asked ? &answers->asked : &answers->made[route - http_routes];

	if (is_asked || made->made_ns == 0 || now_ns - made->made_ns >= HTTP_ANSWER_AGE_NS) {
		answers_look(answers, now_ns);
		made->made_ns = 0;
		if (!answers->is_open) {
			snprintf(answers->error, sizeof(answers->error), "%s\n",
			    answers->why.text);
			http_answer_error(503, answers->error, out);
			return;
		}
		if (!body_make(answers, is_asked ? route->asked : route->whole, query, now_ns, made)) {
			http_answer_error(500, strerror(ENOMEM), out);
			return;
		}
	}
	*out = (struct http_answer){ .status = made->status, .type = made->status == 200 ?
		route->type : HTTP_TEXT_TYPE, .body = made->body, .length = made->length };
}

/* --- requests --------------------------------------------------------------------- */

static const struct page_file *find_page(struct span path) {
	const struct page_file *file;

	for (size_t i = 0; (file = page_file(i)) != NULL; i++)
		if (span_is(path, file->path))
			return file;
	return NULL;
}

void http_answer(struct http_answers *answers, const struct http_request *request,
    bool any_host, int64_t now_ns, struct http_answer *out) {
	const struct page_file *file;

	/* a page of somebody else's, whose name now leads here, must not read this one */
	if (request->has_host && !any_host && !http_host_is_local(request->host)) {
		http_answer_error(421, "this host is known only as localhost, 127.0.0.1 and "
		    "[::1]\n",
		    out);
		return;
	}
	if (request->method == HTTP_OTHER) {
		http_answer_error(405, "only GET and HEAD are supported: this page is "
		    "read-only\n",
		    out);
		out->allow = METHODS;
		return;
	}
	for (size_t i = 0; i < HTTP_ROUTES; i++)
		if (span_is(request->path, http_routes[i].path)) {
			answer_route(answers, &http_routes[i], request->query, now_ns, out);
			return;
		}
	file = find_page(request->path);
	if (file == NULL) {
		http_answer_error(404, "no such page; see /, /metrics and /healthz\n",
		    out);
		return;
	}
	*out = (struct http_answer){ .status = 200, .type = file->type, .body = file->text,
		.length = file->length };
}

void http_answer_error(unsigned status, const char *reason, struct http_answer *out) {
	*out = (struct http_answer){ .status = status, .type = HTTP_TEXT_TYPE, .body = reason,
		.length = strlen(reason) };
}

const char *http_status_text(unsigned status) {
	static const struct { unsigned status; const char *text; } texts[] = {
		{ 200, "OK" }, { 400, "Bad Request" }, { 404, "Not Found" },
		{ 405, "Method Not Allowed" }, { 414, "URI Too Long" },
		{ 421, "Misdirected Request" }, { 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" }, { 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].status == status)
			return texts[i].text;
	return "Error";
}

/* --- life ------------------------------------------------------------------------- */

struct http_answers *http_answers_open(const char *state_path) {
	struct http_answers *answers = calloc(1, sizeof(*answers));

	if (answers == NULL)
		return NULL;
	answers->sources = (struct http_sources){ .view = &answers->view,
		.index = destination_index_new() };
	if (answers->sources.index == NULL) {
		free(answers);
		return NULL;
	}
	answers->is_open = view_open(&answers->view, state_path, &answers->why) == 0;
	return answers;
}

void http_answers_close(struct http_answers **result) {
	struct http_answers *answers = *result;

	if (answers == NULL)
		return;
	for (size_t i = 0; i < HTTP_ROUTES; i++)
		free(answers->made[i].body);
	free(answers->asked.body);
	history_close(&answers->sources.history);
	destination_index_free(&answers->sources.index);
	view_close(&answers->view);
	free(answers);
	*result = NULL;
}
