/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What the sessions of a log come to.
 * MODEL    All of them in order of time are summed up by class, by client and by domain:
 *          how many at once, how many in a minute.
 * ERRORS   Sessions whose end is missing last to the end of the log, but no longer than an
 *          hour; without memory nothing is shown.
 * THREADS  One (qsort's order stands beside it).
 */
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "ctl/analyze/analyze_sessions.h"

#define TOP_CLIENTS		20

static const struct analyze_session *sorted_sessions;

static int by_time(const void *a, const void *b) {
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
	const struct analyze_session *left = &sorted_sessions[one / 2];
	const struct analyze_session *right = &sorted_sessions[other / 2];
	int64_t left_ms = one % 2 == 0 ? left->start_ms : left->end_ms;
	int64_t right_ms = other % 2 == 0 ? right->start_ms : right->end_ms;
	uint64_t left_line = one % 2 == 0 ? left->start_line : left->end_line;
	uint64_t right_line = other % 2 == 0 ? right->start_line : right->end_line;

	return order_then(ORDER(left_ms, right_ms),
	    order_then(ORDER(left_line, right_line), ORDER(one, other)));
}

/* False: no memory. */
static bool finish(struct analyze_read *s) {
	struct analyze_seen *seen = &s->seen;

	for (size_t i = 0; i < seen->session_count; i++) {
		struct analyze_session *session = &seen->sessions[i];

		if (session->end_ms != INT64_MIN)
			continue;
		session->end_line = UINT64_MAX;
		session->end_ms = session->start_ms;
		if (session->of_sendmail)
			continue;
		seen->unended++;
		session->end_ms = s->clock.now_ms - session->start_ms > ANALYZE_UNENDED_MS ?
		    session->start_ms + ANALYZE_UNENDED_MS : s->clock.now_ms;
	}
	seen->first_ms = s->clock.first_ms;
	seen->last_ms = s->clock.now_ms;
	seen->order = calloc(2 * seen->session_count + 1, sizeof(*seen->order));
	if (seen->order == NULL)
		return false;
	for (uint32_t i = 0; i < 2 * seen->session_count; i++)
		seen->order[i] = i;
	sorted_sessions = seen->sessions;
	qsort(seen->order, 2 * seen->session_count, sizeof(*seen->order), by_time);
	return true;
}

static void begin_one(struct analyze_load *load, int64_t now_ms) {
	load->sessions++;
	if (++load->open > load->peak)
		load->peak = load->open;
	if (load->minute != now_ms / 60000 || load->this_minute == 0) {
		load->minute = now_ms / 60000;
		load->this_minute = 0;
	}
	if (++load->this_minute > load->per_minute)
		load->per_minute = load->this_minute;
}

void analyze_sum(const struct analyze_seen *seen, const uint32_t *keys,
    struct analyze_load *out, size_t count) {
	memset(out, 0, count * sizeof(*out));
	for (size_t i = 0; i < 2 * seen->session_count; i++) {
		const struct analyze_session *session = &seen->sessions[seen->order[i] / 2];
		uint32_t key = keys[seen->order[i] / 2];

		if (key >= count)
			continue;
		if (seen->order[i] % 2 == 0) {
			begin_one(&out[key], session->start_ms);
		} else {
			out[key].open--;
			out[key].open_ms += (uint64_t)(session->end_ms - session->start_ms);
		}
	}
}

/* --- output --------------------------------------------------------------------------- */

/* By class or by client. */
struct sums {
	struct analyze_read *s;
	uint32_t *keys;
	struct analyze_load *loads;
	uint32_t *order;	/* numbers of loads, most first */
	size_t count;
};

static void sums_free(struct sums *sums) {
	free(sums->keys);
	free(sums->loads);
	free(sums->order);
}

static const struct analyze_load *sorted_loads;

static int by_load(const void *a, const void *b) {
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
	const struct analyze_load *left = &sorted_loads[one], *right = &sorted_loads[other];

	return order_then(ORDER(right->peak, left->peak),
	    order_then(ORDER(right->sessions, left->sessions), ORDER(one, other)));
}

/* of_clients: else of classes, and those in none behind them.  False: no memory. */
static bool sum_up(struct analyze_read *s, bool of_clients, struct sums *out) {
	const struct analyze_seen *seen = &s->seen;
	uint32_t classes = s->site.generation->class_count;

	*out = (struct sums){ .s = s,
		.count = of_clients ? seen->client_count : (size_t)classes + 1 };
	out->keys = calloc(seen->session_count + 1, sizeof(*out->keys));
	out->loads = calloc(out->count + 1, sizeof(*out->loads));
	out->order = calloc(out->count + 1, sizeof(*out->order));
	if (out->keys == NULL || out->loads == NULL || out->order == NULL)
		return false;
	for (size_t i = 0; i < seen->session_count; i++)
		out->keys[i] = of_clients ? seen->sessions[i].client :
		    seen->sessions[i].class < classes ? seen->sessions[i].class : classes;
	analyze_sum(seen, out->keys, out->loads, out->count);
	for (uint32_t i = 0; i < out->count; i++)
		out->order[i] = i;
	sorted_loads = out->loads;
	if (of_clients && out->count > 0)
		qsort(out->order, out->count, sizeof(*out->order), by_load);
	return true;
}

static const char *class_name(const struct analyze_read *s, uint32_t class) {
	const struct generation *g = s->site.generation;

	return class >= g->class_count ? NULL :
	    generation_text(g, generation_class(g, class)->name);
}

static struct value mean_seconds(const struct analyze_load *load) {
	return load->sessions == 0 ? value_unknown() :
	    value_decimal((double)load->open_ms / 1000 / (double)load->sessions);
}

static void class_row(void *context, struct writer *writer, const void *item) {
	const struct sums *sums = context;
	uint32_t number = *(const uint32_t *)item;
	const struct analyze_load *load = &sums->loads[number];
	const struct analyze_seen *seen = &sums->s->seen;
	double span_ms = (double)(seen->last_ms - seen->first_ms);

	analyze_event_put(writer, "class");
	writer_text(writer, "class", class_name(sums->s, number));
	writer_number(writer, "sessions", load->sessions);
	writer_number(writer, "peak", load->peak);
	writer_decimal(writer, "mean", span_ms <= 0 ? value_unknown() :
	    value_decimal((double)load->open_ms / span_ms));
	writer_number(writer, "per_minute", load->per_minute);
	writer_decimal(writer, "seconds", mean_seconds(load));
}

static void client_row(void *context, struct writer *writer, const void *item) {
	static const struct analyze_client nobody;
	const struct sums *sums = context;
	uint32_t number = *(const uint32_t *)item;
	const struct analyze_load *load = &sums->loads[number];
	const struct analyze_client *client = writer->naming ? &nobody :
	    &sums->s->seen.clients[number];
	char address[ADDRESS_TEXT_MAX];

	address_format(&client->address, address);
	analyze_event_put(writer, "client");
	writer_text(writer, "client", address);
	writer_text(writer, "name", client->name);
	writer_text(writer, "class", class_name(sums->s, client->class));
	writer_number(writer, "sessions", load->sessions);
	writer_number(writer, "peak", load->peak);
	writer_number(writer, "per_minute", load->per_minute);
	writer_decimal(writer, "seconds", mean_seconds(load));
	writer_number(writer, "refused", client->refused);
}

static void class_rows(void *context, struct writer *writer) {
	const struct sums *sums = context;

	/* who is in no class is told where there is somebody */
	for (size_t i = 0; i < sums->count; i++)
		if (sums->order[i] + 1 < sums->count || sums->loads[sums->order[i]].sessions > 0)
			writer_row(writer, &sums->order[i]);
}

static void write_summary(struct analyze_read *s, const char *block) {
	struct writer *writer = &s->ctl->writer;

	analyze_summary_begin(writer, &s->lines, &s->clock);
	writer_number(writer, "sessions", s->seen.session_count);
	writer_number(writer, "clients", s->seen.client_count);
	writer_number(writer, "refused", s->seen.refused);
	writer_number(writer, "unended", s->seen.unended);
	analyze_summary_end(writer, "classes", block);
}

bool analyze_write_sessions(struct analyze_read *s) {
	struct sums classes = { .s = s }, clients = { .s = s };
	char *block = NULL;
	bool good = finish(s) && sum_up(s, false, &classes) && sum_up(s, true, &clients) &&
	    (block = analyze_propose_classes(&s->seen)) != NULL;

	if (good) {
		analyze_write_table(&s->ctl->writer, &(const struct table){ .name = "classes",
		    .row = class_row, .rows = class_rows, .context = &classes });
		analyze_write_table(&s->ctl->writer, &(const struct table){ .name = "clients",
		    .row = client_row, .context = &clients, .items = clients.order,
		    .count = clients.count < TOP_CLIENTS ? clients.count : TOP_CLIENTS,
		    .each = sizeof(clients.order[0]) });
		write_summary(s, block);
	}
	free(block);
	sums_free(&classes);
	sums_free(&clients);
	return good;
}
