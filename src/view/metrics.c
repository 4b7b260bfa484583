/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Metrics out of the state file.
 * MODEL    A row of metrics.def is a function, metric_NAME, which writes its samples;
 *          the name, type and meaning come from the row, so that none can be written that
 *          is not declared, nor declared and not written.
 * ERRORS   No memory.  Rows that could not be read consistently are left out.
 * THREADS  One.
 */
#include "view/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/cluster/cluster_told.h"
#include "segment/file/timings.h"
#include "view/health.h"
#include "view/metrics_internal.h"
#include "view/status.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

/* A time of this boot as one since 1970. */
static int64_t scrape_wall(const struct scrape *scrape, int64_t then_ns) {
	return scrape->wall_ns - (scrape->view->status.now_ns - then_ns);
}

/* --- the daemon --------------------------------------------------------------- */

void metric_BUILD_INFO(struct scrape *s) {
	metrics_number_of(s, "version", PACKAGE_VERSION, 1);
}

void metric_LIVE(struct scrape *s) {
	metrics_number(s, scrape_status(s)->health == READER_LIVE);
}

void metric_HEALTHY(struct scrape *s) {
	metrics_number(s, health_check(s->view, NULL));
}

void metric_START_TIME(struct scrape *s) {
	metrics_seconds(s, scrape_wall(s, scrape_status(s)->started_ns));
}

void metric_STATE_CREATED(struct scrape *s) {
	metrics_number(s, scrape_status(s)->created_wall_s > 0 ?
	    (uint64_t)scrape_status(s)->created_wall_s : 0);
}

void metric_HEARTBEAT_AGE(struct scrape *s) {
	metrics_seconds(s, scrape_status(s)->now_ns - scrape_status(s)->heartbeat_ns);
}

void metric_GENERATION(struct scrape *s) {
	metrics_number(s, scrape_status(s)->generation);
}

void metric_CONFIGURATION_LOADED(struct scrape *s) {
	if (s->view->generation != NULL && s->view->generation->loaded_wall_s > 0)
		metrics_number(s, (uint64_t)s->view->generation->loaded_wall_s);
}

void metric_OBSERVE(struct scrape *s) {
	if (s->view->generation == NULL)
		return;
	metrics_number_of(s, "direction", "inbound", s->view->generation->observe != 0);
	metrics_number_of(s, "direction", "outbound", s->view->generation->outbound_observe != 0);
}

void metric_SITES_CHANGED(struct scrape *s) {
	const struct generation *g = s->view->generation;
	uint64_t count = 0;

	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++)
		count += g->mtas[i].transport == 0 && g->mtas[i].site_changed != 0;
	if (g != NULL)
		metrics_number(s, count);
}

void metric_STATE_BYTES(struct scrape *s) {
	metrics_number(s, scrape_status(s)->file_bytes);
}

void metric_TABLE_SIZE(struct scrape *s) {
	const struct reader_status *status = scrape_status(s);

	metrics_number_of(s, "table", "sessions", status->sessions_size);
	metrics_number_of(s, "table", "clients", status->clients_size);
	metrics_number_of(s, "table", "classes", status->records_size);
	metrics_number_of(s, "table", "destinations", status->destinations_size);
	metrics_number_of(s, "table", "relays", status->relays_size);
	metrics_number_of(s, "table", "flights", status->flights_size);
	metrics_number_of(s, "table", "recipients", status->recipients_size);
	if (status->accounts_size > 0)
		metrics_number_of(s, "table", "accounts", status->accounts_size);
}

void metric_TABLE_USED(struct scrape *s) {
	const struct reader_status *status = scrape_status(s);

	metrics_number_of(s, "table", "sessions", status->sessions_used);
	metrics_number_of(s, "table", "clients", status->clients_used);
	metrics_number_of(s, "table", "classes", status->records_used);
	metrics_number_of(s, "table", "destinations", status->destinations_used);
	metrics_number_of(s, "table", "relays", status->relays_used);
	metrics_number_of(s, "table", "flights", status->flights_used);
	metrics_number_of(s, "table", "recipients", status->recipients_used);
	if (status->accounts_size > 0)
		metrics_number_of(s, "table", "accounts", status->accounts_used);
}

void metric_GATE_SHUT(struct scrape *s) {
	metrics_number(s, scrape_status(s)->gate_shut);
}

void metric_UNPROVEN(struct scrape *s) {
	metrics_number(s, scrape_status(s)->unproven);
}

/* --- roles ---------------------------------------------------------------------- */

void metric_ROLE_UP(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		metrics_number_of(s, "role", view_role_name(&s->roles[i], name),
		    health_role_is_up(s->view, &s->roles[i]));
}

void metric_ROLE_START_TIME(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		if (s->roles[i].pid > 0)
			metrics_seconds_of(s, "role", view_role_name(&s->roles[i], name),
			    scrape_wall(s, s->roles[i].started_ns));
}

