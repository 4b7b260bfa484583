/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Payloads of records of feed/ and keeper/: what was learned, and done by hand.
 * MODEL    record_fields.h.
 * THREADS  Pure.
 */
#include "journal/record.h"

#include "journal/record_internal.h"

size_t journal_destination_write(uint8_t *out, size_t size,
    const struct journal_destination *in) {
	struct writer w = write_to(out, size);

	w_time(&w, in->when_ns);
	w64(&w, in->origin);
	w8(&w, in->flags);
	w_text(&w, in->name);
	w_text(&w, in->state);
	w_text(&w, in->reason);
	return written(&w);
}

bool journal_destination_read(const uint8_t *payload, size_t length,
    struct journal_destination *out) {
	struct reader r = read_from(payload, length);

	out->when_ns = r_time(&r);
	out->origin = r64(&r);
	out->flags = r8(&r);
	out->name = r_text(&r);
	out->state = r_text(&r);
	out->reason = r_text(&r);
	return !r.spoiled;
}

size_t journal_log_position_write(uint8_t *out, size_t size,
    const struct journal_log_position *in) {
	struct writer w = write_to(out, size);

	w_time(&w, in->when_ns);
	w64(&w, in->log);
	w64(&w, in->device);
	w64(&w, in->inode);
	w32(&w, in->epoch);
	w32(&w, in->rank);
	w64(&w, in->offset);
	w32(&w, in->tail);
	w8(&w, in->skipping);
	w8(&w, in->forgotten);
	/* of systemd's journal alone: those of files are as version 1 has them */
	if (in->time_us != 0)
		w64(&w, in->time_us);
	return written(&w);
}

bool journal_log_position_read(const uint8_t *payload, size_t length,
    struct journal_log_position *out) {
	struct reader r = read_from(payload, length);

	out->when_ns = r_time(&r);
	out->log = r64(&r);
	out->device = r64(&r);
	out->inode = r64(&r);
	out->epoch = r32(&r);
	out->rank = r32(&r);
	out->offset = r64(&r);
	out->tail = r32(&r);
	out->skipping = r8(&r) != 0;
	out->forgotten = r8(&r) != 0;
	out->time_us = r64(&r);
	return !r.spoiled;
}

size_t journal_held_recipient_write(uint8_t *out, size_t size,
    const struct journal_held_recipient *in) {
	struct writer w = write_to(out, size);

	w_time(&w, in->when_ns);
	w_time(&w, in->since_ns);
	w_time(&w, in->until_ns);
	w_text(&w, in->address);
	w_text(&w, in->reason);
	w8(&w, in->flags);
	if (in->event != 0)
		w64(&w, in->event);
	return written(&w);
}

bool journal_held_recipient_read(const uint8_t *payload, size_t length,
    struct journal_held_recipient *out) {
	struct reader r = read_from(payload, length);

	out->when_ns = r_time(&r);
	out->since_ns = r_time(&r);
	out->until_ns = r_time(&r);
	out->address = r_text(&r);
	out->reason = r_text(&r);
	out->flags = r8(&r);
	out->event = r64(&r);
	return !r.spoiled;
}

size_t journal_manual_write(uint8_t *out, size_t size, const struct journal_manual *in) {
	struct writer w = write_to(out, size);

	w_time(&w, in->when_ns);
	w_time(&w, in->until_ns);
	w8(&w, in->verb);
	w8(&w, in->what);
	w32(&w, in->who);
	w32(&w, in->window);
	w32(&w, in->ceiling);
	w_text(&w, in->name);
	w_text(&w, in->reason);
	return written(&w);
}

bool journal_manual_read(const uint8_t *payload, size_t length, struct journal_manual *out) {
	struct reader r = read_from(payload, length);

	out->when_ns = r_time(&r);
	out->until_ns = r_time(&r);
	out->verb = r8(&r);
	out->what = r8(&r);
	out->who = r32(&r);
	out->window = r32(&r);
	out->ceiling = r32(&r);
	out->name = r_text(&r);
	out->reason = r_text(&r);
	return !r.spoiled;
}

size_t journal_account_write(uint8_t *out, size_t size, const struct journal_account *in) {
	struct writer w = write_to(out, size);

	w_time(&w, in->when_ns);
	w64(&w, in->boot);
	w_time(&w, in->clock_ns);
	w8(&w, in->what);
	w64(&w, in->key[0]);
	w64(&w, in->key[1]);
	w_text(&w, in->name);
	w_time(&w, in->first_ns);
	w_time(&w, in->guard_ns);
	w64(&w, in->accepted);
	w32(&w, in->refused);
	w64(&w, in->held_by);
	w32(&w, in->counter_count);
	for (uint32_t i = 0; i < in->counter_count && i < JOURNAL_COUNTERS_MAX; i++) {
		w32(&w, in->counters[i].key);
		w_time(&w, in->counters[i].end_ns);
		for (unsigned n = 0; n < JOURNAL_BUCKETS; n++)
			w32(&w, in->counters[i].buckets[n]);
	}
	return written(&w);
}

bool journal_account_read(const uint8_t *payload, size_t length, struct journal_account *out) {
	struct reader r = read_from(payload, length);

	out->when_ns = r_time(&r);
	out->boot = r64(&r);
	out->clock_ns = r_time(&r);
	out->what = r8(&r);
	out->key[0] = r64(&r);
	out->key[1] = r64(&r);
	out->name = r_text(&r);
	out->first_ns = r_time(&r);
	out->guard_ns = r_time(&r);
	out->accepted = r64(&r);
	out->refused = r32(&r);
	out->held_by = r64(&r);
	out->counter_count = r32(&r);
	if (r.spoiled || out->counter_count > JOURNAL_COUNTERS_MAX)
		return false;
	for (uint32_t i = 0; i < out->counter_count; i++) {
		out->counters[i].key = r32(&r);
		out->counters[i].end_ns = r_time(&r);
		for (unsigned n = 0; n < JOURNAL_BUCKETS; n++) {
			r.spoiled = r.spoiled || r.at == r.end;
			out->counters[i].buckets[n] = r32(&r);
		}
	}
	return !r.spoiled;
}

size_t journal_checkpoint_write(uint8_t *out, size_t size,
    const struct journal_checkpoint *in) {
	struct writer w = write_to(out, size);

	w64(&w, in->number);
	w_time(&w, in->when_ns);
	w32(&w, in->records);
	return written(&w);
}

bool journal_checkpoint_read(const uint8_t *payload, size_t length,
    struct journal_checkpoint *out) {
	struct reader r = read_from(payload, length);

	out->number = r64(&r);
	out->when_ns = r_time(&r);
	out->records = r32(&r);
	return !r.spoiled;
}
