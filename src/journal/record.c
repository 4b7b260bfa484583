/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Payloads of records of messages, of positions and of decisions; words of types.
 * MODEL    record_fields.h.
 * THREADS  Pure.
 */
#include "journal/record.h"

#include <string.h>

#include "journal/record_internal.h"

const char *journal_type_word(unsigned type) {
	switch (type) {
#define RECORD(symbol, number, word, what) case number: return word;
#include "defs/records.def"
#undef RECORD
	default: return NULL;
	}
}

const char *journal_on_word(unsigned what) {
	static const char *const words[] = { "unknown", "destination", "recipient", "class" };

	return words[what < sizeof(words) / sizeof(words[0]) ? what : 0];
}

/* --- messages ------------------------------------------------------------------------- */

static void write_envelope(struct writer *w, const struct journal_envelope *in) {
	w64(w, in->key);
	w64(w, in->replaces);
	w_place(w, in->old);
	w_time(w, in->written_ns);
	w_time(w, in->due_ns);
	w8(w, in->interval);
	w8(w, in->flags);
	w64(w, in->stamp);
	w_time(w, in->arrival_ns);
	w_time(w, in->tried_ns);
	w32(w, in->tries);
	w32(w, in->recipients);
	w64(w, in->rest);
	w_text(w, in->mta);
	w_text(w, in->directory);
	w_text(w, in->id);
	w_text(w, in->sender);
	w32(w, in->group_count);
}

size_t journal_envelope_write(uint8_t *out, size_t size, const struct journal_envelope *in,
    const struct journal_group *groups) {
	struct writer w = write_to(out, size);

	write_envelope(&w, in);
	for (uint32_t i = 0; i < in->group_count && !w.full; i++) {
		w32(&w, groups[i].count);
		w_time(&w, groups[i].due_ns);
		w_text(&w, groups[i].domain);
	}
	if (in->pid != 0 || in->delivered.length > 0) {
		w32(&w, in->pid);
		w_text(&w, in->delivered);
	}
	return written(&w);
}

static bool next_group(struct reader *r, struct journal_group *out) {
	bool there = r->at < r->end;

	out->count = r32(r);
	out->due_ns = r_time(r);
	there = there && r->at < r->end;
	out->domain = r_text(r);
	return there && !r->spoiled;
}

/* What a later version may have put behind the list is ignored; a list that ends early is
 * spoiled.  The loop ends with the bytes, whatever the count says. */
static bool pass_groups(struct reader *reader, uint32_t count) {
	struct journal_group group;

	for (uint32_t i = 0; i < count; i++)
		if (!next_group(reader, &group))
			return false;
	return true;
}

bool journal_envelope_read(const uint8_t *payload, size_t length,
    struct journal_envelope *out, struct journal_groups *groups) {
	struct reader r = read_from(payload, length);

	out->key = r64(&r);
	out->replaces = r64(&r);
	out->old = r_place(&r);
	out->written_ns = r_time(&r);
	out->due_ns = r_time(&r);
	out->interval = r8(&r);
	out->flags = r8(&r);
	out->stamp = r64(&r);
	out->arrival_ns = r_time(&r);
	out->tried_ns = r_time(&r);
	out->tries = r32(&r);
	out->recipients = r32(&r);
	out->rest = r64(&r);
	out->mta = r_text(&r);
	out->directory = r_text(&r);
	out->id = r_text(&r);
	out->sender = r_text(&r);
	out->group_count = r32(&r);
	*groups = (struct journal_groups){ r.at, r.end, out->group_count };
	if (r.spoiled || !pass_groups(&r, out->group_count))
		return false;
	out->pid = r32(&r);
	out->delivered = r_text(&r);
	return !r.spoiled;
}

bool journal_group_next(struct journal_groups *groups, struct journal_group *out) {
	struct reader r = { .at = groups->at, .end = groups->end };

	if (groups->left == 0 || !next_group(&r, out))
		return false;
	groups->at = r.at;
	groups->left--;
	return true;
}

