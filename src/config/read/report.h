/* SPDX-License-Identifier: ISC */
/* Gathers messages while a file is compiled, and puts them in file order. */
#ifndef CONFIG_REPORT_H
#define CONFIG_REPORT_H

#include <stddef.h>
#include <stdio.h>

#define SETTING_NAME_MAX	48	/* bytes of "state.sessions" and its like */

enum message_severity { MESSAGE_ERROR, MESSAGE_NOTE };

struct config_message {
	enum message_severity severity;
	char file[256];
	int line;		/* 0: the file as a whole */
	char text[384];		/* one line, escaped */
	unsigned order, place;	/* in the text; among messages as they came */
};

/* What a compilation said, in file order.  At most 1,000 are kept; `errors`
 * and `notes` count all. */
struct config_messages {
	struct config_message *list;
	size_t count;
	size_t errors;
	size_t notes;
};

void config_messages_free(struct config_messages *messages);
const char *message_severity_word(enum message_severity severity);
/* A line each, "FILE:LINE: error: TEXT", after `before`. */
void config_messages_print(const struct config_messages *messages, FILE *out, const char *before);

#define REPORT_KEPT 1000	/* messages; the rest is counted only */

struct report {
	struct config_messages *messages;
	size_t room;
};

/* `messages` is emptied. */
void report_begin(struct report *report, struct config_messages *messages);

/* Adds one; `order` is its place in the text with all its included files. */
void report_add(struct report *report, enum message_severity severity,
    const char *file, unsigned line, unsigned order, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

/* Sorts what was kept. */
void report_end(struct report *report);

#endif
