/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Metrics out of the state file.
 * MODEL    A row of metrics.def is a function here, metric_NAME, which writes its samples;
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
#include "segment/timings.h"
#include "view/destinations.h"
#include "view/health.h"
#include "view/status.h"
#include "view/status_mtas.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

#define LABELS_MAX 2

/* What is read once for all metrics. */
struct scrape {
	FILE *out;
	const char *metric;		/* that is being written */
	const struct view *view;
	int64_t wall_ns;
	struct reader_class *classes;
	size_t class_count, class_size;
	struct reader_role roles[SEGMENT_ROLES_MAX];
	size_t role_count;
	struct view_stopped stopped;
	const char **names;		/* of destinations that are configured, sorted */
	size_t name_count;
	struct view_destinations destinations;	/* those alone */
};

struct label {
	const char *name;
	const char *value;
};

/* --- the text format -------------------------------------------------------- */

void metrics_label(FILE *out, const char *value) {
	for (const unsigned char *at = (const unsigned char *)value; *at != '\0';) {
		size_t length = writer_utf8_length((const char *)at);

		if (length == 0 || *at < ' ' || *at == 0x7f) {
			fprintf(out, "\\\\x%02x", (unsigned)*at);
			at++;
			continue;
		}
		if (*at == '"' || *at == '\\')
			putc('\\', out);
		fwrite(at, 1, length, out);
		at += length;
	}
}

static void begin(struct scrape *scrape, const char *name, const char *type,
    const char *text) {
	scrape->metric = name;
	fprintf(scrape->out, "# HELP %s ", name);
	for (; *text != '\0'; text++) {
		if (*text == '\\')
			putc('\\', scrape->out);
		putc(*text, scrape->out);
	}
	/* the type stands before the labels */
	fprintf(scrape->out, "\n# TYPE %s %.*s\n", name, (int)strcspn(type, " "), type);
}

static void name_sample(struct scrape *scrape, const char *suffix, const struct label *labels,
    size_t count) {
	fprintf(scrape->out, "%s%s", scrape->metric, suffix);
	for (size_t i = 0; i < count; i++) {
		fprintf(scrape->out, "%s%s=\"", i == 0 ? "{" : ",", labels[i].name);
		metrics_label(scrape->out, labels[i].value);
		putc('"', scrape->out);
	}
	fputs(count > 0 ? "} " : " ", scrape->out);
}

static void number(struct scrape *scrape, uint64_t value) {
	name_sample(scrape, "", NULL, 0);
	fprintf(scrape->out, "%" PRIu64 "\n", value);
}

static void number_of(struct scrape *scrape, const char *label, const char *of, uint64_t value) {
	name_sample(scrape, "", &(const struct label){ label, of }, 1);
	fprintf(scrape->out, "%" PRIu64 "\n", value);
}

static void write_ns(FILE *out, int64_t ns) {
	if (ns < 0)
		ns = 0;
	fprintf(out, "%" PRId64 ".%09" PRId64 "\n", ns / NS_PER_SECOND, ns % NS_PER_SECOND);
}

static void seconds(struct scrape *scrape, int64_t ns) {
	name_sample(scrape, "", NULL, 0);
	write_ns(scrape->out, ns);
}

static void seconds_of(struct scrape *scrape, const char *label, const char *of, int64_t ns) {
	name_sample(scrape, "", &(const struct label){ label, of }, 1);
	write_ns(scrape->out, ns);
}

/* A time of this boot as one since 1970. */
static int64_t wall_of(const struct scrape *scrape, int64_t then_ns) {
	return scrape->wall_ns - (scrape->view->status.now_ns - then_ns);
}

static const struct reader_status *status_of(const struct scrape *scrape) {
	return &scrape->view->status;
}

/* --- the daemon --------------------------------------------------------------- */

static void metric_BUILD_INFO(struct scrape *s) {
	number_of(s, "version", PACKAGE_VERSION, 1);
}

static void metric_LIVE(struct scrape *s) {
	number(s, status_of(s)->health == READER_LIVE);
}

static void metric_HEALTHY(struct scrape *s) {
	number(s, health_check(s->view, NULL));
}

static void metric_START_TIME(struct scrape *s) {
	seconds(s, wall_of(s, status_of(s)->started_ns));
}

static void metric_STATE_CREATED(struct scrape *s) {
	number(s, status_of(s)->created_wall_s > 0 ?
	    (uint64_t)status_of(s)->created_wall_s : 0);
}

static void metric_HEARTBEAT_AGE(struct scrape *s) {
	seconds(s, status_of(s)->now_ns - status_of(s)->heartbeat_ns);
}

static void metric_GENERATION(struct scrape *s) {
	number(s, status_of(s)->generation);
}

