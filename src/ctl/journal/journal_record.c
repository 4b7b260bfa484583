/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Reads records of a journal into structs, and joins those of one message.
 * MODEL    Only envelopes have the queue id; the others have the message's key, a hash
 *          with a key of its own: a map by it.
 * ERRORS   A payload that is not as its type says is `spoiled`; without memory `no_memory`.
 * THREADS  One.
 */
#include "ctl/journal/journal_record.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* --- payloads ----------------------------------------------------------------------------- */

void journal_decode(const struct journal_frame *frame, struct decoded *out) {
	const struct journal_shape *shape = journal_shape_of(frame->type);

	memset(out, 0, sizeof(*out));
	out->type = (enum journal_type)frame->type;
	out->known = journal_type_word(frame->type) != NULL &&
	    frame->version <= JOURNAL_VERSION;
	/* the reader reads heads */
	if (out->known && shape != NULL)
		out->spoiled = !journal_record_read(shape, frame->payload, frame->length,
		    &out->record);
}

bool decoded_is_of_message(const struct decoded *decoded) {
	return decoded->known && !decoded->spoiled &&
	    (decoded->type == JOURNAL_ENVELOPE || decoded->type == JOURNAL_REPLACEMENT ||
	     decoded->type == JOURNAL_START || decoded->type == JOURNAL_DELIVERY ||
	     decoded->type == JOURNAL_FINISH);
}

static uint64_t key_of(const struct decoded *decoded) {
	switch (decoded->type) {
	case JOURNAL_START:
		return decoded->record.start.key;
	case JOURNAL_DELIVERY:
		return decoded->record.delivery.key;
	case JOURNAL_FINISH:
		return decoded->record.finish.key;
	default:
		return decoded->record.envelope.key;
	}
}

/* --- the table ---------------------------------------------------------------------------- */

/* The one of that key, or NULL. */
static struct known_message *known_find(const struct known_messages *known, uint64_t key) {
	uint32_t index = map_index(&known->by_key, key);

	return index == MAP_NONE ? NULL : &known->list[index];
}

/* Where the id stands from then on; 0: no memory. */
static uint32_t keep_id(struct known_messages *known, struct journal_text id) {
	size_t at = known->ids_length == 0 ? 1 : known->ids_length;	/* no id stands at 0 */

	if (at + id.length > UINT32_MAX ||
	    !array_grow(&known->ids, &known->ids_room, at + id.length, 1))
		return 0;
	known->ids_length = at;
	for (size_t i = 0; i < id.length; i++)
		if (id.text[i] != '\0')
			known->ids[known->ids_length++] = id.text[i];
	known->ids[known->ids_length++] = '\0';
	return (uint32_t)at;
}

static struct known_message *find_or_add(struct known_messages *known, uint64_t key) {
	struct known_message *found = known_find(known, key);

	if (found != NULL)
		return found;
	if (key == 0 || known->count >= MAP_NONE ||
	    !array_grow(&known->list, &known->room, known->count, sizeof(*found)) ||
	    !map_set_index(&known->by_key, key, (uint32_t)known->count)) {
		known->no_memory = known->no_memory || key != 0;
		return NULL;
	}
	found = &known->list[known->count++];
	*found = (struct known_message){ .key = key, .state = KNOWN_DONE };
	return found;
}

struct known_message *known_take(struct known_messages *known, const struct decoded *decoded,
    const struct journal_frame *frame, uint32_t bytes) {
	struct known_message *message = decoded_is_of_message(decoded) ?
	    find_or_add(known, key_of(decoded)) : NULL;
	bool envelope = decoded->type == JOURNAL_ENVELOPE || decoded->type == JOURNAL_REPLACEMENT;

	if (message == NULL)
		return NULL;
	if (envelope && message->id == 0) {
		message->id = keep_id(known, decoded->record.envelope.id);
		known->no_memory = known->no_memory || message->id == 0;
	}
	if (frame->sequence < message->sequence)
		return message;
	message->sequence = frame->sequence;
	if (decoded->type == JOURNAL_FINISH)
		message->state = KNOWN_DONE;
	else if (decoded->type == JOURNAL_START)
		message->state = KNOWN_WORKS;
	else if (envelope)
		/* garbage, and the start that made it so is not there: it cannot be used */
		message->state = journal_mark_is_live(frame->mark) ? KNOWN_WAITS : KNOWN_DONE;
	if (envelope)
		message->bytes = 0;
	message->bytes += bytes;
	return message;
}

const char *known_id(const struct known_messages *known, const struct known_message *message) {
	return message == NULL || message->id == 0 ? NULL : known->ids + message->id;
}

void known_free(struct known_messages *known) {
	map_free(&known->by_key);
	free(known->list);
	free(known->ids);
	memset(known, 0, sizeof(*known));
}
