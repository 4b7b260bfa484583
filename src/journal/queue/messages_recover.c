/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  After a start: the working suffix, replacements for what was working, then the
 *          index of all that stands before it.  Runs may begin once the suffix is read: what
 *          was working cannot be started before it is replaced, which needs its envelope.
 * MODEL    Records of the suffix are applied to the index as they were when they were
 *          written, and each asks again for the marks that it allows, also where they can be
 *          read: what a failed sync did not write may stand in memory alone.
 *          What this life has appended meanwhile (from messages.own on) is newer than all of
 *          that.  All of it may be done again by the next recovery, at any point: what it
 *          writes are words of the suffix like others.
 * ERRORS   What cannot be read is passed over and counted: its message is left to the
 *          owner's look through the mail server's queue.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "journal/queue/messages_internal.h"

#define REPLACE_MOST	64u	/* messages of a step */
#define DOMAINS_MOST	MESSAGES_GROUPS_MAX	/* of one run that are told apart */
#define OTHER_DOMAINS	0		/* no domain's key */
#define SHARDS_MOST	16u	/* divides SHARDS */

void messages_recover_begin(struct messages *m, struct journal_place own) {
	const struct journal_positions *found = journal_log_found(m->log);
	struct journal_place suffix;

	if (!m->has_positions && found != NULL) {
		m->has_positions = true;
		m->positions = *found;
		m->totals.deliveries += found->results;
	}
	m->own = m->last = own;
	m->fault_file = 0;
	m->begin = (struct journal_place){ m->has_positions && m->positions.first_file > 0 ?
		m->positions.first_file : 1, 0 };
	if (!messages_position_found(m, POSITION_SUFFIX, &suffix) ||
	    messages_before(suffix, m->begin))
		suffix = m->begin;
	m->found_suffix = suffix;
	m->phase = PHASE_SUFFIX;
	journal_cursor_seek(m->cursor, suffix);
}

/* --- the suffix --------------------------------------------------------------------------- */

/* Whatever is asked to be marked is allowed by what was read; that may not have been synced
 * yet, but is before anything of ours is. */
static uint64_t allowed_by(const struct messages *m) {
	return journal_log_last(m->log);
}

static bool is_newer(const struct messages *m, const struct entry *entry) {
	return entry != NULL && entry->state != ENTRY_NEW &&
	    !messages_before(messages_place(m, entry), m->own);
}

static struct entry *make_entry(struct messages *m, uint64_t key) {
	struct entry *entry = messages_index_make(m, key);

	if (entry == NULL)
		m->no_memory = true;
	return entry;
}

static void set_gone(struct messages *m, struct entry *entry, struct journal_place place) {
	if (entry->state == ENTRY_WORKING)
		messages_end_work(m, entry);
	else
		messages_lose(m, entry, allowed_by(m));
	entry->file = place.file;
	entry->offset = place.offset;
	messages_set_state(m, entry, ENTRY_GONE);
}

static void apply_envelope(struct messages *m, const struct journal_found *found) {
	bool live = journal_mark_is_live(found->frame.mark), newer;
	struct journal_envelope e;
	struct entry *entry;

	if (!messages_is_envelope(m, found, &e))
		return;
	messages_mark(m, e.old, allowed_by(m));
	entry = messages_index_find(m, e.key);
	newer = is_newer(m, entry);
	if (newer || !live)
		messages_mark(m, found->place, allowed_by(m));
	if (entry == NULL && (entry = make_entry(m, e.key)) == NULL)
		return;
	if (e.old.file == 0)
		entry->unlinked = true;
	if (newer)
		return;
	if (!live) {
		/* a start or another envelope follows that tells more; or did, and was damaged */
		set_gone(m, entry, found->place);
		return;
	}
	if (entry->state == ENTRY_WORKING)
		messages_end_work(m, entry);
	else
		messages_lose(m, entry, allowed_by(m));
	messages_gain(m, entry, ENTRY_WAITS, found->place,
	    messages_interval_of(m, e.due_ns, e.written_ns));
	entry->stamp = messages_fold(e.stamp);
	/* its own runner may have passed it: it was held, or a fault came between */
	messages_longest_back(m, found->place);
}