void metric_ROLE_HEARTBEAT_AGE(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		if (s->roles[i].heartbeat_ns > 0)
			metrics_seconds_of(s, "role", view_role_name(&s->roles[i], name),
			    scrape_status(s)->now_ns - s->roles[i].heartbeat_ns);
}

void metric_ROLE_DEATHS(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		metrics_number_of(s, "role", view_role_name(&s->roles[i], name),
		    s->roles[i].restarts);
}

void metric_ROLE_GENERATION(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		metrics_number_of(s, "role", view_role_name(&s->roles[i], name),
		    s->roles[i].generation);
}

void metric_DECISION_DURATION(struct scrape *s) {
	for (unsigned kind = 0; kind < TIMING_KINDS; kind++) {
		const char *word = timing_word((enum timing_kind)kind);
		struct label labels[LABELS_MAX] = { { "kind", word }, { "le", "+Inf" } };
		struct reader_timing timing;
		uint64_t count = 0;
		char bound[32];

		reader_timing(s->view->reader, (enum timing_kind)kind, &timing);
		for (unsigned i = 0; i < TIMING_BUCKETS; i++) {
			count += timing.buckets[i];
			if (i + 1 < TIMING_BUCKETS)
				snprintf(bound, sizeof(bound), "%g",
				    (double)timing_bounds_ns[i] / NS_PER_SECOND);
			labels[1].value = i + 1 < TIMING_BUCKETS ? bound : "+Inf";
			metrics_sample(s, "_bucket", labels, 2);
			fprintf(s->out, "%" PRIu64 "\n", count);
		}
		metrics_sample(s, "_sum", labels, 1);
		metrics_ns(s->out, timing.sum_ns > INT64_MAX ? INT64_MAX : (int64_t)timing.sum_ns);
		metrics_sample(s, "_count", labels, 1);
		fprintf(s->out, "%" PRIu64 "\n", timing.count);
	}
}

/* --- other machines ---------------------------------------------------------------- */

static bool read_cluster(const struct scrape *s, struct cluster_told *told) {
	const struct generation *g = s->view->generation;

	return g != NULL && generation_has_cluster(g) && reader_cluster(s->view->reader, told);
}

void metric_CLUSTER_JOINED(struct scrape *s) {
	struct cluster_told told;

	if (read_cluster(s, &told))
		metrics_number(s, told.state == CLUSTER_STATE_JOINED &&
		    scrape_status(s)->now_ns - told.told_ns < 10 * NS_PER_SECOND);
}

void metric_CLUSTER_NODES(struct scrape *s) {
	struct cluster_told told;

	if (read_cluster(s, &told))
		metrics_number(s, told.nodes_alive);
}

void metric_CLUSTER_RENEWED_AGE(struct scrape *s) {
	struct cluster_told told;

	if (read_cluster(s, &told) && told.renewed_ns > 0)
		metrics_seconds(s, scrape_status(s)->now_ns - told.renewed_ns);
}

void metric_CLUSTER_ROUND_TRIP(struct scrape *s) {
	struct cluster_told told;

	if (!read_cluster(s, &told) || told.rounds == 0)
		return;
	metrics_seconds_of(s, "quantile", "0.5", (int64_t)told.round_median_us * 1000);
	metrics_seconds_of(s, "quantile", "0.99", (int64_t)told.round_p99_us * 1000);
}

void metric_CLUSTER_FAILURES(struct scrape *s) {
	struct cluster_told told;

	if (!read_cluster(s, &told))
		return;
	for (unsigned i = 0; i < CLUSTER_ERRORS; i++)
		metrics_number_of(s, "error", cluster_error_word((enum cluster_error)i),
		    told.errors[i]);
}

/* --- all of it ------------------------------------------------------------------------ */

static void write_counters(struct scrape *s) {
#define COUNTER(symbol, name, text) \
	metrics_begin(s, "postern_" name "_total", "counter", text); \
	metrics_number(s, scrape_status(s)->counters[COUNTER_##symbol]);
#include "defs/counters.def"
#undef COUNTER
}

static void write_metrics(struct scrape *s) {
#define METRIC(symbol, name, type, text) \
	metrics_begin(s, name, type, text); \
	metric_##symbol(s);
#include "defs/metrics.def"
#undef METRIC
}

int metrics_write(struct view *view, FILE *out) {
	struct scrape scrape = { .out = out, .view = view, .wall_ns = clock_wall_ns() };
	int result;

	while (scrape.role_count < SEGMENT_ROLES_MAX &&
	    reader_role(view->reader, (uint32_t)scrape.role_count,
		&scrape.roles[scrape.role_count]))
		scrape.role_count++;
	scrape.stopped = view_stopped(view);
	result = metrics_read_classes(&scrape);
	if (result == 0)
		result = metrics_read_destinations(&scrape);
	if (result == 0) {
		write_metrics(&scrape);
		write_counters(&scrape);
	} else {
		errno = ENOMEM;
	}
	view_destinations_free(&scrape.destinations);
	free(scrape.names);
	free(scrape.classes);
	return result;
}
