/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Paths to answers.
 * MODEL    A table of paths.  Answers out of the state are made at most every 250 ms,
 *          however many ask; one look at the state serves all of them.
 * ERRORS   All are answers: 503 where the state cannot be read, 500 without memory.
 * THREADS  One.
 */
#include "front/http/http_answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "front/http/http_query.h"
#include "front/http/page.h"
#include "view/accounts.h"
#include "view/classes.h"
#include "view/cluster.h"
#include "view/decided.h"
#include "view/health.h"
#include "view/metrics.h"
#include "view/status.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define TEXT_TYPE	"text/plain; charset=utf-8"
#define JSON_TYPE	"application/json"
#define METHODS		"GET, HEAD"

/* Writes a body; false: errno. */
typedef bool make_body(struct http_answers *answers, FILE *out, unsigned *status);

struct made {
	char *body;
	size_t length;
	unsigned status;
	int64_t made_ns;	/* 0: never */
};

static make_body make_metrics, make_health, make_status, make_classes, make_destinations,
    make_decisions, make_cluster, make_accounts;

static const struct route {
	const char *path;
	const char *type;
	make_body *make;
} routes[] = {
	{ "/metrics", METRICS_CONTENT_TYPE, make_metrics },
	{ "/healthz", TEXT_TYPE, make_health },
	{ "/api/status", JSON_TYPE, make_status },
	{ "/api/classes", JSON_TYPE, make_classes },
	{ "/api/destinations", JSON_TYPE, make_destinations },
	{ "/api/decisions", JSON_TYPE, make_decisions },
	{ "/api/cluster", JSON_TYPE, make_cluster },
	{ "/api/accounts", JSON_TYPE, make_accounts },
};

struct http_answers {
	struct view view;
	bool is_open;
	int64_t looked_ns;
	struct diag why;	/* it is not */
	struct made made[COUNT_OF(routes)];
	struct http_sources sources;
	char *asked;		/* the answer to a question with parameters */
	char error[sizeof(((struct diag *)0)->text) + 2];
};

/* --- bodies ------------------------------------------------------------------- */

static bool make_metrics(struct http_answers *answers, FILE *out, unsigned *status) {
	(void)status;
	return metrics_write(&answers->view, out) == 0;
}

static bool make_health(struct http_answers *answers, FILE *out, unsigned *status) {
	if (!health_check(&answers->view, out))
		*status = 503;
	return true;
}

static bool make_status(struct http_answers *answers, FILE *out, unsigned *status) {
	struct writer writer;

	(void)status;
	writer_init(&writer, out, true);
	view_status_write(&answers->view, &writer, true);
	return true;
}

static bool make_classes(struct http_answers *answers, FILE *out, unsigned *status) {
	struct writer writer;
	unsigned torn;

	(void)status;
	writer_init(&writer, out, true);
	return view_classes_write(&answers->view, &writer, NULL, &torn) == 0;
}

/* Addresses of recipients are for those alone who may read the state file. */
static bool make_destinations(struct http_answers *answers, FILE *out, unsigned *status) {
	static const struct page_choice choice = { .limit = HTTP_DESTINATIONS };
	struct writer writer;

	(void)status;
	writer_init(&writer, out, true);
	return destination_page_write(answers->sources.index, &answers->view, &choice, false,
	    &writer) == 0;
}

static bool make_decisions(struct http_answers *answers, FILE *out, unsigned *status) {
	struct writer writer;

	(void)status;
	writer_init(&writer, out, true);
	return view_decisions_write(&answers->view, &writer, NULL, HTTP_DECISIONS) == 0;
}

static bool make_cluster(struct http_answers *answers, FILE *out, unsigned *status) {
	struct writer writer;

	(void)status;
	writer_init(&writer, out, true);
	return view_cluster_write(&answers->view, &writer) == 0;
}

