/* SPDX-License-Identifier: ISC */
/*
 * Laws of concurrency beside each other: those of policy/window/, and those that others use.
 * Each is written from its paper or documentation (`source`), with the defaults given there;
 * times that are meant for requests of milliseconds are scaled to deliveries of seconds, and
 * the file says how.
 *
 * A law hears of each attempt once it has ended, and says how many may run at once.  It does
 * not know the site.  One thread.
 */
#ifndef TESTS_SIM_LAWS_LAW_H
#define TESTS_SIM_LAWS_LAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/reply/reply.h"

#define LAW_MS		INT64_C(1000000)
#define LAW_SECOND	(1000 * LAW_MS)
#define LAW_MINUTE	(60 * LAW_SECOND)

/* Every law begins with this window, and goes no higher than that. */
#define LAW_INITIAL	5
#define LAW_MOST	20

struct law_result {
	int64_t start_ns, end_ns;
	uint32_t level;		/* the place that it asked for: one more than were accepted and not
				 * ended when it started */
	uint32_t in_flight;	/* just now, without it */
	enum result_class class;
	bool answered;		/* of a failure: the site said no; else there was no answer */
	bool canary;
};
/* Did the site take it, whatever became of its recipient? */
static inline bool law_accepts(const struct law_result *result) {
	return result->class != RESULT_SITE_FAILURE && result->class != RESULT_REMOTE_THROTTLE;
}

struct law {
	const char *name, *source;
	size_t bytes;		/* of its state, zeroed before begin */
	void (*begin)(void *state);
	/* How many may run at once now. */
	uint32_t (*window)(const void *state, int64_t now_ns);
	void (*hear)(void *state, const struct law_result *result, int64_t now_ns);
	/* Time passes; NULL: it does nothing by itself.  due_ns: when it next would (INT64_MAX:
	 * never). */
	void (*turn)(void *state, uint32_t in_flight, int64_t now_ns);
	int64_t (*due_ns)(const void *state);
	/* May one go above the window?  Then it is issued.  NULL: never. */
	bool (*canary)(void *state, int64_t now_ns);
};

extern const struct law law_probe, law_postfix, law_document, law_aimd, law_vegas, law_gradient2,
    law_envoy, law_failsafe, law_cinnamon, law_bbr, law_snap_back, law_ramp, law_two_modes,
    law_two_modes_success;

/* A window within 1 and LAW_MOST. */
static inline double law_within(double window) {
	return window < 1 ? 1 : window > LAW_MOST ? LAW_MOST : window;
}
static inline uint32_t law_whole(double window) {
	return (uint32_t)law_within(window);
}

#endif
