/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Gives mail to sources that are warmed up.
 * MODEL    The first source that has a number left takes it, before the answer; which sources there
 *          are says the copied header, how many numbers the file of its id (given.h).
 * ERRORS   Without that file mail goes as without sources.
 * THREADS  One.
 */
#include "segment/hints/hints_reader_internal.h"

#include <stdio.h>
#include <string.h>

#define OPEN_AGAIN_NS	(100 * NS_PER_MS)

uint64_t hints_transport(const char *transport) {
	static const struct siphash_key anybody = { 0, 0 };

	return siphash13(&anybody, transport, strlen(transport)) | 2;
}

uint32_t hints_reader_row(const struct hints_reader *reader, uint32_t number) {
	const struct hints_pace *pace = (const void *)((const char *)reader->live +
	    reader->header.paces_offset);
	uint64_t row = number < reader->header.pace_count ? RELAXED(pace[number].row) : 0;

	return row < GIVEN_ROWS ? (uint32_t)row : 0;
}

static struct given_out *find_given(struct hints_reader *reader) {
	if (reader->given_out == NULL && (reader->given_ns == 0 ||
		reader->now_ns - reader->given_ns >= OPEN_AGAIN_NS)) {
		reader->given_ns = reader->now_ns;
		reader->given_out = given_open_for_taking(reader->path, reader->header.given_id);
	}
	return reader->given_out;
}

bool hints_reader_lacks_numbers(const struct hints_reader *reader) {
	return reader->live != NULL && reader->given_ns != 0 && reader->given_out == NULL;
}

static bool has_transport(const struct hints_reader *reader, uint64_t transport) {
	return reader->has_transport(reader->has_context, transport);
}

bool hints_reader_send(struct hints_reader *reader, uint32_t row, struct hints_answer *answer) {
	const struct hints_file_source *source = reader->header.sources;
	uint32_t count = reader->header.source_count;
	struct given_out *given = count == 0 ? NULL : find_given(reader);

	if (given == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++, source++)
		if (has_transport(reader, source->transport) &&
		    given_take(given, source->is_per_provider ? row : 0, i)) {
			answer->kind = HINTS_SOURCE;
			answer->transport = source->transport;
			return true;
		}
	source--;
	if (source->over == HINTS_OVER_GOES_ON ||
	    (source->over != HINTS_OVER_WAITS && !has_transport(reader, source->over)))
		return false;
	answer->kind = source->over == HINTS_OVER_WAITS ? HINTS_HELD : HINTS_SOURCE;
	answer->transport = source->over;
	if (answer->kind == HINTS_HELD)
		(void)snprintf(answer->text, sizeof(answer->text), HINTS_WARM_BEGINS
		    "%.*s: the number of the day is used", HINTS_SOURCE_NAME_MAX, source->name);
	return true;
}
