/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What happens by itself: work in the background, restart positions, syncs.
 * MODEL    Positions are taken as they are now, and recorded by the log when all that they
 *          speak of is on the disk; then it deletes the files before the first that is
 *          needed.  They lag behind, which costs the next start some reading.
 * ERRORS   Without memory for a count or a mark the old positions stay, and after a while
 *          all is recovered again.
 * THREADS  One.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "journal/queue/messages_internal.h"

#define AGAIN_NS	NS_PER_SECOND	/* after a file could not be read */
#define NO_MEMORY_NS	(60 * NS_PER_SECOND)	/* until all is recovered again */

/* --- positions ------------------------------------------------------------------------------ */

/* "runner-0s", "runner-5m" */
void messages_position_name(int64_t interval_ns, char out[JOURNAL_POSITION_NAME + 1]) {
	int64_t seconds = interval_ns / NS_PER_SECOND;

	if (interval_ns % NS_PER_SECOND != 0)
		(void)snprintf(out, JOURNAL_POSITION_NAME + 1, "runner-%ums",
		    (unsigned)(interval_ns / NS_PER_MS % 10000000));
	else if (seconds % 60 != 0 || seconds == 0)
		(void)snprintf(out, JOURNAL_POSITION_NAME + 1, "runner-%us",
		    (unsigned)(seconds % 10000000));
	else
		(void)snprintf(out, JOURNAL_POSITION_NAME + 1, "runner-%um",
		    (unsigned)(seconds / 60 % 10000000));
}

bool messages_position_found(const struct messages *m, const char *name,
    struct journal_place *place) {
	for (uint32_t i = 0; m->has_positions && i < m->positions.positions_count; i++) {
		if (strcmp(m->positions.positions[i].name, name) == 0) {
			*place = m->positions.positions[i].place;
			return true;
		}
	}
	return false;
}

static void add_time(struct journal_positions *positions, const char *name,
    struct journal_place place) {
	struct journal_position *position = &positions->positions[positions->positions_count++];

	position->place = place;
	(void)snprintf(position->name, sizeof(position->name), "%s", name);
}

static struct journal_place suffix_of(const struct messages *m) {
	struct journal_place last = m->working_first != NONE ?
	    m->working[m->working_first].start : m->last;

	return messages_is_indexed(m) || messages_before(last, m->found_suffix) ?
	    last : m->found_suffix;
}

/* No later than the first that its owner holds: it is to come again. */
static struct journal_place runner_position(const struct messages *m, unsigned interval) {
	struct journal_place place = messages_first_held(m, interval,
	    messages_runner_place(m, interval));

	return messages_before(place, m->begin) ? m->begin : place;
}

static void ask_for_positions(struct messages *m) {
	struct journal_place suffix = suffix_of(m);
	struct journal_positions positions = { .results = m->totals.deliveries };
	char name[JOURNAL_POSITION_NAME + 1];

	/* until all is indexed, nobody knows what is needed of the files before */
	positions.first_file = messages_is_indexed(m) ? messages_first_use(m, suffix.file) :
	    m->begin.file;
	if (m->begin.file < positions.first_file)
		m->begin = (struct journal_place){ positions.first_file, 0 };
	add_time(&positions, POSITION_SUFFIX, suffix);
	for (unsigned i = 0; i < m->settings.intervals; i++) {
		messages_position_name(m->settings.intervals_ns[i], name);
		add_time(&positions, name, runner_position(m, i));
	}
	m->positions_asked = journal_log_positions(m->log, &positions);
	if (m->positions_asked == 0)
		return;
	m->asked_positions = positions;
	m->moved = false;
	messages_forget_uses(m, positions.first_file);
}

static void take_recorded(struct messages *m) {
	if (m->positions_asked == 0)
		return;
	if (journal_log_positions_recorded(m->log) == m->positions_asked) {
		m->positions = m->asked_positions;
		m->has_positions = true;
	} else {
		m->moved = true;	/* a fault came between */
	}
	m->positions_asked = 0;
}

