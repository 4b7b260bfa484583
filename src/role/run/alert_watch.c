/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Find what people want to hear of.
 * MODEL    Each turn looks at the segment: what changed since the last look is found once.
 *          Destinations have a ring of events, of which a turn reads a part.
 * ERRORS   Texts are cut and made printable.  What was overwritten before it was read is not
 *          found.
 * THREADS  The keeper's loop.
 */
#include "role/run/alert_watch.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/log.h"
#include "base/text.h"
#include "config/generation/enforcement.h"
#include "segment/cluster/cluster_told.h"
#include "segment/file/segment.h"

#define EVENTS_A_TURN	4096

/* False: it is to be found again. */
static bool alert_found(struct alert_watch *watch, const struct alert *alert) {
	return watch->found(watch->context, alert);
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

	alert_begin(alert, kind, decided_text(event, DECIDED_NAME));
	(void)decision_id_text(event->id, alert->id);
	if (*rule != '\0')
		log_quote(alert->rule, sizeof(alert->rule), rule, strlen(rule));
	alert->observed = (event->flags & DECIDED_OBSERVED_ONLY) != 0;
}

static bool alert_suspended(struct alert_watch *watch, const struct decided *event) {
	char why[ENFORCEMENT_TEXT_MAX];
	struct alert alert;
	size_t length;

	/* by another node: that one tells people */
	if (event->by == DECIDED_BY_HAND_OF || event->stage == DECIDED_BY_NODE)
		return true;
	begin_event(&alert, ALERT_SUSPENDED, event);
	if (event->at_ns > 0 && event->until_ns > event->at_ns && event->until_ns != INT64_MAX)
		alert.for_s = (event->until_ns - event->at_ns) / NS_PER_SECOND;
	length = text_append(alert.text, sizeof(alert.text), 0, "mail %s suspended for "
	    "%" PRId64 " s%s%s", alert.observed ? "would be" : "is", alert.for_s,
	    event->by == DECIDED_BY_RULE ? " by rule " : " because its deliveries fail",
	    event->by == DECIDED_BY_RULE ? alert.rule : "");
	if (event->action != ENFORCEMENT_APPLIED)
		length = text_append(alert.text, sizeof(alert.text), length, " (%s)",
		    enforcement_text(event->action, decided_text(event, DECIDED_MTA), why));
	(void)add_sentence(&alert, length, ": ", decided_text(event, DECIDED_REASON));
	return alert_found(watch, &alert);
}

static bool alert_ceiling(struct alert_watch *watch, const struct decided *event) {
	struct alert alert;
	size_t length;

	if (event->ceiling == 0 ||
	    (event->ceiling_before != 0 && event->ceiling >= event->ceiling_before))
		return true;
	begin_event(&alert, ALERT_CEILING, event);
	length = text_append(alert.text, sizeof(alert.text), 0,
	    "at most %u concurrent deliveries are accepted", (unsigned)event->ceiling);
	if (event->ceiling_before != 0)
		length = text_append(alert.text, sizeof(alert.text), length, " (previously %u)",
		    (unsigned)event->ceiling_before);
	(void)add_sentence(&alert, length, ": ", decided_text(event, DECIDED_REASON));
	return alert_found(watch, &alert);
}

static bool alert_reply(struct alert_watch *watch, const struct decided *event) {
	struct alert alert;
	size_t length;

	begin_event(&alert, ALERT_REPLY, event);
	length = add_sentence(&alert, 0, "", decided_text(event, DECIDED_NOTE));
	(void)add_sentence(&alert, length, length > 0 ? ": " : "",
	    decided_text(event, DECIDED_REASON));
	return alert_found(watch, &alert);
}

static bool alert_account(struct alert_watch *watch, const struct decided *event) {
	bool networks = event->reason == REASON_ACCOUNT_NETWORKS;
	struct alert alert;

	begin_event(&alert, ALERT_ACCOUNT, event);
	text_append(alert.text, sizeof(alert.text), 0, "%s: %u %s in %u s%s", networks ?
	    "used from too many networks" : "many deliveries failed", event->count, networks ?
	    "networks" : "different unknown recipients", event->window / 1000,
	    alert.observed ? "; it would be held" : (event->flags & DECIDED_HELD) != 0 ?
	    "; it is held until posternctl resume account" : "");
	return alert_found(watch, &alert);
}

static void watch_events(struct alert_watch *watch, int64_t now_ns) {
	struct decided event;
	uint64_t lost = 0;

	for (unsigned i = 0; i < EVENTS_A_TURN && decisions_next(watch->segment,
	     DECIDED_OF_DESTINATIONS, &watch->events, now_ns, &event, NULL, &lost);
	     i++) {
		bool done = true;

		if (event.kind == DECIDED_SUSPENDED)
			done = alert_suspended(watch, &event);
		else if (event.kind == DECIDED_WINDOW)
			done = alert_ceiling(watch, &event);
		else if (event.kind == DECIDED_ALERT)
			done = alert_reply(watch, &event);
		else if (event.kind == DECIDED_ACCOUNT_HELD)
			done = alert_account(watch, &event);
		if (!done) {
			watch->events.next--;
			return;
		}
	}
}

