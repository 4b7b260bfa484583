/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What was seen of outbound deliveries.
 * MODEL    Two tables of segment/destination/learned.h.  A destination's control word tells which
 *          of its places for relays are in use: a new one is written to a place
 *          that is not, and then the control word.  Where all are, the oldest is
 *          given up first.  A relay's name is written while its slot is free.
 * ERRORS   What is not remembered is counted; nothing waits for it.
 * THREADS  Any, of any process.
 */
#include "segment/destination/destinations.h"

#include <string.h>

#include "base/failpoint.h"
#include "segment/destination/destination_table.h"
#include "segment/file/name.h"

#define ADDRESS_WORDS		(sizeof(struct address) / 8)

_Static_assert(DESTINATION_RELAYS == DESTINATION_PLACES, "all of them are shown");
_Static_assert(WORD_OF(destination, seen) == 1 && WORD_OF(relay, seen) == 1,
    "as learned.h has it");

/* --- what makes sense -------------------------------------------------------- */

static unsigned place_of(struct learned_control control, unsigned rank) {
	unsigned place = control.relay_order >> (2 * rank) & 3;

	/* of a file that others wrote it may be anything */
	return place < DESTINATION_PLACES ? place : 0;
}

bool destination_is_sound(const uint64_t *words) {
	struct destination d;
	unsigned seen = 0;

	memcpy(&d, words, sizeof(d));
	if (d.control.relay_count > DESTINATION_RELAYS ||
	    !name_is_folded(d.name))
		return false;
	for (unsigned i = 0; i < DESTINATION_PLACES; i++)
		seen |= 1u << place_of(d.control, i);
	if (seen != (1u << DESTINATION_PLACES) - 1)
		return false;
	for (unsigned i = 0; i < d.control.relay_count; i++) {
		const struct address *relay = &d.relays[place_of(d.control, i)];

		if (address_is_unknown(relay))
			return false;
		for (unsigned k = 0; k < i; k++) {
			if (address_equal(relay,
				&d.relays[place_of(d.control, k)]))
				return false;
		}
	}
	return true;
}

static bool relay_is_sound(const uint64_t *words) {
	struct relay r;

	memcpy(&r, words, sizeof(r));
	return !address_is_unknown(&r.address) &&
	    name_is_folded(r.name);
}

/* What changes under the sequence is left to destination_state_kind. */
static const struct learned_kind destination_kind = {
	.place_at = offsetof(struct segment_header, destinations),
	.slot_words = sizeof(struct destination) / 8,
	.key_at = WORD_OF(destination, name),
	.key_words = NAME_WORDS,
	.text_at = 0,
	.copied_words = WORD_OF(destination, kept),
	.evicted = COUNTER_DESTINATIONS_EVICTED,
	.is_sound = destination_is_sound,
	.worth = destination_worth,
	.fetch = destination_fetch,
	.repair = destination_repair,
	.forgotten = destination_forgotten,
};

const struct learned_kind relay_kind = {
	.place_at = offsetof(struct segment_header, relays),
	.slot_words = sizeof(struct relay) / 8,
	.key_at = WORD_OF(relay, address),
	.key_words = ADDRESS_WORDS,
	.text_at = ADDRESS_WORDS,
	.copied_words = WORD_OF(relay, reserved),
	.evicted = COUNTER_RELAYS_EVICTED,
	.is_sound = relay_is_sound,
};

/* --- tables and keys --------------------------------------------------------- */

static void relay_key(const struct learned *table, const struct address *address,
    struct learned_key *key) {
	memcpy(key->words, address, sizeof(*address));
	learned_aim(table, table->kind->key_words, key);
}

static void raise_version(struct segment *segment) {
	atomic_fetch_add_explicit(&segment->header->destinations_version, 1,
	    memory_order_release);
	FAILPOINT();
}

/* --- noting ------------------------------------------------------------------ */

/* Its bit in the control word. */
static uint64_t transport_bit(const struct delivery_seen *seen) {
	size_t at = seen->cloned ? offsetof(struct learned_control, cloned_by) :
	    offsetof(struct learned_control, other_by);

	return seen->mta < SEGMENT_MTAS ? UINT64_C(1) << (8 * at + seen->mta) : 0;
}

