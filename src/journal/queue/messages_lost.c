/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What cannot be read, or cannot any more.
 * MODEL    A disk that does not answer is asked again for a while; then what stands in that
 *          file is lost, as what is damaged.  Messages that were known there are not any
 *          more: their owner will find them in their directory, and their file is held up by
 *          nothing.
 * THREADS  One.
 */
#include "base/clock.h"
#include "journal/queue/messages_internal.h"

#define TRIED_FOR	(10 * NS_PER_SECOND)

bool messages_try_again(struct messages *m, uint32_t file) {
	if (m->fault_file != file) {
		m->fault_file = file;
		m->fault_until_ns = m->now_ns + TRIED_FOR;
	}
	return m->now_ns < m->fault_until_ns;
}

/* What is working goes on without an envelope: its end is told by its owner. */
static bool is_lost(const struct messages *m, const struct entry *entry,
    const struct journal_found *found) {
	struct journal_place place = messages_place(m, entry);

	return (entry->state == ENTRY_WAITS || entry->state == ENTRY_HELD) &&
	    place.file == found->place.file && place.offset >= found->place.offset &&
	    (found->kind == JOURNAL_FOUND_FAULT ||
		place.offset - found->place.offset < found->length);
}

void messages_lost(struct messages *m, const struct journal_found *found) {
	m->totals.unreadable++;
	for (unsigned i = 0; i < SHARDS; i++) {
		for (uint32_t k = 0; k < m->shards[i].size; k++) {
			struct entry *entry = &m->shards[i].entries[k];

			if (entry->key == 0 || !is_lost(m, entry, found))
				continue;
			messages_lose(m, entry, journal_log_last(m->log));
			messages_set_state(m, entry, ENTRY_GONE);
		}
		/* until all is indexed they tell that older envelopes do not count */
		if (messages_is_indexed(m))
			messages_index_sweep(m, i);
	}
}

enum journal_found_kind messages_read_at(struct messages *m, struct journal_place place,
    uint64_t key, struct messages_envelope *out) {
	struct journal_envelope envelope;
	struct journal_found found;

	journal_cursor_seek(m->spare, place);
	if (journal_cursor_next(m->spare, &found) == JOURNAL_FOUND_FAULT)
		return JOURNAL_FOUND_FAULT;
	if (!messages_same(found.place, place) || !messages_is_envelope(m, &found, &envelope) ||
	    envelope.key != key)
		return JOURNAL_FOUND_DAMAGE;
	messages_read_envelope(m, &envelope, out);
	return JOURNAL_FOUND_RECORD;
}
