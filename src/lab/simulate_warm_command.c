/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  postern-simulate warm.
 * MODEL    One object with a table of both ways; with --trace a table of days in it.
 * ERRORS   Complained about.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "lab/lab.h"
#include "lab/memory.h"
#include "lab/option_rows.h"
#include "lab/simulate_warm.h"

#define DAYS_MAX	10000u

struct outcome {
	const char *law;
	struct warm_simulation_result result;
};

/* --- options ---------------------------------------------------------------------------- */

static bool parse_plan(void *values, const char *text) {
	struct warm_settings *warm = &((struct warm_simulation *)values)->warm;
	size_t length;

	for (warm->steps = 0; warm->steps < WARM_STEPS_MAX; text += length + 1) {
		uint32_t *number = &warm->plan[warm->steps];

		length = strcspn(text, ",");
		if (!option_parse_count(text, length, 1, WARM_NUMBER_MAX, number) ||
		    (warm->steps > 0 && *number <= number[-1]))
			return false;
		warm->steps++;
		if (text[length] == '\0')
			return true;
	}
	return false;
}

#define OPTIONS_OF	struct warm_simulation
static const struct option_row option_rows[] = {
#include "defs/simulate_warm.def"
};

static const struct option_table option_table = { option_rows,
	sizeof(option_rows) / sizeof(option_rows[0]) };

void simulate_warm_defaults(struct warm_simulation *simulation) {
	*simulation = (struct warm_simulation){
		.warm = { .plan = { 50, 100, 200, 400, 800, 1500, 3000, 6000 }, .steps = 8,
		    .grow_used = 0.6, .grow_throttled = 0.02, .back_throttled = 0.08,
		    .idle_ns = 30 * WARM_DAY_NS },
		.demand = 12000,
		.weekend = 0.3,
		.tolerance = 60,
		.growth = 0.8,
		.harm = 0.3,
		.jitter = 0.2,
		.days = 365,
		.seed = 1,
	};
}

/* --- output ------------------------------------------------------------------------------ */

static void keep_day(void *context, const struct warmed_day *day) {
	memory_rows_add(context, day, sizeof(*day), DAYS_MAX);
}

static void day_row(void *context, struct writer *writer, const void *item) {
	const struct warmed_day *day = item;

	(void)context;
	writer_number(writer, "day", day->day + 1);
	writer_text(writer, "verdict", day->sent > 0 ? warm_verdict_word(day->verdict) : NULL);
	writer_number_if(writer, "number", day->number != 0, day->number);
	writer_number(writer, "sent", day->sent);
	writer_number(writer, "throttled", day->throttled);
	writer_number(writer, "tolerance", day->tolerance);
}

static void law_row(void *context, struct writer *writer, const void *item) {
	const struct outcome *outcome = item;
	const struct warm_simulation_result *result = &outcome->result;

	(void)context;
	writer_text(writer, "law", outcome->law);
	writer_number(writer, "days", result->days);
	writer_truth(writer, "reached", result->reached);
	writer_decimal(writer, "throttled_percent", result->sent == 0 ? value_unknown() :
	    value_decimal(100.0 * (double)result->throttled / (double)result->sent));
	writer_number(writer, "throttled", result->throttled);
	writer_number(writer, "delivered", result->sent - result->throttled);
}

static void write_result(struct writer *writer, const struct outcome outcomes[WARMED_BY_COUNT],
    bool with_trace, const struct memory_rows *days) {
	writer_object_begin(writer, NULL);
	writer_table(writer, &(const struct table){ .name = "laws", .row = law_row,
	    .items = outcomes, .count = WARMED_BY_COUNT, .each = sizeof(outcomes[0]) });
	if (with_trace)
		writer_table(writer, &(const struct table){ .name = "days", .row = day_row,
		    .items = days->list, .count = days->count, .each = sizeof(struct warmed_day) });
	writer_object_end(writer);
}

int lab_WARM(struct lab *lab) {
	struct outcome outcomes[WARMED_BY_COUNT] = { { .law = "results" }, { .law = "calendar" } };
	struct memory_rows days = { .list = NULL };
	struct warm_simulation simulation;
	int code;

	simulate_warm_defaults(&simulation);
	simulation.show = keep_day;
	simulation.context = &days;
	code = lab_parse(lab, &option_table, &simulation);
	if (code != LAB_RUN)
		return code;
	if (!warm_settings_are_sound(&simulation.warm))
		return lab_usage(lab, "--grow-throttled must be above 0 and at most --back-throttled, --idle 0s or at least 1d");
	for (unsigned by = 0; by < WARMED_BY_COUNT; by++)
		simulate_warm(&simulation, (enum warmed_by)by, &outcomes[by].result);
	write_result(&lab->writer, outcomes, simulation.with_trace, &days);
	free(days.list);
	return EX_OK;
}
