/* SPDX-License-Identifier: ISC */
/* Noted anew, the oldest relay first. */
#include "segment/destination/seen_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "segment/destination/destinations.h"
#include "segment/file/internal.h"
#include "segment/file/name.h"

static bool number_of(const char *text, int64_t max, int64_t *out) {
	char *end;

	errno = 0;
	*out = strtoll(text, &end, 10);
	return text[0] != '\0' && errno == 0 && *end == '\0' && *out <= max &&
	    *out >= -max;
}

static size_t write_mtas(const struct segment *segment, const char *key, uint8_t bits,
    char *out, size_t length) {
	const char *before = "";

	for (unsigned i = 0; i < SEGMENT_MTAS; i++) {
		char name[SEGMENT_NAME_MAX + 1];

		name_copy(segment->header->mtas[i].name, name);
		if ((bits >> i & 1) == 0 || name[0] == '\0')
			continue;
		if (*before == '\0')
			length = text_append(out, SEEN_KEYS_MAX, length, " %s=", key);
		length = text_append(out, SEEN_KEYS_MAX, length, "%s%.80s", before, name);
		before = ",";
	}
	return length;
}

size_t seen_keys_write(const struct segment *segment, const char *name, int64_t now_ns,
    char out[SEEN_KEYS_MAX]) {
	char address[ADDRESS_TEXT_MAX], relay[SEGMENT_NAME_MAX + 1];
	struct destination_seen seen;
	size_t length;

	out[0] = '\0';
	if (!destinations_find(segment, name, strlen(name), &seen) ||
	    (seen.cloned_by == 0 && seen.other_by == 0 && seen.relay_count == 0))
		return 0;
	length = text_append(out, SEEN_KEYS_MAX, 0, SEEN_KEY "=%" PRId64,
	    seen.seen_ns - now_ns);
	length = write_mtas(segment, SEEN_CLONED_KEY, seen.cloned_by, out, length);
	length = write_mtas(segment, SEEN_OTHER_KEY, seen.other_by, out, length);
	for (unsigned i = 0; i < seen.relay_count; i++) {
		(void)relays_find(segment, &seen.relays[i], relay);
		address_format(&seen.relays[i], address);
		length = text_append(out, SEEN_KEYS_MAX, length, " " SEEN_RELAY_KEY "=%s/%s",
		    address, relay);
	}
	return length;
}

struct seen_reading {
	struct segment *segment;
	struct delivery_seen seen;
	int64_t seen_ns;
	char *relays[DESTINATION_RELAYS];
	unsigned relay_count;
	uint8_t cloned_by, other_by;
};

static uint8_t read_mtas(const struct segment *segment, char *names) {
	char *rest = NULL;
	uint8_t bits = 0;

	for (char *name = strtok_r(names, ",", &rest); name != NULL;
	     name = strtok_r(NULL, ",", &rest))
		for (unsigned i = 0; i < SEGMENT_MTAS; i++)
			if (strncmp(segment->header->mtas[i].name, name,
				sizeof(segment->header->mtas[i].name)) == 0)
				bits |= (uint8_t)(1 << i);
	return bits;
}

static void read_key(struct seen_reading *reading, const char *key, char *value,
    int64_t then_ns) {
	int64_t age_ns;

	if (strcmp(key, SEEN_KEY) == 0 && number_of(value, INT64_MAX / 4, &age_ns))
		reading->seen_ns = then_ns + age_ns;
	else if (strcmp(key, SEEN_CLONED_KEY) == 0)
		reading->cloned_by = read_mtas(reading->segment, value);
	else if (strcmp(key, SEEN_OTHER_KEY) == 0)
		reading->other_by = read_mtas(reading->segment, value);
	else if (strcmp(key, SEEN_RELAY_KEY) == 0 &&
	    reading->relay_count < DESTINATION_RELAYS)
		reading->relays[reading->relay_count++] = value;
}

static void note_relay(struct seen_reading *reading, char *relay) {
	struct delivery_seen *seen = &reading->seen;
	char *slash = strchr(relay, '/');

	if (slash == NULL)
		return;
	*slash++ = '\0';
	if (!address_parse(relay, strlen(relay), &seen->relay))
		return;
	seen->relay_name = *slash == '\0' ? NULL : slash;
	seen->relay_name_length = strlen(slash);
	(void)destinations_note(reading->segment, seen, reading->seen_ns);
}

static void note_mtas(struct seen_reading *reading, uint8_t bits, bool cloned) {
	struct delivery_seen seen = { .name = reading->seen.name,
		.name_length = reading->seen.name_length, .cloned = cloned };

	for (; seen.mta < SEGMENT_MTAS; seen.mta++)
		if ((bits >> seen.mta & 1) != 0)
			(void)destinations_note(reading->segment, &seen,
			    reading->seen_ns);
}

void seen_keys_restore(struct segment *segment, const char *name, char *text,
    int64_t then_ns) {
	struct seen_reading reading = { .segment = segment, .seen_ns = then_ns,
		.seen = { .name = name, .name_length = strlen(name), .mta = UINT8_MAX } };
	char *rest = NULL;

	for (char *word = strtok_r(text, " ", &rest); word != NULL;
	     word = strtok_r(NULL, " ", &rest)) {
		char *value = strchr(word, '=');

		if (value == NULL)
			continue;
		*value++ = '\0';
		read_key(&reading, word, value, then_ns);
	}
	while (reading.relay_count > 0)
		note_relay(&reading, reading.relays[--reading.relay_count]);
	note_mtas(&reading, reading.cloned_by, true);
	note_mtas(&reading, reading.other_by, false);
}
