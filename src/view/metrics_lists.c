/* SPDX-License-Identifier: ISC */
/* Metrics of classes, destinations, mail servers and the journal. */
#include "view/metrics_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/classes.h"
#include "view/status_mtas.h"

/* --- what they are made of ------------------------------------------------------------ */

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
	name += generation_transport_prefix(name, strlen(name));
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

int metrics_read_classes(struct scrape *scrape) {
	scrape->class_size = scrape->view->status.records_size;
	scrape->classes = calloc(scrape->class_size, sizeof(*scrape->classes));
	if (scrape->classes == NULL)
		return -1;
	(void)reader_classes(scrape->view->reader, keep_class, scrape);
	drop_removed_twins(scrape);
	return 0;
}

int metrics_read_destinations(struct scrape *scrape) {
	const struct generation *g = scrape->view->generation;

	scrape->choice = (struct view_choice){ .wants = is_configured, .context = scrape,
		.no_recipients = true };
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
	return view_destinations_gather(scrape->view, &scrape->choice,
	    &scrape->destinations);
}

/* --- classes -------------------------------------------------------------------- */

void metric_CLASS_OPEN(struct scrape *s) {
	for (size_t i = 0; i < s->class_count; i++) {
		const struct reader_class *c = &s->classes[i];
		uint32_t inbound = c->open_inbound <= c->open ? c->open_inbound : c->open;
		struct label labels[LABELS_MAX] = { { "class", c->name },
			{ "direction", "inbound" } };

		metrics_sample(s, "", labels, 2);
		fprintf(s->out, "%" PRIu32 "\n", inbound);
		labels[1].value = "outbound";
		metrics_sample(s, "", labels, 2);
		fprintf(s->out, "%" PRIu32 "\n", c->open - inbound);
	}
}

static void class_limit(struct scrape *s, const struct reader_class *class, uint32_t limit) {
	if (limit != LIMIT_NONE)
		metrics_number_of(s, "class", class->name, limit);
}

#define EACH_CLASS(what) \
	for (size_t i = 0; i < s->class_count; i++) { \
		const struct reader_class *c = &s->classes[i]; \
		what; \
	}

void metric_CLASS_PEAK(struct scrape *s) {
	EACH_CLASS(metrics_number_of(s, "class", c->name, c->peak))
}

void metric_CLASS_SESSIONS(struct scrape *s) {
	EACH_CLASS(class_limit(s, c, c->sessions))
}

void metric_CLASS_INBOUND(struct scrape *s) {
	EACH_CLASS(class_limit(s, c, c->inbound))
}

void metric_CLASS_ADMITTED(struct scrape *s) {
	EACH_CLASS(metrics_number_of(s, "class", c->name, c->admitted))
}

void metric_CLASS_REFUSED(struct scrape *s) {
	EACH_CLASS(metrics_number_of(s, "class", c->name, c->refused))
}

void metric_CLASS_DEFERRED(struct scrape *s) {
	EACH_CLASS(metrics_number_of(s, "class", c->name, c->deferred))
}

void metric_CLASS_OBSERVED(struct scrape *s) {
	EACH_CLASS(metrics_number_of(s, "class", c->name, c->observed))
}

void metric_CLASS_ADOPTED(struct scrape *s) {
	EACH_CLASS(metrics_number_of(s, "class", c->name, c->adopted))
}

void metric_CLASS_OBSERVE(struct scrape *s) {
	EACH_CLASS(metrics_number_of(s, "class", c->name, c->observe))
}

static void class_share(struct scrape *s, const struct reader_class *class,
    uint64_t (*number)(const struct view_share *)) {
	struct view_share share;

	if (view_class_share(s->view, class, &share))
		metrics_number_of(s, "class", class->name, number(&share));
}

static uint64_t share_number(const struct view_share *share) {
	return share->share;
}

static uint64_t fixed_number(const struct view_share *share) {
	return share->fixed;
}

static uint64_t leased_number(const struct view_share *share) {
	return strcmp(share->lease, "held") == 0;
}

static uint64_t overhang_number(const struct view_share *share) {
	return share->overhang;
}

void metric_CLASS_SHARE(struct scrape *s) {
	EACH_CLASS(class_share(s, c, share_number))
}

void metric_CLASS_SHARE_FIXED(struct scrape *s) {
	EACH_CLASS(class_share(s, c, fixed_number))
}

void metric_CLASS_SHARE_LEASED(struct scrape *s) {
	EACH_CLASS(class_share(s, c, leased_number))
}

void metric_CLASS_OVERHANG(struct scrape *s) {
	EACH_CLASS(class_share(s, c, overhang_number))
}

void metric_CLASS_SHARE_REFUSED(struct scrape *s) {
	static const char *const directions[] = { "inbound", "outbound" };

	for (size_t i = 0; i < 2 * s->class_count; i++) {
		const struct reader_class *c = &s->classes[i / 2];
		struct label labels[LABELS_MAX] = { { "class", c->name },
			{ "direction", directions[i % 2] } };

		if (!c->shared)
			continue;
		metrics_sample(s, "", labels, 2);
		fprintf(s->out, "%" PRIu64 "\n", c->share_refused[i % 2]);
	}
}

