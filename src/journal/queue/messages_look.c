/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What its owner wants to see of all that waits; and of what it has not seen in its
 *          directory.
 * MODEL    A walk reads the log from its begin to its end, some in each step.  What was not
 *          seen is found in the index, and read one by one.
 * THREADS  One.
 */
#include <stdlib.h>

#include "journal/queue/messages_internal.h"

#define UNSEEN_MOST	64u	/* of a step */
#define SLOTS_MOST	65536u	/* of the index, looked at in a step */

/* --- all that waits ------------------------------------------------------------------------ */

struct messages_walk {
	struct journal_cursor *cursor;
	uint64_t renewals, bytes;	/* bytes: of this step */
};

struct messages_walk *messages_walk_open(struct messages *m) {
	struct messages_walk *walk;

	if (!messages_enter(m) || !messages_is_recovered(m))
		return NULL;
	walk = calloc(1, sizeof(*walk));
	if (walk == NULL)
		return NULL;
	walk->renewals = m->totals.renewals;
	walk->cursor = journal_cursor_open(journal_log_files(m->log));
	if (walk->cursor == NULL)
		messages_walk_close(&walk);
	else
		journal_cursor_seek(walk->cursor, m->begin);
	return walk;
}

enum messages_answer messages_walk_next(struct messages *m, struct messages_walk *walk,
    struct messages_envelope *envelope) {
	struct journal_found found = { .length = 0 };
	struct journal_envelope e;

	if (!messages_enter(m) || walk->renewals != m->totals.renewals)
		return MESSAGES_NONE;
	journal_log_flush(m->log);
	for (; walk->bytes < MESSAGES_STEP_BYTES; walk->bytes += found.length + 1) {
		struct journal_place before = journal_cursor_place(walk->cursor);
		const struct entry *entry;

		if (journal_cursor_next(walk->cursor, &found) == JOURNAL_FOUND_END)
			return MESSAGES_NONE;
		if (found.kind == JOURNAL_FOUND_FAULT &&
		    messages_try_again(m, found.place.file)) {
			journal_cursor_seek(walk->cursor, before);
			break;
		}
		if (!messages_is_envelope(m, &found, &e) ||
		    !journal_mark_is_live(found.frame.mark))
			continue;
		entry = messages_learn(m, &found, &e);
		if (entry == NULL || entry->state != ENTRY_WAITS)
			continue;
		messages_read_envelope(m, &e, envelope);
		walk->bytes += found.length + 1;
		return MESSAGES_ONE;
	}
	walk->bytes = 0;
	return MESSAGES_MORE;
}

void messages_walk_close(struct messages_walk **walk) {
	if (*walk == NULL)
		return;
	journal_cursor_close(&(*walk)->cursor);
	free(*walk);
	*walk = NULL;
}

/* --- one of them --------------------------------------------------------------------------- */

bool messages_take(struct messages *m, uint64_t key, struct messages_envelope *envelope) {
	const struct entry *entry;

	if (!messages_enter(m) || !messages_is_recovered(m))
		return false;
	entry = messages_index_find(m, key);
	if (entry == NULL || entry->state != ENTRY_WAITS)
		return false;
	journal_log_flush(m->log);
	if (messages_read_at(m, messages_place(m, entry), key, envelope) != JOURNAL_FOUND_RECORD)
		return false;
	messages_hold(m, messages_index_find(m, key));
	return true;
}

/* --- what is known, and what was seen --------------------------------------------------------- */

static struct entry *find_known(struct messages *m, uint64_t key, uint64_t stamp) {
	struct entry *entry;

	if (!messages_enter(m))
		return NULL;
	entry = messages_index_find(m, key);
	if (entry == NULL || entry->state == ENTRY_GONE || entry->stamp != messages_fold(stamp))
		return NULL;
	entry->seen = m->epoch;
	return entry;
}

bool messages_knows(struct messages *m, uint64_t key, uint64_t stamp) {
	return find_known(m, key, stamp) != NULL;
}

bool messages_waits(struct messages *m, uint64_t key, uint64_t stamp) {
	const struct entry *entry = find_known(m, key, stamp);

	return entry != NULL && entry->state == ENTRY_WAITS;
}

void messages_seen(struct messages *m, uint64_t key) {
	struct entry *entry;

	if (!messages_enter(m))
		return;
	entry = messages_index_find(m, key);
	if (entry != NULL)
		entry->seen = m->epoch;
}

void messages_seen_begin(struct messages *m) {
	m->epoch++;
	m->telling = false;
}

void messages_seen_end(struct messages *m,
    void (*each)(void *context, const char *mta, const char *directory, const char *id),
    void *context) {
	if (!messages_enter(m))
		return;
	m->unseen = each;
	m->unseen_context = context;
	m->told_epoch = m->epoch;
	m->telling = true;
	m->tell_shard = m->tell_slot = 0;
}

/* Its envelope may not be readable: then nobody can say which message it was. */
static void tell_unseen(struct messages *m, const struct entry *entry) {
	struct messages_envelope envelope;

	if (messages_read_at(m, messages_place(m, entry), entry->key, &envelope) ==
	    JOURNAL_FOUND_RECORD)
		m->unseen(m->unseen_context, envelope.mta, envelope.directory, envelope.id);
}

bool messages_unseen_step(struct messages *m) {
	unsigned told = 0;

	if (!m->telling || !messages_is_indexed(m))
		return false;
	journal_log_flush(m->log);
	for (uint32_t i = 0; i < SLOTS_MOST && told < UNSEEN_MOST; i++) {
		const struct shard *shard = &m->shards[m->tell_shard];
		const struct entry *entry;

		if (m->tell_slot >= shard->size) {
			m->tell_slot = 0;
			if (++m->tell_shard == SHARDS) {
				m->telling = false;
				journal_cursor_seek(m->spare, NOWHERE);
				return false;
			}
			continue;
		}
		entry = &shard->entries[m->tell_slot++];
		if (entry->key == 0 || entry->seen == m->told_epoch ||
		    (entry->state != ENTRY_WAITS && entry->state != ENTRY_HELD))
			continue;
		told++;
		tell_unseen(m, entry);
	}
	return true;
}
