/* SPDX-License-Identifier: ISC */
/* Health of logins, and their messages, in the segment (account_health.h). */
#include "segment/account/account_health.h"

#include <string.h>

#include "base/siphash.h"
#include "segment/account/accounts_internal.h"
#include "segment/file/name.h"

#define HEALTH_WORDS	(sizeof(struct account_health) / 8)
#define QUEUED_WORDS	(sizeof(struct account_queued) / 8)
#define QUEUED_KEY_WORDS	((ACCOUNT_QUEUE_ID + sizeof(uint32_t)) / 8)
#define LEFT_WORD	WORD_OF(account_queued, recipients)

_Static_assert(offsetof(struct account_queued, mta) ==
    offsetof(struct account_queued, queue_id) + ACCOUNT_QUEUE_ID, "one key");
_Static_assert(offsetof(struct account_queued, login) ==
    offsetof(struct account_queued, queue_id) + 8 * QUEUED_KEY_WORDS, "of whole words");

#define DAY_DS		(24 * 36000u)
#define MONTH_DS	(31 * DAY_DS)

static bool health_is_sound(const uint64_t *words) {
	return words[WORD_OF(account_health, key)] != 0;
}

static bool queued_is_sound(const uint64_t *words) {
	struct account_queued queued;

	memcpy(&queued, words, sizeof(queued));
	return queued.login[0] != 0 && queued.queue_id[0] != '\0' &&
	    text_is_harmless(queued.queue_id, sizeof(queued.queue_id));
}

/* Who only sends what is accepted, from one place, makes room before those of whom there was
 * something to tell this month, and these before those of today. */
static uint64_t health_worth(const _Atomic uint64_t *slot, uint32_t now_ds) {
	/* the two 32-bit words behind period_s and turn: count and reserved */
	uint32_t networks = (uint32_t)RELAXED(slot[WORD_OF(account_health, health.networks.count)]);
	bool tells = networks >= 2 ||
	    RELAXED(slot[WORD_OF(account_health, health.failed)]) != 0;
	uint32_t seen_ds = SEEN_DS(RELAXED(slot[1]));
	uint64_t rank = !tells || now_ds - seen_ds > MONTH_DS ? 0 : now_ds - seen_ds > DAY_DS ? 1 : 2;

	return rank << 32 | seen_ds;
}

static void health_move(const struct segment *from, const struct segment *to, uint64_t *words) {
	uint64_t *alerted_ds = &words[WORD_OF(account_health, alerted_ds)];

	*alerted_ds = accounts_moved_ds(from, to, *alerted_ds);
}

const struct learned_kind account_health_kind = {
	.place_at = offsetof(struct segment_header, account_healths),
	.slot_words = HEALTH_WORDS,
	.key_at = WORD_OF(account_health, key),
	.key_words = 2,
	.text_at = 2,
	.copied_words = HEALTH_WORDS,
	.evicted = COUNTER_ACCOUNT_HEALTHS_EVICTED,
	.worth = health_worth,
	.is_sound = health_is_sound,
	.move = health_move,
};

const struct learned_kind account_queued_kind = {
	.place_at = offsetof(struct segment_header, account_queued),
	.slot_words = QUEUED_WORDS,
	.key_at = WORD_OF(account_queued, queue_id),
	.key_words = QUEUED_KEY_WORDS,
	.text_at = QUEUED_KEY_WORDS,	/* the mail server stands behind the id */
	.copied_words = QUEUED_WORDS,
	.evicted = COUNTER_ACCOUNT_QUEUED_EVICTED,
	.is_sound = queued_is_sound,
};

/* --- health -------------------------------------------------------------------------- */

bool account_health_take(struct segment *segment, const struct login_key *login, bool make,
    int64_t now_ns, struct account_health_held *held) {
	struct account_held *entry = &held->entry;
	uint32_t now_ds = segment_ds(segment, now_ns);

	if (accounts_lock(segment, &account_health_kind, login->words, now_ns, entry,
		&held->health) != ACCOUNTS_HELD)
		return false;
	if (entry->slot == NULL && make) {
		memset(&held->health, 0, sizeof(held->health));
		held->health.control.used = 1;
		memcpy(held->health.key, login->words, sizeof(login->words));
		held->health.seen = SEEN_WORD(0, now_ds);
		entry->slot = learned_add(&entry->table, &entry->key, now_ds, &held->health);
	}
	if (entry->slot == NULL) {
		account_health_release(held);
		return false;
	}
	held->was = held->health;
	return true;
}