/* "null" where there are none. */
static bool make_accounts(struct http_answers *answers, FILE *out, unsigned *status) {
#ifdef WITH_ACCOUNTS
	const struct view_accounts_top *top = view_accounts_top(&answers->view);
	struct writer writer;

	if (top != NULL) {
		writer_init(&writer, out, true);
		view_accounts_top_write(&answers->view, top,
		    answers->view.generation->accounts_named, &writer, NULL);
		return true;
	}
#endif
	(void)answers;
	(void)status;
	return fputs("null\n", out) >= 0;
}

/* --- what is kept ---------------------------------------------------------------- */

static void look(struct http_answers *answers, int64_t now_ns) {
	if (answers->is_open && now_ns - answers->looked_ns < HTTP_ANSWER_AGE_NS)
		return;
	answers->is_open = view_refresh(&answers->view, &answers->why) == 0;
	answers->looked_ns = now_ns;
}

/* False: not made; errno. */
static bool make(struct http_answers *answers, const struct route *route, struct made *made) {
	char *body = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&body, &length);
	bool whole;

	if (out == NULL)
		return false;
	made->status = 200;
	whole = route->make(answers, out, &made->status);
	whole &= ferror(out) == 0;
	if (fclose(out) != 0 || !whole) {
		free(body);
		errno = ENOMEM;
		return false;
	}
	free(made->body);
	made->body = body;
	made->length = length;
	return true;
}

static void answer_error(struct http_answers *answers, struct http_answer *out) {
	snprintf(answers->error, sizeof(answers->error), "%s\n", answers->why.text);
	*out = (struct http_answer){ .status = 503, .type = TEXT_TYPE, .body = answers->error,
		.length = strlen(answers->error) };
}

static void answer_query(struct http_answers *answers, const struct http_request *request,
    int64_t now_ns, struct http_answer *out) {
	size_t length = 0;
	FILE *body;

	free(answers->asked);
	answers->asked = NULL;
	look(answers, now_ns);
	if (!answers->is_open) {
		answer_error(answers, out);
		return;
	}
	*out = (struct http_answer){ .status = 500, .type = JSON_TYPE };
	body = open_memstream(&answers->asked, &length);
	if (body != NULL) {
		out->status = http_query_answer(&answers->sources, request, now_ns, body);
		if (ferror(body) != 0)
			out->status = 500;
	}
	if (body == NULL || fclose(body) != 0 || out->status == 500) {
		http_answer_error(500, strerror(ENOMEM), out);
		return;
	}
	if (out->status != 200)
		out->type = TEXT_TYPE;
	out->body = answers->asked;
	out->length = length;
}

static void answer_route(struct http_answers *answers, const struct route *route,
    int64_t now_ns, struct http_answer *out) {
	struct made *made = &answers->made[route - routes];

	if (made->made_ns == 0 || now_ns - made->made_ns >= HTTP_ANSWER_AGE_NS) {
		look(answers, now_ns);
		made->made_ns = 0;
		if (!answers->is_open) {
			answer_error(answers, out);
			return;
		}
		if (!make(answers, route, made)) {
			http_answer_error(500, strerror(errno), out);
			return;
		}
		made->made_ns = now_ns;
	}
	*out = (struct http_answer){ .status = made->status, .type = route->type,
		.body = made->body, .length = made->length };
}

/* --- requests --------------------------------------------------------------------- */

static const struct page_file *find_page(struct http_span path) {
	const struct page_file *file;

	for (size_t i = 0; (file = page_file(i)) != NULL; i++)
		if (http_span_is(path, file->path))
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
	if (http_query_is(request)) {
		answer_query(answers, request, now_ns, out);
		return;
	}
	for (size_t i = 0; i < COUNT_OF(routes); i++)
		if (http_span_is(request->path, routes[i].path)) {
			answer_route(answers, &routes[i], now_ns, out);
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
	*out = (struct http_answer){ .status = status, .type = TEXT_TYPE, .body = reason,
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

	for (size_t i = 0; i < COUNT_OF(texts); i++)
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
	for (size_t i = 0; i < COUNT_OF(answers->made); i++)
		free(answers->made[i].body);
	free(answers->asked);
	history_close(&answers->sources.history);
	destination_index_free(&answers->sources.index);
	view_close(&answers->view);
	free(answers);
	*result = NULL;
}
