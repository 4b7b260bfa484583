/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See what people are to be told of.
 * MODEL    Each turn looks at the segment: what changed since the last look is told once.
 *          Destinations have a ring of events, of which a turn reads a part.
 * ERRORS   What roles write there is not trusted: numbers are bounded, texts are cut and
 *          made printable.  What was overwritten before it was read is not told.
 * THREADS  The supervisor's.
 */
#include "role/alert_watch.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/log.h"
#include "base/text.h"
#include "role/alerts.h"
#include "role/supervisor.h"
#include "segment/cluster_told.h"
#include "segment/segment.h"

#define EVENTS_A_TURN	4096

static void begin(struct alert *alert, enum alert_kind kind, const char *subject) {
	*alert = (struct alert){ .kind = kind, .wall_s = clock_wall_s() };
	log_quote(alert->subject, sizeof(alert->subject), subject, strlen(subject));
}

static void tell(struct supervisor *supervisor, const struct alert *alert, int64_t now_ns) {
	alerts_tell(&supervisor->alerts, supervisor->generation, alert, now_ns);
}

/* --- destinations ------------------------------------------------------------------- */

static size_t add_sentence(struct alert *alert, size_t length, const char *before,
    const char *text) {
	char sentence[ALERT_TEXT_MAX];

	if (*text == '\0')
		return length;
	return text_append(alert->text, sizeof(alert->text), length, "%s%s", before,
	    log_sentence(sentence, sizeof(sentence), text));
}

static void begin_event(struct alert *alert, enum alert_kind kind,
    const struct decided *event) {
	const char *rule = decided_text(event, DECIDED_RULE);

	begin(alert, kind, decided_text(event, DECIDED_NAME));
	(void)decision_id_text(event->id, alert->id);
	if (*rule != '\0')
		log_quote(alert->rule, sizeof(alert->rule), rule, strlen(rule));
	alert->observed = (event->flags & DECIDED_OBSERVED_ONLY) != 0;
}

static void tell_suspended(struct supervisor *supervisor, const struct decided *event,
    int64_t now_ns) {
	struct alert alert;
	size_t length;

	/* by another node: that one tells people */
	if (event->by == DECIDED_BY_HAND_OF || event->stage == DECIDED_BY_NODE)
		return;
	begin_event(&alert, ALERT_SUSPENDED, event);
	if (event->at_ns > 0 && event->until_ns > event->at_ns && event->until_ns != INT64_MAX)
		alert.for_s = (event->until_ns - event->at_ns) / NS_PER_SECOND;
	length = text_append(alert.text, sizeof(alert.text), 0, "its mail %s held for %" PRId64
	    " s%s%s", alert.observed ? "would be" : "is", alert.for_s,
	    event->by == DECIDED_BY_RULE ? " by rule " : ", as its deliveries fail",
	    event->by == DECIDED_BY_RULE ? alert.rule : "");
	(void)add_sentence(&alert, length, ": ", decided_text(event, DECIDED_REASON));
	tell(supervisor, &alert, now_ns);
}

static void tell_ceiling(struct supervisor *supervisor, const struct decided *event,
    int64_t now_ns) {
	struct alert alert;
	size_t length;

	if (event->ceiling == 0 ||
	    (event->ceiling_before != 0 && event->ceiling >= event->ceiling_before))
		return;
	begin_event(&alert, ALERT_CEILING, event);
	length = text_append(alert.text, sizeof(alert.text), 0,
	    "it takes no more than %u deliveries at once", (unsigned)event->ceiling);
	if (event->ceiling_before != 0)
		length = text_append(alert.text, sizeof(alert.text), length, " (before: %u)",
		    (unsigned)event->ceiling_before);
	(void)add_sentence(&alert, length, ": ", decided_text(event, DECIDED_REASON));
	tell(supervisor, &alert, now_ns);
}

static void tell_reply(struct supervisor *supervisor, const struct decided *event,
    int64_t now_ns) {
	struct alert alert;
	size_t length;

	begin_event(&alert, ALERT_REPLY, event);
	length = add_sentence(&alert, 0, "", decided_text(event, DECIDED_NOTE));
	(void)add_sentence(&alert, length, length > 0 ? ": " : "",
	    decided_text(event, DECIDED_REASON));
	tell(supervisor, &alert, now_ns);
}

static void watch_events(struct supervisor *supervisor, int64_t now_ns) {
	struct decided event;
	uint64_t lost = 0;

	for (unsigned i = 0; i < EVENTS_A_TURN && decisions_next(supervisor->segment,
	     DECIDED_OF_DESTINATIONS, &supervisor->watch.events, now_ns, &event, NULL, &lost);
	     i++) {
		if (event.kind == DECIDED_SUSPENDED)
			tell_suspended(supervisor, &event, now_ns);
		else if (event.kind == DECIDED_WINDOW)
			tell_ceiling(supervisor, &event, now_ns);
		else if (event.kind == DECIDED_ALERT)
			tell_reply(supervisor, &event, now_ns);
	}
}

/* --- the state ------------------------------------------------------------------------ */

static void watch_gate(struct supervisor *supervisor, int64_t now_ns) {
	const struct segment_header *header = segment_header(supervisor->segment);
	bool shut = atomic_load(&header->gate_shut) != 0;
	struct alert alert;

	if (shut && !supervisor->watch.gate_shut) {
		begin(&alert, ALERT_GATE, "gate");
		text_append(alert.text, sizeof(alert.text), 0,
		    "every class is full: new sessions are refused, whoever the client is");
		tell(supervisor, &alert, now_ns);
	}
	supervisor->watch.gate_shut = shut;
}

