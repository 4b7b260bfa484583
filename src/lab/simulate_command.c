/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl simulate window.
 * MODEL    One object; with --every a table of states in it, which is kept until the
 *          end as the figures stand first.
 * ERRORS   Complained about.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "lab/simulate_options.h"

#define STATES_MAX	1000000u

struct states {
	struct simulated_state *list;
	size_t count, size;
	bool failed;
};

static void keep_state(void *context, const struct simulated_state *state) {
	struct states *states = context;

	if (states->count == states->size) {
		size_t size = states->size > 0 ? 2 * states->size : 256;
		struct simulated_state *list = size > STATES_MAX ? NULL :
		    reallocarray(states->list, size, sizeof(*list));

		if (list == NULL) {
			states->failed = true;
			return;
		}
		states->list = list;
		states->size = size;
	}
	states->list[states->count++] = *state;
}

static struct value known_count(uint32_t count) {
	return count != 0 ? value_number(count) : value_unknown();
}

static void write_states(void *context, struct writer *writer) {
	const struct states *states = context;

	for (size_t i = 0; i < states->count; i++) {
		const struct simulated_state *state = &states->list[i];
		const struct value values[] = {
			value_decimal((double)state->at_ns / 1e9),
			value_text(window_state_word(state->state)),
			value_number(state->window),
			known_count(state->ceiling),
			value_number(state->in_flight),
			value_number(state->done),
			value_number(state->deferred),
		};

		writer_row(writer, values);
	}
}

static void write_result(struct writer *writer, const struct simulation *simulation,
    const struct simulation_result *result, struct states *states) {
	static const struct column columns[] = {
		{ "deferred_percent", COLUMN_DECIMAL },
		{ "mean_concurrency", COLUMN_DECIMAL },
		{ "stddev_concurrency", COLUMN_DECIMAL },
		{ "duration_s", COLUMN_DECIMAL },
		{ "law", COLUMN_TEXT },
		{ "deliveries", COLUMN_NUMBER },
		{ "deferred", COLUMN_NUMBER },
		{ "peak_concurrency", COLUMN_NUMBER },
		{ "canaries", COLUMN_NUMBER },
		{ "died", COLUMN_NUMBER },
		{ "window", COLUMN_NUMBER },
		{ "ceiling", COLUMN_NUMBER },
	};
	static const struct column state_columns[] = {
		{ "time_s", COLUMN_DECIMAL },
		{ "state", COLUMN_TEXT },
		{ "window", COLUMN_NUMBER },
		{ "ceiling", COLUMN_NUMBER },
		{ "in_flight", COLUMN_NUMBER },
		{ "done", COLUMN_NUMBER },
		{ "deferred", COLUMN_NUMBER },
	};
	const struct value values[] = {
		value_decimal(100.0 * (double)result->deferred /
		    (double)simulation->deliveries),
		value_decimal(result->mean),
		value_decimal(result->deviation),
		value_decimal((double)result->duration_ns / 1e9),
		value_text(window_law_word(simulation->window.law)),
		value_number(simulation->deliveries),
		value_number(result->deferred),
		value_number(result->most),
		value_number(result->canaries),
		value_number(result->deaths),
		value_number(result->window),
		known_count(result->ceiling),
	};

	writer_object_begin(writer, NULL);
	writer_members(writer, columns, values, sizeof(columns) / sizeof(columns[0]));
	if (simulation->every_ns > 0)
		writer_table(writer, "states", state_columns,
		    sizeof(state_columns) / sizeof(state_columns[0]), write_states, states);
	writer_object_end(writer);
}

/* EX_OK, or an exit code after a complaint. */
static int take_options(const struct ctl *ctl, struct simulation *simulation) {
	static const char *const names[SIMULATION_COUNT] = {
#define SIMULATION(symbol, option, argument, text) [SIMULATION_##symbol] = option,
#include "defs/simulations.def"
#undef SIMULATION
	};
	const char *should;

	for (unsigned i = 0; i < SIMULATION_COUNT; i++) {
		const char *text = i == SIMULATION_CEILING ? ctl->ceiling :
		    ctl->simulated[i];

		if (text != NULL && !simulate_take(simulation, (enum simulation_option)i,
				text, &should))
			return ctl_usage(COMMAND_SIMULATE_WINDOW, "%s: \"%s\" is not %s",
			    names[i], text, should);
	}
	return EX_OK;
}

int command_SIMULATE_WINDOW(struct ctl *ctl) {
	struct states states = { .list = NULL };
	struct simulation_result result;
	struct simulation simulation;
	int code;

	simulate_defaults(&simulation);
	simulation.show = keep_state;
	simulation.context = &states;
	code = take_options(ctl, &simulation);
	if (code != EX_OK)
		return code;
	if (!simulate_window(&simulation, &result) || states.failed) {
		ctl_complain("%s", states.failed ? "--every: too many states" :
		    strerror(ENOMEM));
		code = states.failed ? EX_USAGE : EX_OSERR;
	} else {
		write_result(&ctl->writer, &simulation, &result, &states);
	}
	free(states.list);
	return code;
}
