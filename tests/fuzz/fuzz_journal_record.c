/* SPDX-License-Identifier: ISC */
/*
 * Any bytes as the payload of each type of record, as a frame, and as the begin of a file.
 * What is read is written again and read once more: the same then.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/journal/journal_samples.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t once[2 * JOURNAL_PAYLOAD_MAX], twice[2 * JOURNAL_PAYLOAD_MAX];

static void payload(unsigned type, const uint8_t *data, size_t size) {
	long first = sample_rewrite(type, data, size, once, sizeof(once));
	long second;

	if (first < 0)
		return;
	second = sample_rewrite(type, once, (size_t)first, twice, sizeof(twice));
	if (second != first || memcmp(once, twice, (size_t)first) != 0)
		abort();
}

static void frame(const uint8_t *data, size_t size) {
	struct journal_frame found;
	struct journal_head head;

	if (journal_frame_read(data, size, 0, &found) == JOURNAL_FRAME_GOOD) {
		if (found.length > size - JOURNAL_HEADER ||
		    journal_frame_synced(&found) > found.sequence)
			abort();
		payload(found.type, found.payload, found.length);
	}
	journal_head_read(data, size, &head, &found);
}

/* The same with a right checksum: what it guards is read, too. */
static void summed(const uint8_t *data, size_t size) {
	struct journal_frame made = { .mark = JOURNAL_LIVE, .version = 1, .sequence = 9,
		.behind = 1 };
	struct journal_frame found;
	struct journal_head head;
	uint8_t *bytes;
	size_t length;

	if (size == 0 || size > JOURNAL_PAYLOAD_MAX ||
	    (bytes = malloc(JOURNAL_HEADER + size)) == NULL)
		return;
	made.type = data[0] % 16;
	made.length = (uint32_t)size;
	made.payload = data;
	length = journal_frame_write(bytes, &made, 0);
	if (journal_frame_read(bytes, length, 0, &found) != JOURNAL_FRAME_GOOD ||
	    found.length != size)
		abort();
	journal_head_read(bytes, length, &head, &found);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	for (unsigned type = 0; type < 16; type++)
		payload(type, data, size);
	frame(data, size);
	summed(data, size);
	return 0;
}
