/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The messages of a queue in a log: what is told of them.
 * MODEL    messages_internal.h.  Each call appends one record, asks for the mark that the
 *          record allows, and keeps the index.
 * ERRORS   A failed log is a crash without a death: all is forgotten, and when the log is
 *          good again what is on the disk is recovered as at a start, while its owner tells
 *          anew what it has in memory.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/siphash.h"
#include "journal/queue/messages_internal.h"

const struct messages_settings messages_defaults = {
	.intervals_ns = { 0, 300 * NS_PER_SECOND, 600 * NS_PER_SECOND, 1200 * NS_PER_SECOND,
	    1800 * NS_PER_SECOND },
	.intervals = 5,
	.sync_delay_ns = 100 * NS_PER_MS,
	.envelope_delay_ns = NS_PER_SECOND,
	.positions_ns = 5 * NS_PER_SECOND,
	.log = { .kind = JOURNAL_QUEUE, .file_size = JOURNAL_FILE_SIZE, .threaded = true },
};

/* --- keys -------------------------------------------------------------------------------- */

/* On disk in every record: never another key for the hash. */
static const struct siphash_key fixed = { UINT64_C(0x706f737465726e20),
	UINT64_C(0x6d65737361676573) };

uint64_t messages_key_of(const struct journal_text texts[3]) {
	char all[2 * (MESSAGES_DOMAIN_MAX + 1) + MESSAGES_DIRECTORY_MAX + 1];
	size_t length = 0;
	uint64_t key;

	for (unsigned i = 0; i < 3; i++) {
		size_t most = i == 1 ? MESSAGES_DIRECTORY_MAX : MESSAGES_DOMAIN_MAX;
		size_t one = strnlen(texts[i].text,
		    texts[i].length < most ? texts[i].length : most);

		memcpy(&all[length], texts[i].text, one);
		length += one;
		all[length++] = '\0';
	}
	key = siphash13(&fixed, all, length);
	return key != 0 ? key : 1;
}

uint64_t messages_key(const char *mta, const char *directory, const char *id) {
	return messages_key_of((const struct journal_text[]){ journal_text_of(mta),
	    journal_text_of(directory), journal_text_of(id) });
}

uint64_t messages_domain_key(const char *domain, size_t length) {
	return siphash13(&fixed, domain, length);
}

unsigned messages_interval_of(const struct messages *m, int64_t due_ns, int64_t written_ns) {
	unsigned i = m->settings.intervals - 1;

	if (due_ns == INT64_MAX)
		return i;
	if (due_ns <= written_ns || written_ns < 0)
		return 0;
	while (m->settings.intervals_ns[i] > due_ns - written_ns)
		i--;
	return i;
}

/* --- life --------------------------------------------------------------------------------- */

static void log_changed(void *context, enum journal_state state, int error, const char *what) {
	struct messages *m = context;

	if (m->calls.changed != NULL)
		m->calls.changed(m->calls.context, state, error, what);
}

/* In force from messages_enter on.  What is appended is for its place alone. */
void messages_renew(void *context) {
	struct messages *m = context;
	struct journal_checkpoint here = { .number = journal_log_last(m->log) + 1,
		.when_ns = m->wall_ns, .records = UINT32_MAX };
	uint8_t payload[64];
	size_t length = journal_checkpoint_write(payload, sizeof(payload), &here);

	m->renew = journal_log_append(m->log, JOURNAL_CHECKPOINT_BEGIN, payload, length,
	    &m->renew_at) != 0;
}

static bool is_usable(const struct messages_settings *settings) {
	if (settings->intervals < 2 || settings->intervals > MESSAGES_INTERVALS_MAX ||
	    settings->intervals_ns[0] != 0)
		return false;
	for (unsigned i = 1; i < settings->intervals; i++)
		if (settings->intervals_ns[i] <= settings->intervals_ns[i - 1])
			return false;
	return true;
}

