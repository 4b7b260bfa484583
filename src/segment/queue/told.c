/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Lines about deliveries on their way to the queue role, and what it knows.
 * MODEL    A ring of words: a record is a word with its length and the line's facts, bytes
 *          padded to words; the head moves when all of it stands there.  Known recipients are
 *          a set-associative table of hashes: of a full set the one by the key's own turn is
 *          given up.
 * ERRORS   Either role may write anything into it, or die at any point: lengths are checked
 *          against what there is, by a copy.
 * THREADS  One writer, one reader of the ring; one writer, many readers of the table.
 */
#include "segment/queue/told.h"
#include <string.h>

#include "base/failpoint.h"
#include "base/siphash.h"
#include "segment/file/internal.h"
#define RING_WORDS	(TOLD_RING_BYTES / 8)
#define FACTS		6u	/* words before the texts */
#define RECORD_WORDS	(FACTS + (TOLD_ID_MAX + TOLD_LIST_MAX + 7) / 8)

static struct told_table *table_of(const struct segment *segment) {
	return (void *)((char *)segment->header + segment->header->told_offset);
}

/* --- the ring ------------------------------------------------------------------------- */

static uint64_t words_of(uint64_t id_length, uint64_t list_length) {
	return FACTS + (id_length + list_length + 7) / 8;
}

bool told_put(struct segment *segment, const struct told_line *line) {
	struct told_table *table = table_of(segment);
	uint64_t head = RELAXED(table->head);
	uint64_t tail = atomic_load_explicit(&table->tail, memory_order_acquire);
	uint64_t words[RECORD_WORDS] = { 0 }, count = words_of(line->id_length, line->list_length);

	if (line->id_length > TOLD_ID_MAX || line->list_length > TOLD_LIST_MAX ||
	    head - tail > RING_WORDS - count)
		return false;
	words[0] = (uint64_t)line->id_length << 48 | (uint64_t)line->list_length << 32 |
	    (uint64_t)line->what << 8 | line->goes_on;
	words[1] = line->pid;
	words[2] = (uint64_t)line->written_s;
	words[3] = (uint64_t)line->delay_s;
	words[4] = line->log;
	words[5] = line->offset;
	memcpy(&words[FACTS], line->id, line->id_length);
	memcpy((char *)&words[FACTS] + line->id_length, line->list, line->list_length);
	for (uint64_t i = 0; i < count; i++) {
		FAILPOINT();
		STORE(table->ring[(head + i) % RING_WORDS], words[i]);
	}
	FAILPOINT();
	atomic_store_explicit(&table->head, head + count, memory_order_release);
	return true;
}

bool told_take(struct segment *segment, struct told_line *line) {
	struct told_table *table = table_of(segment);
	uint64_t head = atomic_load_explicit(&table->head, memory_order_acquire);
	uint64_t tail = RELAXED(table->tail), count;
	uint64_t words[RECORD_WORDS];

	if (head == tail)
		return false;
	words[0] = RELAXED(table->ring[tail % RING_WORDS]);
	line->id_length = (uint16_t)(words[0] >> 48);
	line->list_length = (uint16_t)(words[0] >> 32);
	count = words_of(line->id_length, line->list_length);
	if (head - tail > RING_WORDS || head - tail < count || line->id_length > TOLD_ID_MAX ||
	    line->list_length > TOLD_LIST_MAX) {
		atomic_store_explicit(&table->tail, head, memory_order_release);
		return false;
	}
	for (uint64_t i = 1; i < count; i++)
		words[i] = RELAXED(table->ring[(tail + i) % RING_WORDS]);
	atomic_store_explicit(&table->tail, tail + count, memory_order_release);
	line->what = (uint8_t)(words[0] >> 8);
	line->goes_on = (words[0] & 1) != 0;
	line->pid = (uint32_t)words[1];
	line->written_s = (int64_t)words[2];
	line->delay_s = (int64_t)words[3];
	line->log = words[4];
	line->offset = words[5];
	memcpy(line->id, &words[FACTS], line->id_length);
	line->id[line->id_length] = '\0';
	memcpy(line->list, (const char *)&words[FACTS] + line->id_length, line->list_length);
	line->list[line->list_length] = '\0';
	return true;
}

bool told_is_empty(const struct segment *segment) {
	const struct told_table *table = table_of(segment);

	return RELAXED(table->head) == RELAXED(table->tail);
}

void told_reached(struct segment *segment, int64_t ns) {
	atomic_store_explicit(&table_of(segment)->reached_ns, ns, memory_order_release);
}

int64_t told_reached_ns(const struct segment *segment) {
	return atomic_load_explicit(&table_of(segment)->reached_ns, memory_order_acquire);
}

void told_works(struct segment *segment, unsigned mta) {
	atomic_fetch_or_explicit(&table_of(segment)->works, UINT64_C(1) << mta % 64,
	    memory_order_relaxed);
}

bool told_has_worked(const struct segment *segment, unsigned mta) {
	return (RELAXED(table_of(segment)->works) >> mta % 64 & 1) != 0;
}

/* --- what is known ---------------------------------------------------------------------- */

uint64_t told_key(const struct segment *segment, const char *queue_id, size_t id_length,
    uint32_t made_s, const char *recipient, size_t length) {
	char text[TOLD_ID_MAX + 1 + sizeof(made_s) + TOLD_RECIPIENT_MAX];
	uint64_t key;
	size_t at = 0;

	if (id_length > TOLD_ID_MAX || length > TOLD_RECIPIENT_MAX)
		return 1;	/* no recipient that is published is so long */
	memcpy(text, queue_id, id_length);
	text[id_length] = '\0';	/* an id has none */
	at = id_length + 1;
	memcpy(text + at, &made_s, sizeof(made_s));
	at += sizeof(made_s);
	memcpy(text + at, recipient, length);
	key = siphash13(&segment->header->key, text, at + length);
	return key < 2 ? 2 : key;
}

static _Atomic uint64_t *set_of(const struct segment *segment, uint64_t key) {
	return table_of(segment)->keys[key % TOLD_SETS];
}

void told_begin(struct segment *segment) {
	struct told_table *table = table_of(segment);

	for (uint32_t i = 0; i < TOLD_SETS; i++)
		for (uint32_t k = 0; k < TOLD_PLACES; k++)
			STORE(table->keys[i][k], 0);
}

void told_publish(struct segment *segment, uint64_t key) {
	_Atomic uint64_t *set = set_of(segment, key);
	uint32_t at = (uint32_t)(key / TOLD_SETS) % TOLD_PLACES;

	for (uint32_t i = TOLD_PLACES; i-- > 0;) {
		uint64_t there = RELAXED(set[i]);

		if (there == key)
			return;
		if (there == 0)
			at = i;
	}
	STORE(set[at], key);
}

void told_withdraw(struct segment *segment, uint64_t key) {
	_Atomic uint64_t *set = set_of(segment, key);

	for (uint32_t i = 0; i < TOLD_PLACES; i++)
		if (RELAXED(set[i]) == key)
			STORE(set[i], 0);
}

bool told_is_delivered(const struct segment *segment, uint64_t key) {
	_Atomic uint64_t *set = set_of(segment, key);

	for (uint32_t i = 0; i < TOLD_PLACES; i++)
		if (RELAXED(set[i]) == key)
			return true;
	return false;
}
