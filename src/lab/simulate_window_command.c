/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  postern-simulate window.
 * MODEL    One object; with --every a table of states in it.
 * ERRORS   Complained about.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "lab/lab.h"
#include "lab/option_rows.h"
#include "lab/simulate.h"

#define WINDOW_MAX	10000

/* --- options ---------------------------------------------------------------------------- */

static bool parse_feedback(void *values, const char *text) {
	struct simulation *s = values;
	const char *comma = strchr(text, ',');
	size_t length = comma != NULL ? (size_t)(comma - text) : strlen(text);

	if (!window_feedback_parse(text, length, &s->window.positive))
		return false;
	s->window.negative = s->window.positive;
	return comma == NULL ||
	    window_feedback_parse(comma + 1, strlen(comma + 1), &s->window.negative);
}

/* "5", "5,20@600s" */
static bool parse_changes(struct simulated_changes *changes, const char *text) {
	changes->count = option_parse_counts(text, true, WINDOW_MAX, DAY, changes->list,
	    SIMULATED_CHANGES_MAX);
	return changes->count > 0;
}

static bool parse_server_limit(void *values, const char *text) {
	return parse_changes(&((struct simulation *)values)->limits, text);
}

static bool parse_ceiling(void *values, const char *text) {
	return parse_changes(&((struct simulation *)values)->ceilings, text);
}

static bool parse_bad_servers(void *values, const char *text) {
	struct simulation *s = values;

	return strncmp(text, "1/", 2) == 0 &&
	    option_parse_count(text + 2, strlen(text + 2), 1, WINDOW_MAX, &s->bad_of);
}

static bool parse_failed_cohorts(void *values, const char *text) {
	struct simulation *s = values;
	uint32_t limit;

	if (!option_parse_count(text, strlen(text), 0, WINDOW_MAX, &limit))
		return false;
	s->window.failed_cohort_limit = limit;
	return true;
}

#define OPTIONS_OF	struct simulation
static const struct option_row option_rows[] = {
#include "defs/simulate_window.def"
};

const struct option_table simulate_window_options = { option_rows,
	sizeof(option_rows) / sizeof(option_rows[0]) };

void simulate_window_defaults(struct simulation *simulation) {
	*simulation = (struct simulation){
		.window = window_defaults,
		.limits = { .list = { { .at_ns = 0, .count = 5 } }, .count = 1 },
		.deliveries = 1000,
		.service_ns = 2 * NS_PER_SECOND,
		.refusal_ns = 50 * NS_PER_MS,
		.jitter = 0.05,
		.seed = 1,
	};
}

/* --- output ------------------------------------------------------------------------------ */

static void state_row(void *context, struct writer *writer, const void *item) {
	const struct simulated_state *state = item;

	(void)context;
	writer_decimal(writer, "time_s", value_decimal((double)state->at_ns / 1e9));
	writer_text(writer, "state", window_state_word(state->state));
	writer_number(writer, "window", state->window);
	writer_number_if(writer, "ceiling", state->ceiling != 0, state->ceiling);
	writer_number(writer, "in_flight", state->in_flight);
	writer_number(writer, "done", state->done);
	writer_number(writer, "deferred", state->deferred);
}

static int write_result(struct writer *writer, const struct simulation *simulation,
    const struct simulation_result *result) {
	writer_object_begin(writer, NULL);
	writer_decimal(writer, "deferred_percent", value_decimal(100.0 *
	    (double)result->deferred / (double)simulation->deliveries));
	writer_decimal(writer, "mean_concurrency", value_decimal(result->mean));
	writer_decimal(writer, "stddev_concurrency", value_decimal( result->deviation));
	writer_decimal(writer, "duration_s", value_decimal( (double)result->duration_ns / 1e9));
	writer_text(writer, "law", window_law_word(simulation->window.law));
	writer_number(writer, "deliveries", simulation->deliveries);
	writer_number(writer, "deferred", result->deferred);
	writer_number(writer, "peak_concurrency", result->most);
	writer_number(writer, "canaries", result->canaries);
	writer_number(writer, "died", result->deaths);
	writer_number(writer, "window", result->window);
	writer_number_if(writer, "ceiling", result->ceiling != 0, result->ceiling);
	if (simulation->every_ns > 0)
		writer_table(writer, &(const struct table){ .name = "states", .row = state_row,
		    .items = result->states.list, .count = result->states.count,
		    .each = sizeof(struct simulated_state) });
	writer_object_end(writer);
	return EX_OK;
}

int lab_WINDOW(struct lab *lab) {
	struct simulation_result result;
	struct simulation simulation;
	int code;

	simulate_window_defaults(&simulation);
	code = lab_parse(lab, &simulate_window_options, &simulation);
	if (code != LAB_RUN)
		return code;
	simulate_window(&simulation, &result);
	if (result.states.full)
		code = lab_complain(EX_USAGE, "--every: too many states");
	else
		code = write_result(&lab->writer, &simulation, &result);
	free(result.states.list);
	return code;
}
