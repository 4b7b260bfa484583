/* SPDX-License-Identifier: ISC */
/* Gathers messages while a file is compiled, and puts them in file order. */
#ifndef CONFIG_REPORT_H
#define CONFIG_REPORT_H

#include <stddef.h>

#include "config/compile.h"

#define REPORT_KEPT 1000	/* messages; the rest is counted only */

struct report {
	struct config_messages *messages;
	unsigned *orders;	/* of each message kept: where it belongs */
	size_t room;
};

/* `messages` is emptied. */
void report_begin(struct report *report, struct config_messages *messages);

/* Adds one; `order` is its place in the text with all its included files. */
void report_add(struct report *report, enum message_severity severity,
    const char *file, unsigned line, unsigned order, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Sorts what was kept and frees everything but the messages. */
void report_end(struct report *report);

#endif
