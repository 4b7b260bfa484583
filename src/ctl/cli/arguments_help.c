/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl's help.
 * MODEL    Texts come from commands.def, arguments.def and examples.def.
 * ERRORS   None; the caller checks the stream.
 * THREADS  No state.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ctl/cli/arguments.h"
#include "view/help.h"

static const struct {
	enum command command;
	const char *argument, *text;
} command_arguments[] = {
#define ARGUMENT(command, argument, text) { COMMAND_##command, argument, text },
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

static bool write_heading(FILE *out, bool begun, const char *heading) {
	if (!begun)
		fprintf(out, "\n%s:\n", heading);
	return true;
}

static void write_options(FILE *out, enum command command) {
	bool begun = false;

	for (size_t i = 0; i < COUNT_OF(command_arguments); i++) {
		if (command_arguments[i].command != command)
			continue;
		begun = write_heading(out, begun, "Arguments (defaults in parentheses)");
		help_option(out, command_arguments[i].argument, "", command_arguments[i].text);
	}
}

static void write_examples(FILE *out, enum command command) {
	bool begun = false;

	for (size_t i = 0; i < COUNT_OF(examples); i++) {
		if (examples[i].command != command)
			continue;
		begun = write_heading(out, begun, "Examples");
		help_example(out, "posternctl", examples[i].line, examples[i].text);
	}
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
		{ COMMAND_EXPLAIN_SESSION, COMMAND_EXPLAIN_SOURCE, "explain ...",
		    "session, destination, account, source: show the answer" },
		{ COMMAND_JOURNAL_CHECK, COMMAND_JOURNAL_STAT, "journal ...",
		    "check, dump, stat: show journal files, read-only" },
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

void arguments_help_family(FILE *out, enum command command) {
	const char *words = command_words(command)->words;
	size_t length = strcspn(words, " ");

	fprintf(out, "Usage: posternctl [-c FILE] [-s SOCKET] [--json] %.*s COMMAND ... | "
	    "%.*s COMMAND --help\n", (int)length, words, (int)length, words);
	for (unsigned i = 0; i < COMMAND_COUNT; i++) {
		const struct command_words *one = command_words((enum command)i);
		const char *arguments = one->arguments;

		if (strncmp(one->words, words, length + 1) == 0)
			fprintf(out, "  %s%s%s\n        %s\n", one->words,
			    arguments[0] == '\0' ? "" : " ", arguments, one->brief);
	}
}

static void help_command(FILE *out, enum command command) {
	const struct command_words *one = command_words(command);
	const char *arguments = one->arguments;

	fprintf(out, "Usage: posternctl [-c FILE] [-s SOCKET] [--json] %s%s%s\n\n",
	    one->words, arguments[0] == '\0' ? "" : " ", arguments);
	help_fold(out, 0, one->text, ".");
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
		if (!help_group(out, i))
			fprintf(out, "  %-19s %s\n", command_words((enum command)i)->words,
			    command_words((enum command)i)->brief);
	fputs("-c FILE: configuration file (" POSTERN_SYSCONFDIR "/postern.conf)\n"
	      "-s SOCKET: control socket; --json; --wide; --columns NAMES; --color=WHEN; -V\n",
	    out);
}
