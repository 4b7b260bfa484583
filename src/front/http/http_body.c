/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Bodies of answers.
 * MODEL    A table of paths.  A parameter that is none is an error; one that is not known is
 *          nothing.
 * ERRORS   All are answers.
 * THREADS  One.
 */
#include "front/http/http_body.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "view/accounts.h"
#include "view/classes.h"
#include "view/cluster.h"
#include "view/decided.h"
#include "view/decision_page.h"
#include "view/detail.h"
#include "view/health.h"
#include "view/metrics.h"
#include "view/sources.h"
#include "view/status.h"
#include "view/verdict.h"

#define HISTORY_AGAIN_NS	(10 * NS_PER_SECOND)
#define ROWS_USUAL	25
#define OFFSET_MOST	20000000u
#define SPARK_MINUTES	60
#define ROWS_OF_ALL	200	/* destinations */
#define DECISIONS_OF_ALL	50	/* of sessions, and as many of destinations */
#define JSON_TYPE	"application/json"

/* --- whole ---------------------------------------------------------------------------- */

static unsigned status_of(int result) {
	return result == 0 ? 200 : 500;
}

static unsigned write_metrics(struct http_asked *asked) {
	return status_of(metrics_write(asked->sources->view, asked->out));
}

static unsigned write_health(struct http_asked *asked) {
	return health_check(asked->sources->view, asked->out) ? 200 : 503;
}

static unsigned write_status(struct http_asked *asked) {
	view_status_write(asked->sources->view, &asked->writer, true);
	return 200;
}

static unsigned write_classes(struct http_asked *asked) {
	unsigned torn;

	return status_of(view_classes_write(asked->sources->view, &asked->writer, &torn));
}

/* Addresses of recipients are for those alone who may read the state file. */
static unsigned write_destinations(struct http_asked *asked) {
	static const struct page_choice choice = { .limit = ROWS_OF_ALL };

	return status_of(destination_page_write(asked->sources->index, asked->sources->view,
	    &choice, false, &asked->writer));
}

static unsigned write_decisions(struct http_asked *asked) {
	return status_of(view_decisions_write(asked->sources->view, &asked->writer,
	    DECISIONS_OF_ALL));
}

static unsigned write_cluster(struct http_asked *asked) {
	return status_of(view_cluster_write(asked->sources->view, &asked->writer));
}

/* Where there is nothing to be shown: that is no error. */
static unsigned write_null(struct http_asked *asked) {
	fputs("null\n", asked->out);
	return 200;
}

static unsigned write_accounts(struct http_asked *asked) {
#ifdef WITH_ACCOUNTS
	struct view *view = asked->sources->view;
	const struct view_accounts_top *top = view_accounts_top(view);

	if (top != NULL) {
		view_accounts_top_write(view, top, view->generation->accounts_named,
		    &asked->writer);
		return 200;
	}
#endif
	return write_null(asked);
}

static unsigned write_sources(struct http_asked *asked) {
	const struct view *view = asked->sources->view;

	if (view->generation == NULL || view->generation->source_count == 0)
		return write_null(asked);
	view_sources_write(view, NULL, &asked->writer, NULL);
	return 200;
}

/* --- asked ---------------------------------------------------------------------------- */

static unsigned body_refuse(struct http_asked *asked, unsigned status, const char *why) {
	fprintf(asked->out, "%s\n", why);
	return status;
}

/* False: it is there, and no number up to `most`. */
static bool query_number(const struct http_asked *asked, const char *key, unsigned most,
    unsigned *out) {
	char text[16];
	uint32_t value;

	if (!http_query_get(asked->query, key, text, sizeof(text)))
		return true;
	if (!text_to_u32(text, strlen(text), most, &value))
		return false;
	*out = value;
	return true;
}

/* "": it is not there. */
static const char *query_text(const struct http_asked *asked, const char *key, char *out,
    size_t size) {
	if (!http_query_get(asked->query, key, out, size))
		out[0] = '\0';
	return out;
}

static bool read_page(const struct http_asked *asked, struct page_choice *choice) {
	char word[16];

	*choice = (struct page_choice){ .limit = ROWS_USUAL };
	if (*query_text(asked, "name", choice->find, sizeof(choice->find)) != '\0')
		choice->exact = true;
	else
		(void)query_text(asked, "find", choice->find, sizeof(choice->find));
	choice->sort = *query_text(asked, "sort", word, sizeof(word)) == '\0' ? PAGE_BY_TROUBLE :
	    page_sort_of(word);
	choice->reversed = strcmp(query_text(asked, "reverse", word, sizeof(word)), "1") == 0;
	choice->trouble = strcmp(query_text(asked, "show", word, sizeof(word)), "trouble") == 0;
	return choice->sort != PAGE_SORTS && query_number(asked, "limit", PAGE_ROWS_MOST,
	    &choice->limit) && query_number(asked, "offset", OFFSET_MOST, &choice->offset);
}

/* The keeper makes the file anew where it is of another size. */
static struct history *look_for_history(struct http_asked *asked) {
	struct http_sources *sources = asked->sources;
	struct diag ignored;

	if (sources->history_ns == 0 || asked->now_ns - sources->history_ns >= HISTORY_AGAIN_NS) {
		sources->history_ns = asked->now_ns;
		history_close(&sources->history);
		(void)history_look(&sources->history, sources->view->path, &ignored);
	}
	return sources->history;
}