static void apply_start(struct messages *m, const struct journal_found *found) {
	struct journal_start start;
	struct entry *entry;

	if (!journal_start_read(found->frame.payload, found->frame.length, &start) ||
	    start.key == 0) {
		m->totals.unreadable++;
		return;
	}
	entry = messages_index_find(m, start.key);
	if (is_newer(m, entry)) {
		messages_mark(m, start.envelope, allowed_by(m));
		return;
	}
	if ((entry == NULL && (entry = make_entry(m, start.key)) == NULL) ||
	    !messages_reserve_work(m)) {
		m->no_memory = true;
		return;
	}
	if (entry->state == ENTRY_WORKING)
		messages_end_work(m, entry);	/* its end was damaged */
	messages_begin_work(m, entry, start.envelope, found->place, found->frame.sequence);
	messages_work(m, entry)->pid = start.run;
}

static bool is_done(const struct working *w, uint64_t domain) {
	for (uint32_t i = 0; i < w->done_count; i++)
		if (w->done[i].domain == domain)
			return true;
	return false;
}

/* Behind what lines have told so far of its run. */
static void take_line(struct working *w, const struct journal_delivery *delivery) {
	size_t length = w->told_length + (w->told_length > 0) + delivery->to.length;
	char *more;

	if (delivery->to.length == 0)
		return;
	more = length > MESSAGES_DELIVERED_MAX ? NULL : realloc(w->told, length);
	if (more == NULL)
		return;		/* they come twice at worst */
	w->told = more;
	if (w->told_length > 0)
		more[w->told_length] = ',';
	memcpy(more + length - delivery->to.length, delivery->to.text, delivery->to.length);
	w->told_length = length;
}

static void apply_delivery(struct messages *m, const struct journal_found *found) {
	struct journal_delivery delivery;
	struct entry *entry;
	struct working *w;
	struct done *more;
	uint64_t domain;

	if (!journal_delivery_read(found->frame.payload, found->frame.length, &delivery)) {
		m->totals.unreadable++;
		return;
	}
	entry = messages_index_find(m, delivery.key);
	if (entry == NULL || entry->state != ENTRY_WORKING)
		return;
	w = messages_work(m, entry);
	if (delivery.start != w->start_sequence)
		return;
	if (delivery.result != JOURNAL_RESULT_GONE) {
		w->pid = 0;
		w->told_length = 0;
		w->is_void = true;
		return;
	}
	if (m->totals.renewals == 0 && found->frame.sequence > m->positions.synced)
		m->totals.deliveries += delivery.recipients;
	if (delivery.id.length > 0) {
		take_line(w, &delivery);
		return;
	}
	domain = messages_domain_key(delivery.domain.text, delivery.domain.length);
	/* more domains than an envelope has count for the sum of recipients alone */
	if (w->done_count >= DOMAINS_MOST - 1 && !is_done(w, domain))
		domain = OTHER_DOMAINS;
	for (uint32_t i = 0; i < w->done_count; i++) {
		if (w->done[i].domain == domain) {
			w->done[i].recipients += delivery.recipients;
			return;
		}
	}
	more = reallocarray(w->done, w->done_count + 1, sizeof(*more));
	if (more == NULL) {
		m->no_memory = true;
		return;
	}
	w->done = more;
	w->done[w->done_count++] = (struct done){ domain, delivery.recipients };
}

static void apply_finish(struct messages *m, const struct journal_found *found) {
	struct journal_finish finish;
	struct entry *entry;

	if (!journal_finish_read(found->frame.payload, found->frame.length, &finish) ||
	    finish.key == 0) {
		m->totals.unreadable++;
		return;
	}
	messages_mark(m, finish.old, allowed_by(m));
	entry = messages_index_find(m, finish.key);
	if (entry == NULL && (entry = make_entry(m, finish.key)) == NULL)
		return;
	if (finish.old.file == 0)
		entry->unlinked = true;
	if (!is_newer(m, entry))
		set_gone(m, entry, found->place);
}

static void apply_record(struct messages *m, const struct journal_found *found) {
	switch (found->frame.type) {
	case JOURNAL_ENVELOPE:
	case JOURNAL_REPLACEMENT:
		apply_envelope(m, found);
		break;
	case JOURNAL_START:
		apply_start(m, found);
		break;
	case JOURNAL_DELIVERY:
		apply_delivery(m, found);
		break;
	case JOURNAL_FINISH:
		apply_finish(m, found);
		break;
	default:
		break;
	}
}

enum got { GOT_RECORD, GOT_END, GOT_FAULT };

/* The next record before `limit`.  What cannot be read is counted, and passed over (*found
 * is no RECORD then). */
