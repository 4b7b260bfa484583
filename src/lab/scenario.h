/* SPDX-License-Identifier: ISC */
/*
 * A scenario for `postern-simulate schedule': transports, destinations, messages and the
 * order in which deliveries end (defs/scenario.def; postern-scenario(5)).  What is read is
 * checked and bounded: every number that others index by is within its array.
 */
#ifndef LAB_SCENARIO_H
#define LAB_SCENARIO_H

#include <stddef.h>
#include <stdint.h>

#include "config/compile/compile.h"
#include "lab/options.h"
#include "policy/schedule/job_settings.h"
#include "policy/window/window.h"

#define SCENARIO_TRANSPORTS_MAX		100
#define SCENARIO_DESTINATIONS_MAX	100000u
#define SCENARIO_MESSAGES_MAX		100000u
#define SCENARIO_RECIPIENTS_MAX		1000000u	/* of all messages */
#define SCENARIO_COMPLETIONS_MAX	1000000u
#define SCENARIO_CHANGES_MAX		16		/* of one window */
#define SCENARIO_NONE			UINT32_MAX

struct scenario_transport {
	char name[64 + 1];
	struct job_settings job;
	struct window_settings window;				/* law postfix */
	int64_t service_ns;
	uint32_t works, works_count;	/* changes: 0, its program fails; none: it works */
};

struct scenario_destination {
	uint32_t name;			/* scenario_name() */
	uint32_t transport;
	uint32_t rank;			/* by the name of the transport, then its own */
	uint32_t changes, change_count;	/* of its window, the first at 0; none: by the law */
	uint32_t accepts, accepts_count;	/* changes; none: it accepts all */
	int64_t service_ns;		/* -1: the transport's */
	int64_t refusal_ns;
};

/* Recipients that follow one another in a message and go to one destination. */
struct scenario_recipients {
	uint32_t destination;
	uint32_t count;
};

struct scenario_message {
	int64_t arrive_ns;
	int64_t service_ns;		/* -1: the destination's */
	uint32_t runs, run_count;	/* of recipients */
	uint32_t recipients;
	bool deferred;			/* from the start */
};

struct scenario_completion {
	int64_t at_ns;
	uint32_t message;		/* from 0 */
	uint32_t destination;		/* or SCENARIO_NONE: any */
	int line;			/* of the file */
};

struct scenario {
	struct pool_settings pool;	/* batch_most 0 */
	struct scenario_transport *transports;
	struct scenario_destination *destinations;
	struct timed_count *changes;
	struct scenario_message *messages;
	struct scenario_recipients *runs;
	struct scenario_completion *completions;
	uint32_t transport_count, destination_count, change_count, message_count, run_count,
	    completion_count;
	uint32_t recipient_count;	/* of all messages */
	int64_t minimal_backoff_ns, maximal_backoff_ns, queue_run_ns, lifetime_ns,
	    transport_retry_ns;
	bool fails;			/* a delivery can fail: accepts or works is set */
	char *names;
};

/* Reads a file, or a text under a name.  NULL: there is an error; messages are
 * filled in any case (config_messages_free). */
struct scenario *scenario_read(const char *path, struct config_messages *messages);
struct scenario *scenario_read_text(const char *text, const char *name,
    struct config_messages *messages);

void scenario_free(struct scenario *scenario);

/* What a series of changes says at a time; `none` where there is no series. */
uint32_t scenario_value_at(const struct scenario *scenario, uint32_t changes, uint32_t count,
    int64_t at_ns, uint32_t none);

static inline const char *scenario_name(const struct scenario *scenario, uint32_t destination) {
	return scenario->names + scenario->destinations[destination].name;
}

#endif
