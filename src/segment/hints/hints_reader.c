/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Answers from the hints file, without the daemon.
 * MODEL    What lies in the tables: each word once, where a
 *          table has its place and its size from the checked copy of the header, and each number
 *          in it checked before it leads anywhere.  What is kept for a bucket is only touched
 *          where something was ever offered: else each question would touch another page.
 * ERRORS   None: each doubt means that nothing is held.  What is read behind the end of a file
 *          that was cut is hints_guard.c's.
 * THREADS  One.
 */
#include "base/text.h"
#include "segment/hints/hints_reader_internal.h"

#include <string.h>

#include "segment/hints/hints_guard.h"

#define READ_TRIES	100

/* What is asked for: a domain or an address of an mta, in lower case. */
struct key {
	uint8_t mta;
	const char *text;
	size_t length;
};

static bool find_mta(const struct hints_header *header, const char *name,
    uint8_t *number) {
	size_t length = strlen(name);

	for (uint8_t i = 0; i < header->mta_count; i++)
		if (length < sizeof(header->mtas[i].name) &&
		    memcmp(header->mtas[i].name, name, length + 1) == 0) {
			*number = i;
			return true;
		}
	return false;
}

/* A table of the file, of which the copied header says how much there is of it. */
static const void *table_at(const struct hints_reader *reader, uint64_t offset) {
	return (const char *)reader->live + offset;
}

/* Is the name at this place one, and the one that is asked for? */
static bool name_equals(const struct hints_reader *reader, uint32_t place,
    const struct key *key) {
	const char *name = (const char *)table_at(reader, reader->header.names_offset) + place;
	uint32_t room = reader->header.names_bytes;

	return place < room && room - place >= HINTS_NAME_HEAD + key->length &&
	    (uint8_t)name[0] == key->length && (uint8_t)name[1] == key->mta &&
	    memcmp(name + HINTS_NAME_HEAD, key->text, key->length) == 0;
}

/* HINTS_NO_PLACE: not there. */
static uint32_t find_key(const struct hints_reader *reader, const struct key *key) {
	const struct hints_bucket *buckets = table_at(reader, reader->header.buckets_offset);
	uint64_t hash = hints_hash(&reader->header.key, key->mta, key->text, key->length);

	for (uint32_t probe = 0; probe < HINTS_PROBES; probe++) {
		uint32_t place = (uint32_t)(hash + probe) & (reader->header.bucket_count - 1);
		uint32_t name = atomic_load_explicit(&buckets[place].name,
		    memory_order_acquire);

		if (name == 0)
			return HINTS_NO_PLACE;
		if (name_equals(reader, name - 1, key))
			return place;
	}
	return HINTS_NO_PLACE;
}

bool hints_reader_text(const struct hints_text *from, char text[HINTS_TEXT_MAX + 1]) {
	uint64_t words[HINTS_TEXT_WORDS];

	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		uint32_t before = atomic_load_explicit(&from->seq,
		    memory_order_acquire);

		for (size_t i = 0; i < HINTS_TEXT_WORDS; i++)
			words[i] = RELAXED(from->text[i]);
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 == 0 && before == RELAXED(from->seq)) {
			memcpy(text, words, HINTS_TEXT_MAX);
			text[HINTS_TEXT_MAX] = '\0';
			return text[0] != '\0';
		}
	}
	return false;
}

/* The reason that a word names; false: it is somebody else's by now, or makes no
 * sense. */
static bool load_reason(const struct hints_reader *reader, uint64_t word,
    char text[HINTS_TEXT_MAX + 1]) {
	const struct hints_text *reasons = table_at(reader, reader->header.reasons_offset);
	uint32_t number = (uint32_t)(word >> 32);
	uint32_t stamp = (uint32_t)(word >> 8) & HINTS_STAMP_MASK;

	return number < reader->header.reason_count && hints_reader_text(&reasons[number], text) &&
	    (atomic_load_explicit(&reasons[number].stamp, memory_order_acquire) &
		HINTS_STAMP_MASK) == stamp;
}

