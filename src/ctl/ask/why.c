/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl why: what a decision was based on, what led to it, what undoes it.
 * MODEL    From the id one goes on by causes: of a deferral the suspension, of that the
 *          failures one by one.  For people only what is known is shown; programs get each
 *          name.
 * ERRORS   An id that is not known any more: EX_NOHOST.
 * THREADS  One.
 */
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "base/manual.h"
#include "base/text.h"
#include "ctl/ask/why.h"
#include "view/cluster.h"
#include "view/decided.h"
#include "view/decided_line.h"

#define CAUSES_MAX	500
#define CAUSES_SHOWN	20
#define LATEST		20
#define LATEST_ALL	1000

struct why {
	struct ctl *ctl;
	struct state state;
	struct why_sources sources;
	struct why_event event;
	struct why_event *causes;	/* CAUSES_MAX; the latest first */
	size_t cause_count;
	const struct why_event *held;	/* what holds the mail: the event itself, a cause, or NULL */
	bool knows_force, in_force;
	struct why_stop stop;		/* of the same mail, now */
	char stopped_by[128];
	struct why_undo undo;
	bool knows_cluster;
	struct cluster_told cluster;	/* as it is now, of a decision without a lease */
};

/* --- words ----------------------------------------------------------------------------- */

static bool holds_mail(const struct decided *d) {
	return d->kind == DECIDED_SUSPENDED || d->kind == DECIDED_RECIPIENT_HELD ||
	    (d->kind == DECIDED_BY_HAND && manual_stops(d->by));
}

/* --- values ---------------------------------------------------------------------------- */

/* What the cluster's role is in now, where a lease was missing. */
static void set_cluster(const struct why *why, struct decided_now *now) {
	if (!why->knows_cluster)
		return;
	now->cluster = view_cluster_state(&why->state.view, &why->cluster);
	if (why->cluster.state != CLUSTER_STATE_JOINED)
		now->cluster_error = value_text_if(why->cluster.why);
}

/* A deferral lasts as long as what holds the mail. */
static void set_until(const struct why *why, char text[VIEW_TIME_MAX], struct decided_now *now) {
	const struct why_event *event = why->held != NULL ? why->held : &why->event;
	int64_t until_ns = why->in_force ? why->stop.until_wall_ns :
	    (event->d.flags & DECIDED_WAS_HELD) != 0 ? 0 : event->until_wall_ns;
	int64_t left_ns = until_ns - why->sources.wall_ns;

	if (until_ns == INT64_MAX)
		now->until = value_text("it is resumed");
	else if (until_ns != 0)
		now->until = value_text(view_time(until_ns, text));
	if (until_ns != 0 && until_ns != INT64_MAX && left_ns > 0 &&
	    (!why->knows_force || why->in_force))
		now->left = value_number((uint64_t)((left_ns + NS_PER_SECOND - 1) /
		    NS_PER_SECOND));
	if (why->knows_force)
		now->in_force = value_truth(why->in_force);
}

/* For people only what is known. */
static void put_known(struct writer *writer, const char *name, enum column_kind kind,
    struct value value) {
	if (writer->json || value.known)
		writer_member(writer, name, kind, value);
}

static void write_values(const struct why *why) {
	int64_t age_ns = why->sources.wall_ns - why->event.wall_ns;
	const struct passwd *user = why->event.d.kind == DECIDED_BY_HAND ?
	    getpwuid((uid_t)why->event.d.uid) : NULL;
	char until[VIEW_TIME_MAX];
	struct decided_shown shown = { .d = &why->event.d, .wall_ns = why->event.wall_ns,
		.origin = why->held == NULL ? NULL : &why->held->d,
		.now = { .source = why->event.source,
			.user = user == NULL ? NULL : user->pw_name,
			.undo_before = value_text_if(why->undo.edit),
			.undo = value_text_if(why->undo.command),
			.undo_note = value_text(why->undo.none) } };

	if (age_ns >= 0)
		shown.now.age = value_number((uint64_t)(age_ns / NS_PER_SECOND));
	set_cluster(why, &shown.now);
	set_until(why, until, &shown.now);
	decided_write(&shown, DECIDED_FOR_WHY, &why->ctl->writer, put_known);
}