static unsigned answer_classes(struct http_asked *asked) {
	struct page_choice choice;

	if (!read_page(asked, &choice))
		return body_refuse(asked, 400, "sort, limit or offset is not valid");
	return status_of(view_classes_page(asked->sources->view, &choice, &asked->writer));
}

static unsigned answer_destinations(struct http_asked *asked) {
	struct page_choice choice;

	if (!read_page(asked, &choice))
		return body_refuse(asked, 400, "sort, limit or offset is not valid");
	return status_of(destination_page_write(asked->sources->index, asked->sources->view,
	    &choice, true, &asked->writer));
}

static unsigned answer_decisions(struct http_asked *asked) {
	struct decision_choice choice = { .limit = 40 };
	const struct view *view = asked->sources->view;
	int result;

	(void)query_text(asked, "kind", choice.kind, sizeof(choice.kind));
	(void)query_text(asked, "about", choice.about, sizeof(choice.about));
	(void)query_text(asked, "find", choice.find, sizeof(choice.find));
	if (!query_number(asked, "limit", DECISION_GROUPS, &choice.limit))
		return body_refuse(asked, 400, "limit is not valid");
	writer_object_begin(&asked->writer, NULL);
	result = decision_changes_write(view, look_for_history(asked), &choice, &asked->writer,
	    "changes");
	if (result == 0)
		result = decision_groups_write(view, &choice, &asked->writer, "groups");
	writer_object_end(&asked->writer);
	return status_of(result);
}

static unsigned answer_history(struct http_asked *asked) {
	struct view_history_want want = { .kind = HISTORY_SESSIONS, .minutes = HISTORY_MINUTES,
		.step = 1 };
	struct history *history = look_for_history(asked);
	char name[SEGMENT_NAME_MAX + 1] = "";

	if (!query_number(asked, "minutes", HISTORY_MINUTES, &want.minutes) ||
	    !query_number(asked, "step", 60, &want.step))
		return body_refuse(asked, 400, "minutes or step is not valid");
	if (*query_text(asked, "class", name, sizeof(name)) != '\0')
		want.kind = HISTORY_CLASS;
	else if (*query_text(asked, "destination", name, sizeof(name)) != '\0')
		want.kind = HISTORY_DESTINATION;
	want.name = name;
	/* most classes and destinations have none */
	return history == NULL || view_history_plot(history, view_history_minute(), &want,
	    asked->out) != 0 ? write_null(asked) : 200;
}

static unsigned answer_sparks(struct http_asked *asked) {
	struct history *history = look_for_history(asked);
	char kind[16];
	bool classes = strcmp(query_text(asked, "kind", kind, sizeof(kind)), "classes") == 0;

	return history == NULL || view_history_sparks(history, view_history_minute(), classes ?
	    HISTORY_CLASS : HISTORY_DESTINATION, SPARK_MINUTES, asked->out) != 0 ?
	    write_null(asked) : 200;
}

static unsigned answer_class(struct http_asked *asked) {
	char name[SEGMENT_NAME_MAX + 1];

	return detail_class_write(asked->sources->view, query_text(asked, "name", name, sizeof(name)),
	    &asked->writer) ? 200 : body_refuse(asked, 404, "unknown class");
}

static unsigned answer_destination(struct http_asked *asked) {
	char name[SEGMENT_NAME_MAX + 1];

	return detail_destination_write(asked->sources->view, query_text(asked, "name", name,
	    sizeof(name)), &asked->writer) ? 200 :
	    body_refuse(asked, 404, "no delivery to this destination is known");
}

static unsigned answer_client(struct http_asked *asked) {
	char name[ADDRESS_TEXT_MAX];

	return detail_client_write(asked->sources->view, query_text(asked, "name", name, sizeof(name)),
	    &asked->writer) ? 200 : body_refuse(asked, 404, "not an IP address");
}

static unsigned answer_decision(struct http_asked *asked) {
	char id[32];

	return detail_decision_write(asked->sources->view, look_for_history(asked), query_text(asked,
	    "id", id, sizeof(id)), &asked->writer) ? 200 : body_refuse(asked, 404,
	    "this decision is no longer in memory; posternctl why shows it from the journal");
}

const struct http_route http_routes[HTTP_ROUTES] = {
	{ "/metrics", METRICS_CONTENT_TYPE, write_metrics, NULL },
	{ "/healthz", HTTP_TEXT_TYPE, write_health, NULL },
	{ "/api/status", JSON_TYPE, write_status, NULL },
	{ "/api/classes", JSON_TYPE, write_classes, answer_classes },
	{ "/api/destinations", JSON_TYPE, write_destinations, answer_destinations },
	{ "/api/decisions", JSON_TYPE, write_decisions, answer_decisions },
	{ "/api/cluster", JSON_TYPE, write_cluster, NULL },
	{ "/api/accounts", JSON_TYPE, write_accounts, NULL },
	{ "/api/sources", JSON_TYPE, write_sources, NULL },
	{ "/api/history", JSON_TYPE, NULL, answer_history },
	{ "/api/sparks", JSON_TYPE, NULL, answer_sparks },
	{ "/api/class", JSON_TYPE, NULL, answer_class },
	{ "/api/destination", JSON_TYPE, NULL, answer_destination },
	{ "/api/client", JSON_TYPE, NULL, answer_client },
	{ "/api/decision", JSON_TYPE, NULL, answer_decision },
};