static bool group_holds(const struct hints_reader *reader, uint32_t group,
    char text[HINTS_TEXT_MAX + 1]) {
	const struct hints_text *groups = table_at(reader, reader->header.groups_offset);

	return group < reader->header.group_count &&
	    hints_reader_text(&groups[(size_t)HINTS_GROUP_TEXTS * group], text);
}

static bool recipient_is_held(const struct hints_reader *reader, const struct key *key,
    int64_t now_ns, char text[HINTS_TEXT_MAX + 1]) {
	const struct hints_recipient *slots = table_at(reader,
	    reader->header.recipients_offset);
	uint64_t hash = hints_hash(&reader->header.key, key->mta, key->text, key->length);

	for (uint32_t probe = 0; probe < HINTS_PROBES; probe++) {
		const struct hints_recipient *slot =
		    &slots[(hash + probe) & (reader->header.recipient_count - 1)];
		uint64_t found = atomic_load_explicit(&slot->hash, memory_order_acquire);

		if (found == 0)
			return false;
		if (found == hash)
			return atomic_load_explicit(&slot->until_ns,
			    memory_order_acquire) > now_ns &&
			    load_reason(reader, RELAXED(slot->reason), text) &&
			    RELAXED(slot->hash) == hash;
	}
	return false;
}

/* Of as many as were offered since the last one. */
static bool take_single(struct given *given, uint16_t issued, uint16_t since,
    const struct hint_lanes *lanes) {
	uint16_t owed = (uint16_t)(lanes->single_serial + 1u - given->single);
	uint16_t most = lanes->single_count == 0 ? 1 : lanes->single_count;

	if (lanes->single == HINTS_NO_LANE) {
		given->single = lanes->single_serial + 1u;
		return false;
	}
	/* of the first ones that were ever offered each is ours, if the last is */
	if (given->single == 0)
		owed = !hints_is_since(issued, since) ? 0 :
		    lanes->single_serial <= most ? lanes->single_serial : 1;
	if (owed > most)
		owed = most;
	/* 1 to 65536: 0 is kept for what is not known */
	given->single = (uint16_t)(lanes->single_serial + (owed == 0 ? 0 : 1 - owed)) + 1u;
	return owed > 0;
}

static bool was_never_offered(const struct hint_lanes *lanes) {
	return lanes->canary == HINTS_NO_LANE && lanes->single == HINTS_NO_LANE &&
	    lanes->single_serial == 0;
}

/* The lane of one message that this key's mail was not given yet, or HINTS_NO_LANE.  What
 * was offered before we came was taken by the process before us, or will be offered again:
 * Postfix starts another one every 100 s. */
static uint8_t take_one(struct hints_reader *reader, uint32_t place, uint32_t issued,
    const struct hint_lanes *lanes) {
	struct given *given;
	bool fresh;

	if (reader->given == NULL || was_never_offered(lanes))
		return HINTS_NO_LANE;
	given = &reader->given[place];
	if (lanes->canary != HINTS_NO_LANE && given->canary != lanes->serial + 1u) {
		fresh = given->canary == 0;
		given->canary = lanes->serial + 1u;
		if (!fresh || hints_is_since((uint16_t)issued, reader->since))
			return lanes->canary;
	}
	return take_single(given, (uint16_t)(issued >> 16), reader->since, lanes) ?
	    lanes->single : HINTS_NO_LANE;
}

/* By turns that deal evenly, however few questions there are: multiples of the golden
 * ratio. */
static uint8_t take_turn(struct hints_reader *reader, const struct hint_lanes *lanes) {
	uint32_t all = 0, at;

	for (unsigned i = 0; i < lanes->count; i++)
		all += lanes->share[i];
	at = (uint32_t)((uint64_t)(reader->turn++ * UINT32_C(2654435769)) * all >> 32);
	for (unsigned i = 0; i + 1 < lanes->count; i++) {
		if (at < lanes->share[i])
			return lanes->lane[i];
		at -= lanes->share[i];
	}
	return lanes->lane[lanes->count - 1];
}

/* Of all lanes that a key's mail goes by. */
static uint32_t width_of(const struct hints_reader *reader, uint8_t mta,
    const struct hint_lanes *lanes) {
	const struct hints_file_mta *file_mta = &reader->header.mtas[mta];
	uint32_t sum = 0;

	for (unsigned i = 0; i < lanes->count; i++)
		if (lanes->lane[i] < HINTS_WIDTHS_MAX)
			sum += file_mta->widths[lanes->lane[i]];
	return sum;
}