/* --- what led to it ----------------------------------------------------------------------- */

static void cause_row(void *context, struct writer *writer, const void *item) {
	const struct why_event *event = item;
	const struct decided *d = &event->d;
	char id[DECISION_ID_MAX], time[VIEW_TIME_MAX], place[DECIDED_PLACE_MAX];

	(void)context;
	writer_text(writer, "id", decision_id_text(d->id, id));
	writer_text(writer, "time", view_time(event->wall_ns, time));
	writer_text(writer, "kind", decided_word(d->kind));
	writer_text_if(writer, "name", decided_text(d, DECIDED_NAME));
	writer_text_if(writer, "queue_id", decided_text(d, DECIDED_QUEUE_ID));
	writer_text_if(writer, "relay", decided_text(d, DECIDED_RELAY));
	writer_text_if(writer, "place", decided_place(d, d->line, place));
	writer_text_if(writer, "text", decided_text(d, DECIDED_REASON));
}

/* The oldest of the last ones first. */
static void cause_rows(void *context, struct writer *writer) {
	const struct why *why = context;
	size_t shown = why->cause_count < CAUSES_SHOWN ? why->cause_count : CAUSES_SHOWN;

	for (size_t i = shown; i-- > 0;)
		writer_row(writer, &why->causes[i]);
}

static void find_causes(struct why *why) {
	uint64_t cause = why->event.d.cause;

	if (holds_mail(&why->event.d))
		why->held = &why->event;
	while (cause != 0 && why->cause_count < CAUSES_MAX) {
		struct why_event *event = &why->causes[why->cause_count];
		uint64_t before = cause;

		if (!why_find(&why->sources, cause, event))
			break;
		why->cause_count++;
		if (why->held == NULL && holds_mail(&event->d))
			why->held = event;
		cause = event->d.cause;
		/* each is older: no ring of them, whoever wrote them */
		if (cause >= before && cause % DECIDED_RINGS == before % DECIDED_RINGS)
			break;
	}
}

static void find_undo(struct why *why) {
	char id[DECISION_ID_MAX];

	why_undo(why->ctl, &why->event, why->held, why->sources.wall_ns, &why->undo);
	if (why_is_unleased(&why->event.d) && why->state.view.reader != NULL)
		why->knows_cluster = reader_cluster(why->state.view.reader, &why->cluster);
	if (why->held == NULL || why->state.view.reader == NULL)
		return;
	why_find_stop(&why->sources, why->held, &why->stop);
	why->knows_force = true;
	why->in_force = why->stop.stopped &&
	    (why->stop.by == 0 || why->stop.by == why->held->d.id);
	if (why->in_force || why->undo.none != NULL)
		return;
	memset(&why->undo, 0, sizeof(why->undo));
	why->undo.none = "it is no longer active";
	if (!why->stop.stopped)
		return;
	(void)text_append(why->stopped_by, sizeof(why->stopped_by), 0, "it is no longer "
	    "active, but a later decision stops the same mail: posternctl why %s",
	    decision_id_text(why->stop.by, id));
	why->undo.none = why->stopped_by;
}

/* --- one of them ---------------------------------------------------------------------------- */

static void write_one(struct why *why) {
	struct writer *writer = &why->ctl->writer;

	writer_object_begin(writer, NULL);
	write_values(why);
	if (why->cause_count > CAUSES_SHOWN && !writer->json)
		ctl_complain("%zu earlier failures are not shown",
		    why->cause_count - CAUSES_SHOWN);
	if (why->cause_count > 0 || writer->json)
		writer_table(writer, &(const struct table){ .name = "because",
		    .row = cause_row, .rows = cause_rows, .context = why });
	writer_object_end(writer);
}

static int tell_unknown(const struct why *why, uint64_t id) {
	struct why_there there;
	char text[DECISION_ID_MAX], here[DECISION_ID_MAX];

	(void)decision_id_text(id, text);
	if (why_find_there(&why->sources, id, &there))
		ctl_complain("%s: unknown here: it is a decision of node %s, which stops mail "
		    "for %s; run posternctl why %s there, or posternctl why %s here",
		    text, there.node,
		    there.name, text, decision_id_text(there.here, here));
	else
		ctl_complain("%s: unknown here: it is from another node, or was overwritten%s",
		    text,
		    why->sources.journal_path[0] == '\0' ?
		    ", and the journal is disabled (journal.path)" :
		    ", or is too old for the size of the journal (journal.decisions_size)");
	return EX_NOHOST;
}

