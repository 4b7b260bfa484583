/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl simulate queue.
 * MODEL    The same messages twice, with one log and with several; a file for each message is
 *          counted along the first.
 * ERRORS   Complained about.
 * THREADS  One.
 */
#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/cli/arguments.h"
#include "lab/simulate_queue.h"

#define SERVICE_MAX_NS	(3600 * NS_PER_SECOND)

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

static bool take_option(struct queue_simulation *s, enum queued_option option, const char *text,
    const char **should) {
	const struct {
		uint32_t *value;
		uint32_t most;
		const char *should;
	} counts[QUEUED_COUNT] = {
		[QUEUED_MESSAGES] = { &s->messages, QUEUED_MESSAGES_MAX, "1 to 1000000" },
		[QUEUED_RATE] = { &s->per_second, 100000, "1 to 100000" },
		[QUEUED_RECIPIENTS] = { &s->recipients, 1000, "1 to 1000" },
		[QUEUED_ATTEMPTS] = { &s->attempts, 1000, "1 to 1000" },
		[QUEUED_PROCESSES] = { &s->processes, 100000, "1 to 100000" },
	};

	if (option == QUEUED_DEFERRED) {
		*should = "0 to 1, or 0% to 100%";
		return text_to_share(text, &s->deferred);
	}
	if (option == QUEUED_SERVICE) {
		*should = "1ms to 1h";
		return text_to_duration_ns(text, &s->delivery_ns) &&
		    s->delivery_ns >= NS_PER_MS && s->delivery_ns <= SERVICE_MAX_NS;
	}
	*should = counts[option].should;
	return text_to_u32(text, strlen(text), counts[option].most, counts[option].value) &&
	    *counts[option].value > 0;
}

/* EX_OK, or an exit code after a complaint. */
static int take_options(const struct ctl *ctl, struct queue_simulation *simulation) {
	for (unsigned i = 0; i < QUEUED_COUNT; i++) {
		const char *name, *should;
		const char *text = arguments_queued(ctl, (enum queued_option)i, &name);

		if (text != NULL && !take_option(simulation, (enum queued_option)i, text, &should))
			return ctl_usage(COMMAND_SIMULATE_QUEUE, "%s: \"%s\" is not %s", name,
			    text, should);
	}
	if ((uint64_t)simulation->messages * simulation->recipients > QUEUED_RECIPIENTS_MAX)
		return ctl_usage(COMMAND_SIMULATE_QUEUE, "more than %u recipients",
		    QUEUED_RECIPIENTS_MAX);
	return EX_OK;
}

static bool run(const struct queue_simulation *simulation, unsigned logs,
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

int command_SIMULATE_QUEUE(struct ctl *ctl) {
	struct queue_simulation simulation;
	struct queue_costs costs = { .simulation = &simulation };
	int code;

	simulate_queue_defaults(&simulation);
	code = take_options(ctl, &simulation);
	if (code != EX_OK)
		return code;
	if (!run(&simulation, 1, &costs.one) ||
	    !run(&simulation, simulate_queue_logs(), &costs.several)) {
		ctl_complain("%s", strerror(ENOMEM));
		return EX_OSERR;
	}
	write_result(&ctl->writer, &costs);
	return EX_OK;
}