static void metric_CONFIGURATION_LOADED(struct scrape *s) {
	if (s->view->generation != NULL && s->view->generation->loaded_wall_s > 0)
		number(s, (uint64_t)s->view->generation->loaded_wall_s);
}

static void metric_OBSERVE(struct scrape *s) {
	if (s->view->generation == NULL)
		return;
	number_of(s, "direction", "inbound", s->view->generation->observe != 0);
	number_of(s, "direction", "outbound", s->view->generation->outbound_observe != 0);
}

static void metric_SITES_CHANGED(struct scrape *s) {
	const struct generation *g = s->view->generation;
	uint64_t count = 0;

	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++)
		count += g->mtas[i].site_changed != 0;
	if (g != NULL)
		number(s, count);
}

static void metric_STATE_BYTES(struct scrape *s) {
	number(s, status_of(s)->file_bytes);
}

static void metric_TABLE_SIZE(struct scrape *s) {
	const struct reader_status *status = status_of(s);

	number_of(s, "table", "sessions", status->sessions_size);
	number_of(s, "table", "clients", status->clients_size);
	number_of(s, "table", "classes", status->records_size);
	number_of(s, "table", "destinations", status->destinations_size);
	number_of(s, "table", "relays", status->relays_size);
	number_of(s, "table", "flights", status->flights_size);
	number_of(s, "table", "recipients", status->recipients_size);
}

static void metric_TABLE_USED(struct scrape *s) {
	const struct reader_status *status = status_of(s);

	number_of(s, "table", "sessions", status->sessions_used);
	number_of(s, "table", "clients", status->clients_used);
	number_of(s, "table", "classes", status->records_used);
	number_of(s, "table", "destinations", status->destinations_used);
	number_of(s, "table", "relays", status->relays_used);
	number_of(s, "table", "flights", status->flights_used);
	number_of(s, "table", "recipients", status->recipients_used);
}

static void metric_GATE_SHUT(struct scrape *s) {
	number(s, status_of(s)->gate_shut);
}

/* --- roles ---------------------------------------------------------------------- */

static void metric_ROLE_UP(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		number_of(s, "role", view_role_name(&s->roles[i], name),
		    health_role_is_up(s->view, &s->roles[i]));
}

static void metric_ROLE_START_TIME(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		if (s->roles[i].pid > 0)
			seconds_of(s, "role", view_role_name(&s->roles[i], name),
			    wall_of(s, s->roles[i].started_ns));
}

static void metric_ROLE_HEARTBEAT_AGE(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		if (s->roles[i].heartbeat_ns > 0)
			seconds_of(s, "role", view_role_name(&s->roles[i], name),
			    status_of(s)->now_ns - s->roles[i].heartbeat_ns);
}

static void metric_ROLE_DEATHS(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		number_of(s, "role", view_role_name(&s->roles[i], name),
		    s->roles[i].restarts);
}

static void metric_ROLE_GENERATION(struct scrape *s) {
	char name[VIEW_ROLE_NAME_MAX];

	for (size_t i = 0; i < s->role_count; i++)
		number_of(s, "role", view_role_name(&s->roles[i], name),
		    s->roles[i].generation);
}

static void metric_DECISION_DURATION(struct scrape *s) {
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
			name_sample(s, "_bucket", labels, 2);
			fprintf(s->out, "%" PRIu64 "\n", count);
		}
		name_sample(s, "_sum", labels, 1);
		write_ns(s->out, timing.sum_ns > INT64_MAX ? INT64_MAX : (int64_t)timing.sum_ns);
		name_sample(s, "_count", labels, 1);
		fprintf(s->out, "%" PRIu64 "\n", timing.count);
	}
}

/* --- classes -------------------------------------------------------------------- */

static void metric_CLASS_OPEN(struct scrape *s) {
	for (size_t i = 0; i < s->class_count; i++) {
		const struct reader_class *c = &s->classes[i];
		uint32_t inbound = c->open_inbound <= c->open ? c->open_inbound : c->open;
		struct label labels[LABELS_MAX] = { { "class", c->name },
			{ "direction", "inbound" } };

		name_sample(s, "", labels, 2);
		fprintf(s->out, "%" PRIu32 "\n", inbound);
		labels[1].value = "outbound";
		name_sample(s, "", labels, 2);
		fprintf(s->out, "%" PRIu32 "\n", c->open - inbound);
	}
}

static void class_limit(struct scrape *s, const struct reader_class *class, uint32_t limit) {
	if (limit != LIMIT_NONE)
		number_of(s, "class", class->name, limit);
}

#define EACH_CLASS(what) \
	for (size_t i = 0; i < s->class_count; i++) { \
		const struct reader_class *c = &s->classes[i]; \
		what; \
	}

static void metric_CLASS_PEAK(struct scrape *s) {
	EACH_CLASS(number_of(s, "class", c->name, c->peak))
}

