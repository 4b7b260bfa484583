/* SPDX-License-Identifier: ISC */
/*
 * posternctl's commands.  Each is declared in defs/commands.def and is one
 * function here: it writes to ctl->writer, complains with ctl_complain, and
 * returns an exit code of sysexits(3).
 */
#ifndef CTL_CTL_H
#define CTL_CTL_H

#include <limits.h>
#include <stdbool.h>

#include "base/diag.h"
#include "config/compile/compile.h"
#include "ctl/cli/color.h"
#include "view/writer.h"

#define CTL_ARGUMENTS_MAX	4

enum command {
#define COMMAND(symbol, words, arguments, brief, permission, where, text) COMMAND_##symbol,
#include "defs/commands.def"
#undef COMMAND
	COMMAND_COUNT
};

struct ctl {
	const char *config_path;
	bool config_given;		/* by -c */
	const char *socket;		/* by -s, or NULL */
	enum color_choice color;	/* --color */
	bool wide;			/* --wide */
	const char *columns;		/* --columns, or NULL */
	struct writer writer;

	/* the command's own */
	const char *arguments[CTL_ARGUMENTS_MAX];
	size_t argument_count;
	char *const *words;		/* all of them, where there may be any number */
	size_t word_count;
	/* options: a text or NULL, or whether it was given */
#define OPTION_VALUE(member) const char *member;
#define OPTION_FLAG(member) bool member;
#define OPTION(name, takes, member) OPTION_##takes(member)
#include "defs/options.def"
#undef OPTION
#undef OPTION_VALUE
#undef OPTION_FLAG
};

/* Where a daemon's files are, by its configuration. */
struct places {
	char state[PATH_MAX];
	char control[PATH_MAX];
	char queue[PATH_MAX];		/* the queue role's control socket, or "" */
	char events[PATH_MAX];		/* the first event socket, or "" */
	char journal[PATH_MAX];		/* "": there is none */
	const char *config_path;
};

/* Finds the files of the daemon that uses ctl's configuration.  A file with
 * mistakes still tells where they are, as far as it can be read; what it does
 * not tell is as by default.  0, or an exit code after a complaint: the file
 * that was asked for is not there. */
int places_find(const struct ctl *ctl, struct places *places);

/* The whole of it, which the caller frees; NULL: it has mistakes. */
struct generation *places_compile(const struct places *places);

/* "posternctl: TEXT" on stderr, made printable. */
void ctl_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The configuration that names the daemon's places: where nobody is there, ctl_fail says so if
 * it has errors.  The path must outlive the command. */
void ctl_places_are_from(const char *config_path);

/* Complains of what the system lacks, as no memory: EX_OSERR. */
int ctl_os_error(int error);

/* Complains with diag's text and returns the exit code that its error means. */
int ctl_fail(const struct diag *diag);

/* Complains about usage: EX_USAGE. */
int ctl_usage(enum command command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What stands for the commands of a row that this build is without: EX_UNAVAILABLE. */
#ifndef WITH_QUEUE
#define command_SENDMAIL_QUEUE	command_without_queue
#define command_SENDMAIL_NEXT	command_without_queue
#endif
#ifndef WITH_ACCOUNTS
#define command_ACCOUNTS	command_without_accounts
#define command_ACCOUNT		command_without_accounts
#define command_EXPLAIN_ACCOUNT	command_without_accounts
#define command_FORGET_ACCOUNT	command_without_accounts
#define command_RESUME_ACCOUNT	command_without_accounts
#endif
#ifndef WITH_CLUSTER
#define command_CLUSTER		command_without_cluster
#define command_CLUSTER_FORGET	command_without_cluster
#endif
#define COMMAND(symbol, words, arguments, brief, permission, where, text) \
	int command_##symbol(struct ctl *ctl);
#include "defs/commands.def"
#undef COMMAND

#endif
