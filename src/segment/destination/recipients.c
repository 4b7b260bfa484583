/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Single recipients that are held.
 * MODEL    A table of segment/destination/learned.h, keyed by address.  A new end alone is
 *          one store; else there are two entries until the old one is given up.
 * ERRORS   What could not be held is counted; whoever dies while it changes an entry
 *          leaves the old one, the new one, or none.
 * THREADS  Any, of any process.
 */
#include "segment/destination/recipients.h"

#include <string.h>

#include "segment/destination/learned.h"
#include "segment/file/name.h"

static bool recipient_is_sound(const uint64_t *words) {
	struct recipient r;

	memcpy(&r, words, sizeof(r));
	return r.rule <= UINT16_MAX &&
	    r.until_ns >= 0 && recipient_is_folded(r.address) &&
	    text_is_harmless(r.reason, sizeof(r.reason));
}

/* A rule's before what is held by hand; of these the one whose time ends first. */
static uint64_t recipient_worth(const _Atomic uint64_t *slot, uint32_t now_ds) {
	bool by_hand = RELAXED(slot[WORD_OF(recipient, rule)]) == RECIPIENT_NO_RULE;

	(void)now_ds;
	return RELAXED(slot[WORD_OF(recipient, until_ns)]) >> 1 | (uint64_t)by_hand << 62;
}

const struct learned_kind recipient_kind = {
	.place_at = offsetof(struct segment_header, recipients),
	.slot_words = sizeof(struct recipient) / 8,
	.key_at = WORD_OF(recipient, address),
	.key_words = RECIPIENT_WORDS,
	.copied_words = sizeof(struct recipient) / 8,
	.evicted = COUNTER_RECIPIENTS_EVICTED,
	.is_sound = recipient_is_sound,
	.worth = recipient_worth,
	.has_spare = true,
};

static bool recipient_aim(const struct learned *table, const char *address, size_t length,
    struct learned_key *key) {
	if (!recipient_fold(address, length, key->words))
		return false;
	learned_aim(table, table->kind->key_words, key);
	return true;
}

static void raise_version(struct segment *segment) {
	atomic_fetch_add_explicit(&segment->header->recipients_version, 1,
	    memory_order_release);
}

static struct recipient recipient_load(const _Atomic uint64_t *slot) {
	uint64_t words[sizeof(struct recipient) / 8];
	struct recipient r;

	for (unsigned i = 0; i < sizeof(words) / 8; i++)
		words[i] = RELAXED(slot[i]);
	memcpy(&r, words, sizeof(r));
	return r;
}

static bool differs_in_more_than_time(const struct recipient *a,
    const struct recipient *b) {
	return a->rule != b->rule ||
	    memcmp(a->reason, b->reason, sizeof(a->reason)) != 0;
}

/* Never is nobody held. */
static void recipient_replace(const struct learned *table, const struct learned_key *key,
    _Atomic uint64_t *old, const struct recipient *r) {
	_Atomic uint64_t *slot = learned_take_spare(table, key, old);

	/* only a table whose buckets have a single place */
	if (slot == NULL) {
		learned_overwrite(table, key, old, r);
		return;
	}
	learned_store_entry(table, slot, r);
	/* who looked at the new one's place before, and at the old one's after this, looks again */
	learned_change_begin(table, key);
	learned_change_end(table, key);
	learned_forget(table, key, old);
}

static void hold_again(const struct learned *table, const struct learned_key *key,
    _Atomic uint64_t *slot, struct recipient *r) {
	struct recipient was = recipient_load(slot);

	if (r->event == 0)
		r->event = was.event;
	if (differs_in_more_than_time(&was, r)) {
		recipient_replace(table, key, slot, r);
		return;
	}
	STORE(slot[WORD_OF(recipient, until_ns)], (uint64_t)r->until_ns);
	STORE(slot[WORD_OF(recipient, event)], r->event);
}

bool recipients_hold(struct segment *segment, const struct recipient_hold *hold,
    int64_t now_ns) {
	struct learned table = learned_table(segment, &recipient_kind);
	struct recipient r = { .control = { .used = 1 },
		.seen = segment_ds(segment, now_ns), .until_ns = hold->until_ns,
		.rule = hold->rule, .event = hold->event };
	struct learned_key key;
	_Atomic uint64_t *slot;

	if (!recipient_aim(&table, hold->address, hold->length, &key)) {
		segment_count(segment, COUNTER_RECIPIENTS_UNUSABLE, 1);
		return false;
	}
	memcpy(r.address, key.words, sizeof(r.address));
	if (hold->reason != NULL)
		text_harmless(hold->reason, r.reason, sizeof(r.reason));
	if (!learned_lock(&table, &key, now_ns)) {
		segment_count(segment, COUNTER_NOTES_LOST, 1);
		return false;
	}
	slot = learned_find(&table, &key);
	if (slot != NULL)
		hold_again(&table, &key, slot, &r);
	else
		slot = learned_add(&table, &key, SEEN_DS(r.seen), &r);
	learned_unlock(&table, &key);
	if (slot == NULL) {
		segment_count(segment, COUNTER_NOTES_LOST, 1);
		return false;
	}
	raise_version(segment);
	return true;
}

