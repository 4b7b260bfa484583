/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Writes what a hints file says: keys that come, lanes, holds, reasons.
 * MODEL    The file is made by hints_build.c; here are the changes in place.  A word is
 *          stored in one piece; a reason is written before the word that names it, and
 *          given to somebody else under another stamp, so that a reader with an older
 *          word notices.  Reason 0 is for all who find no reason left.
 * ERRORS   What has no room is told, and nobody is held for it.
 * THREADS  One.
 */
#include "segment/hints/hints_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/text.h"

static const char shared_reason[] = "Postern: mail for this destination is held";

struct hints_file *hints_file_of(struct hints_writer *writer) {
	return writer->built.header != NULL ? &writer->built : &writer->placed;
}

static struct hints_text *texts_at(const struct hints_file *file, uint64_t offset) {
	return (void *)((char *)file->header + offset);
}

struct hints_bucket *hints_bucket_at(const struct hints_file *file, uint32_t place) {
	return (struct hints_bucket *)(void *)((char *)file->header +
		   file->header->buckets_offset) + place;
}

void hints_text_store(struct hints_text *to, const char *text) {
	uint64_t words[HINTS_TEXT_WORDS] = { 0 };

	if (text != NULL)
		text_copy((char *)words, HINTS_TEXT_MAX + 1, text, strlen(text));
	STORE(to->seq, 1 + RELAXED(to->seq));
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < HINTS_TEXT_WORDS; i++)
		STORE(to->text[i], words[i]);
	atomic_store_explicit(&to->seq, 1 + RELAXED(to->seq), memory_order_release);
}

void hints_file_begin_reasons(struct hints_file *file) {
	hints_text_store(texts_at(file, file->header->reasons_offset), shared_reason);
	file->reasons_begun = 1;
	file->reasons_free = NULL;
}

/* --- keys -------------------------------------------------------------------- */

/* The head and all of a key's name; how long it is, or 0: it cannot be a key. */
static size_t name_of(const struct hint *hint, char out[HINTS_NAME_HEAD +
    HINTS_NAME_MAX]) {
	size_t domain = strlen(hint->domain);

	if (domain == 0 || domain > HINTS_NAME_MAX)
		return 0;
	out[0] = (char)domain;
	out[1] = (char)hint->mta;
	memcpy(out + HINTS_NAME_HEAD, hint->domain, domain);
	return HINTS_NAME_HEAD + domain;
}

size_t hints_name_bytes(const struct hint *hint) {
	char name[HINTS_NAME_HEAD + HINTS_NAME_MAX];

	return name_of(hint, name);
}

enum hints_insertion hints_file_insert(struct hints_file *file,
    const struct hint *hint, uint32_t *place) {
	struct hints_header *header = file->header;
	char name[HINTS_NAME_HEAD + HINTS_NAME_MAX];
	char *names = (char *)header + header->names_offset;
	size_t bytes = name_of(hint, name);
	uint64_t hash;

	*place = HINTS_NO_PLACE;
	if (bytes == 0 || hint->mta >= header->mta_count)
		return HINTS_NO_KEY;
	hash = hints_hash(&header->key, hint->mta, hint->domain, (uint8_t)name[0]);
	for (uint32_t probe = 0; probe < HINTS_PROBES; probe++) {
		uint32_t at = (uint32_t)(hash + probe) & (header->bucket_count - 1);
		struct hints_bucket *bucket = hints_bucket_at(file, at);
		uint32_t there = RELAXED(bucket->name);

		if (there != 0) {
			const char *other = names + there - 1;

			if (other[0] != name[0] || other[1] != name[1] ||
			    memcmp(other + HINTS_NAME_HEAD, hint->domain,
				(uint8_t)name[0]) != 0)
				continue;
			*place = at;
			return HINTS_THERE;
		}
		/* half full is full: searches must stay short */
		if (header->names_bytes - file->names_used < bytes ||
		    file->keys >= header->bucket_count / 2)
			return HINTS_CROWDED;
		memcpy(names + file->names_used, name, bytes);
		STORE(bucket->group, hint->group & HINTS_GROUP_MASK);
		atomic_store_explicit(&bucket->name, file->names_used + 1,
		    memory_order_release);
		file->names_used += (uint32_t)bytes;
		file->keys++;
		*place = at;
		return HINTS_INSERTED;
	}
	return HINTS_CROWDED;
}

