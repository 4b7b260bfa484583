/* SPDX-License-Identifier: ISC */
/*
 * Scenarios: the file, its transports and its destinations.
 *
 * Model: read as providers.conf is, with a table of settings of its own; the result is
 * plain arrays.  Errors: messages with file and line, all of them in one run.  Everything is
 * bounded before memory is taken for it.  Not thread-safe (libconfig).
 */
#include "lab/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "lab/scenario_internal.h"

#define ROUNDS_MAX	1000	/* in which a message is tried again, or a run has no end */

bool scenario_value(const config_setting_t *group, const char *path,
    struct setting_value *out) {
	return compilation_value_of(setting_find_in(BOOK_SCENARIO, path), group, out);
}

uint32_t scenario_value_at(const struct scenario *scenario, uint32_t changes, uint32_t count,
    int64_t at_ns, uint32_t none) {
	for (uint32_t i = changes; i < changes + count && scenario->changes[i].at_ns <= at_ns; i++)
		none = scenario->changes[i].count;
	return none;
}

/* --- transports ------------------------------------------------------------------------ */

static void complain_name(struct scenario_work *w, const config_setting_t *place, const char *what,
    const char *name) {
	char quoted[128];

	complain(&w->c, place, "%s: \"%s\" may only have letters, digits, point, hyphen and "
	    "underscore, and cannot be a time",
	    what, log_sentence(quoted, sizeof(quoted), name));
}

/* "5", "5,0@10s,5@20s" */
static bool read_changes(struct scenario_work *w, const char *text, uint32_t *start,
    uint32_t *out) {
	struct scenario *s = w->scenario;
	struct timed_count *changes;

	memory_grow(&s->changes, &w->change_room, s->change_count + SCENARIO_CHANGES_MAX - 1,
	    sizeof(*s->changes));
	changes = s->changes + s->change_count;
	*start = s->change_count;
	*out = option_parse_counts(text, true, 10000, 3650 * 24 * 3600 * NS_PER_SECOND, changes,
	    SCENARIO_CHANGES_MAX);
	for (uint32_t i = 1; i < *out; i++)
		if (changes[i].at_ns == changes[i - 1].at_ns)
			return false;
	s->change_count += *out;
	return *out > 0;
}

/* False: it is not set. */
static bool read_series(struct scenario_work *w, const config_setting_t *group, const char *path,
    uint32_t *start, uint32_t *count) {
	const char *name = strchr(path, '.') + 1;
	struct setting_value value;

	if (!scenario_value(group, path, &value))
		return false;
	if (!read_changes(w, value.text, start, count))
		complain(&w->c, compilation_member(group, name), "%.*s.%s: must be N, or N,N2@TIME "
		    "with increasing times, at most %d, such as \"5,0@10s,5@20s\"",
		    (int)(strchr(path, '[') - path), path, name, SCENARIO_CHANGES_MAX);
	return true;
}

/* A transport's own value, or what the top says. */
static struct setting_value scenario_either(struct scenario_work *w, const config_setting_t *group,
    const char *name, const char *above) {
	char path[SETTING_PATH_MAX] = "transports[].";
	struct setting_value value;

	text_append(path, sizeof(path), strlen(path), "%s", name);
	if (!scenario_value(group, path, &value))
		scenario_value(config_root_setting(&w->c.config), above, &value);
	return value;
}

static void read_transport(struct scenario_work *w, const config_setting_t *group,
    struct scenario_transport *t) {
#define EITHER(name) scenario_either(w, group, name, "default_" name)
	t->job.process_limit = (uint32_t)EITHER("process_limit").number;
	t->job.delivery_slot_cost = (uint32_t)EITHER("delivery_slot_cost").number;
	t->job.minimum_delivery_slots = (uint32_t)EITHER("minimum_delivery_slots").number;
	t->job.delivery_slot_discount = (uint32_t)EITHER("delivery_slot_discount").number;
	t->job.delivery_slot_loan = (uint32_t)EITHER("delivery_slot_loan").number;
	t->job.recipient_limit = (uint32_t)EITHER("recipient_limit").number;
	t->job.extra_recipient_limit = (uint32_t)EITHER("extra_recipient_limit").number;
	t->job.recipient_refill_limit = (uint32_t)EITHER("recipient_refill_limit").number;
	t->job.recipient_refill_delay_ns = EITHER("recipient_refill_delay").number;
	t->job.destination_recipient_limit = (uint32_t)EITHER("destination_recipient_limit").number;
	t->window = window_defaults;
	t->window.law = WINDOW_LAW_POSTFIX;
	t->window.limit = (uint32_t)EITHER("destination_concurrency_limit").number;
	t->window.positive = EITHER("destination_concurrency_positive_feedback").feedback;
	t->window.negative = EITHER("destination_concurrency_negative_feedback").feedback;
	t->window.failed_cohort_limit =
	    (uint32_t)EITHER("destination_concurrency_failed_cohort_limit").number;
#undef EITHER
	t->window.initial = (uint32_t)scenario_either(w, group, "initial_destination_concurrency",
	    "initial_destination_concurrency").number;
	if (t->window.limit != 0 && t->window.initial > t->window.limit)
		t->window.initial = t->window.limit;
	t->service_ns = scenario_either(w, group, "service", "service").number;
	if (group != NULL)
		w->scenario->fails |= read_series(w, group, "transports[].works", &t->works,
		    &t->works_count);
}

