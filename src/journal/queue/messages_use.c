/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What is needed of which file: envelopes that are no garbage, and those of work
 *          that has begun ("garbage, but not truly").
 * MODEL    Counts by file, and the list of what is working in the order of its starts.  The
 *          true garbage ends where the first file is needed for anything.
 * ERRORS   Where a count or a mark is lost for want of memory, nothing is deleted from then
 *          on, and the positions stay (messages.no_memory).
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/queue/messages_internal.h"

struct working *messages_work(const struct messages *m, const struct entry *entry) {
	return &m->working[entry->offset];
}

struct journal_place messages_place(const struct messages *m, const struct entry *entry) {
	return entry->state == ENTRY_WORKING ? messages_work(m, entry)->start :
	    (struct journal_place){ entry->file, entry->offset };
}

bool messages_before(struct journal_place a, struct journal_place b) {
	return journal_place_pack(a) < journal_place_pack(b);
}

bool messages_same(struct journal_place a, struct journal_place b) {
	return journal_place_pack(a) == journal_place_pack(b);
}

/* --- files ------------------------------------------------------------------------------ */

static struct use *use_of(struct messages *m, uint32_t file) {
	uint32_t low = 0, high = m->use_count;

	/* the last one, nearly always */
	if (high > 0 && m->uses[high - 1].file == file)
		return &m->uses[high - 1];
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (m->uses[middle].file < file)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < m->use_count && m->uses[low].file == file)
		return &m->uses[low];
	if (m->use_count == m->use_size) {
		uint32_t size = m->use_size == 0 ? 16 : 2 * m->use_size;
		struct use *more = reallocarray(m->uses, size, sizeof(*more));

		if (more == NULL) {
			m->no_memory = true;
			return NULL;
		}
		m->uses = more;
		m->use_size = size;
	}
	memmove(&m->uses[low + 1], &m->uses[low], (m->use_count - low) * sizeof(*m->uses));
	m->use_count++;
	m->uses[low] = (struct use){ .file = file };
	return &m->uses[low];
}

static void count_change(uint32_t *what, int change) {
	if (change > 0)
		++*what;
	else if (*what > 0)	/* 0: its begin was not counted, for want of memory */
		--*what;
}

static void count_held(struct use *use, const struct entry *entry, int change) {
	uint32_t *held = &use->held[entry->interval], *low = &use->low[entry->interval];

	if (change > 0 && (*held == 0 || entry->offset < *low))
		*low = entry->offset;
	count_change(held, change);
}

static void count_unmarked(struct messages *m, const struct entry *entry, int change) {
	struct use *use = use_of(m, entry->file);

	if (use == NULL)
		return;
	count_change(&use->unmarked, change);
	if (entry->state == ENTRY_HELD)
		count_held(use, entry, change);
}

static void count_working(struct messages *m, uint32_t file, int change) {
	struct use *use = file != 0 ? use_of(m, file) : NULL;

	if (use != NULL)
		count_change(&use->working, change);
}

uint32_t messages_first_use(const struct messages *m, uint32_t limit) {
	for (uint32_t i = 0; i < m->use_count && m->uses[i].file < limit; i++)
		if (m->uses[i].unmarked > 0 || m->uses[i].working > 0)
			return m->uses[i].file;
	return limit;
}

struct journal_place messages_first_held(const struct messages *m, unsigned interval,
    struct journal_place limit) {
	for (uint32_t i = 0; i < m->use_count && m->uses[i].file <= limit.file; i++) {
		const struct use *use = &m->uses[i];
		struct journal_place place = { use->file, use->low[interval] };

		if (use->held[interval] > 0)
			return messages_before(place, limit) ? place : limit;
	}
	return limit;
}

void messages_forget_uses(struct messages *m, uint32_t below) {
	uint32_t first = 0;

	while (first < m->use_count && m->uses[first].file < below)
		first++;
	if (first == 0)
		return;
	m->use_count -= first;
	memmove(m->uses, &m->uses[first], m->use_count * sizeof(*m->uses));
}

/* --- envelopes --------------------------------------------------------------------------- */