uint32_t hints_writer_add(struct hints_writer *writer, const struct hint *hint) {
	struct hints_file *file = hints_file_of(writer);
	uint32_t place;

	if (file->reason_of == NULL)
		return HINTS_NO_PLACE;
	(void)hints_file_insert(file, hint, &place);
	return place;
}

bool hints_writer_domain(const struct hints_writer *writer, uint32_t place,
    char out[HINTS_NAME_MAX + 1]) {
	const struct hints_file *file = writer->built.header != NULL ? &writer->built :
	    &writer->placed;
	const char *name;
	uint32_t at;

	if (file->reason_of == NULL || place >= file->header->bucket_count)
		return false;
	at = RELAXED(hints_bucket_at(file, place)->name);
	if (at == 0)
		return false;
	name = (const char *)file->header + file->header->names_offset + at - 1;
	memcpy(out, name + HINTS_NAME_HEAD, (uint8_t)name[0]);
	out[(uint8_t)name[0]] = '\0';
	return true;
}

void hints_writer_regroup(struct hints_writer *writer, uint32_t place, uint32_t group) {
	struct hints_file *file = hints_file_of(writer);

	struct hints_bucket *bucket;

	if (file->reason_of == NULL || place >= file->header->bucket_count)
		return;
	bucket = hints_bucket_at(file, place);
	STORE(bucket->group, (RELAXED(bucket->group) & ~HINTS_GROUP_MASK) |
	    (group & HINTS_GROUP_MASK));
}

void hints_writer_hold_group(struct hints_writer *writer, uint32_t group,
    const char *text) {
	struct hints_file *file = hints_file_of(writer);

	if (file->reason_of != NULL && group < file->header->group_count)
		hints_text_store(texts_at(file, file->header->groups_offset) +
		    (size_t)HINTS_GROUP_TEXTS * group, text);
}

void hints_writer_set_room(struct hints_writer *writer, uint32_t group, uint32_t room,
    const char *text) {
	struct hints_file *file = hints_file_of(writer);
	struct hints_text *second;

	if (file->reason_of == NULL || group >= file->header->group_count)
		return;
	second = texts_at(file, file->header->groups_offset) +
	    (size_t)HINTS_GROUP_TEXTS * group + 1;
	if (text != NULL)
		hints_text_store(second, text);
	atomic_store_explicit(&second->stamp, room == HINTS_ANY_ROOM ? 0 : room + 1,
	    memory_order_release);
}

/* --- reasons ----------------------------------------------------------------- */

/* A reason of one's own, or 0. */
static uint32_t take_reason(struct hints_file *file) {
	uint32_t number;

	if (file->reasons_free_count > 0)
		return file->reasons_free[--file->reasons_free_count];
	if (file->reasons_begun == file->header->reason_count)
		return 0;
	/* each that is begun may come back */
	if (file->reasons_begun >= file->reasons_free_size) {
		uint32_t size = 2 * file->reasons_begun + 64;
		uint32_t *grown = reallocarray(file->reasons_free, size, sizeof(*grown));

		if (grown == NULL)
			return 0;
		file->reasons_free = grown;
		file->reasons_free_size = size;
	}
	number = file->reasons_begun++;
	return number;
}

static void give_reason(struct hints_file *file, uint32_t number) {
	if (number != 0)
		file->reasons_free[file->reasons_free_count++] = number;
}