static uint32_t transport_named(const struct scenario *s, const char *name) {
	for (uint32_t i = 0; i < s->transport_count; i++)
		if (strcmp(s->transports[i].name, name) == 0)
			return i;
	return SCENARIO_NONE;
}

static void name_transport(struct scenario_work *w, const config_setting_t *group,
    struct scenario_transport *t) {
	const config_setting_t *place = compilation_member(group, "name");
	struct setting_value value;

	if (!scenario_value(group, "transports[].name", &value)) {
		if (place == NULL)
			complain(&w->c, group, "transports: a transport has no name");
		return;
	}
	if (!scenario_good_name(value.text, strlen(value.text)))
		complain_name(w, place, "transports.name", value.text);
	else if (transport_named(w->scenario, value.text) != SCENARIO_NONE)
		complain(&w->c, place, "transports.name: %s is already used", value.text);
	else
		text_copy(t->name, sizeof(t->name), value.text, strlen(value.text));
}

static unsigned list_length(const config_setting_t *list) {
	return list != NULL && config_setting_is_list(list) ?
	    (unsigned)config_setting_length(list) : 0;
}

static void read_transports(struct scenario_work *w) {
	const config_setting_t *list = config_lookup(&w->c.config, "transports");
	struct scenario *s = w->scenario;
	uint32_t length = list_length(list), count = length == 0 ? 1 : length;

	if (length > SCENARIO_TRANSPORTS_MAX) {
		complain(&w->c, list, "transports: more than %d", SCENARIO_TRANSPORTS_MAX);
		count = 1;
	}
	s->transports = memory_of(count, sizeof(*s->transports));
	for (uint32_t i = 0; i < count; i++) {
		const config_setting_t *group = length == 0 ? NULL : config_setting_get_elem(list, i);
		struct scenario_transport *t = &s->transports[i];

		if (group != NULL && !config_setting_is_group(group))
			group = NULL;
		if (group != NULL)
			name_transport(w, group, t);
		else if (length == 0)
			text_copy(t->name, sizeof(t->name), "smtp", 4);
		s->transport_count++;
		read_transport(w, group, t);
	}
}

/* --- destinations -------------------------------------------------------------------- */

static void read_destination(struct scenario_work *w, const config_setting_t *group) {
	const config_setting_t *place = compilation_member(group, "name");
	struct scenario_destination *d;
	struct setting_value value;
	uint32_t transport = 0, number;
	char name[SCENARIO_NAME_MAX + 1];

	if (scenario_value(group, "destinations[].transport", &value)) {
		transport = transport_named(w->scenario, value.text);
		if (transport == SCENARIO_NONE)
			complain(&w->c, compilation_member(group, "transport"),
			    "destinations.transport: unknown transport");
	} else if (w->scenario->transport_count > 1) {
		complain(&w->c, group, "destinations: there are several transports; set "
		    "transport = \"NAME\"");
	}
	if (!scenario_value(group, "destinations[].name", &value)) {
		if (place == NULL)
			complain(&w->c, group, "destinations: a destination has no name");
		return;
	}
	if (!scenario_good_name(value.text, strlen(value.text))) {
		complain_name(w, place, "destinations.name", value.text);
		return;
	}
	text_copy(name, sizeof(name), value.text, strlen(value.text));
	if (scenario_find(w, name, strlen(name)) != SCENARIO_NONE) {
		complain(&w->c, place, "destinations.name: %s is already used", name);
		return;
	}
	number = scenario_add(w, name, strlen(name), transport == SCENARIO_NONE ? 0 : transport);
	d = &w->scenario->destinations[number];
	if (scenario_value(group, "destinations[].service", &value))
		d->service_ns = value.number;
	if (scenario_value(group, "destinations[].refusal", &value))
		d->refusal_ns = value.number;
	(void)read_series(w, group, "destinations[].window", &d->changes, &d->change_count);
	w->scenario->fails |= read_series(w, group, "destinations[].accepts", &d->accepts,
	    &d->accepts_count);
}

