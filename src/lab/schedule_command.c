/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl simulate schedule.
 * MODEL    --sizes is a scenario, too: it is written as one and read.
 * ERRORS   Complained about: what is wrong with a scenario as check tells it, FILE:LINE.
 * THREADS  One (libconfig).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/text.h"
#include "ctl/cli/ctl.h"
#include "lab/schedule.h"
#include "lab/schedule_trace.h"

#define SLOTS_MAX	1000000u

static const char *const option_names[SCHEDULE_OPTION_COUNT] = {
#define SCHEDULE(symbol, option, argument, text) [SCHEDULE_OPTION_##symbol] = option,
#include "defs/schedules.def"
#undef SCHEDULE
};

static int wrong_option(enum schedule_option option, const char *text, const char *should) {
	return ctl_usage(COMMAND_SIMULATE_SCHEDULE, "%s: \"%s\" is not %s",
	    option_names[option], text, should);
}

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

/* EX_OK, or an exit code after a complaint. */
static int write_parameters(FILE *out, const struct ctl *ctl) {
	static const struct {
		enum schedule_option option;
		const char *setting, *should;
		uint32_t most;
	} parameters[] = {
		{ SCHEDULE_OPTION_COST, "default_delivery_slot_cost", "0 to 1000000", SLOTS_MAX },
		{ SCHEDULE_OPTION_MINIMUM, "default_minimum_delivery_slots", "0 to 1000000",
		    SLOTS_MAX },
		{ SCHEDULE_OPTION_DISCOUNT, "default_delivery_slot_discount", "0 to 100", 100 },
		{ SCHEDULE_OPTION_LOAN, "default_delivery_slot_loan", "0 to 1000000", SLOTS_MAX },
	};
	uint32_t number;

	for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
		const char *text = ctl->scheduled[parameters[i].option];

		if (text == NULL)
			continue;
		if (!text_to_u32(text, strlen(text), parameters[i].most, &number))
			return wrong_option(parameters[i].option, text, parameters[i].should);
		fprintf(out, "%s = %u;\n", parameters[i].setting, (unsigned)number);
	}
	return EX_OK;
}

static int scenario_of_sizes(const struct ctl *ctl, struct scenario **scenario) {
	const char *sizes = ctl->scheduled[SCHEDULE_OPTION_SIZES];
	struct config_messages messages;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int code;

	if (out == NULL) {
		ctl_complain("%s", strerror(errno));
		return EX_OSERR;
	}
	fputs("default_process_limit = 1;\n", out);
	code = write_parameters(out, ctl);
	if (code == EX_OK && !write_messages(out, sizes))
		code = wrong_option(SCHEDULE_OPTION_SIZES, sizes,
		    "N,N,... with a sum of at most 1000000");
	if (fclose(out) != 0 && code == EX_OK) {
		ctl_complain("%s", strerror(errno));
		code = EX_OSERR;
	}
	if (code == EX_OK) {
		*scenario = scenario_read_text(text, option_names[SCHEDULE_OPTION_SIZES], &messages);
		if (*scenario != NULL)
			(*scenario)->transports[0].destination_recipient_limit = 1;
		else
			code = EX_OSERR;
		if (code != EX_OK)
			ctl_complain("%s", strerror(ENOMEM));
		config_messages_free(&messages);
	}
	free(text);
	return code;
}

/* --- of a file ---------------------------------------------------------------------------- */

static void complain_of(const struct config_message *message) {
	if (message->line > 0)
		ctl_complain("%s:%d: %s: %s", message->file, message->line,
		    message->severity == MESSAGE_ERROR ? "error" : "note", message->text);
	else
		ctl_complain("%s: %s: %s", message->file,
		    message->severity == MESSAGE_ERROR ? "error" : "note", message->text);
}

