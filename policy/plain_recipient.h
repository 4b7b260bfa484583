/* SPDX-License-Identifier: ISC */
/*
 * Recipients as Sendmail's log lists them, "<A>,<B>" or "A,B", where there is no doubt of any:
 * letters, digits and marks that need no quotes, one @, and a domain.  Pure.
 */
#ifndef POLICY_PLAIN_RECIPIENT_H
#define POLICY_PLAIN_RECIPIENT_H

#include <stdbool.h>

#include "policy/delivery.h"

#define PLAIN_RECIPIENT_MAX	255

/* The next one, without < >; the list is what follows then, behind the comma.  False: it is not
 * plain, or there is none. */
bool recipient_take_plain(struct span *list, struct span *recipient);

/* Behind its @. */
struct span recipient_domain(struct span recipient);

#endif