/* Writes a text under a number; the word that names it.  `is_mine`: it names this
 * holder's own reason already. */
static uint64_t write_reason(struct hints_file *file, uint32_t number, bool is_mine,
    const char *text) {
	struct hints_text *reason =
	    texts_at(file, file->header->reasons_offset) + number;

	if (number != 0) {
		if (!is_mine)
			atomic_fetch_add_explicit(&reason->stamp, 1,
			    memory_order_release);
		hints_text_store(reason, text);
	}
	return hints_word_held(number, RELAXED(reason->stamp));
}

/* --- what keys say ----------------------------------------------------------- */

void hints_writer_set(struct hints_writer *writer, uint32_t place, const struct hint_say *say) {
	struct hints_file *file = hints_file_of(writer);
	struct hints_bucket *bucket;
	uint64_t word = HINTS_WORD_NOTHING;
	uint32_t before, reason = 0;

	if (file->reason_of == NULL || place >= file->header->bucket_count)
		return;
	bucket = hints_bucket_at(file, place);
	before = file->reason_of[place];
	if (say->kind == HINTS_HELD) {
		reason = before != 0 ? before : take_reason(file);
		word = write_reason(file, reason, before != 0, say->text) |
		    (say->passing ? HINTS_WORD_PASSING : 0);
	} else if (say->kind == HINTS_LANE) {
		STORE(bucket->issued, HINTS_MOMENT(say->lanes.canary_ns) |
		    (uint32_t)HINTS_MOMENT(say->lanes.single_ns) << 16);
		STORE(bucket->single, hints_single_word(&say->lanes));
		word = hints_word_lanes(&say->lanes);
	}
	file->reason_of[place] = reason;
	atomic_store_explicit(&bucket->word, word, memory_order_release);
	if (before != reason)
		give_reason(file, before);
}

/* --- recipients -------------------------------------------------------------- */

/* The slot of this hash, or one that was never taken; NULL: neither.  Slots are never
 * given to another address, as the searches of others may lead over them. */
static struct hints_recipient *find_recipient(const struct hints_file *file,
    uint64_t hash) {
	struct hints_recipient *slots = (void *)((char *)file->header +
	    file->header->recipients_offset);

	for (uint32_t probe = 0; probe < HINTS_PROBES; probe++) {
		struct hints_recipient *slot =
		    &slots[(hash + probe) & (file->header->recipient_count - 1)];
		uint64_t there = RELAXED(slot->hash);

		if (there == hash || there == 0)
			return slot;
	}
	return NULL;
}

bool hints_writer_hold_recipient(struct hints_writer *writer, uint8_t mta,
    const char *address, int64_t until_ns, const char *text) {
	struct hints_file *file = hints_file_of(writer);
	size_t length = strlen(address);
	struct hints_recipient *slot;
	uint32_t reason;
	uint64_t hash, word;

	if (file->reason_of == NULL || length > HINTS_ADDRESS_MAX)
		return false;
	hash = hints_hash(&file->header->key, mta, address, length);
	slot = find_recipient(file, hash);
	if (slot == NULL)
		return false;
	word = RELAXED(slot->reason);
	reason = (uint32_t)(word >> 32);
	if (text == NULL) {
		atomic_store_explicit(&slot->until_ns, 0, memory_order_release);
		STORE(slot->reason, 0);
		give_reason(file, reason);
		return true;
	}
	word = reason != 0 ? write_reason(file, reason, true, text) :
	    write_reason(file, reason = take_reason(file), false, text);
	STORE(slot->reason, word);
	atomic_store_explicit(&slot->until_ns, until_ns, memory_order_release);
	atomic_store_explicit(&slot->hash, hash, memory_order_release);
	return true;
}

void hints_writer_beat(struct hints_writer *writer, int64_t now_ns) {
	if (writer->placed.header != NULL)
		STORE(writer->placed.header->beat_ns, now_ns);
}