/* Frees the entry of the key, if it has ended by `until_ns`. */
static bool recipient_release(struct segment *segment, const struct learned_key *key,
    int64_t until_ns, int64_t now_ns) {
	struct learned table = learned_table(segment, &recipient_kind);
	_Atomic uint64_t *slot;
	bool known;

	if (!learned_lock(&table, key, now_ns))
		return false;
	slot = learned_find(&table, key);
	known = slot != NULL && recipient_load(slot).until_ns <= until_ns;
	if (known)
		learned_forget(&table, key, slot);
	learned_unlock(&table, key);
	if (known)
		raise_version(segment);
	return known;
}

bool recipients_release(struct segment *segment, const char *address, size_t length,
    int64_t now_ns) {
	struct learned table = learned_table(segment, &recipient_kind);
	struct learned_key key;

	return recipient_aim(&table, address, length, &key) &&
	    recipient_release(segment, &key, INT64_MAX, now_ns);
}

/* --- reading -------------------------------------------------------------------- */

static void recipient_decode(const struct segment *segment, const uint64_t *copy,
    struct recipient_held *out) {
	struct recipient r = { .until_ns = 0 };

	memcpy(&r, copy, sizeof(r));
	memcpy(out->address, r.address, sizeof(r.address));
	out->address[RECIPIENT_MAX] = '\0';
	out->rule = (uint16_t)r.rule;
	out->until_ns = r.until_ns == INT64_MAX ? INT64_MAX : clock_bounded_ns(r.until_ns);
	out->event = r.event;
	out->since_ns = segment->header->created_ns + SEEN_DS(r.seen) * DS_NS;
	memcpy(out->reason, r.reason, sizeof(r.reason));
	out->reason[SEGMENT_REASON_MAX] = '\0';
}

bool recipients_find(const struct segment *segment, const char *address,
    size_t length, int64_t now_ns, struct recipient_held *out) {
	struct learned table = learned_table(segment, &recipient_kind);
	uint64_t copy[LEARNED_WORDS_MAX];
	struct learned_key key;
	uint32_t number;

	/* mostly nobody is held */
	if (learned_used(&table) == 0 || !recipient_aim(&table, address, length, &key) ||
	    learned_look(&table, &key, copy, &number) != LEARNED_COPIED)
		return false;
	recipient_decode(segment, copy, out);
	return out->until_ns > now_ns;
}

unsigned recipients_each(const struct segment *segment, int64_t now_ns,
    void (*each)(void *context, const struct recipient_held *), void *context) {
	struct learned table = learned_table(segment, &recipient_kind);
	struct learned_cursor at = { .torn = 0 };
	uint64_t copy[LEARNED_WORDS_MAX];

	while (learned_each(&table, &at, copy)) {
		struct recipient_held held;

		recipient_decode(segment, copy, &held);
		if (held.until_ns > now_ns)
			each(context, &held);
	}
	return at.torn;
}

uint64_t recipients_used(const struct segment *segment) {
	struct learned table = learned_table(segment, &recipient_kind);

	return learned_used(&table);
}

uint64_t recipients_version(const struct segment *segment) {
	return atomic_load_explicit(&segment->header->recipients_version,
	    memory_order_acquire);
}

/* --- keeping -------------------------------------------------------------------- */

unsigned recipients_expire(struct segment *segment, int64_t now_ns) {
	struct learned table = learned_table(segment, &recipient_kind);
	struct learned_cursor at = { .torn = 0 };
	uint64_t copy[LEARNED_WORDS_MAX];
	unsigned cleared = 0;

	while (learned_used(&table) != 0 && learned_each(&table, &at, copy)) {
		struct learned_key key;

		if ((int64_t)copy[WORD_OF(recipient, until_ns)] > now_ns)
			continue;
		memcpy(key.words, copy + WORD_OF(recipient, address),
		    recipient_kind.key_words * sizeof(key.words[0]));
		learned_aim(&table, table.kind->key_words, &key);
		cleared += recipient_release(segment, &key, now_ns, now_ns);
	}
	return cleared;
}
