/* SPDX-License-Identifier: ISC */
/* What goes to stderr: one line each, printable, with the exit code that suits. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "config/compile/compile.h"
#include "ctl/cli/arguments.h"
#include "ctl/cli/color.h"
#include "ctl/cli/ctl.h"

static void complain(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));

static void complain(const char *format, va_list arguments) {
	char text[1024];

	vsnprintf(text, sizeof(text), format, arguments);
	progress_hide();
	fputs("posternctl: ", stderr);
	writer_print(stderr, text);
	putc('\n', stderr);
}

void ctl_complain(const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
}

/* The file that the daemon's places are from, or NULL. */
static const char *places_from;

void ctl_places_are_from(const char *config_path) {
	places_from = config_path;
}

/* Compiled only now, as with many classes that takes long. */
static bool has_errors(const char *config_path) {
	struct config_messages messages;
	bool has;

	free(config_compile(config_path, &messages));
	has = messages.errors > 0;
	config_messages_free(&messages);
	return has;
}

int ctl_os_error(int error) {
	ctl_complain("%s", strerror(error));
	return EX_OSERR;
}

int ctl_fail(const struct diag *diag) {
	ctl_complain("%s", diag->text);
	switch (diag->error) {
	case ENOENT:
	case ENOTDIR:
	case ECONNREFUSED:
		if (places_from != NULL && has_errors(places_from))
			ctl_complain("%s has errors, so this may be the wrong place; "
			    "run \"posternctl check\"", places_from);
		return EX_UNAVAILABLE;
	case EACCES:
	case EPERM:
		return EX_NOPERM;
	case ETIMEDOUT:
	case ECONNRESET:
	case EPIPE:
		return EX_TEMPFAIL;
	case EPROTO:
		return EX_PROTOCOL;
	case EINVAL:
	case ENAMETOOLONG:
	case EMSGSIZE:
		return EX_USAGE;
	case 0:
		return EX_DATAERR;
	default:
		return EX_OSERR;
	}
}

int ctl_usage(enum command command, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	complain(format, arguments);
	va_end(arguments);
	fprintf(stderr, "Try: posternctl %s --help\n", command_words(command)->words);
	return EX_USAGE;
}
