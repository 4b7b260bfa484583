/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The runners: one for each interval, each with its place in the log.
 * MODEL    A runner *stands* at an envelope of its interval that waits, until it is old
 *          enough and its owner has taken it.  It passes over garbage, what is held, and
 *          those of other intervals.  The longest one stands at any envelope; one that is
 *          held, or is not due, it writes anew at the end: what it leaves behind is garbage.
 *          It waits at one that is due, as its owner has no room for it yet.
 * THREADS  One.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "journal/queue/messages_internal.h"

#define AGAIN_NS	NS_PER_SECOND	/* after a file could not be read */

/* --- life ---------------------------------------------------------------------------------- */

bool messages_runners_open(struct messages *m) {
	for (unsigned i = 0; i < m->settings.intervals; i++) {
		m->runners[i].cursor = journal_cursor_open(journal_log_files(m->log));
		if (m->runners[i].cursor == NULL)
			return false;
	}
	return true;
}

void messages_runners_close(struct messages *m) {
	for (unsigned i = 0; i < m->settings.intervals; i++)
		journal_cursor_close(&m->runners[i].cursor);
}

static void runner_seek(struct runner *runner, struct journal_place place) {
	runner->stands = false;
	runner->end = (struct journal_place){ 0, 0 };
	journal_cursor_seek(runner->cursor, place);
}

void messages_runners_leave(struct messages *m) {
	for (unsigned i = 0; i < m->settings.intervals; i++)
		runner_seek(&m->runners[i], NOWHERE);
}

/* Those of other intervals are of no use: an envelope's runner may have passed it as
 * another one's. */
static bool found_all(const struct messages *m) {
	const struct journal_positions *found = &m->positions;
	char name[JOURNAL_POSITION_NAME + 1];
	struct journal_place place;
	unsigned count = 0;

	for (unsigned i = 0; i < m->settings.intervals; i++) {
		messages_position_name(m->settings.intervals_ns[i], name);
		if (!messages_position_found(m, name, &place))
			return false;
	}
	for (uint32_t i = 0; i < found->positions_count; i++)
		count += strncmp(found->positions[i].name, "runner-", 7) == 0;
	return count == m->settings.intervals;
}

void messages_runners_begin(struct messages *m) {
	bool use = found_all(m);
	char name[JOURNAL_POSITION_NAME + 1];

	for (unsigned i = 0; i < m->settings.intervals; i++) {
		struct journal_place place = m->begin;

		messages_position_name(m->settings.intervals_ns[i], name);
		if (use && messages_position_found(m, name, &place) &&
		    messages_before(place, m->begin))
			place = m->begin;
		runner_seek(&m->runners[i], place);
	}
	m->new_is_next = true;
	m->old_turn = 1;
}

struct journal_place messages_runner_place(const struct messages *m, unsigned interval) {
	const struct runner *runner = &m->runners[interval];

	return runner->stands ? runner->found.place : journal_cursor_place(runner->cursor);
}

void messages_longest_back(struct messages *m, struct journal_place place) {
	unsigned longest = m->settings.intervals - 1;

	if (messages_before(place, messages_runner_place(m, longest)))
		runner_seek(&m->runners[longest], place);
}

/* --- steps ----------------------------------------------------------------------------------- */

static struct journal_place end_of_log(struct messages *m) {
	const struct journal_files *files = journal_log_files(m->log);

	if (files->count == 0)
		return (struct journal_place){ 0, 0 };
	return (struct journal_place){ files->files[files->count - 1].number,
		files->files[files->count - 1].end };
}

/* The entry of the envelope that it stands at, if that is still the runner's own. */
static struct entry *own_entry(struct messages *m, unsigned interval) {
	struct runner *runner = &m->runners[interval];
	struct entry *entry = messages_index_find(m, runner->envelope.key);

	if (entry == NULL || (entry->state != ENTRY_WAITS && entry->state != ENTRY_HELD) ||
	    !messages_same(messages_place(m, entry), runner->found.place))
		return NULL;
	if (interval == m->settings.intervals - 1 ||
	    (entry->state == ENTRY_WAITS && entry->interval == interval))
		return entry;
	return NULL;
}

/* The next record; false: the log ends. */
static bool go_on(struct messages *m, struct runner *runner, uint64_t *bytes,
    int64_t *wait_ns) {
	struct journal_place end = end_of_log(m), before = journal_cursor_place(runner->cursor);

	if (end.file != 0 && messages_same(end, runner->end))
		return false;
	*bytes += 1;
	switch (journal_cursor_next(runner->cursor, &runner->found)) {
	case JOURNAL_FOUND_END:
		runner->end = end;
		return false;
	case JOURNAL_FOUND_RECORD:
		*bytes += runner->found.length;
		m->moved = true;
		runner->stands = journal_mark_is_live(runner->found.frame.mark) &&
		    messages_is_envelope(m, &runner->found, &runner->envelope) &&
		    messages_learn(m, &runner->found, &runner->envelope) != NULL;
		break;
	case JOURNAL_FOUND_FAULT:
		if (messages_try_again(m, runner->found.place.file)) {
			runner_seek(runner, before);
			*wait_ns = *wait_ns < AGAIN_NS ? *wait_ns : AGAIN_NS;
			return false;
		}
		messages_lost(m, &runner->found);
		break;
	case JOURNAL_FOUND_DAMAGE:
		messages_lost(m, &runner->found);
		break;
	case JOURNAL_FOUND_TORN:
		if (runner->found.ends)	/* below a living log: that went on elsewhere */
			runner_seek(runner, (struct journal_place){ runner->found.place.file + 1, 0 });
		break;
	case JOURNAL_FOUND_LATER:
		*bytes += runner->found.length;
		break;
	}
	return true;
}