size_t journal_start_write(uint8_t *out, size_t size, const struct journal_start *in) {
	struct writer w = write_to(out, size);

	w64(&w, in->key);
	w_place(&w, in->envelope);
	w64(&w, in->sequence);
	w_time(&w, in->when_ns);
	w32(&w, in->run);
	return written(&w);
}

bool journal_start_read(const uint8_t *payload, size_t length, struct journal_start *out) {
	struct reader r = read_from(payload, length);

	out->key = r64(&r);
	out->envelope = r_place(&r);
	out->sequence = r64(&r);
	out->when_ns = r_time(&r);
	out->run = r32(&r);
	return !r.spoiled;
}

size_t journal_delivery_write(uint8_t *out, size_t size, const struct journal_delivery *in) {
	struct writer w = write_to(out, size);

	w64(&w, in->key);
	w64(&w, in->start);
	w_time(&w, in->when_ns);
	w8(&w, in->result);
	w32(&w, in->recipients);
	w32(&w, in->left);
	w_text(&w, in->domain);
	if (in->id.length > 0) {
		w_text(&w, in->id);
		w_text(&w, in->to);
		w32(&w, in->pid);
		w64(&w, in->log);
		w64(&w, in->offset);
	}
	return written(&w);
}

bool journal_delivery_read(const uint8_t *payload, size_t length,
    struct journal_delivery *out) {
	struct reader r = read_from(payload, length);

	out->key = r64(&r);
	out->start = r64(&r);
	out->when_ns = r_time(&r);
	out->result = r8(&r);
	out->recipients = r32(&r);
	out->left = r32(&r);
	out->domain = r_text(&r);
	out->id = r_text(&r);
	out->to = r_text(&r);
	out->pid = r32(&r);
	out->log = r64(&r);
	out->offset = r64(&r);
	return !r.spoiled;
}

size_t journal_finish_write(uint8_t *out, size_t size, const struct journal_finish *in) {
	struct writer w = write_to(out, size);

	w64(&w, in->key);
	w64(&w, in->start);
	w_place(&w, in->old);
	w_time(&w, in->when_ns);
	w8(&w, in->why);
	return written(&w);
}

bool journal_finish_read(const uint8_t *payload, size_t length, struct journal_finish *out) {
	struct reader r = read_from(payload, length);

	out->key = r64(&r);
	out->start = r64(&r);
	out->old = r_place(&r);
	out->when_ns = r_time(&r);
	out->why = r8(&r);
	return !r.spoiled;
}

/* --- positions ---------------------------------------------------------------------------- */

size_t journal_positions_write(uint8_t *out, size_t size, const struct journal_positions *in) {
	struct writer w = write_to(out, size);

	w_time(&w, in->when_ns);
	w64(&w, in->journal);
	w64(&w, in->synced);
	w_place(&w, in->synced_place);
	w32(&w, in->first_file);
	w64(&w, in->syncs);
	w64(&w, in->results);
	w32(&w, in->count);
	for (uint32_t i = 0; i < in->count && i < JOURNAL_POSITIONS_MAX; i++) {
		const struct journal_position *position = &in->positions[i];
		size_t length = strnlen(position->name, JOURNAL_POSITION_NAME);

		w_place(&w, position->place);
		w_text(&w, (struct journal_text){ position->name, (uint16_t)length });
	}
	w32(&w, in->kept);
	return written(&w);
}

static bool read_position(struct reader *r, struct journal_position *out) {
	bool there = r->at < r->end;
	struct journal_text name;

	out->place = r_place(r);
	there = there && r->at < r->end;
	name = r_text(r);
	if (!there || r->spoiled || name.length > JOURNAL_POSITION_NAME)
		return false;
	memset(out->name, 0, sizeof(out->name));
	memcpy(out->name, name.text, name.length);
	return true;
}

