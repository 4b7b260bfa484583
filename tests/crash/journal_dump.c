/* SPDX-License-Identifier: ISC */
/* All records of a journal upon a disk, on standard error: for tests that failed. */
#include <inttypes.h>
#include <stdio.h>

#include "journal/reader.h"
#include "tests/crash/journal_world.h"
#include "tests/crash/storage_faulty.h"

static void dump_record(const struct journal_found *found) {
	const struct journal_frame *frame = &found->frame;
	struct journal_envelope envelope;
	struct journal_start start;
	struct journal_delivery delivery;
	struct journal_finish finish;
	const char *word = journal_type_word(frame->type);

	fprintf(stderr, "%6" PRIu32 " %6" PRIu32 " %s #%" PRIu64 " behind %" PRIu32 " %s",
	    found->place.file, found->place.offset,
	    journal_mark_is_live(frame->mark) ? "live   " : "garbage", frame->sequence,
	    frame->behind, word == NULL ? "?" : word);
	if ((frame->type == JOURNAL_ENVELOPE || frame->type == JOURNAL_REPLACEMENT) &&
	    journal_envelope_read(frame->payload, frame->length, &envelope))
		fprintf(stderr, " %.*s stamp %" PRIu64 " old %" PRIu32 " %" PRIu32
		    " replaces #%" PRIu64, envelope.id.length, envelope.id.text, envelope.stamp,
		    envelope.old.file, envelope.old.offset, envelope.replaces);
	if (frame->type == JOURNAL_START &&
	    journal_start_read(frame->payload, frame->length, &start))
		fprintf(stderr, " of %" PRIu32 " %" PRIu32, start.envelope.file,
		    start.envelope.offset);
	if (frame->type == JOURNAL_DELIVERY &&
	    journal_delivery_read(frame->payload, frame->length, &delivery))
		fprintf(stderr, " of start #%" PRIu64 ": %" PRIu32 " at %.*s, left %" PRIu32,
		    delivery.start, delivery.recipients, delivery.domain.length,
		    delivery.domain.text, delivery.left);
	if (frame->type == JOURNAL_FINISH &&
	    journal_finish_read(frame->payload, frame->length, &finish))
		fprintf(stderr, " of start #%" PRIu64 ", old %" PRIu32 " %" PRIu32, finish.start,
		    finish.old.file, finish.old.offset);
	fputc('\n', stderr);
}

static void dump_positions(const struct journal_reader *reader) {
	const struct journal_positions *positions;

	if (reader->slot < 0) {
		fprintf(stderr, "no positions\n");
		return;
	}
	positions = &reader->slots[reader->slot].positions;
	fprintf(stderr, "positions %" PRIu64 ": synced #%" PRIu64 " %" PRIu32 " %" PRIu32
	    ", first file %" PRIu32, reader->slots[reader->slot].serial, positions->synced,
	    positions->synced_place.file, positions->synced_place.offset,
	    positions->first_file);
	for (uint32_t i = 0; i < positions->positions_count; i++)
		fprintf(stderr, ", %s %" PRIu32 " %" PRIu32, positions->positions[i].name,
		    positions->positions[i].place.file, positions->positions[i].place.offset);
	fputc('\n', stderr);
}

void world_dump(struct disk *disk) {
	struct journal_storage *storage = storage_faulty(disk);
	struct journal_reader *reader = NULL;
	struct journal_cursor *cursor;
	struct journal_found found;
	struct diag diag;

	if (journal_reader_open(&reader, storage, &diag) != 0) {
		storage_faulty_close(&storage);
		return;
	}
	dump_positions(reader);
	for (uint32_t i = 0; i < reader->files.count; i++) {
		const struct journal_file *file = &reader->files.files[i];

		fprintf(stderr, "file %" PRIu32 " size %" PRIu32 " end %" PRIu32
		    "%s%s previous %" PRIu32 " %" PRIu32 "\n", file->number, file->size, file->end,
		    file->end_known ? " known" : "", file->superseded ? " superseded" : "",
		    file->head.previous, file->head.previous_end);
	}
	cursor = journal_cursor_open(&reader->files);
	while (journal_cursor_next(cursor, &found) != JOURNAL_FOUND_END) {
		if (found.kind == JOURNAL_FOUND_RECORD || found.kind == JOURNAL_FOUND_LATER)
			dump_record(&found);
		else
			fprintf(stderr, "%6" PRIu32 " %6" PRIu32 " %" PRIu32 " bytes: %s (%s)\n",
			    found.place.file, found.place.offset, found.length,
			    found.kind == JOURNAL_FOUND_TORN ? "torn" :
			    found.kind == JOURNAL_FOUND_DAMAGE ? "damage" : "fault",
			    found.why != NULL ? found.why : "");
	}
	journal_cursor_close(&cursor);
	journal_reader_close(&reader);
	storage_faulty_close(&storage);
}
