/* SPDX-License-Identifier: ISC */
/* An alert, on its way from the keeper, or the supervisor, to alert.command
 * (role/supervise/alerts.h). */
#ifndef ROLE_ALERT_H
#define ROLE_ALERT_H

#include <stdbool.h>
#include <stdint.h>

#include "config/generation/generation.h"

#define ALERT_SUBJECT_MAX	324	/* a name of 80 bytes, quoted */
#define ALERT_TEXT_MAX		400

struct alert {
	enum alert_kind kind;
	char subject[ALERT_SUBJECT_MAX + 1];	/* log_quote has made it one word */
	char text[ALERT_TEXT_MAX + 1];	/* printable ASCII (log_sentence) */
	char rule[ALERT_SUBJECT_MAX + 1];	/* of a provider, or "" */
	char id[24];			/* of the decision, or "" */
	int64_t for_s;			/* so long it is held; 0: that does not apply */
	bool observed;			/* it would be */
	int64_t wall_s;			/* when */
};

/* One with a subject, of now. */
void alert_begin(struct alert *alert, enum alert_kind kind, const char *subject);

#endif