/* May one message more of a key begin, beside what began lately in its group?  Where as many did
 * as its lanes are wide, it waits there for a place. */
static bool may_begin(struct hints_reader *reader, uint32_t group, uint32_t place,
    uint32_t width, char text[HINTS_TEXT_MAX + 1]) {
	const struct hints_text *second;
	uint32_t room, all = 0, own = 0;

	if (group >= reader->header.group_count)
		return true;
	second = (const struct hints_text *)table_at(reader, reader->header.groups_offset) +
	    (size_t)HINTS_GROUP_TEXTS * group + 1;
	room = atomic_load_explicit(&second->stamp, memory_order_acquire);
	if (room == 0)
		return true;
	/* from the last one on */
	for (uint32_t i = 1; i <= BEGUN_MAX; i++) {
		const struct begun *begun = &reader->begun[(reader->begun_next - i) % BEGUN_MAX];

		if (begun->group == 0 || reader->now_ns - begun->at_ns >= HINTS_BEGINS_NS)
			break;
		all += begun->group == group + 1;
		own += begun->group == group + 1 && begun->place == place;
	}
	if (own >= width)
		return true;
	if (all >= room - 1)
		return !hints_reader_text(second, text);
	reader->begun[reader->begun_next++ % BEGUN_MAX] = (struct begun){ reader->now_ns,
		group + 1, place };
	return true;
}

/* Is there such a lane? */
static void answer_width(const struct hints_reader *reader, uint8_t mta, uint8_t lane,
    struct hints_answer *answer) {
	const struct hints_file_mta *file_mta = &reader->header.mtas[mta];

	if (lane < file_mta->width_count && lane < HINTS_WIDTHS_MAX &&
	    file_mta->widths[lane] != 0) {
		answer->width = file_mta->widths[lane];
		answer->kind = HINTS_LANE;
	}
}

static void answer_lane(struct hints_reader *reader, uint8_t mta, uint32_t place,
    uint64_t word, const struct hints_bucket *bucket, struct hints_answer *answer) {
	struct hint_lanes lanes;
	uint8_t lane;

	hints_word_read(word, &lanes);
	hints_single_read(RELAXED(bucket->single), &lanes);
	if (lanes.begins && !may_begin(reader, RELAXED(bucket->group) & HINTS_GROUP_MASK, place,
				width_of(reader, mta, &lanes), answer->text)) {
		answer->kind = HINTS_HELD;
		return;
	}
	lane = take_one(reader, place, RELAXED(bucket->issued), &lanes);
	if (lane == HINTS_NO_LANE)
		lane = take_turn(reader, &lanes);
	answer_width(reader, mta, lane, answer);
}

/* The domain is no key. */
static void answer_unknown(struct hints_reader *reader, uint8_t mta,
    struct hints_answer *answer) {
	uint64_t word = reader->header.mtas[mta].unknown;
	struct hint_lanes lanes;

	if (reader->has_transport != NULL && hints_reader_send(reader, 0, answer))
		return;
	if ((word & 3) != HINTS_WORD_LANES)
		return;
	hints_word_read(word, &lanes);
	answer_width(reader, mta, take_turn(reader, &lanes), answer);
	answer->unknown = true;
}

/* Only its pace may hold it.  Apart from the path of all other mail. */
static __attribute__((noinline)) void answer_paced(struct hints_reader *reader,
    const struct key *whole, uint32_t place, uint64_t word, const struct hints_bucket *bucket,
    struct hints_answer *answer) {
	uint32_t number = (RELAXED(bucket->group) >> HINTS_GROUP_BITS) - 1;
	struct pace_token token;

	if (!hints_reader_may_go(reader, number, whole->text, whole->length, &token,
		answer->text)) {
		answer->kind = HINTS_HELD;
		return;
	}
	if (reader->has_transport != NULL && hints_reader_send(reader, hints_reader_row(reader, number), answer))
		;
	else if ((word & 3) == HINTS_WORD_LANES)
		answer_lane(reader, whole->mta, place, word, bucket, answer);
	if (answer->kind != HINTS_HELD)
		hints_reader_take(reader, &token);
}

