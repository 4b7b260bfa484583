/* SPDX-License-Identifier: ISC */
/* The command line, by what defs/commands.def says of each command. */
#ifndef CTL_ARGUMENTS_H
#define CTL_ARGUMENTS_H

#include <stdio.h>

#include "ctl/cli/ctl.h"

struct command_words {
	const char *words;	/* "explain session" */
	const char *arguments;	/* "ADDRESS [NAME] [--port P]" */
	const char *brief;	/* what for, in at most 58 characters */
	const char *text;
};

const struct command_words *command_words(enum command command);

enum request {
	REQUEST_RUN,
	REQUEST_HELP,		/* of all, or of `command` when it is not COMMAND_COUNT */
	REQUEST_HELP_FAMILY,	/* of those that begin with the first word of `command` */
	REQUEST_VERSION,
	REQUEST_WRONG,		/* complained about: EX_USAGE */
};

/* Fills ctl (but its writer's stream) and *command. */
enum request arguments_parse(int argc, char **argv, struct ctl *ctl, bool *json,
    enum command *command);

/* COMMAND_COUNT: of all. */
void arguments_help(FILE *out, enum command command);
void arguments_help_family(FILE *out, enum command command);

#endif