/* --- destinations ----------------------------------------------------------------- */

void metric_DESTINATIONS(struct scrape *s) {
	metrics_number_of(s, "state", window_state_word(WINDOW_OPEN), s->stopped.open);
	metrics_number_of(s, "state", window_state_word(WINDOW_LIMITED), s->stopped.limited);
	metrics_number_of(s, "state", window_state_word(WINDOW_DEAD), s->stopped.suspended);
	metrics_number_of(s, "state", window_state_word(WINDOW_HELD), s->stopped.held);
	metrics_number_of(s, "state", "would_suspend", s->stopped.would_suspend);
	metrics_number_of(s, "state", "would_hold", s->stopped.would_hold);
}

void metric_CLASSES_HELD(struct scrape *s) {
	metrics_number(s, s->stopped.classes);
}

void metric_RECIPIENTS_HELD(struct scrape *s) {
	metrics_number(s, s->stopped.recipients);
}

static void write_window(void *context, const struct view_destination *one) {
	if (one->has_window)
		metrics_number_of(context, "destination", one->name, one->window);
}

static void write_ceiling(void *context, const struct view_destination *one) {
	if (one->has_window && one->ceiling != 0)
		metrics_number_of(context, "destination", one->name, one->ceiling);
}

static void write_in_flight(void *context, const struct view_destination *one) {
	if (one->has_window)
		metrics_number_of(context, "destination", one->name, one->in_flight);
}

static void write_stopped(void *context, const struct view_destination *one) {
	const struct scrape *s = context;

	if (one->has_window)
		metrics_number_of(context, "destination", one->name,
		    (one->state == WINDOW_DEAD || one->state == WINDOW_HELD) &&
		    one->enforcement.kind == ENFORCEMENT_APPLIED && one->until_ns > scrape_status(s)->now_ns);
}

void metric_DESTINATION_WINDOW(struct scrape *s) {
	view_destinations_each(&s->destinations, write_window, s);
}

void metric_DESTINATION_CEILING(struct scrape *s) {
	view_destinations_each(&s->destinations, write_ceiling, s);
}

void metric_DESTINATION_IN_FLIGHT(struct scrape *s) {
	view_destinations_each(&s->destinations, write_in_flight, s);
}

void metric_DESTINATION_STOPPED(struct scrape *s) {
	view_destinations_each(&s->destinations, write_stopped, s);
}

/* --- mail servers, journal ---------------------------------------------------------- */

void metric_MTA_LOG_UNREAD(struct scrape *s) {
	const struct generation *g = s->view->generation;

	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++) {
		struct view_log log = view_log(s->view->reader,
		    generation_text(g, g->mtas[i].log));

		if (log.known)
			metrics_number_of(s, "mta", generation_text(g, g->mtas[i].name), log.unread);
	}
}

void metric_MTA_LOG_AGE(struct scrape *s) {
	const struct generation *g = s->view->generation;

	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++) {
		struct view_log log = view_log(s->view->reader,
		    generation_text(g, g->mtas[i].log));

		if (log.known)
			metrics_seconds_of(s, "mta", generation_text(g, g->mtas[i].name),
			    s->wall_ns - log.written_s * NS_PER_SECOND);
	}
}

static bool queue_is_to_be_driven(const struct scrape *s) {
	return s->view->generation != NULL && generation_drives(s->view->generation);
}

void metric_QUEUE_DRIVEN(struct scrape *s) {
	if (queue_is_to_be_driven(s))
		metrics_number(s, strcmp(status_queue_word(s->view), "driven") == 0);
}

void metric_QUEUE_PAUSED(struct scrape *s) {
	const struct generation *g = s->view->generation;

	for (uint32_t i = 0; g != NULL && i < g->mta_count; i++)
		if (g->mtas[i].drive)
			metrics_number_of(s, "mta", generation_text(g, g->mtas[i].name),
			    scrape_status(s)->queue_paused >> i & 1);
}

#define EACH_JOURNAL(what) \
	for (unsigned i = 0; i < JOURNAL_ROOMS; i++) { \
		const struct reader_journal *journal = &scrape_status(s)->journals[i]; \
		const char *directory = generation_journal_word((enum journal_room)i); \
\
		if (journal->fares != JOURNAL_FARES_NONE) \
			what; \
	}

void metric_JOURNAL_WRITABLE(struct scrape *s) {
	EACH_JOURNAL(metrics_number_of(s, "directory", directory, journal->fares == JOURNAL_FARES_WELL))
}

void metric_JOURNAL_BYTES(struct scrape *s) {
	EACH_JOURNAL(metrics_number_of(s, "directory", directory, journal->bytes))
}

void metric_JOURNAL_FILES(struct scrape *s) {
	EACH_JOURNAL(metrics_number_of(s, "directory", directory, journal->files))
}

void metric_JOURNAL_MESSAGES(struct scrape *s) {
	if (queue_is_to_be_driven(s))
		metrics_number(s, scrape_status(s)->journals[JOURNAL_ROOM_QUEUE].messages);
}

void metric_JOURNAL_WAITING(struct scrape *s) {
	if (queue_is_to_be_driven(s))
		metrics_number(s, scrape_status(s)->journals[JOURNAL_ROOM_QUEUE].waiting);
}
