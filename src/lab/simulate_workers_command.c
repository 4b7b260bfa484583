/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl simulate workers.
 * MODEL    One object: figures, how often each rule chose, messages; with --every and
 *          --trace tables besides, which are kept until the end as the figures stand first.
 * ERRORS   Complained about.
 * THREADS  One.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "ctl/cli/arguments.h"
#include "lab/simulate_workers.h"

#define ROWS_MAX	2000000u

struct row {
	int64_t at_ns;
	uint32_t message, number;	/* workers, or the job's number */
	uint32_t free;
	struct worker_place place;
};

struct rows {
	struct row *list;
	size_t count, size;
};

struct kept {
	const struct workers_simulation *simulation;
	const struct workers_result *result;
	struct rows states, decisions;
	bool failed;
};

static void keep(struct kept *kept, struct rows *rows, const struct row *row) {
	if (rows->count == rows->size) {
		size_t size = rows->size > 0 ? 2 * rows->size : 256;
		struct row *list = size > ROWS_MAX ? NULL :
		    reallocarray(rows->list, size, sizeof(*list));

		if (list == NULL) {
			kept->failed = true;
			return;
		}
		rows->list = list;
		rows->size = size;
	}
	rows->list[rows->count++] = *row;
}

static void keep_state(void *context, int64_t at_ns, uint32_t free,
    const uint32_t *concurrency) {
	struct kept *kept = context;

	for (uint32_t m = 0; m < kept->simulation->message_count; m++)
		if (kept->simulation->messages[m].jobs > 0 &&
		    kept->simulation->messages[m].at_ns <= at_ns)
			keep(kept, &kept->states, &(struct row){ at_ns, m, concurrency[m],
				free, { .rule = WORKER_WAIT } });
}

static void keep_decision(void *context, int64_t at_ns, uint32_t message, uint32_t job,
    const struct worker_place *place) {
	struct kept *kept = context;

	keep(kept, &kept->decisions, &(struct row){ at_ns, message, job, 0, *place });
}

/* --- tables ---------------------------------------------------------------------------- */

static const char *message_name(uint32_t message, char out[16]) {
	if (message == WORKER_VERIFICATION)
		return "probes";
	text_append(out, 16, 0, "%u", message);
	return out;
}

static struct value seconds(int64_t ns) {
	return ns < 0 ? value_unknown() : value_decimal((double)ns / 1e9);
}

static void write_rules(void *context, struct writer *writer) {
	const struct kept *kept = context;

	for (unsigned rule = 0; rule < WORKER_RULE_COUNT; rule++) {
		const struct value values[] = {
			value_text(worker_rule_word((enum worker_rule)rule)),
			value_number(kept->result->by_rule[rule]),
		};

		writer_row(writer, values);
	}
}

static void write_messages(void *context, struct writer *writer) {
	const struct kept *kept = context;
	double workers = kept->simulation->workers;
	char name[16];

	for (uint32_t m = 0; m < kept->simulation->message_count; m++) {
		const struct worked_result *result = &kept->result->messages[m];
		const struct value values[] = {
			value_text(message_name(m, name)),
			value_number(result->jobs),
			value_number(result->done),
			value_number(result->deferred),
			value_number(result->most),
			value_decimal(100 * result->most / workers),
			value_decimal(result->mean),
			seconds(kept->simulation->messages[m].at_ns),
			seconds(result->first_ns),
			seconds(result->last_ns),
		};

		if (result->jobs > 0)
			writer_row(writer, values);
	}
}

static void write_states(void *context, struct writer *writer) {
	const struct kept *kept = context;
	char name[16];

	for (size_t i = 0; i < kept->states.count; i++) {
		const struct row *row = &kept->states.list[i];
		const struct value values[] = {
			seconds(row->at_ns),
			value_text(message_name(row->message, name)),
			value_number(row->number),
			value_decimal(100.0 * row->number / kept->simulation->workers),
			value_number(row->free),
		};

		writer_row(writer, values);
	}
}

static void write_decisions(void *context, struct writer *writer) {
	const struct kept *kept = context;
	char name[16], destination[32];

	for (size_t i = 0; i < kept->decisions.count; i++) {
		const struct row *row = &kept->decisions.list[i];
		const struct worker_place *place = &row->place;
		bool placed = place->job != WORKER_NONE;
		const struct value values[] = {
			seconds(row->at_ns),
			value_text(message_name(row->message, name)),
			value_number(row->number),
			value_text(worker_rule_word(place->rule)),
			place->rule == WORKER_DEFER ? value_unknown() :
			    value_number(place->list + 1),
			placed ? value_text(destination) : value_unknown(),
			placed ? value_number(place->connection + 1) : value_unknown(),
			value_truth(place->opened),
		};

		text_append(destination, sizeof(destination), 0, "%u.%u",
		    simulated_site(place->destination), simulated_host(place->destination));
		writer_row(writer, values);
	}
}

