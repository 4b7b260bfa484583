/* SPDX-License-Identifier: ISC */
/*
 * A scenario of any text: refused with something said, or one that can be run.  Then each
 * recipient is delivered once, no window, process limit or bound on recipients in core is
 * broken, and what is not delivered has a reason.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "lab/schedule.h"

#define RUN_RECIPIENTS_MAX	3000u	/* more take too long here */
#define TRIED_RECIPIENTS_MAX	30u	/* the same, where each is tried often */

/* As in config/compile/compile.c, which this program does not have: libconfig forgets the text
 * of a string that stands where none may. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
	return "leak:libconfig.so\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct watch {
	const struct scenario *scenario;
	uint32_t *running;		/* of each destination */
	uint32_t *processes;		/* of each transport */
	uint64_t started, ended, core;
	uint64_t done;			/* delivered or bounced */
	int64_t last_ns;
};

/* Each message has its minimum, and besides there is what the limits give. */
static void check_core(const struct watch *watch) {
	const struct scenario *s = watch->scenario;
	uint64_t most = (uint64_t)s->pool.message_recipient_limit +
	    (uint64_t)s->pool.message_recipient_minimum * s->message_count;

	for (uint32_t i = 0; i < s->transport_count; i++)
		most += s->transports[i].job.recipient_limit +
		    s->transports[i].job.extra_recipient_limit;
	MUST(watch->core <= most);
}

static bool see(void *context, const struct schedule_step *step,
    const struct schedule_look *look) {
	struct watch *watch = context;
	const struct scenario *s = watch->scenario;

	(void)look;
	MUST(step->at_ns >= watch->last_ns && step->transport < s->transport_count);
	MUST(step->message == SCENARIO_NONE || step->message < s->message_count);
	watch->last_ns = step->at_ns;
	switch (step->event) {
	case SCHEDULE_ARRIVE: case SCHEDULE_READ:
		watch->core += step->recipients;
		break;
	case SCHEDULE_START:
		MUST(s->destinations[step->destination].transport == step->transport);
		MUST(step->recipients > 0 && step->at_ns >= s->messages[step->message].arrive_ns);
		MUST(++watch->processes[step->transport] <=
		    s->transports[step->transport].job.process_limit);
		watch->running[step->destination]++;
		watch->started += step->recipients;
		if (!s->fails)
			check_core(watch);
		break;
	case SCHEDULE_END:
		MUST(watch->running[step->destination]-- > 0);
		watch->processes[step->transport]--;
		watch->ended += step->recipients;
		watch->core -= step->recipients;
		watch->done += step->fails ? 0 : step->recipients;
		break;
	case SCHEDULE_BOUNCE:
		watch->done += step->recipients;
		break;
	case SCHEDULE_DEFER: case SCHEDULE_WINDOW: case SCHEDULE_EVENT_COUNT:
		break;
	}
	return true;
}

static void run(const struct scenario *s) {
	struct watch watch = { .scenario = s,
		.running = calloc((size_t)s->destination_count + 1, sizeof(*watch.running)),
		.processes = calloc(s->transport_count, sizeof(*watch.processes)) };
	struct schedule_result result;

	if (watch.running != NULL && watch.processes != NULL) {
		schedule_run(s, see, &watch, &result);
		MUST(watch.ended <= watch.started && watch.done <= s->recipient_count);
		MUST(s->fails || watch.started <= s->recipient_count);
		if (result.end == SCHEDULE_DONE)
			MUST(watch.done == s->recipient_count && result.left == 0);
		else
			MUST(result.left > 0 || result.end == SCHEDULE_NOT_RUNNING);
	}
	free(watch.running);
	free(watch.processes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct config_messages messages;
	struct scenario *s;
	char *text = malloc(size + 1);

	if (text == NULL)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	s = scenario_read_text(text, "fuzz", &messages);
	MUST((s == NULL) == (messages.errors > 0));
	config_messages_free(&messages);
	if (s != NULL) {
		for (uint32_t i = 0; i < s->run_count; i++)
			MUST(s->runs[i].destination < s->destination_count &&
			    s->runs[i].count > 0);
		if (s->recipient_count <= (s->fails ? TRIED_RECIPIENTS_MAX : RUN_RECIPIENTS_MAX) &&
		    s->destination_count <= RUN_RECIPIENTS_MAX)
			run(s);
	}
	scenario_free(s);
	free(text);
	return 0;
}
