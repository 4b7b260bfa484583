/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl's help.
 * MODEL    Texts come from commands.def, arguments.def, examples.def and the option tables
 *          of the simulations.  Long texts are folded for a terminal of 80 columns.
 * ERRORS   None; the caller checks the stream.
 * THREADS  No state.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ctl/cli/arguments.h"

#define COLUMNS		79
#define TEXT_COLUMN	8	/* of the text below an option */

struct option_help {
	const char *option, *value, *text;
};

static const struct option_help simulation_options[] = {
#define SIMULATION(symbol, option, argument, text) { option, argument, text },
#include "defs/simulations.def"
#undef SIMULATION
	{ NULL, NULL, NULL },
};

static const struct option_help worker_options[] = {
#define WORKED(symbol, option, argument, text) { option, argument, text },
#include "defs/workers.def"
#undef WORKED
	{ NULL, NULL, NULL },
};

static const struct option_help queue_options[] = {
#define QUEUED(symbol, option, argument, text) { option, argument, text },
#include "defs/queues.def"
#undef QUEUED
	{ NULL, NULL, NULL },
};

static const struct option_help schedule_options[] = {
#define SCHEDULE(symbol, option, argument, text) { option, argument, text },
#include "defs/schedules.def"
#undef SCHEDULE
	{ NULL, NULL, NULL },
};

static const struct {
	enum command command;
	struct option_help help;
} command_arguments[] = {
#define ARGUMENT(command, argument, text) { COMMAND_##command, { argument, "", text } },
#include "defs/arguments.def"
#undef ARGUMENT
};

static const struct {
	enum command command;
	const char *line, *text;
} examples[] = {
#define EXAMPLE(command, line, text) { COMMAND_##command, line, text },
#include "defs/examples.def"
#undef EXAMPLE
};

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))

/* Words of a text with `end` behind it, in lines that begin at a column. */
static void write_folded(FILE *out, int column, const char *text, const char *end) {
	int at = 0;

	while (*text != '\0') {
		int length = (int)strcspn(text, " ");

		if (at > 0 && at + 1 + length > COLUMNS) {
			putc('\n', out);
			at = 0;
		}
		if (at == 0)
			at = fprintf(out, "%*s%.*s", column, "", length, text);
		else
			at += fprintf(out, " %.*s", length, text);
		text += length;
		text += strspn(text, " ");
	}
	fprintf(out, "%s\n", end);
}

static void write_option(FILE *out, const struct option_help *help) {
	fprintf(out, "  %s%s%s\n", help->option, help->value[0] == '\0' ? "" : " ", help->value);
	write_folded(out, TEXT_COLUMN, help->text, "");
}

static const struct option_help *simulation_table(enum command command) {
	switch (command) {
	case COMMAND_SIMULATE_WINDOW:
		return simulation_options;
	case COMMAND_SIMULATE_WORKERS:
		return worker_options;
	case COMMAND_SIMULATE_SCHEDULE:
		return schedule_options;
	case COMMAND_SIMULATE_QUEUE:
		return queue_options;
	default:
		return NULL;
	}
}

static bool begin(FILE *out, bool begun, const char *heading) {
	if (!begun)
		fprintf(out, "\n%s:\n", heading);
	return true;
}

static void write_options(FILE *out, enum command command) {
	const struct option_help *table = simulation_table(command);
	bool begun = false;

	for (; table != NULL && table->option != NULL; table++) {
		begun = begin(out, begun, "Options (defaults in parentheses)");
		write_option(out, table);
	}
	for (size_t i = 0; i < COUNT_OF(command_arguments); i++) {
		if (command_arguments[i].command != command)
			continue;
		begun = begin(out, begun, "Arguments (defaults in parentheses)");
		write_option(out, &command_arguments[i].help);
	}
}

static void write_examples(FILE *out, enum command command) {
	bool begun = false;

	for (size_t i = 0; i < COUNT_OF(examples); i++) {
		if (examples[i].command != command)
			continue;
		begun = begin(out, begun, "Examples");
		fprintf(out, "  posternctl %s\n", examples[i].line);
		write_folded(out, TEXT_COLUMN, examples[i].text, "");
	}
}

