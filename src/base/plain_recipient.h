/* SPDX-License-Identifier: ISC */
/*
 * Recipients as Sendmail's log lists them, "<A>,<B>" or "A,B", where there is no doubt of any:
 * letters, digits and marks that need no quotes, one @, and a domain.  Pure.
 */
#ifndef BASE_PLAIN_RECIPIENT_H
#define BASE_PLAIN_RECIPIENT_H

#include <stdbool.h>
#include <stddef.h>

#define PLAIN_RECIPIENT_MAX	255

/* The next one from *at on, without < >; *at is behind its comma then.  False: it is not plain,
 * or there is none. */
bool plain_recipient_take(const char **at, const char *end, const char **text, size_t *length);

/* Behind its @; all of it where there is none. */
const char *plain_recipient_domain(const char *text, size_t length);

#endif
