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

struct stored {
	const char *as;
	const struct queue_cost *cost;	/* NULL: none */
};

static void put_mebibytes(struct writer *writer, const char *name, uint64_t bytes) {
	writer_decimal(writer, name, value_decimal((double)bytes / 1048576));
}

static void cost_row(void *context, struct writer *writer, const void *item) {
	static const struct queue_cost none;
	const struct queue_simulation *simulation = ((const struct queue_costs *)context)->simulation;
	const struct stored *stored = item;
	const struct queue_cost *cost = stored->cost == NULL ? &none : stored->cost;
	double recipients = (double)simulation->messages * simulation->recipients;

	writer_text(writer, "stored_as", stored->as);
	writer_number(writer, "reads", cost->disk.reads);
	put_mebibytes(writer, "read_mib", cost->disk.read_bytes);
	writer_number(writer, "writes", cost->disk.writes);
	put_mebibytes(writer, "written_mib", cost->disk.written_bytes);
	writer_number(writer, "syncs", cost->disk.syncs);
	writer_decimal(writer, "syncs_per_recipient", value_decimal( (double)cost->disk.syncs /
	    recipients));
	put_mebibytes(writer, "restart_mib", cost->restart_bytes);
	put_mebibytes(writer, "memory_mib", cost->memory_bytes);
}

static void write_result(struct writer *writer, struct queue_costs *costs) {
	const struct stored stored[] = {
		{ "file-per-message", &costs->one.files }, { "one-log", &costs->one.logs },
		{ "log-per-interval", &costs->several.logs },
	};

	writer_object_begin(writer, NULL);
	writer_decimal(writer, "duration_s", value_decimal( (double)costs->one.duration_ns /
	    1e9));
	writer_number(writer, "messages", costs->simulation->messages);
	writer_number(writer, "attempts", costs->one.attempts);
	writer_number(writer, "delivered", costs->one.delivered);
	writer_number(writer, "returned", costs->one.returned);
	writer_table(writer, &(const struct table){ .name = "costs", .row = cost_row,
	    .context = costs, .items = stored, .count = sizeof(stored) / sizeof(stored[0]),
	    .each = sizeof(stored[0]) });
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
