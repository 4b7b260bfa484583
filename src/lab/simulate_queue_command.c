/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  postern-simulate queue.
 * MODEL    The same messages twice, with one log and with several; a file for each message is
 *          counted along the first.
 * ERRORS   Complained about.
 * THREADS  One.
 */
#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "lab/lab.h"
#include "lab/option_rows.h"
#include "lab/simulate_queue.h"

struct queue_costs {
	const struct queue_simulation *simulation;
	struct queue_result one, several;
};

static double mebibytes(uint64_t bytes) {
	return (double)bytes / 1048576;
}

static void write_cost(struct writer *writer, const struct queue_costs *costs,
    const char *stored, const struct queue_cost *cost) {
	double recipients = (double)costs->simulation->messages *
	    costs->simulation->recipients;
	const struct value values[] = {
		value_text(stored),
		value_number(cost->disk.reads),
		value_decimal(mebibytes(cost->disk.read_bytes)),
		value_number(cost->disk.writes),
		value_decimal(mebibytes(cost->disk.written_bytes)),
		value_number(cost->disk.syncs),
		value_decimal((double)cost->disk.syncs / recipients),
		value_decimal(mebibytes(cost->restart_bytes)),
		value_decimal(mebibytes(cost->memory_bytes)),
	};

	writer_row(writer, values);
}

static void write_costs(void *context, struct writer *writer) {
	const struct queue_costs *costs = context;

	write_cost(writer, costs, "file-per-message", &costs->one.files);
	write_cost(writer, costs, "one-log", &costs->one.logs);
	write_cost(writer, costs, "log-per-interval", &costs->several.logs);
}

static void write_result(struct writer *writer, struct queue_costs *costs) {
	static const struct column figures[] = {
		{ "duration_s", COLUMN_DECIMAL },
		{ "messages", COLUMN_NUMBER },
		{ "attempts", COLUMN_NUMBER },
		{ "delivered", COLUMN_NUMBER },
		{ "returned", COLUMN_NUMBER },
	};
	static const struct column columns[] = {
		{ "stored_as", COLUMN_TEXT },
		{ "reads", COLUMN_NUMBER },
		{ "read_mib", COLUMN_DECIMAL },
		{ "writes", COLUMN_NUMBER },
		{ "written_mib", COLUMN_DECIMAL },
		{ "syncs", COLUMN_NUMBER },
		{ "syncs_per_recipient", COLUMN_DECIMAL },
		{ "restart_mib", COLUMN_DECIMAL },
		{ "memory_mib", COLUMN_DECIMAL },
	};
	const struct value values[] = {
		value_decimal((double)costs->one.duration_ns / 1e9),
		value_number(costs->simulation->messages),
		value_number(costs->one.attempts),
		value_number(costs->one.delivered),
		value_number(costs->one.returned),
	};

	writer_object_begin(writer, NULL);
	writer_members(writer, figures, values, sizeof(figures) / sizeof(figures[0]));
	writer_table(writer, "costs", columns, sizeof(columns) / sizeof(columns[0]),
	    write_costs, costs);
	writer_object_end(writer);
}

/* --- options ---------------------------------------------------------------------------- */

#define OPTIONS_OF	struct queue_simulation
static const struct option_row option_rows[] = {
#include "defs/simulate_queue.def"
};

static const struct option_table option_table = { option_rows,
	sizeof(option_rows) / sizeof(option_rows[0]) };

/* --- the whole --------------------------------------------------------------------------- */

static bool run_with_logs(const struct queue_simulation *simulation, unsigned logs,
    struct queue_result *result) {
	struct journal_storage *storages[QUEUED_LOGS_MAX] = { NULL };
	bool done = true;

	for (unsigned i = 0; i < logs; i++)
		done &= (storages[i] = journal_storage_memory()) != NULL;
	done = done && simulate_queue(simulation, storages, logs, true, result);
	for (unsigned i = 0; i < logs; i++)
		journal_storage_memory_close(&storages[i]);
	return done;
}

int lab_QUEUE(struct lab *lab) {
	struct queue_simulation simulation;
	struct queue_costs costs = { .simulation = &simulation };
	int code;

	simulate_queue_defaults(&simulation);
	code = lab_parse(lab, &option_table, &simulation);
	if (code != LAB_RUN)
		return code;
	if ((uint64_t)simulation.messages * simulation.recipients > QUEUED_RECIPIENTS_MAX)
		return lab_usage(lab, "more than %u recipients", QUEUED_RECIPIENTS_MAX);
	if (!run_with_logs(&simulation, 1, &costs.one) ||
	    !run_with_logs(&simulation, simulate_queue_logs(), &costs.several))
		return lab_complain(EX_OSERR, "%s", strerror(ENOMEM));
	write_result(&lab->writer, &costs);
	return EX_OK;
}