static int64_t wait_for_memory(struct messages *m, int64_t now_ns) {
	if (m->no_memory_ns == 0)
		m->no_memory_ns = now_ns + NO_MEMORY_NS;
	if (now_ns < m->no_memory_ns)
		return m->no_memory_ns;
	m->no_memory_ns = 0;
	messages_renew(m);
	return now_ns;
}

/* When they may be recorded next; INT64_MAX: nothing has happened. */
static int64_t messages_positions_turn(struct messages *m, int64_t now_ns) {
	if (!messages_is_recovered(m) || journal_log_positions_pending(m->log))
		return INT64_MAX;
	take_recorded(m);
	if (m->no_memory)
		return wait_for_memory(m, now_ns);
	if (!m->moved && journal_log_last(m->log) == m->positions_last)
		return INT64_MAX;
	if (now_ns < m->positions_ns)
		return m->positions_ns;
	ask_for_positions(m);
	m->positions_last = journal_log_last(m->log);
	m->positions_ns = now_ns + m->settings.positions_ns;
	return m->positions_ns;
}

/* --- turns ------------------------------------------------------------------------------------- */

static int64_t turn_work(struct messages *m, int64_t now_ns) {
	int64_t wait_ns = INT64_MAX, next_ns;
	bool more;

	if (m->tell_renewed) {
		m->tell_renewed = false;
		m->calls.renewed(m->calls.context);
		if (!messages_enter(m))
			return INT64_MAX;
	}
	if (!messages_is_recovered(m))
		return messages_recover_step(m) ? now_ns : now_ns + AGAIN_NS;
	more = messages_recover_step(m);
	more = messages_unseen_step(m) || more;
	more = messages_run_longest(m, &wait_ns) || more;
	next_ns = messages_positions_turn(m, now_ns);
	if (more)
		return now_ns;
	/* wall time may be set: looked at again within a minute */
	wait_ns = wait_ns < 60 * NS_PER_SECOND ? wait_ns : 60 * NS_PER_SECOND;
	if (m->phase != PHASE_DONE)
		wait_ns = wait_ns < AGAIN_NS ? wait_ns : AGAIN_NS;
	return now_ns + wait_ns < next_ns ? now_ns + wait_ns : next_ns;
}

int64_t messages_turn(struct messages *m, int64_t wall_ns, int64_t now_ns) {
	int64_t next_ns = INT64_MAX, log_ns;

	m->wall_ns = wall_ns;
	m->now_ns = now_ns;
	if (messages_enter(m))
		next_ns = turn_work(m, now_ns);
	if (m->sync_within_ns != INT64_MAX)
		journal_log_sync_by(m->log, now_ns + m->sync_within_ns);
	m->sync_within_ns = INT64_MAX;
	log_ns = journal_log_turn(m->log, now_ns);
	if (m->renew)
		return now_ns;
	return log_ns < next_ns ? log_ns : next_ns;
}

/* --- to look at ---------------------------------------------------------------------------------- */

struct journal_log *messages_log(struct messages *m) {
	return m->log;
}

bool messages_is_recovered(const struct messages *m) {
	return m->phase >= PHASE_REPLACE;
}

bool messages_is_replaced(const struct messages *m) {
	return m->phase > PHASE_REPLACE;
}

bool messages_is_indexed(const struct messages *m) {
	return m->phase >= PHASE_TOMBS;
}

bool messages_is_degraded(const struct messages *m) {
	return m->failed || journal_log_state(m->log) == JOURNAL_FAILED;
}

void messages_count(const struct messages *m, struct messages_totals *out) {
	*out = m->totals;
	out->waiting = m->by_state[ENTRY_WAITS];
	out->held = m->by_state[ENTRY_HELD];
	out->working = m->by_state[ENTRY_WORKING];
	out->messages = out->waiting + out->held + out->working;
}