/* At the end, as it was left: what still waits, and what its owner holds. */
static bool write_anew(struct messages *m, struct runner *runner, struct entry *entry) {
	struct messages_envelope envelope;
	bool held = entry->state == ENTRY_HELD;
	uint8_t seen = entry->seen;

	messages_read_envelope(m, &runner->envelope, &envelope);
	if (messages_put_entry(m, &envelope, entry->key, held) == 0)
		return false;
	entry->seen = seen;
	m->totals.written_anew++;
	return true;
}

static bool is_due(const struct messages *m, const struct runner *runner) {
	return messages_due(m, runner->envelope.due_ns, runner->envelope.written_ns) <= m->wall_ns;
}

/* ONE: `found` may be taken.  NONE: it waits for a time, or for more to be appended. */
static enum messages_answer runner_advance(struct messages *m, unsigned interval, bool may_write,
    uint64_t *bytes, int64_t *wait_ns) {
	struct runner *runner = &m->runners[interval];
	bool longest = interval == m->settings.intervals - 1;

	while (*bytes < MESSAGES_STEP_BYTES) {
		struct entry *entry = runner->stands ? own_entry(m, interval) : NULL;
		int64_t written = runner->envelope.written_ns, left;

		if (entry == NULL) {
			runner->stands = false;
			if (!go_on(m, runner, bytes, wait_ns))
				return MESSAGES_NONE;
			continue;
		}
		left = written > m->wall_ns ? 0 :
		    m->settings.intervals_ns[interval] - (m->wall_ns - written);
		if (left > 0) {
			*wait_ns = left < *wait_ns ? left : *wait_ns;
			return MESSAGES_NONE;
		}
		if (!longest || (entry->state == ENTRY_WAITS && is_due(m, runner)))
			return MESSAGES_ONE;
		if (!may_write) {
			*wait_ns = 0;	/* until the next turn */
			return MESSAGES_NONE;
		}
		*bytes += runner->found.length;
		if (!write_anew(m, runner, entry))
			return MESSAGES_NONE;
		runner->stands = false;
	}
	return MESSAGES_MORE;
}

bool messages_run_longest(struct messages *m, int64_t *wait_ns) {
	uint64_t bytes = 0;

	return runner_advance(m, m->settings.intervals - 1, true, &bytes, wait_ns) == MESSAGES_MORE;
}

/* --- next -------------------------------------------------------------------------------------- */

static void runner_take(struct messages *m, struct runner *runner,
    struct messages_envelope *envelope) {
	messages_read_envelope(m, &runner->envelope, envelope);
	messages_hold(m, messages_index_find(m, runner->envelope.key));
	runner->stands = false;
}

/* New ones, or one of the old runners by turns. */
static enum messages_answer runner_ask(struct messages *m, bool new, uint64_t *bytes, int64_t *wait_ns,
    struct messages_envelope *envelope) {
	unsigned old = m->settings.intervals - 1, tries = new ? 1 : old;
	bool more = false;

	for (unsigned i = 0; i < tries; i++) {
		unsigned interval = new ? 0 : 1 + (m->old_turn - 1 + i) % old;

		switch (runner_advance(m, interval, false, bytes, wait_ns)) {
		case MESSAGES_ONE:
			runner_take(m, &m->runners[interval], envelope);
			if (!new)
				m->old_turn = 1 + interval % old;
			return MESSAGES_ONE;
		case MESSAGES_MORE:
			more = true;
			break;
		case MESSAGES_NONE:
			break;
		}
	}
	return more ? MESSAGES_MORE : MESSAGES_NONE;
}

enum messages_answer messages_next(struct messages *m, int64_t wall_ns,
    struct messages_envelope *envelope, int64_t *next_ns) {
	int64_t wait_ns = INT64_MAX;
	uint64_t bytes = 0;
	bool more = false;

	m->wall_ns = wall_ns;
	*next_ns = INT64_MAX;
	if (!messages_enter(m) || !messages_is_recovered(m))
		return MESSAGES_NONE;
	for (unsigned i = 0; i < 2; i++) {
		bool new = m->new_is_next == (i == 0);
		enum messages_answer answer = runner_ask(m, new, &bytes, &wait_ns, envelope);

		if (answer == MESSAGES_ONE) {
			m->new_is_next = !new;
			return MESSAGES_ONE;
		}
		more = more || answer == MESSAGES_MORE;
	}
	if (more)
		return MESSAGES_MORE;
	if (wait_ns != INT64_MAX)
		*next_ns = wall_ns + wait_ns;
	return MESSAGES_NONE;
}
