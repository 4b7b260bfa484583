/* SPDX-License-Identifier: ISC */
/*
 * Adoption of a state file that anybody may have written.  Input: records of
 * 4 bytes offset (in 8-byte words, of the file), 1 byte count, then so many
 * bytes that are put there.  Whatever comes out must count what its slots say
 * and answer questions, and each destination that it lists must be found.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/destinations.h"
#include "segment/feed_position.h"
#include "segment/internal.h"
#include "tests/unit/site.h"

#define ALL "classes = ( { name = \"mail\"; match = [ \"*.example\" ]; " \
	"sessions = 5; inbound = 5; client = { sessions = 3; }; }, " \
	"{ name = \"all\"; match = [ \"*\" ]; sessions = 100; inbound = 100; } );"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct site site;

static void close_site(void) {
	site_close(&site);
}

/* Writes over the mapping: it is the file. */
static void spoil(const uint8_t *data, size_t size) {
	unsigned char *base = (unsigned char *)site.segment->header;
	uint64_t bytes = site.segment->header->bytes;

	while (size > 5) {
		uint32_t word;
		size_t count = data[4], offset;

		memcpy(&word, data, 4);
		offset = (size_t)(((uint64_t)word * 8) % bytes);
		data += 5;
		size -= 5;
		if (count > size)
			count = size;
		if (count > bytes - offset)
			count = (size_t)(bytes - offset);
		/* the site unmaps by this number, as nobody else does */
		if (offset <= offsetof(struct segment_header, bytes) + 8 &&
		    offset + count > offsetof(struct segment_header, bytes))
			count = 0;
		memcpy(base + offset, data, count);
		data += count;
		size -= count;
	}
}

static void note(unsigned number) {
	char name[32], relay_name[32];
	struct delivery_seen seen = { .name = name, .relay_name = relay_name,
		.mta = (uint8_t)(number % 8), .cloned = number % 2 == 0 };

	seen.name_length = (size_t)snprintf(name, sizeof(name),
	    "name%u.example", number);
	seen.relay_name_length = (size_t)snprintf(relay_name,
	    sizeof(relay_name), "mx%u.example", number);
	seen.relay = (struct address){ .bytes = { 1, [15] = (uint8_t)number } };
	if (!destinations_note(site.segment, &seen, clock_now_ns()))
		abort();
}

static void look_at_one(void *context, const struct destination_seen *seen) {
	struct destination_seen found;
	char relay_name[SEGMENT_NAME_MAX + 1];

	(*(unsigned *)context)++;
	if (!destinations_find(site.segment, seen->name, strlen(seen->name),
		&found) || strcmp(found.name, seen->name) != 0 ||
	    seen->relay_count > DESTINATION_RELAYS ||
	    seen->seen_ns > clock_now_ns() + NS_PER_SECOND)
		abort();
	for (unsigned i = 0; i < seen->relay_count; i++)
		(void)relays_find(site.segment, &seen->relays[i], relay_name);
}

static void look_at_destinations(void) {
	const struct segment_header *header = site.segment->header;
	struct feed_position positions[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	uint64_t destinations, relays;
	unsigned listed = 0;

	destinations_each(site.segment, look_at_one, &listed);
	destinations_used_in(header, header, &destinations, &relays);
	if (destinations != listed || relays > header->destination_count)
		abort();
	(void)feed_positions(site.segment, 1, positions, records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const struct feed_position start = { .log = 1, .device = 2, .inode = 3 };

	if (site.segment == NULL) {
		site_open_sized(&site, 64, 64, ALL);
		atexit(close_site);
	}
	for (uint16_t i = 1; i <= 8; i++)
		(void)site_inbound(&site, "192.0.2.1", i,
		    i % 2 ? "a.example" : NULL, NULL);
	for (unsigned i = 0; i < 40; i++)
		note(i);
	(void)feed_position_begin(site.segment, &start);
	spoil(data, size);
	site_restart(&site, 64, ALL);
	(void)site_inbound(&site, "192.0.2.9", 9, NULL, NULL);
	if (!site_is_consistent(&site))
		abort();
	look_at_destinations();
	for (unsigned i = 30; i < 200; i++)
		note(i);
	look_at_destinations();
	return 0;
}
