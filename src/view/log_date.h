/* SPDX-License-Identifier: ISC */
/* When a line of a mail log was written, for who looks at the log from outside. */
#ifndef VIEW_LOG_DATE_H
#define VIEW_LOG_DATE_H

#include <stdint.h>

/* Seconds since 1970 of the date that a line begins with (RFC 3339, or of syslog: this year's, or
 * the last one's), or 0. */
int64_t log_date(const char *line, int64_t now_s);

/* Of the line at this place of the file; 0: not known, as the file is not ours to read. */
int64_t log_date_at(const char *path, uint64_t offset, int64_t now_s);

#endif