static enum got next_before(struct messages *m, struct journal_place limit,
    struct journal_found *found) {
	struct journal_place before = journal_cursor_place(m->cursor);

	if (!messages_before(before, limit))
		return GOT_END;
	switch (journal_cursor_next(m->cursor, found)) {
	case JOURNAL_FOUND_END:
		return GOT_END;
	case JOURNAL_FOUND_FAULT:
		if (messages_try_again(m, found->place.file)) {
			journal_cursor_seek(m->cursor, before);
			return GOT_FAULT;
		}
		m->totals.unreadable++;
		break;
	case JOURNAL_FOUND_DAMAGE:
	case JOURNAL_FOUND_LATER:
		m->totals.unreadable++;
		break;
	case JOURNAL_FOUND_RECORD:
	case JOURNAL_FOUND_TORN:
		break;
	}
	return messages_before(found->place, limit) ? GOT_RECORD : GOT_END;
}

static bool suffix_step(struct messages *m) {
	struct journal_found found = { .length = 0 };

	for (uint64_t bytes = 0; bytes < MESSAGES_STEP_BYTES; bytes += found.length + 1) {
		switch (next_before(m, m->own, &found)) {
		case GOT_END:
			m->phase = PHASE_REPLACE;
			return true;
		case GOT_FAULT:
			return false;
		case GOT_RECORD:
			if (found.kind == JOURNAL_FOUND_RECORD)
				apply_record(m, &found);
			break;
		}
	}
	return true;
}

/* --- what was working ----------------------------------------------------------------------- */

/* Less what was delivered; false: nothing is left. */
static bool take_off(struct messages *m, const struct working *w,
    struct messages_envelope *envelope) {
	unsigned left = 0;

	for (uint32_t i = 0; i < w->done_count; i++)
		envelope->recipients -= w->done[i].recipients < envelope->recipients ?
		    w->done[i].recipients : envelope->recipients;
	for (unsigned i = 0; i < envelope->group_count; i++) {
		struct messages_group *group = &m->parts.groups[i];
		uint64_t domain = messages_domain_key(group->domain, group->length);

		for (uint32_t k = 0; k < w->done_count; k++) {
			uint32_t done = w->done[k].recipients < group->recipients ?
			    w->done[k].recipients : group->recipients;

			if (w->done[k].domain != domain)
				continue;
			group->recipients -= done;
			w->done[k].recipients -= done;
		}
		if (group->recipients > 0)
			m->parts.groups[left++] = *group;
	}
	envelope->group_count = left;
	return envelope->recipients > 0;
}

/* The envelope says what lines told of this run, and of those before it whose files list them
 * still: in memory that is the caller's. */
static char *add_lines(const struct working *w, struct messages_envelope *envelope) {
	size_t before = w->is_void ? 0 : envelope->delivered_length;
	size_t told = w->is_void ? 0 : w->told_length;
	char *all = malloc(before + told + 1);

	envelope->pid = w->pid;
	if (all != NULL && before > 0)
		memcpy(all, envelope->delivered, before);
	if (all != NULL && before > 0 && told > 0)
		all[before++] = ',';
	if (all != NULL && told > 0)
		memcpy(all + before, w->told, told);
	envelope->delivered = all;
	envelope->delivered_length = all == NULL ? 0 : before + told;
	return all;
}

enum replaced { REPLACED, NOT_WRITTEN, NOT_READ };

static enum replaced replace_working(struct messages *m, struct working *w, struct entry *entry) {
	struct messages_envelope envelope;
	enum journal_found_kind kind = messages_read_at(m, w->envelope, w->key, &envelope);
	uint64_t sequence;
	char *delivered;

	if (kind == JOURNAL_FOUND_FAULT && messages_try_again(m, w->envelope.file))
		return NOT_READ;
	if (kind != JOURNAL_FOUND_RECORD) {
		m->totals.unreadable++;
		set_gone(m, entry, w->start);
		return REPLACED;
	}
	envelope.due_ns = 0;
	delivered = add_lines(w, &envelope);
	sequence = take_off(m, w, &envelope) ? messages_put_entry(m, &envelope, w->key, false) :
	    messages_finish_entry(m, entry);
	if (sequence != 0 && m->calls.recovered != NULL)
		m->calls.recovered(m->calls.context, &envelope);
	free(delivered);
	return sequence != 0 ? REPLACED : NOT_WRITTEN;
}

