/* SPDX-License-Identifier: ISC */
/* The beginning of an alert.  Any thread. */
#include "role/run/alert.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"

void alert_begin(struct alert *alert, enum alert_kind kind, const char *subject) {
	*alert = (struct alert){ .kind = kind, .wall_s = clock_wall_s() };
	log_quote(alert->subject, sizeof(alert->subject), subject, strlen(subject));
}