/* The place of rank `from` goes to the front. */
static uint8_t to_front(uint8_t order, unsigned from) {
	unsigned place = order >> (2 * from) & 3;
	unsigned before = order & ((1u << (2 * from)) - 1);
	unsigned behind = order & ~((1u << (2 * from + 2)) - 1);

	return (uint8_t)(behind | before << 2 | place);
}

static bool relay_at(const _Atomic uint64_t *slot, unsigned place,
    const uint64_t relay[ADDRESS_WORDS]) {
	size_t at = WORD_OF(destination, relays) + place * ADDRESS_WORDS;

	return RELAXED(slot[at]) == relay[0] && RELAXED(slot[at + 1]) == relay[1];
}

/* Puts the relay first; true: it was not among those known. */
static bool add_relay(_Atomic uint64_t *slot, struct learned_control *control,
    const struct address *address) {
	uint64_t relay[ADDRESS_WORDS], words[sizeof(struct destination) / 8];
	unsigned rank = 0;
	uint32_t at;

	memcpy(relay, address, sizeof(relay));
	if (control->relay_count > DESTINATION_RELAYS)
		control->relay_count = DESTINATION_RELAYS;
	while (rank < control->relay_count &&
	    !relay_at(slot, place_of(*control, rank), relay))
		rank++;
	if (rank < control->relay_count) {
		control->relay_order = to_front(control->relay_order, rank);
		return false;
	}
	if (rank == DESTINATION_RELAYS) {
		control->relay_count = (uint8_t)--rank;
		learned_store_control(slot, *control);
	}
	at = (uint32_t)(WORD_OF(destination, relays) +
	    place_of(*control, rank) * ADDRESS_WORDS);
	memcpy(words + at, relay, sizeof(relay));
	learned_store(slot, words, at, at + (uint32_t)ADDRESS_WORDS);
	control->relay_order = to_front(control->relay_order, rank);
	control->relay_count++;
	return true;
}

static void mark_seen(_Atomic uint64_t *slot, uint32_t now_ds) {
	uint64_t seen = RELAXED(slot[1]);

	if (SEEN_DS(seen) != now_ds)
		STORE(slot[1], SEEN_WORD(SEEN_SEQUENCE(seen), now_ds));
}

static bool has_first(const _Atomic uint64_t *slot, struct learned_control control,
    const struct address *address) {
	uint64_t relay[ADDRESS_WORDS];

	memcpy(relay, address, sizeof(relay));
	return control.relay_count > 0 && relay_at(slot, place_of(control, 0), relay);
}

/* True: a list made earlier would not show it.  Most results change nothing here: that way
 * works on the control word as a whole. */
static bool update_destination(_Atomic uint64_t *slot,
    const struct delivery_seen *seen, uint32_t now_ds) {
	uint64_t was = atomic_load_explicit(slot, memory_order_acquire);
	uint64_t word = was | transport_bit(seen);
	struct learned_control control;
	bool changed = word != was;

	mark_seen(slot, now_ds);
	memcpy(&control, &word, sizeof(control));
	if (!address_is_unknown(&seen->relay) && !has_first(slot, control, &seen->relay))
		changed |= add_relay(slot, &control, &seen->relay);
	else if (word == was)
		return false;
	learned_store_control(slot, control);
	return changed;
}

/* Its relays and transports are another's business: whoever keeps a list of them, and the
 * journal. */
static void tell_noted(struct segment *segment, const struct learned *table,
    const struct learned_key *key, const _Atomic uint64_t *slot) {
	raise_version(segment);
	states_mark_unkept(table, key->shard, destination_number(table, key->shard, slot));
}

/* Counts what nobody could remember. */
static bool count_lost(const struct segment *segment, enum counter counter) {
	segment_count(segment, counter, 1);
	return false;
}

void states_note(struct state_lock *lock, const struct delivery_seen *seen) {
	if (update_destination(lock->slot, seen, segment_ds(lock->segment, lock->now_ns)) ||
	    lock->is_new)
		tell_noted(lock->segment, &lock->table, &lock->key, lock->slot);
}