static int scenario_of_file(const char *path, struct scenario **scenario) {
	struct config_messages messages;

	if (access(path, R_OK) != 0) {
		ctl_complain("%s: %s", path, strerror(errno));
		return EX_NOINPUT;
	}
	*scenario = scenario_read(path, &messages);
	for (size_t i = 0; i < messages.count; i++)
		complain_of(&messages.list[i]);
	config_messages_free(&messages);
	return *scenario != NULL ? EX_OK : EX_DATAERR;
}

static int read_scenario(const struct ctl *ctl, struct scenario **scenario) {
	const char *file = ctl->scheduled[SCHEDULE_OPTION_SCENARIO];

	if ((file == NULL) == (ctl->scheduled[SCHEDULE_OPTION_SIZES] == NULL))
		return ctl_usage(COMMAND_SIMULATE_SCHEDULE, "give either --sizes or --scenario");
	if (file == NULL)
		return scenario_of_sizes(ctl, scenario);
	for (unsigned i = 0; i < SCHEDULE_OPTION_COUNT; i++)
		if (ctl->scheduled[i] != NULL && i != SCHEDULE_OPTION_SCENARIO)
			return ctl_usage(COMMAND_SIMULATE_SCHEDULE,
			    "%s: cannot be used with --scenario, which sets it",
			    option_names[i]);
	return scenario_of_file(file, scenario);
}

/* --- what came of it ----------------------------------------------------------------------- */

static void write_result(struct ctl *ctl, const struct scenario *scenario,
    const struct trace *trace, const struct schedule_result *result) {
	static const struct column columns[] = { { "duration_s", COLUMN_DECIMAL },
		{ "failures", COLUMN_NUMBER }, { "deferred", COLUMN_NUMBER },
		{ "bounced", COLUMN_NUMBER } };
	const struct value values[] = { value_decimal((double)result->at_ns / 1e9),
		value_number(result->failures), value_number(result->deferred),
		value_number(result->bounced) };
	struct writer *writer = &ctl->writer;

	writer_object_begin(writer, NULL);
	writer_numbers(writer, "order", trace->order, trace->count);
	if (ctl->scheduled[SCHEDULE_OPTION_SCENARIO] != NULL) {
		writer_members(writer, columns, values, scenario->fails ? 4 : 1);
		trace_write_deliveries(trace, scenario, writer);
	}
	if (ctl->trace)
		trace_write_steps(trace, scenario, writer);
	writer_object_end(writer);
}

/* What could not be done of the scenario. */
static int complain_end(const char *file, const struct schedule_result *result) {
	switch (result->end) {
	case SCHEDULE_NOT_RUNNING:
		ctl_complain("%s:%d: error: completions: this delivery is not in progress at "
		    "%.3f s, and nothing else happens", file, result->line,
		    (double)result->at_ns / 1e9);
		return EX_DATAERR;
	case SCHEDULE_STUCK:
		ctl_complain("%s: error: %llu messages are never delivered: a window stays 0",
		    file, (unsigned long long)result->left);
		return EX_DATAERR;
	case SCHEDULE_NO_MEMORY:
		ctl_complain("%s", strerror(ENOMEM));
		return EX_OSERR;
	case SCHEDULE_DONE: case SCHEDULE_STOPPED:
		break;
	}
	return EX_OK;
}

int command_SIMULATE_SCHEDULE(struct ctl *ctl) {
	struct trace trace = { .states = ctl->trace };
	struct schedule_result result;
	struct scenario *scenario = NULL;
	int code = read_scenario(ctl, &scenario);

	if (code != EX_OK)
		return code;
	schedule_run(scenario, trace_keep, &trace, &result);
	if (trace.failed)
		result.end = SCHEDULE_NO_MEMORY;
	if (trace.full) {
		code = ctl_usage(COMMAND_SIMULATE_SCHEDULE, "--trace: too much output");
	} else {
		if (result.end != SCHEDULE_NO_MEMORY)
			write_result(ctl, scenario, &trace, &result);
		code = complain_end(ctl->scheduled[SCHEDULE_OPTION_SCENARIO], &result);
	}
	trace_free(&trace);
	scenario_free(scenario);
	return code;
}
