/* SPDX-License-Identifier: ISC */
/*
 * Ids as text, a decision of any bytes, and rings that anybody may have written, as a
 * reader sees them.  Input: an id's text up to a line feed, then records of 2 bytes place (in
 * 8-byte words of the rings and the numbers that belong to them), 1 byte count, so many bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/decision_id.h"
#include "segment/decision/decisions.h"
#include "segment/file/internal.h"
#include "segment/geometry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct segment_header sizes;
static char *mapping;
static struct segment segment;

static void make_mapping(void) {
	memset(&sizes, 0, sizeof(sizes));
	if (!segment_geometry(&sizes, 1, 64, 64, 0) || (mapping = calloc(1, (size_t)sizes.bytes)) == NULL)
		abort();
	memcpy(mapping, &sizes, sizeof(sizes));
	segment_bind(&segment, mapping);
}

static size_t read_id(const uint8_t *data, size_t size) {
	const uint8_t *end = size == 0 ? NULL : memchr(data, '\n', size);
	size_t length = end == NULL ? size : (size_t)(end - data);
	char text[DECISION_ID_MAX];
	uint64_t id, again;

	if (decision_id_parse((const char *)data, length, &id)) {
		(void)decision_id_text(id, text);
		if (id == 0 || !decision_id_parse(text, strlen(text), &again) || again != id)
			abort();
	}
	return end == NULL ? size : length + 1;
}

static void look(const struct decided *d) {
	if (!decided_is_sound(d))
		abort();
	for (unsigned which = 0; which < 256; which++) {
		const char *text = decided_text(d, (enum decided_text)which);

		if (memchr(text, '\0', DECIDED_TEXT_BYTES) == NULL)
			abort();
	}
	if (decided_word(d->kind)[0] == '\0' || decided_stage_word(d->stage)[0] == '\0')
		abort();
}

static void one(const uint8_t *data, size_t size) {
	struct decided d;

	memset(&d, 0, sizeof(d));
	memcpy(&d, data, size < sizeof(d) ? size : sizeof(d));
	if (decided_is_sound(&d))
		look(&d);
}

/* Writes where readers look, and nowhere else: all sizes were checked before. */
static void spoil(const uint8_t *data, size_t size) {
	uint64_t rings = sizes.decided_offset[0], bytes = sizes.bytes - rings;
	uint64_t numbers = offsetof(struct segment_header, decided_next);

	while (size > 3) {
		uint16_t place;
		size_t count = data[2];
		uint64_t at;

		memcpy(&place, data, 2);
		data += 3;
		size -= 3;
		count = count > size ? size : count;
		at = place % 8 == 0 ? numbers + place / 8 % 16 * 8 : rings + place * 8u % bytes;
		if (at + count > (place % 8 == 0 ? sizeof(sizes) : sizes.bytes))
			count = 0;
		memcpy(mapping + at, data, count);
		data += count;
		size -= count;
	}
}

static void follow(enum decided_ring ring) {
	struct decisions_cursor cursor = { .begun = false };
	struct decided d, found;
	uint64_t lost = 0;

	for (unsigned i = 0; i < 2000 && decisions_next(&segment, ring, &cursor, (int64_t)i,
	    &d, NULL, &lost); i++) {
		look(&d);
		if (!decisions_find(&segment, d.id, &found) ||
		    memcmp(&d, &found, sizeof(d)) != 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	size_t used = read_id(data, size);

	if (mapping == NULL)
		make_mapping();
	one(data + used, size - used);
	spoil(data + used, size - used);
	follow(DECIDED_OF_SESSIONS);
	follow(DECIDED_OF_DESTINATIONS);
	return 0;
}
