/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  postern-simulate schedule.
 * MODEL    --sizes is a scenario, too: it is written as one and read.
 * ERRORS   Complained about; what is wrong with a scenario with its FILE:LINE.
 * THREADS  One (libconfig).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/text.h"
#include "lab/lab.h"
#include "lab/memory.h"
#include "lab/option_rows.h"
#include "lab/schedule.h"
#include "lab/schedule_trace.h"

#define NOT_GIVEN	UINT32_MAX

struct schedule_options {
	const char *sizes, *file;	/* NULL: not given */
	uint32_t cost, minimum, discount, loan;
	bool with_trace;
};

#define OPTIONS_OF	struct schedule_options
static const struct option_row option_rows[] = {
#include "defs/simulate_schedule.def"
};

static const struct option_table option_table = { option_rows,
	sizeof(option_rows) / sizeof(option_rows[0]) };

/* --- of sizes ---------------------------------------------------------------------------- */

/* "10,2,2"; false: it is no such list. */
static bool write_messages(FILE *out, const char *sizes) {
	uint64_t total = 0;
	uint32_t count = 0, size;

	fputs("messages = (\n", out);
	for (;; sizes++) {
		size_t length = strcspn(sizes, ",");

		if (!text_to_u32(sizes, length, SCENARIO_RECIPIENTS_MAX, &size) || size == 0 ||
		    (total += size) > SCENARIO_RECIPIENTS_MAX ||
		    ++count > SCENARIO_MESSAGES_MAX)
			return false;
		fprintf(out, "%s{ recipients = \"d:%u\"; }", count > 1 ? ",\n" : "",
		    (unsigned)size);
		sizes += length;
		if (*sizes == '\0')
			break;
	}
	fputs(");\n", out);
	return true;
}

static void write_parameters(FILE *out, const struct schedule_options *options) {
	const struct {
		const char *setting;
		uint32_t value;
	} parameters[] = {
		{ "default_delivery_slot_cost", options->cost },
		{ "default_minimum_delivery_slots", options->minimum },
		{ "default_delivery_slot_discount", options->discount },
		{ "default_delivery_slot_loan", options->loan },
	};

	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++)
		if (parameters[i].value != NOT_GIVEN)
			fprintf(out, "%s = %u;\n", parameters[i].setting,
			    (unsigned)parameters[i].value);
}

static int scenario_of_sizes(const struct lab *lab, const struct schedule_options *options,
    struct scenario **scenario) {
	struct config_messages messages;
	char *text = NULL;
	size_t length;
	FILE *out = memory_is_there(open_memstream(&text, &length));
	bool has_sizes;

	fputs("default_process_limit = 1;\n", out);
	write_parameters(out, options);
	has_sizes = write_messages(out, options->sizes);
	(void)memory_is_there(fclose(out) == 0 ? text : NULL);
	if (has_sizes) {
		*scenario = scenario_read_text(text, "--sizes", &messages);
		config_messages_free(&messages);
	}
	free(text);
	if (!has_sizes)
		return lab_usage(lab, "--sizes: \"%s\" is not N,N,... with a sum of at most 1000000",
		    options->sizes);
	(*scenario)->transports[0].job.destination_recipient_limit = 1;
	return EX_OK;
}

/* --- of a file ---------------------------------------------------------------------------- */

static int scenario_of_file(const char *path, struct scenario **scenario) {
	struct config_messages messages;

	if (access(path, R_OK) != 0)
		return lab_complain(EX_NOINPUT, "%s: %s", path, strerror(errno));
	*scenario = scenario_read(path, &messages);
	config_messages_print(&messages, stderr, "postern-simulate: ");
	config_messages_free(&messages);
	return *scenario != NULL ? EX_OK : EX_DATAERR;
}

static int read_scenario(const struct lab *lab, const struct schedule_options *options,
    struct scenario **scenario) {
	const struct {
		const char *name;
		bool given;
	} of_sizes[] = {
		{ "--slot-cost", options->cost != NOT_GIVEN },
		{ "--slot-minimum", options->minimum != NOT_GIVEN },
		{ "--slot-discount", options->discount != NOT_GIVEN },
		{ "--slot-loan", options->loan != NOT_GIVEN },
	};

	if ((options->file == NULL) == (options->sizes == NULL))
		return lab_usage(lab, "give either --sizes or --scenario");
	if (options->file == NULL)
		return scenario_of_sizes(lab, options, scenario);
	for (size_t i = 0; i < sizeof(of_sizes) / sizeof(of_sizes[0]); i++)
		if (of_sizes[i].given)
			return lab_usage(lab, "%s: cannot be used with --scenario, which sets it",
			    of_sizes[i].name);
	return scenario_of_file(options->file, scenario);
}

/* --- what came of it ----------------------------------------------------------------------- */

static void write_result(struct writer *writer, const struct schedule_options *options,
    const struct scenario *scenario, const struct trace *trace,
    const struct schedule_result *result) {
	writer_object_begin(writer, NULL);
	writer_values_begin(writer, "order");
	for (size_t i = 0; i < trace->count; i++)
		writer_value(writer, COLUMN_NUMBER, value_number(trace->deliveries[i].message + 1));
	writer_values_end(writer);
	if (options->file != NULL)
		writer_decimal(writer, "duration_s", value_decimal( (double)result->at_ns /
		    1e9));
	if (options->file != NULL && scenario->fails) {
		writer_number(writer, "failures", result->failures);
		writer_number(writer, "deferred", result->deferred);
		writer_number(writer, "bounced", result->bounced);
	}
	if (options->file != NULL)
		trace_write_deliveries(trace, scenario, writer);
	if (options->with_trace)
		trace_write_steps(trace, scenario, writer);
	writer_object_end(writer);
}

/* What could not be done of the scenario. */
static int complain_end(const char *file, const struct schedule_result *result) {
	switch (result->end) {
	case SCHEDULE_NOT_RUNNING:
		return lab_complain(EX_DATAERR, "%s:%d: error: completions: this delivery is not "
		    "in progress at %.3f s, and nothing else happens", file, result->line,
		    (double)result->at_ns / 1e9);
	case SCHEDULE_STUCK:
		return lab_complain(EX_DATAERR, "%s: error: %llu messages are never delivered: a "
		    "window stays 0", file, (unsigned long long)result->left);
	case SCHEDULE_DONE: case SCHEDULE_STOPPED:
		break;
	}
	return EX_OK;
}

int lab_SCHEDULE(struct lab *lab) {
	struct schedule_options options = { .cost = NOT_GIVEN, .minimum = NOT_GIVEN,
		.discount = NOT_GIVEN, .loan = NOT_GIVEN };
	struct schedule_result result;
	struct scenario *scenario = NULL;
	struct trace trace;
	int code = lab_parse(lab, &option_table, &options);

	if (code != LAB_RUN)
		return code;
	code = read_scenario(lab, &options, &scenario);
	if (code != EX_OK)
		return code;
	trace = (struct trace){ .states = options.with_trace };
	schedule_run(scenario, trace_keep, &trace, &result);
	if (trace.full) {
		code = lab_usage(lab, "--trace: too much output");
	} else {
		write_result(&lab->writer, &options, scenario, &trace, &result);
		code = complain_end(options.file, &result);
	}
	trace_free(&trace);
	scenario_free(scenario);
	return code;
}