/* --- the state ------------------------------------------------------------------------ */

/* Of what it is now, once: when it is so and was not. */
static void watch_state(struct alert_watch *watch, enum alert_kind kind, const char *subject,
    bool is, bool *was, const char *text) {
	struct alert alert;

	if (is && !*was) {
		alert_begin(&alert, kind, subject);
		text_append(alert.text, sizeof(alert.text), 0, "%s", text);
		if (!alert_found(watch, &alert))
			return;
	}
	*was = is;
}

/* They come in numbers: what is not due yet is counted with those that follow. */
static void watch_faults(struct alert_watch *watch, const struct generation *generation,
    int64_t now_ns) {
	const struct segment_header *header = segment_header(watch->segment);
	uint64_t faults = atomic_load(&header->counters[COUNTER_FAULTS]);
	uint64_t more = faults - watch->faults;
	struct alert alert;

	if (more == 0 || (watch->faults_ns != 0 &&
	    now_ns - watch->faults_ns < generation->alert.interval_ns))
		return;
	alert_begin(&alert, ALERT_FAULT, "state");
	text_append(alert.text, sizeof(alert.text), 0, "the shared state could not answer "
	    "%" PRIu64 " question%s in time; %s by the setting fail_mode", more,
	    more == 1 ? "" : "s", more == 1 ? "it was answered" : "they were answered");
	if (!alert_found(watch, &alert))
		return;
	watch->faults = faults;
	watch->faults_ns = now_ns;
}

static void watch_journal(struct alert_watch *watch) {
	const struct segment_header *header = segment_header(watch->segment);

	for (unsigned i = 0; i < SEGMENT_JOURNALS; i++) {
		const struct journal_record *journal = &header->journals[i];
		char text[ALERT_TEXT_MAX];

		text_append(text, sizeof(text), 0, "the journal cannot be written: %s",
		    strerror((int)atomic_load(&journal->error)));
		watch_state(watch, ALERT_JOURNAL, generation_journal_word((enum journal_room)i),
		    atomic_load(&journal->fares) == JOURNAL_FARES_ILL, &watch->journal_ill[i],
		    text);
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

static void watch_cluster(struct alert_watch *watch, const struct generation *generation) {
	struct cluster_told told;
	struct alert alert;
	uint32_t ill;

	if (!generation_has_cluster(generation) || !cluster_told_read(
	    &segment_header(watch->segment)->cluster, &told))
		return;
	ill = ill_of(&told);
	if (ill != 0 && ill != watch->cluster_ill) {
		size_t length;

		alert_begin(&alert, ALERT_CLUSTER, generation_text(generation, generation->cluster.node));
		length = text_append(alert.text, sizeof(alert.text), 0, "%s", told.alone != 0 ?
		    "this node uses whole limits alone, because Redis has been unreachable for "
		    "longer than a lease" : told.state == CLUSTER_STATE_REFUSED ?
		    "Redis refuses this node" :
		    "all leases of this node have ended, because Redis has been unreachable "
		    "for longer than a lease");
		(void)add_sentence(&alert, length, ": ", told.error == 0 ? "" : told.why);
		if (!alert_found(watch, &alert))
			return;
	}
	watch->cluster_ill = ill;
}

void alert_watch_begin(struct alert_watch *watch, struct segment *segment, uint64_t from) {
	const struct segment_header *header = segment_header(segment);

	watch->segment = segment;
	watch->faults = atomic_load(&header->counters[COUNTER_FAULTS]);
	watch->events = (struct decisions_cursor){ .begun = true, .next = from != 0 ? from :
		atomic_load(&header->decided_next[DECIDED_OF_DESTINATIONS].number) };
}

void alert_watch_turn(struct alert_watch *watch, const struct generation *generation,
    int64_t now_ns) {
	const struct segment_header *header = segment_header(watch->segment);

	watch_events(watch, now_ns);
	watch_state(watch, ALERT_GATE, "gate", atomic_load(&header->gate_shut) != 0,
	    &watch->gate_shut, "every class is full: only exempt clients are admitted");
	watch_faults(watch, generation, now_ns);
	watch_state(watch, ALERT_ROLE, "queue", atomic_load(&header->queue_away_ns) != 0,
	    &watch->queue_away, "the worker of the managed queue is not running: mail leaves "
	    "by Sendmail's own slow queue runs");
	watch_cluster(watch, generation);
	watch_journal(watch);
}
