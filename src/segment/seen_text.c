/* SPDX-License-Identifier: ISC */
/* Noted anew, the oldest relay first. */
#include "segment/seen_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "segment/destinations.h"
#include "segment/internal.h"

#define NO_NAME	"-"

struct seen_writing {
	const struct segment *segment;
	FILE *file;
	int64_t now_ns;
	unsigned lines;
};

static void write_seen(void *context, const struct destination_seen *seen) {
	struct seen_writing *writing = context;
	char address[ADDRESS_TEXT_MAX], name[SEGMENT_NAME_MAX + 1];

	/* a window alone */
	if (seen->cloned_by == 0 && seen->other_by == 0 && seen->relay_count == 0)
		return;
	if (writing->lines >= SEEN_LINES_MOST)
		return;
	fprintf(writing->file, "seen %s %" PRId64 " %u %u", seen->name,
	    writing->now_ns - seen->seen_ns, seen->cloned_by, seen->other_by);
	for (unsigned i = 0; i < seen->relay_count; i++) {
		(void)relays_find(writing->segment, &seen->relays[i], name);
		address_format(&seen->relays[i], address);
		fprintf(writing->file, " %s %s", address, name[0] == '\0' ? NO_NAME : name);
	}
	fputc('\n', writing->file);
	writing->lines++;
}

unsigned seen_write(const struct segment *segment, FILE *file, int64_t now_ns) {
	struct seen_writing writing = { segment, file, now_ns, 0 };

	destinations_each(segment, write_seen, &writing);
	return writing.lines;
}

static bool number_of(const char *text, int64_t max, int64_t *out) {
	char *end;

	errno = 0;
	*out = strtoll(text, &end, 10);
	return text[0] != '\0' && errno == 0 && *end == '\0' && *out <= max &&
	    *out >= -max;
}

bool seen_restore(struct segment *segment, char **words, unsigned count, int64_t then_ns) {
	unsigned relays = count < 5 ? 0 : (count - 5) / 2;
	struct delivery_seen seen = { .mta = UINT8_MAX };
	int64_t age_ns, cloned_by, other_by;

	if (count < 5 || count % 2 == 0 || relays > DESTINATION_RELAYS ||
	    !number_of(words[2], INT64_MAX / 4, &age_ns) ||
	    !number_of(words[3], UINT8_MAX, &cloned_by) || cloned_by < 0 ||
	    !number_of(words[4], UINT8_MAX, &other_by) || other_by < 0)
		return false;
	seen.name = words[1];
	seen.name_length = strlen(words[1]);
	for (unsigned i = relays; i-- > 0;) {
		const char *address = words[5 + 2 * i], *name = words[6 + 2 * i];

		if (!address_parse(address, strlen(address), &seen.relay))
			return false;
		seen.relay_name = strcmp(name, NO_NAME) == 0 ? NULL : name;
		seen.relay_name_length = seen.relay_name == NULL ? 0 : strlen(name);
		if (!destinations_note(segment, &seen, then_ns - age_ns))
			return false;
	}
	for (seen.mta = 0; seen.mta < 8; seen.mta++) {
		seen.cloned = true;
		if ((cloned_by >> seen.mta & 1) != 0 &&
		    !destinations_note(segment, &seen, then_ns - age_ns))
			return false;
		seen.cloned = false;
		if ((other_by >> seen.mta & 1) != 0 &&
		    !destinations_note(segment, &seen, then_ns - age_ns))
			return false;
	}
	return true;
}