int messages_open(struct messages **messages, const struct journal_storage *storage,
    const struct messages_settings *settings, const struct messages_calls *calls,
    int64_t wall_ns, int64_t now_ns, struct diag *diag) {
	struct messages *m;
	struct journal_log_options options = settings->log;

	*messages = NULL;
	if (!is_usable(settings))
		return diag_set(diag, 0, "the intervals of a queue's journal do not rise");
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return diag_set(diag, 0, "no memory for a queue's journal");
	m->settings = *settings;
	m->calls = *calls;
	m->wall_ns = wall_ns;
	m->now_ns = now_ns;
	m->sync_within_ns = INT64_MAX;
	m->epoch = 1;
	messages_forget_all(m);
	options.kind = JOURNAL_QUEUE;
	options.calls = (struct journal_log_calls){ log_changed, messages_renew, m };
	if (journal_log_open(&m->log, storage, &options, now_ns, diag) != 0) {
		free(m);
		return -1;
	}
	if (!messages_runners_open(m) ||
	    (m->cursor = journal_cursor_open(journal_log_files(m->log))) == NULL ||
	    (m->spare = journal_cursor_open(journal_log_files(m->log))) == NULL) {
		messages_close(&m);
		return diag_set(diag, 0, "no memory for the readers of a queue's journal");
	}
	messages_recover_begin(m, journal_log_begin(m->log));
	messages_runners_begin(m);
	*messages = m;
	return 0;
}

void messages_close(struct messages **messages) {
	struct messages *m = *messages;

	if (m == NULL)
		return;
	messages_forget_all(m);
	messages_runners_close(m);
	journal_cursor_close(&m->cursor);
	journal_cursor_close(&m->spare);
	journal_log_close(&m->log);
	free(m->uses);
	free(m);
	*messages = NULL;
}

static void messages_forget(struct messages *m) {
	m->telling = false;
	messages_forget_all(m);
	/* nor what they have in memory of files, which may be others when they are read again */
	journal_cursor_seek(m->cursor, NOWHERE);
	journal_cursor_seek(m->spare, NOWHERE);
	messages_runners_leave(m);
	m->phase = PHASE_DONE;
	m->moved = true;
}

bool messages_enter(struct messages *m) {
	if (m->renew) {
		messages_forget(m);
		m->renew = m->failed = m->no_memory = false;
		m->tell_renewed = true;
		m->totals.renewals++;
		journal_log_flush(m->log);
		messages_recover_begin(m, m->renew_at);
		messages_runners_begin(m);
	}
	if (journal_log_state(m->log) == JOURNAL_FAILED && !m->failed) {
		messages_forget(m);
		m->failed = true;
	}
	return !m->failed;
}

/* --- what is told --------------------------------------------------------------------------- */

/* Of m->payload; 0 as of messages_record. */
static uint64_t messages_append(struct messages *m, uint8_t type, size_t length,
    struct journal_place *place) {
	uint64_t sequence = journal_log_append(m->log, type, m->payload, length, place);

	if (sequence == 0 || m->renew) {
		/* what was renewed meanwhile is told again by its owner */
		if (sequence != 0)
			messages_mark(m, *place, sequence);
		m->totals.dropped++;
		return 0;
	}
	m->last = *place;
	return sequence;
}

uint64_t messages_record(struct messages *m, enum journal_type type, const void *record,
    struct journal_place *place) {
	size_t length = journal_record_write(journal_shape_of(type), m->payload,
	    sizeof(m->payload), record);

	MUST(length > 0);
	return messages_append(m, (uint8_t)type, length, place);
}

void messages_sync_within(struct messages *m, int64_t delay_ns) {
	if (delay_ns < m->sync_within_ns)
		m->sync_within_ns = delay_ns;
}

uint64_t messages_put_entry(struct messages *m, const struct messages_envelope *envelope,
    uint64_t key, bool held) {
	struct entry *entry = messages_index_make(m, key);
	struct journal_place old = { 0, 0 }, place;
	bool works;
	uint64_t sequence, replaces = 0;
	size_t length;

	if (entry == NULL) {
		m->totals.dropped++;
		return 0;
	}
	works = entry->state == ENTRY_WORKING;
	if (works) {
		old = messages_work(m, entry)->envelope;
		replaces = messages_work(m, entry)->start_sequence;
	} else if (entry->state == ENTRY_WAITS || entry->state == ENTRY_HELD) {
		old = messages_place(m, entry);
	}
	length = messages_write_envelope(m, envelope, key, replaces, old);
	sequence = messages_append(m, works ? JOURNAL_REPLACEMENT : JOURNAL_ENVELOPE, length,
	    &place);
	if (sequence == 0) {
		if (entry->state == ENTRY_NEW)
			messages_index_remove(m, entry);
		return 0;
	}
	if (works)
		messages_end_work(m, entry);
	else
		messages_lose(m, entry, sequence);
	messages_gain(m, entry, held ? ENTRY_HELD : ENTRY_WAITS, place,
	    messages_interval_of(m, envelope->due_ns, m->wall_ns));
	entry->stamp = messages_fold(envelope->stamp);
	entry->seen = m->epoch;
	/* a replacement that is lost is written again by recovery */
	if (!works)
		messages_sync_within(m, m->settings.envelope_delay_ns);
	return sequence;
}