static bool note_destination(struct segment *segment, const struct delivery_seen *seen,
    int64_t now_ns) {
	struct state_lock lock;

	if (!states_aim(segment, seen->name, seen->name_length, &lock) ||
	    states_lock_slot(&lock, now_ns, STATES_CREATE) != STATES_HELD)
		return false;
	states_note(&lock, seen);
	states_unlock(&lock);
	return true;
}

static bool has_name(const _Atomic uint64_t *slot, const struct relay *relay) {
	uint64_t name[NAME_WORDS];

	memcpy(name, relay->name, sizeof(name));
	for (unsigned i = 0; i < NAME_WORDS; i++) {
		if (RELAXED(slot[WORD_OF(relay, name) + i]) != name[i])
			return false;
	}
	return true;
}

/* Where it probably is, or NULL. */
static _Atomic uint64_t *aim_at_relay(const struct learned *table,
    const struct relay_key *expected, struct learned_key *key) {
	if (expected->hash == 0) {
		learned_aim(table, table->kind->key_words, key);
		return learned_approach(table, key);
	}
	key->hash = expected->hash;
	key->shard = learned_shard(table, key->hash);
	return expected->place == 0 || expected->place > table->place->per_shard ? NULL :
	    learned_slot(table, key->shard, expected->place - 1);
}

bool relays_note(struct segment *segment, const struct delivery_seen *seen,
    int64_t now_ns) {
	struct learned table = learned_table(segment, &relay_kind);
	struct relay relay = { .control = { .used = 1 },
		.seen = segment_ds(segment, now_ns), .address = seen->relay };
	uint64_t name[NAME_WORDS];
	_Atomic uint64_t *slot, *likely;
	struct learned_key key;

	if (!name_fold(seen->relay_name, seen->relay_name_length, name))
		return count_lost(segment, COUNTER_NAMES_UNUSABLE);
	memcpy(relay.name, name, sizeof(name));
	memcpy(key.words, &seen->relay, sizeof(seen->relay));
	likely = aim_at_relay(&table, &seen->relay_key, &key);
	if (!learned_lock(&table, &key, now_ns))
		return count_lost(segment, COUNTER_NOTES_LOST);
	slot = learned_find_at(&table, &key, likely);
	if (slot != NULL && has_name(slot, &relay)) {
		mark_seen(slot, SEEN_DS(relay.seen));
		learned_unlock(&table, &key);
		return true;
	}
	if (slot != NULL)
		learned_overwrite(&table, &key, slot, &relay);
	else
		slot = learned_add(&table, &key, SEEN_DS(relay.seen), &relay);
	raise_version(segment);
	learned_unlock(&table, &key);
	return slot != NULL || count_lost(segment, COUNTER_NOTES_LOST);
}

_Static_assert(RELAYS_EXPECTED == LEARNED_EXPECTED, "all of them");

void relays_expect(const struct segment *segment, const struct address relays[],
    struct relay_key keys[], size_t count) {
	struct learned table = learned_table(segment, &relay_kind);
	uint64_t words[ADDRESS_WORDS], hashes[RELAYS_EXPECTED] = { 0 };
	uint32_t places[RELAYS_EXPECTED] = { 0 };

	if (count > RELAYS_EXPECTED)
		count = RELAYS_EXPECTED;
	for (size_t i = 0; i < count; i++) {
		memcpy(words, &relays[i], sizeof(words));
		hashes[i] = learned_hash(&table, words);
	}
	learned_expect(&table, hashes, places, count);
	for (size_t i = 0; i < count; i++)
		keys[i] = (struct relay_key){ hashes[i], places[i] };
}

bool destinations_note(struct segment *segment, const struct delivery_seen *seen,
    int64_t now_ns) {
	bool noted = note_destination(segment, seen, now_ns);

	if (seen->relay_name != NULL && !address_is_unknown(&seen->relay))
		noted &= relays_note(segment, seen, now_ns);
	return noted;
}

/* --- finding ----------------------------------------------------------------- */