static int tell_one(struct why *why, uint64_t id) {
	if (!why_find(&why->sources, id, &why->event))
		return tell_unknown(why, id);
	why->causes = calloc(CAUSES_MAX, sizeof(why->causes[0]));
	if (why->causes == NULL) {
		ctl_complain("no memory");
		return EX_OSERR;
	}
	find_causes(why);
	find_undo(why);
	write_one(why);
	free(why->causes);
	return EX_OK;
}

/* --- the latest -------------------------------------------------------------------------------- */

struct latest {
	const char *wanted;	/* NULL: any */
	struct why_event *list;
	size_t count, most;
};

static bool take_latest(void *context, const struct why_event *event) {
	const uint32_t names = 1u << DECIDED_NAME | 1u << DECIDED_CLASS | 1u << DECIDED_WINDOW_OF |
	    1u << DECIDED_RECIPIENT | 1u << DECIDED_QUEUE_ID;
	struct latest *latest = context;

	if (latest->wanted == NULL || view_decided_has(&event->d, names, latest->wanted, true))
		latest->list[latest->count++] = *event;
	return latest->count < latest->most;
}

static void latest_rows(void *context, struct writer *writer) {
	const struct latest *latest = context;

	/* the newest last, where people look */
	for (size_t i = latest->count; i-- > 0;)
		view_decided_row(writer, &latest->list[i].d, latest->list[i].wall_ns);
}

static int tell_latest(struct why *why, const char *wanted) {
	struct latest latest = { .wanted = wanted,
		.most = why->ctl->all ? LATEST_ALL : LATEST };

	latest.list = calloc(latest.most, sizeof(latest.list[0]));
	if (latest.list == NULL) {
		ctl_complain("no memory");
		return EX_OSERR;
	}
	why_each(&why->sources, take_latest, &latest);
	if (latest.count == 0 && wanted != NULL)
		ctl_complain("%s: not a decision ID, and no recent decision matches it", wanted);
	if (latest.count > 0 || wanted == NULL || why->ctl->writer.json)
		view_decided_table(&why->ctl->writer, NULL, latest_rows, &latest);
	free(latest.list);
	return latest.count == 0 && wanted != NULL ? EX_NOHOST : EX_OK;
}

/* --- the command --------------------------------------------------------------------------------- */

/* Was an id meant?  Then a slip in it is told. */
static bool looks_like_id(const char *word) {
	size_t length = strlen(word);

	return strncmp(word, "id=", 3) == 0 ||
	    ((length == 12 || length == 13) && strspn(word, "0123456789"
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == length);
}

int command_WHY(struct ctl *ctl) {
	const char *word = ctl->argument_count > 0 ? ctl->arguments[0] : NULL;
	char journal[PATH_MAX + 16] = "";
	struct why why = { .ctl = ctl };
	uint64_t id = 0;
	bool is_id = word != NULL && decision_id_parse(word, strlen(word), &id);
	int opened = state_open(ctl, &why.state), result = opened;

	if (result != EX_OK && (why.state.places.journal[0] == '\0' || !is_id))
		return state_close(&why.state, result);
	if (why.state.places.journal[0] != '\0')
		(void)snprintf(journal, sizeof(journal), "%s/%s", why.state.places.journal,
		    generation_journal_word(JOURNAL_ROOM_DECISIONS));
	why_sources_begin(&why.sources, &why.state, journal);
	if (is_id) {
		result = tell_one(&why, id);
	} else {
		result = tell_latest(&why, word);
		if (result == EX_NOHOST && looks_like_id(word))
			ctl_complain("a decision ID has 12 letters and digits, the last of "
			    "which is a checksum: one of them may be wrong");
	}
	why_sources_end(&why.sources);
	return state_close(&why.state, result == EX_OK && opened == EX_UNAVAILABLE ? opened :
	    result);
}