uint64_t messages_put(struct messages *m, const struct messages_envelope *envelope, bool held,
    int64_t wall_ns) {
	m->wall_ns = wall_ns;
	if (!messages_enter(m)) {
		m->totals.dropped++;
		return 0;
	}
	return messages_put_entry(m, envelope,
	    messages_key(envelope->mta, envelope->directory, envelope->id), held);
}

uint64_t messages_start(struct messages *m, uint64_t key, uint32_t pid, int64_t wall_ns) {
	struct journal_start start = { .key = key, .when_ns = wall_ns, .run = pid };
	struct journal_place place;
	struct entry *entry;
	uint64_t sequence;

	m->wall_ns = wall_ns;
	if (!messages_enter(m) || !messages_is_recovered(m))
		return 0;
	entry = messages_index_find(m, start.key);
	if (entry == NULL || (entry->state != ENTRY_WAITS && entry->state != ENTRY_HELD) ||
	    !messages_reserve_work(m))
		return 0;
	start.envelope = messages_place(m, entry);
	sequence = messages_record(m, JOURNAL_START, &start, &place);
	if (sequence == 0)
		return 0;
	/* The envelope is marked once this start is synced (journal_log_mark): a mark that
	 * reached the disk alone would lose the message. */
	messages_begin_work(m, entry, start.envelope, place, sequence);
	entry->seen = m->epoch;
	return sequence;
}

uint64_t messages_delivered(struct messages *m, uint64_t key,
    const struct journal_delivery *what, int64_t wall_ns) {
	struct journal_delivery delivery = *what;
	const struct entry *entry;
	struct journal_place place;
	uint64_t sequence;

	m->wall_ns = wall_ns;
	if (!messages_enter(m) || delivery.domain.length > MESSAGES_DOMAIN_MAX ||
	    delivery.to.length > MESSAGES_DELIVERED_MAX)
		return 0;
	delivery.key = key;
	delivery.when_ns = wall_ns;
	entry = messages_index_find(m, key);
	if (entry != NULL && entry->state == ENTRY_WORKING)
		delivery.start = messages_work(m, entry)->start_sequence;
	else if (delivery.id.length == 0)
		return 0;
	sequence = messages_record(m, JOURNAL_DELIVERY, &delivery, &place);
	if (sequence == 0)
		return 0;
	m->totals.deliveries += delivery.recipients;
	messages_sync_within(m, m->settings.sync_delay_ns);
	return sequence;
}

uint64_t messages_finish_entry(struct messages *m, struct entry *entry) {
	struct journal_finish finish = { .key = entry->key, .when_ns = m->wall_ns,
		.why = JOURNAL_FINISH_GONE };
	struct journal_place place;
	uint64_t sequence;

	if (entry->state == ENTRY_WORKING) {
		finish.start = messages_work(m, entry)->start_sequence;
		finish.old = messages_work(m, entry)->envelope;
		finish.why = JOURNAL_FINISH_DONE;
	} else if (entry->state != ENTRY_NEW) {
		finish.old = messages_place(m, entry);
	}
	sequence = messages_record(m, JOURNAL_FINISH, &finish, &place);
	if (sequence == 0) {
		if (entry->state == ENTRY_NEW)
			messages_index_remove(m, entry);
		return 0;
	}
	if (entry->state == ENTRY_WORKING)
		messages_end_work(m, entry);
	else
		messages_lose(m, entry, sequence);
	if (messages_is_indexed(m)) {
		messages_index_remove(m, entry);
		return sequence;
	}
	/* an older envelope may be found yet, and is garbage then */
	entry->file = place.file;
	entry->offset = place.offset;
	messages_set_state(m, entry, ENTRY_GONE);
	return sequence;
}

uint64_t messages_finish(struct messages *m, uint64_t key, int64_t wall_ns) {
	struct entry *entry;

	m->wall_ns = wall_ns;
	if (!messages_enter(m))
		return 0;
	entry = messages_index_find(m, key);
	if (entry == NULL && !messages_is_indexed(m))
		entry = messages_index_make(m, key);
	return entry != NULL && entry->state != ENTRY_GONE ? messages_finish_entry(m, entry) : 0;
}