bool journal_positions_read(const uint8_t *payload, size_t length,
    struct journal_positions *out) {
	struct reader r = read_from(payload, length);

	memset(out, 0, sizeof(*out));
	out->when_ns = r_time(&r);
	out->journal = r64(&r);
	out->synced = r64(&r);
	out->synced_place = r_place(&r);
	out->first_file = r32(&r);
	out->syncs = r64(&r);
	out->results = r64(&r);
	out->count = r32(&r);
	if (r.spoiled || out->count > JOURNAL_POSITIONS_MAX)
		return false;
	for (uint32_t i = 0; i < out->count; i++)
		if (!read_position(&r, &out->positions[i]))
			return false;
	out->kept = r32(&r);
	return !r.spoiled;
}

/* --- decisions ------------------------------------------------------------------------- */

/* Its numbers of 32 bits, in their order. */
#define DECISION_NUMBERS(X) X(client_port) X(server_port) X(line) X(limit_line) X(count) \
	X(limit) X(before) X(window) X(ceiling_before) X(ceiling) X(uid) X(pid) X(code) \
	X(success) X(failure) X(fail_cohorts) X(observe_line)

size_t journal_decision_write(uint8_t *out, size_t size, const struct journal_decision *in,
    const struct journal_note *notes) {
	struct writer w = write_to(out, size);

	w_time(&w, in->when_ns);
	w_time(&w, in->until_ns);
	w64(&w, in->id);
	w64(&w, in->cause);
	for (unsigned i = 0; i < sizeof(in->client); i++)
		w8(&w, in->client[i]);
	w8(&w, in->verdict);
	w8(&w, in->by);
	w8(&w, in->action);
	w8(&w, in->flags);
#define PUT(field) w32(&w, in->field);
	DECISION_NUMBERS(PUT)
#undef PUT
	w_text(&w, in->kind);
	w_text(&w, in->reason);
	w_text(&w, in->stage);
	w_text(&w, in->result);
	w32(&w, in->text_count);
	for (uint32_t i = 0; i < in->text_count && !w.full; i++) {
		w8(&w, notes[i].which);
		w_text(&w, notes[i].text);
	}
	return written(&w);
}

static bool next_note(struct reader *r, struct journal_note *out) {
	bool there = r->at < r->end;

	out->which = r8(r);
	there = there && r->at < r->end;
	out->text = r_text(r);
	return there && !r->spoiled;
}

static bool notes_are_whole(struct reader reader, uint32_t count) {
	struct journal_note note;

	for (uint32_t i = 0; i < count; i++)
		if (!next_note(&reader, &note))
			return false;
	return true;
}

bool journal_decision_read(const uint8_t *payload, size_t length,
    struct journal_decision *out, struct journal_groups *notes) {
	struct reader r = read_from(payload, length);

	out->when_ns = r_time(&r);
	out->until_ns = r_time(&r);
	out->id = r64(&r);
	out->cause = r64(&r);
	for (unsigned i = 0; i < sizeof(out->client); i++)
		out->client[i] = r8(&r);
	out->verdict = r8(&r);
	out->by = r8(&r);
	out->action = r8(&r);
	out->flags = r8(&r);
#define GET(field) out->field = r32(&r);
	DECISION_NUMBERS(GET)
#undef GET
	out->kind = r_text(&r);
	out->reason = r_text(&r);
	out->stage = r_text(&r);
	out->result = r_text(&r);
	out->text_count = r32(&r);
	*notes = (struct journal_groups){ r.at, r.end, out->text_count };
	return !r.spoiled && notes_are_whole(r, out->text_count);
}

bool journal_note_next(struct journal_groups *notes, struct journal_note *out) {
	struct reader r = { .at = notes->at, .end = notes->end };

	if (notes->left == 0 || !next_note(&r, out))
		return false;
	notes->at = r.at;
	notes->left--;
	return true;
}
