/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl(1): shows what posternd(8) does, and tells it to do things.
 * MODEL    One command a run.  Tables come from the state file, which is only
 *          read; questions and requests go to the control socket.
 * ERRORS   One line on stderr and an exit code of sysexits(3).
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sysexits.h>
#include <unistd.h>

#include "ctl/cli/arguments.h"
#include "ctl/cli/ctl.h"
#include "ctl/show/screen.h"

static int (*const runs[COMMAND_COUNT])(struct ctl *ctl) = {
#define COMMAND(symbol, words, arguments, brief, permission, where, text) \
	[COMMAND_##symbol] = command_##symbol,
#include "defs/commands.def"
#undef COMMAND
};

/* The state file was cut while it was mapped: by a role that was taken over, or by somebody. */
static void on_bus_error(int number) {
	static const char text[] =
	    "posternctl: the state file was truncated while it was read\n";
	ssize_t ignored;

	(void)number;
	screen_close();
	ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
	(void)ignored;
	_exit(EX_DATAERR);
}

/* How wide tables may be, or 0: what is no terminal gets all. */
static size_t table_width(const struct ctl *ctl) {
	struct winsize size;

	if (ctl->wide || !isatty(STDOUT_FILENO))
		return 0;
	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* `code`, if everything could be written. */
static int finish(const struct ctl *ctl, int code) {
	const struct writer *writer = &ctl->writer;

	if (writer_finish(writer)) {
		if (writer->left_out > 0)
			ctl_complain("%u column%s not shown: --wide shows all, --columns a choice",
			    writer->left_out, writer->left_out == 1 ? "" : "s");
		if (code == EX_OK && writer->chosen != NULL && !writer->json &&
		    !writer->chosen_found) {
			ctl_complain("--columns %s: no table has one of these", writer->chosen);
			return EX_USAGE;
		}
		return code;
	}
	ctl_complain("cannot write the output: %s", strerror(errno));
	return EX_IOERR;
}

int main(int argc, char **argv) {
	struct ctl ctl = { .config_path = POSTERN_SYSCONFDIR "/postern.conf" };
	enum command command;
	bool json = false;

	enum request request;

	signal(SIGBUS, on_bus_error);
	request = arguments_parse(argc, argv, &ctl, &json, &command);
	writer_init(&ctl.writer, stdout, json);
	ctl.writer.color = color_is_wanted(ctl.color);
	ctl.writer.fit = table_width(&ctl);
	ctl.writer.chosen = ctl.columns;
	switch (request) {
	case REQUEST_RUN:
		return finish(&ctl, runs[command](&ctl));
	case REQUEST_HELP:
		arguments_help(stdout, command);
		return finish(&ctl, EX_OK);
	case REQUEST_HELP_FAMILY:
		arguments_help_family(stdout, command);
		return finish(&ctl, EX_OK);
	case REQUEST_VERSION:
		puts("posternctl " PACKAGE_VERSION);
		return finish(&ctl, EX_OK);
	case REQUEST_WRONG:
		break;
	}
	return EX_USAGE;
}
