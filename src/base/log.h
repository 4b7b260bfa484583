/* SPDX-License-Identifier: ISC */
/*
 * The log: one line an event, `event=WORD key=value ...`, to syslog or stderr.
 * Event words, severities and rates come from defs/events.def.  A flood of one
 * event is cut to its rate; the next line that passes (or log_flush) tells how
 * many were left out.  Safe from any thread; never call it under a lock of the
 * segment.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind {
#define EVENT(symbol, word, severity, per_second, text) EVENT_##symbol,
#include "defs/events.def"
#undef EVENT
	EVENT_COUNT
};

enum log_target { LOG_TO_STDERR, LOG_TO_SYSLOG };

/* On stderr a line begins with time, `identity` and pid, or, where the environment's
 * JOURNAL_STREAM names it, with the severity as systemd's journal reads it ("<6>").
 * `identity` ("posternd") and `facility` (a LOG_* facility of syslog.h) must
 * outlive the log.  Call once before threads exist, and again to change. */
void log_open(enum log_target target, const char *identity, int facility);

/* Names the role in each line ("policy.1"); copied, at most 31 characters. */
void log_set_role(const char *role);

/* Values that come from outside must have gone through log_quote.  False: the line was left
 * out. */
bool log_event(enum event_kind event, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Would a line of this event pass its rate now?  False: it counts as left out, and needs not be
 * put together. */
bool log_wants(enum event_kind event);

/* Writes what was left out of each flood, if anything; call about once a second. */
void log_flush(void);

/* Copies text as one safe token: printable ASCII but space, '"' and '\' as it
 * is, everything else as \xNN; cut to fit with a trailing "...".  "" becomes
 * "-".  Returns `out`. */
const char *log_quote(char *out, size_t size, const char *text, size_t length);

/* Copies text for the inside of quotes: '"' becomes an apostrophe, what is not
 * printable ASCII \xNN; cut to fit.  Returns `out`. */
const char *log_sentence(char *out, size_t size, const char *text);

/* Tests: lines go to `sink` (without newline) instead; NULL: back to normal.  No rate is
 * used up, and nothing left out, from now on. */
void log_redirect(void (*sink)(void *context, const char *line), void *context);

#endif