void account_health_put(struct segment *segment, struct account_health_held *held,
    int64_t now_ns) {
	held->health.seen = SEEN_WORD(0, segment_ds(segment, now_ns));
	accounts_store_changed(held->entry.slot, &held->health, &held->was, 1, HEALTH_WORDS);
}

void account_health_release(struct account_health_held *held) {
	learned_unlock(&held->entry.table, &held->entry.key);
}

void account_health_forget(struct segment *segment, const struct login_key *login,
    int64_t now_ns) {
	struct account_health_held held;

	if (!account_health_take(segment, login, false, now_ns, &held))
		return;
	learned_forget(&held.entry.table, &held.entry.key, held.entry.slot);
	account_health_release(&held);
}

bool account_health_find(const struct segment *segment, const struct login_key *login,
    struct account_health *out) {
	struct learned table = learned_table(segment, &account_health_kind);

	return learned_is_there(&table) && learned_get(&table, login->words, out);
}

/* --- messages ------------------------------------------------------------------------ */

static bool queued_aim(const struct segment *segment, uint32_t mta, const char *queue_id,
    size_t length, struct learned *table, struct learned_key *key) {
	char text[ACCOUNT_QUEUE_ID] = "";

	*table = learned_table(segment, &account_queued_kind);
	if (length == 0 || length > sizeof(text) || !learned_is_there(table))
		return false;
	memcpy(text, queue_id, length);
	if (!text_is_harmless(text, sizeof(text)))
		return false;
	memcpy(key->words, text, sizeof(text));
	memcpy((char *)key->words + sizeof(text), &mta, sizeof(mta));
	learned_aim(table, account_queued_kind.key_words, key);
	return true;
}

bool account_queued_note(struct segment *segment, uint32_t mta, const char *queue_id,
    size_t length, const struct login_key *login, uint32_t recipients, int64_t now_ns) {
	uint32_t now_ds = segment_ds(segment, now_ns);
	struct account_queued queued = { .control = { .used = 1 },
		.seen = SEEN_WORD(0, now_ds), .mta = mta, .recipients = recipients };
	_Atomic uint64_t *slot;
	struct learned_key key;
	struct learned table;

	if (!queued_aim(segment, mta, queue_id, length, &table, &key) ||
	    !learned_lock(&table, &key, now_ns))
		return false;
	/* the id of another message that has left the queue */
	slot = learned_find(&table, &key);
	if (slot != NULL)
		learned_forget(&table, &key, slot);
	memcpy(queued.queue_id, key.words, sizeof(queued.queue_id));
	memcpy(queued.login, login->words, sizeof(queued.login));
	slot = learned_add(&table, &key, now_ds, &queued);
	learned_unlock(&table, &key);
	return slot != NULL;
}

bool account_queued_find(const struct segment *segment, uint32_t mta, const char *queue_id,
    size_t length, struct account_queued *out) {
	uint64_t copy[LEARNED_WORDS_MAX];
	struct learned_key key;
	struct learned table;
	uint32_t number;

	if (!queued_aim(segment, mta, queue_id, length, &table, &key) ||
	    learned_used(&table) == 0 ||
	    learned_look(&table, &key, copy, &number) != LEARNED_COPIED)
		return false;
	memcpy(out, copy, sizeof(*out));
	return true;
}

void account_queued_done(struct segment *segment, uint32_t mta, const char *queue_id,
    size_t length, uint32_t recipients, int64_t now_ns) {
	_Atomic uint64_t *slot;
	struct learned_key key;
	struct learned table;
	uint64_t left;

	if (!queued_aim(segment, mta, queue_id, length, &table, &key) ||
	    learned_used(&table) == 0 || !learned_lock(&table, &key, now_ns))
		return;
	slot = learned_find(&table, &key);
	left = slot == NULL ? 0 : RELAXED(slot[LEFT_WORD]);
	if (slot != NULL && (recipients == UINT32_MAX || (left != 0 && left <= recipients)))
		learned_forget(&table, &key, slot);
	else if (left > recipients)
		atomic_store(&slot[LEFT_WORD], left - recipients);
	learned_unlock(&table, &key);
}

uint32_t account_queued_mta(const char *name) {
	/* no secret: the administrator's names */
	static const struct siphash_key key;

	return (uint32_t)siphash13(&key, name, strlen(name)) | 1;
}