static void read_destinations(struct scenario_work *w) {
	const config_setting_t *list = config_lookup(&w->c.config, "destinations");
	uint32_t length = list_length(list);

	if (length > SCENARIO_DESTINATIONS_MAX) {
		complain(&w->c, list, "destinations: more than %u", SCENARIO_DESTINATIONS_MAX);
		return;
	}
	for (uint32_t i = 0; i < length; i++) {
		const config_setting_t *group = config_setting_get_elem(list, i);

		if (config_setting_is_group(group))
			read_destination(w, group);
	}
}

/* --- the whole ------------------------------------------------------------------------ */

static int compare_destinations(const void *a, const void *b, void *context) {
	const struct scenario *s = context;
	const struct scenario_destination *first = &s->destinations[*(const uint32_t *)a];
	const struct scenario_destination *second = &s->destinations[*(const uint32_t *)b];
	int order = strcmp(s->transports[first->transport].name,
	    s->transports[second->transport].name);

	return order != 0 ? order : strcmp(s->names + first->name, s->names + second->name);
}

static void rank_destinations(struct scenario *s) {
	uint32_t *order = memory_of(s->destination_count, sizeof(*order));

	for (uint32_t i = 0; i < s->destination_count; i++)
		order[i] = i;
	qsort_r(order, s->destination_count, sizeof(*order), compare_destinations, s);
	for (uint32_t i = 0; i < s->destination_count; i++)
		s->destinations[order[i]].rank = i;
	free(order);
}

static void read_times(struct scenario_work *w, const config_setting_t *root) {
	struct scenario *s = w->scenario;
	const struct {
		const char *path;
		int64_t *to;
	} times[] = {
		{ "minimal_backoff_time", &s->minimal_backoff_ns },
		{ "maximal_backoff_time", &s->maximal_backoff_ns },
		{ "queue_run_delay", &s->queue_run_ns },
		{ "maximal_queue_lifetime", &s->lifetime_ns },
		{ "transport_retry_time", &s->transport_retry_ns },
		{ "refusal", &w->refusal_ns },
	};
	struct setting_value value;

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		scenario_value(root, times[i].path, &value);
		*times[i].to = value.number;
	}
	if (s->lifetime_ns / ROUNDS_MAX > s->minimal_backoff_ns &&
	    s->lifetime_ns / ROUNDS_MAX > s->maximal_backoff_ns &&
	    s->lifetime_ns / ROUNDS_MAX > s->queue_run_ns)
		complain(&w->c, compilation_member(root, "maximal_queue_lifetime"),
		    "maximal_queue_lifetime: more than %d times maximal_backoff_time", ROUNDS_MAX);
}

static void read_settings(struct scenario_work *w) {
	const config_setting_t *root = config_root_setting(&w->c.config);
	struct scenario *s = w->scenario;
	struct setting_value value;

	scenario_value(root, "qmgr_message_active_limit", &value);
	s->pool.message_active_limit = (uint32_t)value.number;
	scenario_value(root, "qmgr_message_recipient_limit", &value);
	s->pool.message_recipient_limit = (uint32_t)value.number;
	scenario_value(root, "qmgr_message_recipient_minimum", &value);
	s->pool.message_recipient_minimum = (uint32_t)value.number;
	read_times(w, root);
	read_transports(w);
	read_destinations(w);
	scenario_read_messages(w);
	if (!w->full)
		scenario_read_completions(w);
	rank_destinations(s);
}

/* What source_read_* read, which it frees. */
static struct scenario *read_source(struct scenario_work *w) {
	w->scenario = memory_of(1, sizeof(*w->scenario));
	if (w->c.source.usable) {
		if (compilation_parse(&w->c, BOOK_SCENARIO))
			read_settings(w);
		config_destroy(&w->c.config);
	}
	map_free(&w->by_name);
	if (!w->c.source.usable || w->c.report.messages->errors > 0) {
		scenario_free(w->scenario);
		w->scenario = NULL;
	}
	source_free(&w->c.source);
	report_end(&w->c.report);
	return w->scenario;
}

struct scenario *scenario_read(const char *path, struct config_messages *messages) {
	struct scenario_work w = { .scenario = NULL };

	report_begin(&w.c.report, messages);
	source_read_file(&w.c.source, path, &w.c.report);
	return read_source(&w);
}

struct scenario *scenario_read_text(const char *text, const char *name,
    struct config_messages *messages) {
	struct scenario_work w = { .scenario = NULL };

	report_begin(&w.c.report, messages);
	source_read_text(&w.c.source, text, name, &w.c.report);
	return read_source(&w);
}

void scenario_free(struct scenario *scenario) {
	if (scenario == NULL)
		return;
	free(scenario->transports);
	free(scenario->destinations);
	free(scenario->changes);
	free(scenario->messages);
	free(scenario->runs);
	free(scenario->completions);
	free(scenario->names);
	free(scenario);
}