static void destination_decode(const uint64_t *copy, int64_t created_ns,
    struct destination_seen *out) {
	struct destination d;

	memcpy(&d, copy, offsetof(struct destination, kept));
	memset(out, 0, sizeof(*out));
	memcpy(out->name, d.name, sizeof(d.name));
	out->relay_count = d.control.relay_count > DESTINATION_RELAYS ?
	    DESTINATION_RELAYS : d.control.relay_count;
	for (unsigned i = 0; i < out->relay_count; i++)
		out->relays[i] = d.relays[place_of(d.control, i)];
	out->cloned_by = d.control.cloned_by;
	out->other_by = d.control.other_by;
	out->seen_ns = created_ns + (int64_t)SEEN_DS(d.seen) * DS_NS;
}

bool destinations_find(const struct segment *segment, const char *name,
    size_t name_length, struct destination_seen *out) {
	struct learned table = learned_table(segment, &destination_kind);
	uint64_t copy[LEARNED_WORDS_MAX];
	struct learned_key key;
	uint32_t number, count = name_fold(name, name_length, key.words);

	if (count == 0)
		return false;
	learned_aim(&table, count, &key);
	if (learned_look(&table, &key, copy, &number) != LEARNED_COPIED)
		return false;
	destination_decode(copy, segment->header->created_ns, out);
	return true;
}

bool relays_find(const struct segment *segment, const struct address *address,
    char out[SEGMENT_NAME_MAX + 1]) {
	struct learned table = learned_table(segment, &relay_kind);
	uint64_t copy[LEARNED_WORDS_MAX];
	struct learned_key key;
	uint32_t number;

	out[0] = '\0';
	if (address_is_unknown(address))
		return false;
	relay_key(&table, address, &key);
	if (learned_look(&table, &key, copy, &number) != LEARNED_COPIED)
		return false;
	memcpy(out, copy + WORD_OF(relay, name), SEGMENT_NAME_MAX);
	out[SEGMENT_NAME_MAX] = '\0';
	return true;
}

unsigned destinations_each(const struct segment *segment,
    void (*each)(void *context, const struct destination_seen *), void *context) {
	struct learned table = learned_table(segment, &destination_kind);
	struct learned_cursor at = { .torn = 0 };
	uint64_t copy[LEARNED_WORDS_MAX];

	while (learned_each(&table, &at, copy)) {
		struct destination_seen seen;

		destination_decode(copy, segment->header->created_ns, &seen);
		each(context, &seen);
	}
	return at.torn;
}

void destinations_used(const struct segment *segment, uint64_t *destinations,
    uint64_t *relays) {
	struct learned table = learned_table(segment, &destination_kind);

	*destinations = learned_used(&table);
	table = learned_table(segment, &relay_kind);
	*relays = learned_used(&table);
}

uint64_t destinations_version(const struct segment *segment) {
	return atomic_load_explicit(&segment->header->destinations_version,
	    memory_order_acquire);
}

/* --- another mail server ------------------------------------------------------ */

static void forget_in_slot(_Atomic uint64_t *slot, uint8_t bit) {
	struct learned_control control = learned_load_control(slot);

	control.cloned_by &= (uint8_t)~bit;
	control.other_by &= (uint8_t)~bit;
	learned_store_control(slot, control);
}

void destinations_forget_mta(struct segment *segment, unsigned mta,
    int64_t now_ns) {
	struct learned table = learned_table(segment, &destination_kind);
	struct learned_cursor at = { .torn = 0 };
	const uint8_t bit = (uint8_t)(1u << mta);
	uint64_t copy[LEARNED_WORDS_MAX];

	while (learned_each(&table, &at, copy)) {
		struct learned_control control;
		struct learned_key key;
		_Atomic uint64_t *slot;

		memcpy(&control, copy, sizeof(control));
		if (((control.cloned_by | control.other_by) & bit) == 0)
			continue;
		memcpy(key.words, copy + WORD_OF(destination, name),
		    NAME_WORDS * sizeof(key.words[0]));
		learned_aim(&table, NAME_WORDS, &key);
		if (!learned_lock(&table, &key, now_ns))
			continue;
		slot = learned_find(&table, &key);
		if (slot != NULL)
			forget_in_slot(slot, bit);
		learned_unlock(&table, &key);
	}
	raise_version(segment);
}
