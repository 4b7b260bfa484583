/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Questions with parameters.
 * MODEL    A table of paths.  A parameter that is none is an error; one that is not known is
 *          nothing.
 * ERRORS   All are answers.
 * THREADS  One.
 */
#include "front/http/http_query.h"

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "view/classes.h"
#include "view/decision_page.h"
#include "view/detail.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define HISTORY_AGAIN_NS	(10 * NS_PER_SECOND)
#define ROWS_USUAL	25
#define OFFSET_MOST	20000000u
#define SPARK_MINUTES	60

struct asked {
	struct http_sources *sources;
	struct http_span query;
	FILE *out;
	struct writer writer;
};

typedef unsigned answer_query(struct asked *asked);

static unsigned refuse(struct asked *asked, unsigned status, const char *why) {
	fprintf(asked->out, "%s\n", why);
	return status;
}

/* False: it is there, and no number up to `most`. */
static bool number(const struct asked *asked, const char *key, unsigned most, unsigned *out) {
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
static const char *text(const struct asked *asked, const char *key, char *out, size_t size) {
	if (!http_query_get(asked->query, key, out, size))
		out[0] = '\0';
	return out;
}

static bool read_page(const struct asked *asked, struct page_choice *choice) {
	char word[16];

	*choice = (struct page_choice){ .limit = ROWS_USUAL };
	if (*text(asked, "name", choice->find, sizeof(choice->find)) != '\0')
		choice->exact = true;
	else
		(void)text(asked, "find", choice->find, sizeof(choice->find));
	choice->sort = *text(asked, "sort", word, sizeof(word)) == '\0' ? PAGE_BY_TROUBLE :
	    page_sort_of(word);
	choice->reversed = strcmp(text(asked, "reverse", word, sizeof(word)), "1") == 0;
	choice->trouble = strcmp(text(asked, "show", word, sizeof(word)), "trouble") == 0;
	return choice->sort != PAGE_SORTS && number(asked, "limit", PAGE_ROWS_MOST,
	    &choice->limit) && number(asked, "offset", OFFSET_MOST, &choice->offset);
}

static unsigned answer_classes(struct asked *asked) {
	struct page_choice choice;

	if (!read_page(asked, &choice))
		return refuse(asked, 400, "sort, limit or offset is not valid");
	return view_classes_page(asked->sources->view, &choice, &asked->writer) == 0 ? 200 : 500;
}

static unsigned answer_destinations(struct asked *asked) {
	struct page_choice choice;

	if (!read_page(asked, &choice))
		return refuse(asked, 400, "sort, limit or offset is not valid");
	return destination_page_write(asked->sources->index, asked->sources->view, &choice, true,
	    &asked->writer) == 0 ? 200 : 500;
}

static unsigned answer_decisions(struct asked *asked) {
	struct decision_choice choice = { .limit = 40 };
	const struct view *view = asked->sources->view;
	int result;

	(void)text(asked, "kind", choice.kind, sizeof(choice.kind));
	(void)text(asked, "about", choice.about, sizeof(choice.about));
	(void)text(asked, "find", choice.find, sizeof(choice.find));
	if (!number(asked, "limit", DECISION_GROUPS, &choice.limit))
		return refuse(asked, 400, "limit is not valid");
	writer_object_begin(&asked->writer, NULL);
	result = decision_changes_write(view, asked->sources->history, &choice, &asked->writer,
	    "changes");
	if (result == 0)
		result = decision_groups_write(view, &choice, &asked->writer, "groups");
	writer_object_end(&asked->writer);
	return result == 0 ? 200 : 500;
}

/* Most classes and destinations have none: that is no error. */
static unsigned no_history(struct asked *asked) {
	fputs("null\n", asked->out);
	return 200;
}

static unsigned answer_history(struct asked *asked) {
	struct view_history_want want = { .kind = HISTORY_SESSIONS, .minutes = HISTORY_MINUTES,
		.step = 1 };
	char name[SEGMENT_NAME_MAX + 1] = "";

	if (!number(asked, "minutes", HISTORY_MINUTES, &want.minutes) ||
	    !number(asked, "step", 60, &want.step))
		return refuse(asked, 400, "minutes or step is not valid");
	if (*text(asked, "class", name, sizeof(name)) != '\0')
		want.kind = HISTORY_CLASS;
	else if (*text(asked, "destination", name, sizeof(name)) != '\0')
		want.kind = HISTORY_DESTINATION;
	want.name = name;
	if (asked->sources->history == NULL || view_history_plot(asked->sources->history,
		view_history_minute(), &want, asked->out) != 0)
		return no_history(asked);
	return 200;
}

static unsigned answer_sparks(struct asked *asked) {
	char kind[16];
	bool classes = strcmp(text(asked, "kind", kind, sizeof(kind)), "classes") == 0;

	if (asked->sources->history == NULL || view_history_sparks(asked->sources->history,
		view_history_minute(), classes ? HISTORY_CLASS : HISTORY_DESTINATION,
		SPARK_MINUTES, asked->out) != 0)
		return no_history(asked);
	return 200;
}

static unsigned answer_class(struct asked *asked) {
	char name[SEGMENT_NAME_MAX + 1];

	return detail_class_write(asked->sources->view, text(asked, "name", name, sizeof(name)),
	    &asked->writer) ? 200 : refuse(asked, 404, "unknown class");
}

static unsigned answer_destination(struct asked *asked) {
	char name[SEGMENT_NAME_MAX + 1];

	return detail_destination_write(asked->sources->view, text(asked, "name", name,
	    sizeof(name)), &asked->writer) ? 200 :
	    refuse(asked, 404, "no delivery to this destination is known");
}

static unsigned answer_client(struct asked *asked) {
	char name[ADDRESS_TEXT_MAX];

	return detail_client_write(asked->sources->view, text(asked, "name", name, sizeof(name)),
	    &asked->writer) ? 200 : refuse(asked, 404, "not an IP address");
}

static unsigned answer_decision(struct asked *asked) {
	char id[32];

	return detail_decision_write(asked->sources->view, asked->sources->history, text(asked,
	    "id", id, sizeof(id)), &asked->writer) ? 200 : refuse(asked, 404,
	    "this decision is no longer in memory; posternctl why shows it from the journal");
}

static const struct {
	const char *path;
	answer_query *answer;
	bool is_list;		/* without a query */
} paths[] = {
	{ "/api/classes", answer_classes, true },
	{ "/api/destinations", answer_destinations, true },
	{ "/api/decisions", answer_decisions, true },
	{ "/api/history", answer_history, false },
	{ "/api/sparks", answer_sparks, false },
	{ "/api/class", answer_class, false },
	{ "/api/destination", answer_destination, false },
	{ "/api/client", answer_client, false },
	{ "/api/decision", answer_decision, false },
};

static size_t find(const struct http_request *request) {
	size_t i = 0;

	while (i < COUNT_OF(paths) && (!http_span_is(request->path, paths[i].path) ||
	    (paths[i].is_list && request->query.length == 0)))
		i++;
	return i;
}

bool http_query_is(const struct http_request *request) {
	return find(request) < COUNT_OF(paths);
}

/* The keeper makes the file anew where it is of another size. */
static void look_for_history(struct http_sources *sources, int64_t now_ns) {
	struct diag ignored;

	if (sources->history_ns != 0 && now_ns - sources->history_ns < HISTORY_AGAIN_NS)
		return;
	sources->history_ns = now_ns;
	history_close(&sources->history);
	(void)history_look(&sources->history, sources->view->path, &ignored);
}

unsigned http_query_answer(struct http_sources *sources, const struct http_request *request,
    int64_t now_ns, FILE *out) {
	struct asked asked = { .sources = sources, .query = request->query, .out = out };

	look_for_history(sources, now_ns);
	writer_init(&asked.writer, out, true);
	return paths[find(request)].answer(&asked);
}
