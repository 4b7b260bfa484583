/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What stands in a record of a journal, as members of a line.
 * MODEL    Names are those of journal/record.h; times are UTC; a place is FILE:OFFSET.
 * ERRORS   None: what is too long for a line is cut.
 * THREADS  One.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/decision_id.h"
#include "ctl/journal/journal_record.h"
#include "segment/reader.h"

#define TEXT_ROOM	8192

struct value journal_time_value(int64_t wall_ns, char space[JOURNAL_TIME_MAX]) {
	int64_t ms = wall_ns / NS_PER_MS;
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;
	size_t length;

	if (wall_ns == 0)
		return value_unknown();
	if (wall_ns == INT64_MAX)
		return value_text("for-ever");
	if (wall_ns < 0 || gmtime_r(&seconds, &tm) == NULL)
		return value_text("nonsense");
	length = strftime(space, JOURNAL_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(space + length, JOURNAL_TIME_MAX - length, ".%03uZ", (unsigned)(ms % 1000));
	return value_text(space);
}

/* --- members ------------------------------------------------------------------------------ */

static void number(struct writer *writer, const char *name, uint64_t value) {
	writer_line_value(writer, name, COLUMN_NUMBER, value_number(value));
}

static void number_if(struct writer *writer, const char *name, uint64_t value, bool known) {
	writer_line_value(writer, name, COLUMN_NUMBER,
	    known ? value_number(value) : value_unknown());
}

static void word(struct writer *writer, const char *name, const char *value) {
	writer_line_value(writer, name, COLUMN_TEXT, value_text(value));
}

static void truth(struct writer *writer, const char *name, bool value) {
	writer_line_value(writer, name, COLUMN_TRUTH, value_truth(value));
}

static void when(struct writer *writer, const char *name, int64_t wall_ns) {
	char space[JOURNAL_TIME_MAX];

	writer_line_value(writer, name, COLUMN_TEXT, journal_time_value(wall_ns, space));
}

/* A NUL would end it: it is left out. */
static void text(struct writer *writer, const char *name, struct journal_text value) {
	char space[TEXT_ROOM];
	size_t length = 0;

	for (uint16_t i = 0; i < value.length && length + 1 < sizeof(space); i++)
		if (value.text[i] != '\0')
			space[length++] = value.text[i];
	space[length] = '\0';
	word(writer, name, space);
}

static void place(struct writer *writer, const char *name, struct journal_place value) {
	char space[32];

	snprintf(space, sizeof(space), "%" PRIu32 ":%" PRIu32, value.file, value.offset);
	writer_line_value(writer, name, COLUMN_TEXT,
	    value.file == 0 ? value_unknown() : value_text(space));
}

static void key(struct writer *writer, uint64_t value) {
	char space[20];

	snprintf(space, sizeof(space), "%016" PRIx64, value);
	word(writer, "key", space);
}

/* --- of each type ------------------------------------------------------------------------- */

static void write_groups(struct writer *writer, struct journal_groups groups) {
	struct journal_group group;

	writer_line_list_begin(writer, "groups");
	while (journal_group_next(&groups, &group)) {
		writer_line_item(writer);
		text(writer, "domain", group.domain);
		number(writer, "recipients", group.count);
		when(writer, "due", group.due_ns);
	}
	writer_line_list_end(writer);
}

static void write_envelope(struct writer *writer, const struct decoded *decoded) {
	const struct journal_envelope *e = &decoded->envelope;

	text(writer, "mta", e->mta);
	text(writer, "directory", e->directory);
	text(writer, "id", e->id);
	key(writer, e->key);
	text(writer, "sender", e->sender);
	number(writer, "recipients", e->recipients);
	when(writer, "arrival", e->arrival_ns);
	number(writer, "tries", e->tries);
	when(writer, "tried", e->tried_ns);
	when(writer, "due", e->due_ns);
	when(writer, "written", e->written_ns);
	number(writer, "interval", e->interval);
	truth(writer, "suspended", (e->flags & JOURNAL_ENVELOPE_SUSPENDED) != 0);
	truth(writer, "unread", (e->flags & JOURNAL_ENVELOPE_UNREAD) != 0);
	number(writer, "rest", e->rest);
	number(writer, "stamp", e->stamp);
	number_if(writer, "replaces", e->replaces, e->replaces != 0);
	place(writer, "old", e->old);
	write_groups(writer, decoded->groups);
	if (e->delivered.length > 0)
		text(writer, "delivered", e->delivered);
	if (e->pid != 0)
		number(writer, "pid", e->pid);
}

static void write_delivery(struct writer *writer, const struct journal_delivery *d) {
	number(writer, "start", d->start);
	when(writer, "when", d->when_ns);
	text(writer, "domain", d->domain);
	word(writer, "result", d->result == JOURNAL_RESULT_GONE ? "gone" :
	    d->result == JOURNAL_RESULT_WAITS ? "waits" : "unknown");
	number(writer, "recipients", d->recipients);
	number(writer, "left", d->left);
	if (d->id.length == 0)
		return;
	text(writer, "to", d->to);
	number(writer, "pid", d->pid);
	number(writer, "log", d->log);
	number(writer, "read", d->offset);
}

static void write_start(struct writer *writer, const struct journal_start *s) {
	place(writer, "envelope", s->envelope);
	number_if(writer, "envelope_sequence", s->sequence, s->sequence != 0);
	when(writer, "when", s->when_ns);
	number_if(writer, "pid", s->run, s->run != 0);
}

static void write_finish(struct writer *writer, const struct journal_finish *f) {
	number_if(writer, "start", f->start, f->start != 0);
	place(writer, "old", f->old);
	when(writer, "when", f->when_ns);
	word(writer, "why", f->why == JOURNAL_FINISH_DONE ? "done" :
	    f->why == JOURNAL_FINISH_GONE ? "gone" : "unknown");
}

static void write_destination(struct writer *writer, const struct journal_destination *d) {
	text(writer, "name", d->name);
	when(writer, "when", d->when_ns);
	truth(writer, "forgotten", d->state.length == 0);
	number(writer, "origin", d->origin);
	text(writer, "state", d->state);
	text(writer, "reason", d->reason);
}

static void write_log_position(struct writer *writer, const struct journal_log_position *p) {
	number(writer, "log", p->log);
	when(writer, "when", p->when_ns);
	number(writer, "device", p->device);
	number(writer, "inode", p->inode);
	number(writer, "epoch", p->epoch);
	number(writer, "rank", p->rank);
	number(writer, "read", p->offset);
	number(writer, "tail", p->tail);
	truth(writer, "skipping", p->skipping);
	truth(writer, "forgotten", p->forgotten);
	when(writer, "time", p->time_us > INT64_MAX / 1000 ? 0 : (int64_t)p->time_us * 1000);
}

static void write_held_recipient(struct writer *writer,
    const struct journal_held_recipient *h) {
	text(writer, "address", h->address);
	when(writer, "when", h->when_ns);
	when(writer, "since", h->since_ns);
	when(writer, "until", h->until_ns);
	text(writer, "reason", h->reason);
	truth(writer, "by_rule", (h->flags & JOURNAL_HELD_BY_RULE) != 0);
}

static void write_manual(struct writer *writer, const struct journal_manual *m) {
	word(writer, "verb", manual_word(m->verb));
	word(writer, "on", journal_on_word(m->what));
	text(writer, "name", m->name);
	when(writer, "when", m->when_ns);
	when(writer, "until", m->until_ns);
	number(writer, "uid", m->who);
	number_if(writer, "window", m->window, m->window != UINT32_MAX);
	number_if(writer, "ceiling", m->ceiling, m->ceiling != UINT32_MAX);
	text(writer, "reason", m->reason);
}

static void write_positions(struct writer *writer, const struct journal_positions *p) {
	when(writer, "when", p->when_ns);
	number(writer, "synced", p->synced);
	place(writer, "synced_place", p->synced_place);
	number_if(writer, "first_file", p->first_file, p->first_file != 0);
	number_if(writer, "kept", p->kept, p->kept != 0);
	number(writer, "syncs", p->syncs);
	number(writer, "results", p->results);
	writer_line_list_begin(writer, "positions");
	for (uint32_t i = 0; i < p->count && i < JOURNAL_POSITIONS_MAX; i++) {
		writer_line_item(writer);
		word(writer, "name", p->positions[i].name);
		place(writer, "place", p->positions[i].place);
	}
	writer_line_list_end(writer);
}

static void write_decision(struct writer *writer, const struct journal_decision *d) {
	char id[DECISION_ID_MAX], cause[DECISION_ID_MAX];

	word(writer, "id", decision_id_text(d->id, id));
	if (d->cause != 0)
		word(writer, "cause", decision_id_text(d->cause, cause));
	text(writer, "kind", d->kind);
	text(writer, "reason", d->reason);
	text(writer, "stage", d->stage);
	when(writer, "when", d->when_ns);
	when(writer, "until", d->until_ns);
	number_if(writer, "count", d->count, d->limit != 0);
	number_if(writer, "limit", d->limit, d->limit != 0);
}

/* Its texts, named as posternctl why does. */
static void write_notes(struct writer *writer, const struct decoded *decoded) {
	static const char *const names[DECIDED_TEXTS] = {
		[DECIDED_NAME] = "name", [DECIDED_CLASS] = "class",
		[DECIDED_FILE] = "file", [DECIDED_RULE] = "rule",
		[DECIDED_WINDOW_OF] = "window_of", [DECIDED_QUEUE_ID] = "queue_id",
		[DECIDED_RELAY] = "relay", [DECIDED_RECIPIENT] = "recipient",
		[DECIDED_MTA] = "mta", [DECIDED_REASON] = "text",
		[DECIDED_NOTE] = "note", [DECIDED_NODE] = "node",
		[DECIDED_ORIGIN] = "origin_id",
	};
	struct journal_groups notes = decoded->groups;
	struct journal_note note;

	while (journal_note_next(&notes, &note))
		if (note.which > 0 && note.which < DECIDED_TEXTS)
			text(writer, names[note.which], note.text);
}

static void write_account(struct writer *writer, const struct journal_account *a) {
	static const char *const words[] = { [JOURNAL_ACCOUNT_LOGIN] = "login",
		[JOURNAL_ACCOUNT_POOL] = "pool", [JOURNAL_ACCOUNT_TABLE] = "table",
		[JOURNAL_ACCOUNT_FORGOTTEN] = "forgotten" };
	char id[DECISION_ID_MAX];

	word(writer, "what", a->what < sizeof(words) / sizeof(words[0]) &&
	    words[a->what] != NULL ? words[a->what] : "unknown");
	text(writer, "name", a->name);
	when(writer, "when", a->when_ns);
	when(writer, "first", a->first_ns);
	number(writer, "accepted", a->accepted);
	number(writer, "refused", a->refused);
	if (a->held_by != 0)
		word(writer, "held_by", decision_id_text(a->held_by, id));
	writer_line_list_begin(writer, "counters");
	for (uint32_t i = 0; i < a->counter_count; i++) {
		uint64_t sum = 0;

		for (unsigned n = 0; n < JOURNAL_BUCKETS; n++)
			sum += a->counters[i].buckets[n];
		writer_line_item(writer);
		number(writer, "kind", (a->counters[i].key >> 28) - 1);
		number(writer, "period", a->counters[i].key & 0xfffffff);
		number(writer, "count", sum);
		when(writer, "end", a->counters[i].end_ns);
	}
	writer_line_list_end(writer);
}

static void write_checkpoint(struct writer *writer, const struct decoded *decoded) {
	number(writer, "number", decoded->checkpoint.number);
	when(writer, "when", decoded->checkpoint.when_ns);
	number_if(writer, "records", decoded->checkpoint.records,
	    decoded->type != JOURNAL_CHECKPOINT_BEGIN);
}

/* Only envelopes say it themselves. */
static void write_joined(struct writer *writer, const char *id, uint64_t message) {
	word(writer, "id", id);
	key(writer, message);
}

void decoded_write(const struct decoded *decoded, const char *id, struct writer *writer) {
	switch (decoded->type) {
	case JOURNAL_ENVELOPE:
	case JOURNAL_REPLACEMENT:
		write_envelope(writer, decoded);
		break;
	case JOURNAL_START:
		write_joined(writer, id, decoded->start.key);
		write_start(writer, &decoded->start);
		break;
	case JOURNAL_DELIVERY:
		if (decoded->delivery.id.length > 0)
			text(writer, "id", decoded->delivery.id);
		else
			word(writer, "id", id);
		key(writer, decoded->delivery.key);
		write_delivery(writer, &decoded->delivery);
		break;
	case JOURNAL_FINISH:
		write_joined(writer, id, decoded->finish.key);
		write_finish(writer, &decoded->finish);
		break;
	case JOURNAL_DESTINATION:
		write_destination(writer, &decoded->destination);
		break;
	case JOURNAL_LOG_POSITION:
		write_log_position(writer, &decoded->log_position);
		break;
	case JOURNAL_HELD_RECIPIENT:
		write_held_recipient(writer, &decoded->held_recipient);
		break;
	case JOURNAL_MANUAL:
		write_manual(writer, &decoded->manual);
		break;
	case JOURNAL_DECISION:
		write_decision(writer, &decoded->decision);
		write_notes(writer, decoded);
		break;
	case JOURNAL_ACCOUNT:
		write_account(writer, &decoded->account);
		break;
	case JOURNAL_GROUP:
	case JOURNAL_CHECKPOINT_BEGIN:
	case JOURNAL_CHECKPOINT_END:
		write_checkpoint(writer, decoded);
		break;
	case JOURNAL_POSITIONS:
		write_positions(writer, &decoded->positions);
		break;
	case JOURNAL_HEAD:
		break;
	}
}