/* They come in numbers: what is not due yet is told with those that follow. */
static void watch_faults(struct supervisor *supervisor, int64_t now_ns) {
	const struct segment_header *header = segment_header(supervisor->segment);
	uint64_t faults = atomic_load(&header->counters[COUNTER_FAULTS]);
	uint64_t more = faults - supervisor->watch.faults;
	struct alert alert;

	if (more == 0 || !alerts_due(&supervisor->alerts, supervisor->generation, ALERT_FAULT,
		"state", now_ns))
		return;
	supervisor->watch.faults = faults;
	begin(&alert, ALERT_FAULT, "state");
	text_append(alert.text, sizeof(alert.text), 0, "%" PRIu64 " question%s could not be "
	    "answered from the shared state in time, and %s by the setting fail", more,
	    more == 1 ? "" : "s", more == 1 ? "was answered" : "were answered");
	tell(supervisor, &alert, now_ns);
}

static void watch_queue(struct supervisor *supervisor, int64_t now_ns) {
	const struct segment_header *header = segment_header(supervisor->segment);
	int64_t away_ns = atomic_load(&header->queue_away_ns);
	struct alert alert;

	if (away_ns != 0 && !supervisor->watch.queue_away) {
		begin(&alert, ALERT_ROLE, "queue");
		text_append(alert.text, sizeof(alert.text), 0, "the role that drives the queue "
		    "is away: mail goes out by Sendmail's own slow queue runs");
		tell(supervisor, &alert, now_ns);
	}
	supervisor->watch.queue_away = away_ns != 0;
}

static void watch_journal(struct supervisor *supervisor, int64_t now_ns) {
	const struct segment_header *header = segment_header(supervisor->segment);

	for (unsigned i = 0; i < SEGMENT_JOURNALS; i++) {
		const struct journal_record *journal = &header->journals[i];
		bool ill = atomic_load(&journal->fares) == JOURNAL_FARES_ILL;
		struct alert alert;

		if (ill && !supervisor->watch.journal_ill[i]) {
			begin(&alert, ALERT_JOURNAL,
			    generation_journal_word((enum journal_room)i));
			text_append(alert.text, sizeof(alert.text), 0,
			    "the journal cannot be written: %s",
			    strerror((int)atomic_load(&journal->error)));
			tell(supervisor, &alert, now_ns);
		}
		supervisor->watch.journal_ill[i] = ill;
	}
}

/* 0: all is well. */
static uint32_t ill_of(const struct cluster_told *told) {
	if (told->alone != 0)
		return UINT32_MAX;
	if (told->state == CLUSTER_STATE_REFUSED || told->state == CLUSTER_STATE_WITHOUT)
		return told->state * 100 + told->error;
	return 0;
}

static void watch_cluster(struct supervisor *supervisor, int64_t now_ns) {
	const struct generation *generation = supervisor->generation;
	struct cluster_told told;
	struct alert alert;
	uint32_t ill;

	if (!generation_has_cluster(generation) || !cluster_told_read(
	    &segment_header(supervisor->segment)->cluster, &told))
		return;
	ill = ill_of(&told);
	if (ill != 0 && ill != supervisor->watch.cluster_ill) {
		size_t length;

		begin(&alert, ALERT_CLUSTER, generation_text(generation, generation->cluster.node));
		length = text_append(alert.text, sizeof(alert.text), 0, "%s", told.alone != 0 ?
		    "it goes on alone with the whole limits, as Redis gave no word for longer than a "
		    "lease" : told.state == CLUSTER_STATE_REFUSED ?
		    "it is not taken by the Redis that limits are shared by" :
		    "nothing is leased to it any more, as Redis gave no word for longer than a lease");
		(void)add_sentence(&alert, length, ": ", told.error == 0 ? "" : told.why);
		tell(supervisor, &alert, now_ns);
	}
	supervisor->watch.cluster_ill = ill;
}

void alert_watch_begin(struct supervisor *supervisor) {
	struct segment_header *header = segment_header(supervisor->segment);
	struct decided event;
	uint64_t lost = 0;

	alerts_init(&supervisor->alerts, header->counters);
	memset(&supervisor->watch, 0, sizeof(supervisor->watch));
	supervisor->watch.faults = atomic_load(&header->counters[COUNTER_FAULTS]);
	while (decisions_next(supervisor->segment, DECIDED_OF_DESTINATIONS,
		&supervisor->watch.events, clock_now_ns(), &event, NULL, &lost))
		continue;
}

void alert_watch_turn(struct supervisor *supervisor, int64_t now_ns) {
	watch_events(supervisor, now_ns);
	watch_gate(supervisor, now_ns);
	watch_faults(supervisor, now_ns);
	watch_queue(supervisor, now_ns);
	watch_cluster(supervisor, now_ns);
	watch_journal(supervisor, now_ns);
}

void alert_watch_died(struct supervisor *supervisor, const struct child *child, int status,
    int64_t now_ns) {
	struct alert alert;

	begin(&alert, ALERT_ROLE, child->name);
	if (child->killed != NULL)
		text_append(alert.text, sizeof(alert.text), 0,
		    "%s, was killed and is started again", child->killed);
	else
		text_append(alert.text, sizeof(alert.text), 0,
		    "it ended with %s %d after %" PRId64 " s and is started again",
		    WIFSIGNALED(status) ? "signal" : "exit code",
		    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		    (now_ns - child->started_ns) / NS_PER_SECOND);
	tell(supervisor, &alert, now_ns);
}