/* What its group and its own word say; the word may change while it is read. */
static void answer_key(struct hints_reader *reader, const struct key *whole,
    const struct key *domain, struct hints_answer *answer) {
	const struct hints_bucket *bucket = table_at(reader, reader->header.buckets_offset);
	uint32_t place = find_key(reader, domain), group;

	if (place == HINTS_NO_PLACE) {
		if (!reader->only_held)
			answer_unknown(reader, domain->mta, answer);
		return;
	}
	bucket += place;
	group = RELAXED(bucket->group);
	if (group_holds(reader, group & HINTS_GROUP_MASK, answer->text)) {
		answer->kind = HINTS_HELD;
		return;
	}
	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		uint64_t word = atomic_load_explicit(&bucket->word, memory_order_acquire);

		switch (word & 3) {
		case HINTS_WORD_LANES:
		default:
			if (reader->only_held)
				return;
			if (group > HINTS_GROUP_MASK)
				answer_paced(reader, whole, place, word, bucket, answer);
			else if (reader->has_transport != NULL && hints_reader_send(reader, 0, answer))
				return;
			else if ((word & 3) == HINTS_WORD_LANES)
				answer_lane(reader, domain->mta, place, word, bucket, answer);
			return;
		case HINTS_WORD_HELD:
			if (reader->only_held && (word & HINTS_WORD_PASSING) != 0)
				return;
			if (!load_reason(reader, word, answer->text))
				continue;
			answer->kind = HINTS_HELD;
			return;
		}
	}
}

/* "USER@DOMAIN": all of it, and the domain.  False: there is no key that it may be. */
static bool read_address(const char *address, size_t length, char lower[HINTS_ADDRESS_MAX],
    struct key *whole, struct key *domain) {
	const char *at;

	/* an answer names the domain as text: it would end at a NUL */
	if (length == 0 || length > HINTS_ADDRESS_MAX || memchr(address, '\0', length) != NULL)
		return false;
	text_lower(lower, address, length);
	if (lower[length - 1] == '.')
		length--;
	at = memrchr(lower, '@', length);
	if (at == NULL || at == lower)
		return false;
	*whole = (struct key){ .text = lower, .length = length };
	*domain = (struct key){ .text = at + 1, .length = length - (size_t)(at + 1 - lower) };
	return domain->length > 0 && domain->length <= HINTS_NAME_MAX;
}

void hints_reader_ask(struct hints_reader *reader, const char *mta, const char *address,
    size_t length, bool only_held, int64_t now_ns, struct hints_answer *answer) {
	char lower[HINTS_ADDRESS_MAX];
	struct key whole, domain;

	reader->now_ns = now_ns;
	reader->only_held = only_held;
	*answer = (struct hints_answer){ .kind = HINTS_NOTHING };
	hints_guard((void *)(uintptr_t)reader->live, reader->bytes);
	if (read_address(address, length, lower, &whole, &domain) &&
	    hints_reader_find_file(reader, now_ns) &&
	    find_mta(&reader->header, mta, &whole.mta)) {
		domain.mta = whole.mta;
		if (recipient_is_held(reader, &whole, now_ns, answer->text))
			answer->kind = HINTS_HELD;
		else
			answer_key(reader, &whole, &domain, answer);
		if (answer->kind == HINTS_LANE || answer->kind == HINTS_SOURCE) {
			memcpy(answer->domain, domain.text, domain.length);
			answer->domain[domain.length] = '\0';
		}
		if (answer->kind != HINTS_HELD)
			answer->text[0] = '\0';
	}
	if (hints_guard_was_cut()) {
		hints_reader_forget(reader);
		*answer = (struct hints_answer){ .kind = HINTS_NOTHING };
	}
	hints_guard(NULL, 0);
	reader->has_transport = NULL;
}

void hints_reader_allow_sources(struct hints_reader *reader, hints_has_transport *has,
    const void *context) {
	reader->has_transport = has;
	reader->has_context = context;
}
