/* SPDX-License-Identifier: ISC */
/*
 * Names of log files that hold a date, or are several: "/var/log/mail-%Y%m%d.log",
 * "/var/log/mail-?.log".  Conversions are those of strftime(3) that have an order:
 *
 *	%Y %y %m %b %d %H %M %S %j %U %V %W %G %F (%Y-%m-%d) %s, and %% for %
 *
 * and * ? [...] are those of glob(7); none of these matches a "/".  A path
 * without them is plain.  Pure; any thread.
 */
#ifndef BASE_PATH_PATTERN_H
#define BASE_PATH_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool path_pattern_is_plain(const char *pattern);

/* Why it can be no pattern: static text.  NULL: it is one, or plain. */
const char *path_pattern_fault(const char *pattern);

/* The same for glob(3), which finds all files that match, and some that do not.  False:
 * it does not fit. */
bool path_pattern_glob(const char *pattern, char *out, size_t size);

/* Does the path match?  *order: of its dates (later ones have higher numbers; 0 where
 * the pattern has none).  Compressed files match no * at the end of a pattern. */
bool path_pattern_match(const char *pattern, const char *path, uint64_t *order);

/* Which of two matches is the newer one: by order, then by name as people count
 * ("mail.9" before "mail.10").  As strcmp. */
int path_pattern_compare(const char *a, uint64_t order_a, const char *b, uint64_t order_b);

#endif
