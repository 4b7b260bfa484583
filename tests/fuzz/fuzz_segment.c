/* SPDX-License-Identifier: ISC */
/*
 * Adoption of a state file that anybody may have written.  Input: records of
 * 4 bytes offset (in 8-byte words, of the file), 1 byte count, then so many
 * bytes that are put there.  Whatever comes out must count what its slots say
 * and answer questions.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	if (site.segment == NULL) {
		site_open(&site, 64, ALL);
		atexit(close_site);
	}
	for (uint16_t i = 1; i <= 8; i++)
		(void)site_inbound(&site, "192.0.2.1", i,
		    i % 2 ? "a.example" : NULL, NULL);
	spoil(data, size);
	site_restart(&site, 64, ALL);
	(void)site_inbound(&site, "192.0.2.9", 9, NULL, NULL);
	if (!site_is_consistent(&site))
		abort();
	return 0;
}