static void metric_CLASS_SESSIONS(struct scrape *s) {
	EACH_CLASS(class_limit(s, c, c->sessions))
}

static void metric_CLASS_INBOUND(struct scrape *s) {
	EACH_CLASS(class_limit(s, c, c->inbound))
}

static void metric_CLASS_ADMITTED(struct scrape *s) {
	EACH_CLASS(number_of(s, "class", c->name, c->admitted))
}

static void metric_CLASS_REFUSED(struct scrape *s) {
	EACH_CLASS(number_of(s, "class", c->name, c->refused))
}

static void metric_CLASS_DEFERRED(struct scrape *s) {
	EACH_CLASS(number_of(s, "class", c->name, c->deferred))
}

static void metric_CLASS_OBSERVED(struct scrape *s) {
	EACH_CLASS(number_of(s, "class", c->name, c->observed))
}

static void metric_CLASS_ADOPTED(struct scrape *s) {
	EACH_CLASS(number_of(s, "class", c->name, c->adopted))
}

static void metric_CLASS_OBSERVE(struct scrape *s) {
	EACH_CLASS(number_of(s, "class", c->name, c->observe))
}

/* --- destinations ----------------------------------------------------------------- */

static void metric_DESTINATIONS(struct scrape *s) {
	number_of(s, "state", window_state_word(WINDOW_OPEN), s->stopped.open);
	number_of(s, "state", window_state_word(WINDOW_LIMITED), s->stopped.limited);
	number_of(s, "state", window_state_word(WINDOW_DEAD), s->stopped.suspended);
	number_of(s, "state", window_state_word(WINDOW_HELD), s->stopped.held);
}

static void metric_CLASSES_HELD(struct scrape *s) {
	number(s, s->stopped.classes);
}

static void metric_RECIPIENTS_HELD(struct scrape *s) {
	number(s, s->stopped.recipients);
}

static void write_window(void *context, const struct view_destination *one) {
	if (one->has_window)
		number_of(context, "destination", one->name, one->window);
}

static void write_ceiling(void *context, const struct view_destination *one) {
	if (one->has_window && one->ceiling != 0)
		number_of(context, "destination", one->name, one->ceiling);
}

static void write_in_flight(void *context, const struct view_destination *one) {
	if (one->has_window)
		number_of(context, "destination", one->name, one->in_flight);
}

static void write_stopped(void *context, const struct view_destination *one) {
	const struct scrape *s = context;

	if (one->has_window)
		number_of(context, "destination", one->name,
		    (one->state == WINDOW_DEAD || one->state == WINDOW_HELD) &&
		    one->until_ns > status_of(s)->now_ns);
}

static void metric_DESTINATION_WINDOW(struct scrape *s) {
	view_destinations_each(&s->destinations, write_window, s);
}

static void metric_DESTINATION_CEILING(struct scrape *s) {
	view_destinations_each(&s->destinations, write_ceiling, s);
}

static void metric_DESTINATION_IN_FLIGHT(struct scrape *s) {
	view_destinations_each(&s->destinations, write_in_flight, s);
}

static void metric_DESTINATION_STOPPED(struct scrape *s) {
	view_destinations_each(&s->destinations, write_stopped, s);
}

/* --- mail servers, journal ---------------------------------------------------------- */

static void metric_MTA_LOG_UNREAD(struct scrape *s) {
	const struct generation *g = s->view->generation;

	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++) {
		struct view_log log = view_log(s->view->reader,
		    generation_text(g, g->mtas[i].log));

		if (log.known)
			number_of(s, "mta", generation_text(g, g->mtas[i].name), log.unread);
	}
}

static void metric_MTA_LOG_AGE(struct scrape *s) {
	const struct generation *g = s->view->generation;

	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++) {
		struct view_log log = view_log(s->view->reader,
		    generation_text(g, g->mtas[i].log));

		if (log.known)
			seconds_of(s, "mta", generation_text(g, g->mtas[i].name),
			    s->wall_ns - log.written_s * NS_PER_SECOND);
	}
}

static bool queue_is_to_be_driven(const struct scrape *s) {
	return s->view->generation != NULL && generation_drives(s->view->generation);
}

static void metric_QUEUE_DRIVEN(struct scrape *s) {
	if (queue_is_to_be_driven(s))
		number(s, strcmp(status_queue_word(s->view), "driven") == 0);
}

static void metric_QUEUE_PAUSED(struct scrape *s) {
	const struct generation *g = s->view->generation;

	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++)
		if (g->mtas[i].drive)
			number_of(s, "mta", generation_text(g, g->mtas[i].name),
			    status_of(s)->queue_paused >> i & 1);
}

#define EACH_JOURNAL(what) \
	for (unsigned i = 0; i < JOURNAL_ROOMS; i++) { \
		const struct reader_journal *journal = &status_of(s)->journals[i]; \
		const char *directory = generation_journal_word((enum journal_room)i); \
\
		if (journal->fares != JOURNAL_FARES_NONE) \
			what; \
	}