/* Commands that share their first word share a line; false: it shares it with none. */
static bool help_family(FILE *out, unsigned command) {
	static const struct {
		const char *word, *brief;
	} families[] = {
		{ "explain ", "show rule and answer" },
		{ "journal ", "show journal files, read-only" },
		{ "simulate ", "run in virtual time" },
	};
	const char *words = command_words((enum command)command)->words;

	for (size_t i = 0; i < COUNT_OF(families); i++) {
		size_t length = strlen(families[i].word);
		const char *comma = "";

		if (strncmp(words, families[i].word, length) != 0)
			continue;
		if (command > 0 && strncmp(command_words((enum command)(command - 1))->words,
			families[i].word, length) == 0)
			return true;
		fprintf(out, "  %s%-*s ", families[i].word, (int)(19 - length), "...");
		for (; command < COMMAND_COUNT && strncmp(words = command_words(
			(enum command)command)->words, families[i].word, length) == 0; command++) {
			fprintf(out, "%s%s", comma, words + length);
			comma = ", ";
		}
		fprintf(out, ": %s\n", families[i].brief);
		return true;
	}
	return false;
}

/* Commands that stand beside each other in commands.def, and share a line; false: none. */
static bool help_group(FILE *out, unsigned command) {
	static const struct {
		enum command first, last;
		const char *words, *brief;
	} groups[] = {
		{ COMMAND_ACCOUNTS, COMMAND_ACCOUNT, "accounts, account",
		    "show logins, or one login: used and limits" },
		{ COMMAND_SENDMAIL_QUEUE, COMMAND_SENDMAIL_NEXT, "sendmail queue, next",
		    "show a managed queue, and what it would run next" },
		{ COMMAND_TOP, COMMAND_TAIL, "top, tail",
		    "show all of it live; show decisions as they happen" },
		{ COMMAND_SUSPEND, COMMAND_HOLD, "suspend, hold",
		    "stop mail for a time, or until it is resumed" },
		{ COMMAND_RESUME_ACCOUNT, COMMAND_LIMIT, "resume, forget, limit",
		    "resume mail; reset what was learned; set a window" },
		{ COMMAND_CLUSTER_FORGET, COMMAND_CLUSTER, "cluster [forget]",
		    "show the nodes of the cluster; remove a node" },
		{ COMMAND_CHECK, COMMAND_RELOAD, "check, reload",
		    "check a configuration file; reload the configuration" },
	};

	for (size_t i = 0; i < COUNT_OF(groups); i++) {
		if (command < groups[i].first || command > groups[i].last)
			continue;
		if (command == groups[i].first)
			fprintf(out, "  %-19s %s\n", groups[i].words, groups[i].brief);
		return true;
	}
	return false;
}

/* Where there are many options, they stand below, a line each. */
static const char *arguments_shown(enum command command) {
	return command == COMMAND_SIMULATE_WINDOW || command == COMMAND_SIMULATE_WORKERS ?
	    "[OPTION VALUE]..." : command_words(command)->arguments;
}

void arguments_help_family(FILE *out, enum command command) {
	const char *words = command_words(command)->words;
	size_t length = strcspn(words, " ");

	fprintf(out, "Usage: posternctl [-c FILE] [-s SOCKET] [--json] %.*s COMMAND ... | "
	    "%.*s COMMAND --help\n", (int)length, words, (int)length, words);
	for (unsigned i = 0; i < COMMAND_COUNT; i++) {
		const struct command_words *one = command_words((enum command)i);
		const char *arguments = arguments_shown((enum command)i);

		if (strncmp(one->words, words, length + 1) == 0)
			fprintf(out, "  %s%s%s\n        %s\n", one->words,
			    arguments[0] == '\0' ? "" : " ", arguments, one->brief);
	}
}

static void help_command(FILE *out, enum command command) {
	const struct command_words *one = command_words(command);
	const char *arguments = arguments_shown(command);

	fprintf(out, "Usage: posternctl [-c FILE] [-s SOCKET] [--json] %s%s%s\n\n",
	    one->words, arguments[0] == '\0' ? "" : " ", arguments);
	write_folded(out, 0, one->text, ".");
	write_options(out, command);
	write_examples(out, command);
}

void arguments_help(FILE *out, enum command command) {
	if (command != COMMAND_COUNT) {
		help_command(out, command);
		return;
	}
	/* all of it on a screen of 24 lines */
	fputs("Usage: posternctl [-c FILE] [-s SOCKET] [--json] COMMAND ... | COMMAND --help\n", out);
	for (unsigned i = 0; i < COMMAND_COUNT; i++)
		if (!help_family(out, i) && !help_group(out, i))
			fprintf(out, "  %-19s %s\n", command_words((enum command)i)->words,
			    command_words((enum command)i)->brief);
	fputs("-c FILE: configuration file (" POSTERN_SYSCONFDIR "/postern.conf)\n"
	      "-s SOCKET: control socket; --json; --wide; --columns NAMES; --color=WHEN; -V\n",
	    out);
}