/* Those that were started since then stand behind. */
static bool is_left(const struct messages *m) {
	return m->working_first != NONE &&
	    messages_before(m->working[m->working_first].start, m->own);
}

static bool replace_step(struct messages *m) {
	uint32_t ahead = m->working_first;

	for (unsigned i = 0; i < REPLACE_MOST && ahead != NONE; i++) {
		journal_log_expect(m->log, m->working[ahead].envelope);
		ahead = m->working[ahead].next;
	}
	for (unsigned i = 0; i < REPLACE_MOST && is_left(m); i++) {
		struct working *w = &m->working[m->working_first];
		struct entry *entry = messages_index_find(m, w->key);

		MUST(entry != NULL && entry->state == ENTRY_WORKING);
		switch (replace_working(m, w, entry)) {
		case REPLACED:
			m->totals.recovered++;
			break;
		case NOT_WRITTEN:	/* the log has failed, or was renewed */
			return true;
		case NOT_READ:
			return false;
		}
	}
	if (is_left(m))
		return true;
	m->phase = PHASE_INDEX;
	journal_cursor_seek(m->cursor, m->begin);
	journal_cursor_seek(m->spare, NOWHERE);	/* leaves its file, which may be deleted */
	return true;
}

/* --- the index -------------------------------------------------------------------------------- */

struct entry *messages_learn(struct messages *m, const struct journal_found *found,
    const struct journal_envelope *envelope) {
	bool is_new = m->phase <= PHASE_INDEX && messages_before(found->place, m->found_suffix) &&
	    !messages_before(found->place, m->begin);
	struct entry *entry = messages_index_find(m, envelope->key);

	if (entry != NULL && (entry->state == ENTRY_WAITS || entry->state == ENTRY_HELD) &&
	    messages_same(messages_place(m, entry), found->place))
		return entry;
	if (!is_new)
		return NULL;	/* its mark was asked for */
	if (entry == NULL && (entry = make_entry(m, envelope->key)) == NULL)
		return NULL;
	if (entry->state != ENTRY_NEW && messages_before(found->place, messages_place(m, entry))) {
		messages_mark(m, found->place, allowed_by(m));
		return NULL;
	}
	/* two of one message, both live, are a damage: the later one counts */
	if (entry->state == ENTRY_WORKING)
		messages_end_work(m, entry);
	else
		messages_lose(m, entry, allowed_by(m));
	messages_gain(m, entry, ENTRY_WAITS, found->place,
	    messages_interval_of(m, envelope->due_ns, envelope->written_ns));
	entry->stamp = messages_fold(envelope->stamp);
	return entry;
}

/* No record of the suffix has asked for the marks of what it replaced without knowing it. */
static void mark_again(struct messages *m, struct journal_place place, uint64_t key) {
	const struct entry *entry = messages_index_find(m, key);

	if (entry != NULL && entry->unlinked)
		messages_mark(m, place, allowed_by(m));
}

static bool index_step(struct messages *m) {
	struct journal_found found = { .length = 0 };
	struct journal_envelope e;

	for (uint64_t bytes = 0; bytes < MESSAGES_STEP_BYTES; bytes += found.length + 1) {
		enum got got = next_before(m, m->found_suffix, &found);

		if (got == GOT_FAULT)
			return false;
		if (got == GOT_END) {
			m->phase = PHASE_TOMBS;
			m->tomb_shard = 0;
			m->moved = true;
			return true;
		}
		if (!messages_is_envelope(m, &found, &e))
			continue;
		if (!journal_mark_is_live(found.frame.mark))
			mark_again(m, found.place, e.key);
		else if (messages_learn(m, &found, &e) != NULL)
			messages_longest_back(m, found.place);
	}
	return true;
}

bool messages_recover_step(struct messages *m) {
	switch (m->phase) {
	case PHASE_SUFFIX:
		return suffix_step(m);
	case PHASE_REPLACE:
		return replace_step(m);
	case PHASE_INDEX:
		return index_step(m);
	case PHASE_TOMBS:
		for (unsigned i = 0; i < SHARDS_MOST; i++)
			messages_index_sweep(m, m->tomb_shard++);
		if (m->tomb_shard >= SHARDS) {
			m->phase = PHASE_DONE;
			/* leaves its file, which may be deleted */
			journal_cursor_seek(m->cursor, NOWHERE);
		}
		return true;
	case PHASE_DONE:
		break;
	}
	return false;
}