void messages_mark(struct messages *m, struct journal_place place, uint64_t allowed_by) {
	if (place.file == 0 || journal_log_mark(m->log, place, allowed_by))
		return;
	/* a place that is no more needs no mark */
	if (journal_log_state(m->log) == JOURNAL_GOOD && journal_log_holds(m->log, place))
		m->no_memory = true;
}

void messages_gain(struct messages *m, struct entry *entry, enum entry_state state,
    struct journal_place place, unsigned interval) {
	entry->file = place.file;
	entry->offset = place.offset;
	entry->interval = (uint8_t)interval;
	messages_set_state(m, entry, state);
	count_unmarked(m, entry, 1);
	m->moved = true;
}

void messages_lose(struct messages *m, struct entry *entry, uint64_t allowed_by) {
	if (entry->state == ENTRY_WAITS || entry->state == ENTRY_HELD) {
		messages_mark(m, messages_place(m, entry), allowed_by);
		count_unmarked(m, entry, -1);
		m->moved = true;
	}
	messages_set_state(m, entry, ENTRY_NEW);
}

void messages_hold(struct messages *m, struct entry *entry) {
	struct use *use = use_of(m, entry->file);

	if (entry->state != ENTRY_WAITS)
		return;
	messages_set_state(m, entry, ENTRY_HELD);
	if (use != NULL)
		count_held(use, entry, 1);
}

/* --- work --------------------------------------------------------------------------------- */

bool messages_reserve_work(struct messages *m) {
	uint32_t size = m->working_size == 0 ? 64 : 2 * m->working_size;
	struct working *more;

	if (m->working_free != NONE)
		return true;
	more = size < NONE / 2 ? reallocarray(m->working, size, sizeof(*more)) : NULL;
	if (more == NULL)
		return false;
	m->working = more;
	for (uint32_t i = size; i-- > m->working_size;) {
		m->working[i] = (struct working){ .next = m->working_free };
		m->working_free = i;
	}
	m->working_size = size;
	return true;
}

void messages_begin_work(struct messages *m, struct entry *entry,
    struct journal_place envelope, struct journal_place start, uint64_t start_sequence) {
	uint32_t place = m->working_free;
	bool unmarked = true;

	MUST(place != NONE);
	m->working_free = m->working[place].next;
	if (entry->state == ENTRY_WAITS || entry->state == ENTRY_HELD) {
		struct journal_place last = messages_place(m, entry);

		messages_lose(m, entry, start_sequence);
		unmarked = !messages_same(last, envelope);
	}
	m->working[place] = (struct working){ .key = entry->key, .prev = m->working_last,
		.next = NONE, .start = start, .envelope = envelope,
		.unmarked = unmarked, .start_sequence = start_sequence };
	if (m->working_last != NONE)
		m->working[m->working_last].next = place;
	else
		m->working_first = place;
	m->working_last = place;
	entry->file = 0;
	entry->offset = place;
	messages_set_state(m, entry, ENTRY_WORKING);
	count_working(m, envelope.file, 1);
	m->moved = true;
}

void messages_end_work(struct messages *m, struct entry *entry) {
	uint32_t place = entry->offset;
	struct working *w = &m->working[place];

	if (w->unmarked)
		messages_mark(m, w->envelope, journal_log_last(m->log));
	count_working(m, w->envelope.file, -1);
	if (w->prev != NONE)
		m->working[w->prev].next = w->next;
	else
		m->working_first = w->next;
	if (w->next != NONE)
		m->working[w->next].prev = w->prev;
	else
		m->working_last = w->prev;
	free(w->done);
	free(w->told);
	*w = (struct working){ .next = m->working_free };
	m->working_free = place;
	entry->offset = 0;
	messages_set_state(m, entry, ENTRY_NEW);
	m->moved = true;
}

void messages_forget_all(struct messages *m) {
	for (uint32_t i = 0; i < m->working_size; i++) {
		free(m->working[i].done);
		free(m->working[i].told);
	}
	free(m->working);
	m->working = NULL;
	m->working_size = 0;
	m->working_free = m->working_first = m->working_last = NONE;
	m->use_count = 0;
	messages_index_clear(m);
}