static void metric_JOURNAL_WRITABLE(struct scrape *s) {
	EACH_JOURNAL(number_of(s, "directory", directory, journal->fares == JOURNAL_FARES_WELL))
}

static void metric_JOURNAL_BYTES(struct scrape *s) {
	EACH_JOURNAL(number_of(s, "directory", directory, journal->bytes))
}

static void metric_JOURNAL_FILES(struct scrape *s) {
	EACH_JOURNAL(number_of(s, "directory", directory, journal->files))
}

static void metric_JOURNAL_MESSAGES(struct scrape *s) {
	if (queue_is_to_be_driven(s))
		number(s, status_of(s)->journals[JOURNAL_ROOM_QUEUE].messages);
}

static void metric_JOURNAL_WAITING(struct scrape *s) {
	if (queue_is_to_be_driven(s))
		number(s, status_of(s)->journals[JOURNAL_ROOM_QUEUE].waiting);
}

/* --- all of it ------------------------------------------------------------------------ */

static void keep_class(void *context, const struct reader_class *class) {
	struct scrape *scrape = context;

	if (scrape->class_count < scrape->class_size)
		scrape->classes[scrape->class_count++] = *class;
}

static int compare_names(const void *a, const void *b) {
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_configured(const void *context, const char *name) {
	const struct scrape *scrape = context;
	static const char provider[] = "provider:";

	/* the judge makes such names of configured providers alone */
	if (strncmp(name, provider, sizeof(provider) - 1) == 0)
		return generation_find_provider(scrape->view->generation,
		    name + sizeof(provider) - 1, strlen(name) - sizeof(provider) + 1) !=
		    GENERATION_NO_PROVIDER;
	return scrape->name_count > 0 && bsearch(&name, scrape->names, scrape->name_count,
	    sizeof(name), compare_names) != NULL;
}

/* A class of that name twice, removed and configured anew, would be one metric twice. */
static void drop_removed_twins(struct scrape *scrape) {
	size_t kept = 0;

	for (size_t i = 0; i < scrape->class_count; i++) {
		bool twin = false;

		for (size_t k = 0; scrape->classes[i].removed && k < scrape->class_count; k++)
			twin |= k != i &&
			    strcmp(scrape->classes[k].name, scrape->classes[i].name) == 0 &&
			    (!scrape->classes[k].removed || k < i);
		if (!twin)
			scrape->classes[kept++] = scrape->classes[i];
	}
	scrape->class_count = kept;
}

static int read_classes(struct scrape *scrape) {
	scrape->class_size = scrape->view->status.records_size;
	scrape->classes = calloc(scrape->class_size, sizeof(*scrape->classes));
	if (scrape->classes == NULL)
		return -1;
	(void)reader_classes(scrape->view->reader, keep_class, scrape);
	drop_removed_twins(scrape);
	return 0;
}

static int read_destinations(struct scrape *scrape, const struct view_choice *choice) {
	const struct generation *g = scrape->view->generation;

	if (g == NULL)
		return 0;
	scrape->names = calloc((size_t)g->destinations_mask_count + 1, sizeof(*scrape->names));
	if (scrape->names == NULL)
		return -1;
	for (uint32_t i = 0; i < g->destinations_mask_count; i++) {
		const char *name = generation_destination_name(g, i);

		if (*name != '\0')
			scrape->names[scrape->name_count++] = name;
	}
	qsort(scrape->names, scrape->name_count, sizeof(*scrape->names), compare_names);
	return view_destinations_gather(scrape->view, choice, &scrape->destinations);
}

static void write_counters(struct scrape *s) {
#define COUNTER(symbol, name, text) \
	begin(s, "postern_" name "_total", "counter", text); \
	number(s, status_of(s)->counters[COUNTER_##symbol]);
#include "defs/counters.def"
#undef COUNTER
}

static void write_metrics(struct scrape *s) {
#define METRIC(symbol, name, type, text) \
	begin(s, name, type, text); \
	metric_##symbol(s);
#include "defs/metrics.def"
#undef METRIC
}

int metrics_write(const struct view *view, FILE *out) {
	struct scrape scrape = { .out = out, .view = view, .wall_ns = clock_wall_ns() };
	const struct view_choice choice = { .wants = is_configured, .context = &scrape,
		.no_recipients = true };
	int result;

	while (scrape.role_count < SEGMENT_ROLES_MAX &&
	    reader_role(view->reader, (uint32_t)scrape.role_count,
		&scrape.roles[scrape.role_count]))
		scrape.role_count++;
	scrape.stopped = view_stopped(view);
	result = read_classes(&scrape);
	if (result == 0)
		result = read_destinations(&scrape, &choice);
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