/* --- the whole --------------------------------------------------------------------------- */

static void write_figures(struct writer *writer, const struct kept *kept) {
	static const struct column columns[] = {
		{ "duration_s", COLUMN_DECIMAL },
		{ "workers", COLUMN_NUMBER },
		{ "peak_workers", COLUMN_NUMBER },
		{ "connections", COLUMN_NUMBER },
		{ "failed_connections", COLUMN_NUMBER },
		{ "closed_for_new", COLUMN_NUMBER },
		{ "closed_by_age", COLUMN_NUMBER },
		{ "closed_by_remote", COLUMN_NUMBER },
		{ "rescheduled", COLUMN_NUMBER },
	};
	const struct workers_result *result = kept->result;
	const struct value values[] = {
		seconds(result->duration_ns),
		value_number(kept->simulation->workers),
		value_number(result->most),
		value_number(result->connections),
		value_number(result->failed),
		value_number(result->closed_for_new),
		value_number(result->aged),
		value_number(result->closed_by_remote),
		value_number(result->rescheduled),
	};

	writer_members(writer, columns, values, sizeof(columns) / sizeof(columns[0]));
}

#define TABLE(name, columns, rows, kept) \
	writer_table(writer, name, columns, sizeof(columns) / sizeof((columns)[0]), rows, kept)

static void write_result(struct writer *writer, struct kept *kept) {
	static const struct column rules[] = {
		{ "rule", COLUMN_TEXT },
		{ "times", COLUMN_NUMBER },
	};
	static const struct column messages[] = {
		{ "message", COLUMN_TEXT },
		{ "jobs", COLUMN_NUMBER },
		{ "done", COLUMN_NUMBER },
		{ "deferred", COLUMN_NUMBER },
		{ "peak_workers", COLUMN_NUMBER },
		{ "peak_percent", COLUMN_DECIMAL },
		{ "mean_workers", COLUMN_DECIMAL },
		{ "came_s", COLUMN_DECIMAL },
		{ "first_s", COLUMN_DECIMAL },
		{ "last_s", COLUMN_DECIMAL },
	};
	static const struct column states[] = {
		{ "time_s", COLUMN_DECIMAL },
		{ "message", COLUMN_TEXT },
		{ "workers", COLUMN_NUMBER },
		{ "percent", COLUMN_DECIMAL },
		{ "free", COLUMN_NUMBER },
	};
	static const struct column decisions[] = {
		{ "time_s", COLUMN_DECIMAL },
		{ "message", COLUMN_TEXT },
		{ "job", COLUMN_NUMBER },
		{ "rule", COLUMN_TEXT },
		{ "list", COLUMN_NUMBER },
		{ "destination", COLUMN_TEXT },
		{ "connection", COLUMN_NUMBER },
		{ "opened", COLUMN_TRUTH },
	};

	writer_object_begin(writer, NULL);
	write_figures(writer, kept);
	TABLE("messages", messages, write_messages, kept);
	if (!kept->simulation->routing)
		TABLE("rules", rules, write_rules, kept);
	if (kept->simulation->every_ns > 0)
		TABLE("states", states, write_states, kept);
	if (kept->simulation->trace != NULL)
		TABLE("decisions", decisions, write_decisions, kept);
	writer_object_end(writer);
}

/* EX_OK, or an exit code after a complaint. */
static int take_options(const struct ctl *ctl, struct workers_simulation *simulation) {
	const char *wrong;

	for (unsigned i = 0; i < WORKED_COUNT; i++) {
		const char *name, *should;
		const char *text = arguments_worked(ctl, (enum worked_option)i, &name);

		if (text != NULL && !simulate_workers_take(simulation,
		    (enum worked_option)i, text, &should))
			return ctl_usage(COMMAND_SIMULATE_WORKERS, "%s: \"%s\" is not %s", name,
			    text, should);
	}
	wrong = simulate_workers_wrong(simulation);
	return wrong != NULL ? ctl_usage(COMMAND_SIMULATE_WORKERS, "%s", wrong) : EX_OK;
}

int command_SIMULATE_WORKERS(struct ctl *ctl) {
	struct workers_simulation simulation;
	struct workers_result result;
	struct kept kept = { .simulation = &simulation, .result = &result };
	int code;

	simulate_workers_defaults(&simulation);
	simulation.show = keep_state;
	simulation.trace = ctl->trace ? keep_decision : NULL;
	simulation.context = &kept;
	code = take_options(ctl, &simulation);
	if (code != EX_OK)
		return code;
	if (!simulate_workers(&simulation, &result) || kept.failed) {
		ctl_complain("%s", kept.failed ? "--every, --trace: too many rows" :
		    strerror(ENOMEM));
		code = kept.failed ? EX_USAGE : EX_OSERR;
	} else {
		write_result(&ctl->writer, &kept);
	}
	free(kept.states.list);
	free(kept.decisions.list);
	return code;
}
