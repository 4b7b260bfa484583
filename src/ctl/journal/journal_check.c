/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl journal check: is every record of a journal as it was written?
 * MODEL    All files are walked, as recovery would.  What is not as it should be is a line
 *          with its place and what it means: notes are what a crash may leave behind,
 *          errors are what nothing of Postern's does.
 * ERRORS   Damage: EX_DATAERR; what only a later version can read: EX_PROTOCOL; a file
 *          that cannot be read: EX_IOERR.  A journal that is being written and deleted
 *          meanwhile is none of them.
 * THREADS  One.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "ctl/journal/journal.h"
#include "ctl/journal/journal_record.h"

enum finding { FINDING_TORN, FINDING_DAMAGE, FINDING_LATER, FINDING_FAULT, FINDING_FOREIGN,
	FINDING_KEPT, FINDING_COUNT };

static const char *const finding_words[FINDING_COUNT] = { "torn", "damage", "later",
	"unreadable", "foreign", "kept" };

struct checking {
	struct writer *writer;
	const struct opened_journal *journal;
	uint64_t records;
	uint32_t last;			/* file in which anything was found */
	uint64_t sequence;		/* the highest that was read */
	uint64_t found[FINDING_COUNT];
	uint32_t walked;		/* files, and their bytes */
	uint64_t bytes;
};

/* --- what is found ------------------------------------------------------------------------ */

static void note_finding(struct checking *checking, enum finding finding,
    struct journal_place place, uint32_t bytes, const char *format, ...) __attribute__((format(printf, 5, 6)));

static void note_finding(struct checking *checking, enum finding finding,
    struct journal_place place, uint32_t bytes, const char *format, ...) {
	struct writer *writer = checking->writer;
	struct journal_place_text file;
	const char *severity = finding == FINDING_TORN || finding == FINDING_FOREIGN ||
	    finding == FINDING_KEPT ? "note" : "error";
	char text[512], where[sizeof(file.text) + 16];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	checking->found[finding]++;
	journal_file_path(checking->journal, place.file, &file);
	if (finding == FINDING_FOREIGN)
		snprintf(file.text, sizeof(file.text), "%s", checking->journal->path);
	progress_hide();
	if (writer->json) {
		writer_row_begin(writer);
		writer_text(writer, "journal", journal_what_for(checking->journal));
		writer_text(writer, "file", file.text);
		writer_number(writer, "offset", place.offset);
		writer_number(writer, "bytes", bytes);
		writer_text(writer, "finding", finding_words[finding]);
		writer_text(writer, "severity", severity);
		writer_text(writer, "text", text);
		writer_row_end(writer);
		return;
	}
	snprintf(where, sizeof(where), "%s:%" PRIu32, file.text, place.offset);
	writer_message(writer, where, severity, text);
}

/* --- positions ---------------------------------------------------------------------------- */

static void check_slots(struct checking *checking) {
	const struct journal_reader *reader = checking->journal->reader;

	for (uint32_t i = 0; i < JOURNAL_SLOTS; i++) {
		struct journal_place place = { 0, i * JOURNAL_SLOT };

		if (reader->slots[i].state == JOURNAL_SLOT_LATER)
			note_finding(checking, FINDING_LATER, place, JOURNAL_SLOT,
			    "positions of a later version: not used");
		else if (reader->slots[i].state == JOURNAL_SLOT_DAMAGED && reader->slot >= 0)
			note_finding(checking, FINDING_TORN, place, JOURNAL_SLOT,
			    "these positions are being written, or were when posternd stopped; "
			    "the others are used");
		else if (reader->slots[i].state == JOURNAL_SLOT_DAMAGED)
			note_finding(checking, FINDING_DAMAGE, place, JOURNAL_SLOT,
			    "damage: these positions cannot be read, and there are no others: "
			    "the next start reads all files");
	}
}

/* --- records ------------------------------------------------------------------------------ */

/* A mark is all ones or all zeros. */
static void check_mark(struct checking *checking, const struct journal_found *found) {
	uint8_t mark = found->frame.mark;
	struct journal_place place = found->place;

	if (mark == JOURNAL_LIVE || mark == JOURNAL_GARBAGE)
		return;
	place.offset += JOURNAL_MARK_AT;
	note_finding(checking, FINDING_DAMAGE, place, 1, "damage: the garbage mark is %02x; most of "
	    "its bits mark the record as %s",
	    (unsigned)mark, journal_mark_is_live(mark) ? "live" : "garbage");
}

/* Its checksum is right: whoever wrote it wrote nonsense. */
static void check_payload(struct checking *checking, const struct journal_found *found) {
	const char *word = journal_type_word(found->frame.type);
	struct decoded decoded;

	journal_decode(&found->frame, &decoded);
	if (word == NULL)
		note_finding(checking, FINDING_LATER, found->place, found->length,
		    "record %" PRIu64 " has type %u of a later Postern; this version skips it",
		    found->frame.sequence, (unsigned)found->frame.type);
	else if (decoded.spoiled)
		note_finding(checking, FINDING_DAMAGE, found->place, found->length,
		    "damage: record %" PRIu64 " has no valid %s; skipped",
		    found->frame.sequence, word);
}

static void check_damage(struct checking *checking, const struct journal_found *found) {
	if (found->expected == 0)
		note_finding(checking, FINDING_DAMAGE, found->place, found->length,
		    "damage: %s; data synced there cannot be read", found->why);
	else if (found->missing > 0)
		note_finding(checking, FINDING_DAMAGE, found->place, found->length,
		    "damage: %s; %" PRIu64 " synced record%s from %" PRIu64 " on cannot be "
		    "read", found->why, found->missing, found->missing == 1 ? "" : "s",
		    found->expected);
	else
		note_finding(checking, FINDING_DAMAGE, found->place, found->length,
		    "damage: %s; synced record %" PRIu64 " cannot be read",
		    found->why, found->expected);
}

static void check_torn(struct checking *checking, const struct journal_found *found) {
	note_finding(checking, FINDING_TORN, found->place, found->length,
	    "torn tail: %s%s: no acknowledged data is lost", found->why,
	    found->ends ? " (after a crash, or being written now)" : "");
}

static void take_sequence(struct checking *checking, const struct journal_found *found) {
	checking->records++;
	if (found->frame.sequence > checking->sequence)
		checking->sequence = found->frame.sequence;
}

static void check_found(struct checking *checking, const struct journal_found *found) {
	switch (found->kind) {
	case JOURNAL_FOUND_RECORD:
		take_sequence(checking, found);
		check_mark(checking, found);
		check_payload(checking, found);
		break;
	case JOURNAL_FOUND_LATER:
		take_sequence(checking, found);
		check_mark(checking, found);
		note_finding(checking, FINDING_LATER, found->place, found->length,
		    "record %" PRIu64 " has version %u of a later Postern; this version skips "
		    "it", found->frame.sequence, (unsigned)found->frame.version);
		break;
	case JOURNAL_FOUND_DAMAGE:
		if (!journal_needs_it_not(checking->journal, found))
			check_damage(checking, found);
		break;
	case JOURNAL_FOUND_TORN:
		check_torn(checking, found);
		break;
	case JOURNAL_FOUND_FAULT:
		if (found->error != ENOENT)	/* all of it was garbage meanwhile */
			note_finding(checking, FINDING_FAULT, found->place, 0, "%s",
			    strerror(found->error));
		break;
	case JOURNAL_FOUND_END:
		break;
	}
}

/* The first or the last files are gone: nothing that is there tells of them, but the
 * positions do. */
static void check_ends(struct checking *checking) {
	const struct journal_positions *positions = journal_positions_of(checking->journal);

	if (journal_lacks_first(checking->journal))
		note_finding(checking, FINDING_DAMAGE, (struct journal_place){ positions->first_file, 0 },
		    0, "damage: this file and all files up to the first existing one are "
		        "missing");
	if (positions != NULL && positions->synced > checking->sequence &&
	    checking->found[FINDING_DAMAGE] == 0)
		note_finding(checking, FINDING_DAMAGE, positions->synced_place, 0,
		    "damage: record %" PRIu64 " and those before it, from %" PRIu64 " on, were "
		    "synced but are missing", positions->synced,
		    checking->sequence + 1);
}

/* Nothing deletes them. */
static void check_kept(struct checking *checking) {
	const struct journal_positions *positions = journal_positions_of(checking->journal);
	const struct journal_files *files = &checking->journal->reader->files;

	for (uint32_t i = 0; positions != NULL && i < files->count; i++)
		if (files->files[i].number < positions->kept)
			note_finding(checking, FINDING_KEPT,
			    (struct journal_place){ files->files[i].number, 0 },
			    files->files[i].size, "a file of another state: not read, not used "
			    "and never deleted by posternd; delete it if you do not need it");
}

/* Files behind the place where the log ends: they are looked at no more. */
static void check_left(struct checking *checking) {
	const struct journal_files *files = &checking->journal->reader->files;

	for (uint32_t i = 0; i < files->count; i++) {
		const struct journal_file *file = &files->files[i];
		struct journal_place place = { file->number, 0 };

		if (file->number <= checking->last && !file->superseded)
			continue;
		if (file->head_state == JOURNAL_HEAD_LATER)
			note_finding(checking, FINDING_LATER, place, file->size,
			    "this file has version %u of a later Postern; this version skips "
			    "it", (unsigned)file->version);
		else
			note_finding(checking, FINDING_TORN, place, file->size,
			    "nothing in this file is used: it follows a torn tail and was "
			    "never synced, or all of it was rewritten");
	}
}

/* For progress: files are walked in their order. */
static uint64_t bytes_before(struct checking *checking, struct journal_place place) {
	const struct journal_files *files = &checking->journal->reader->files;

	while (checking->walked < files->count &&
	    files->files[checking->walked].number < place.file)
		checking->bytes += files->files[checking->walked++].size;
	return checking->bytes + place.offset;
}

static uint64_t bytes_of(const struct journal_files *files) {
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < files->count; i++)
		bytes += files->files[i].size;
	return bytes;
}

static bool check_next(void *context, const struct journal_found *found) {
	struct checking *checking = context;

	progress_step(bytes_before(checking, found->place));
	check_found(checking, found);
	if (found->place.file > checking->last)
		checking->last = found->place.file;
	return true;
}

static int check_records(struct checking *checking) {
	if (!journal_each(&checking->journal->reader->files, (struct journal_place){ 0, 0 },
	    check_next, checking))
		return ctl_os_error(ENOMEM);
	check_left(checking);
	check_kept(checking);
	check_ends(checking);
	return EX_OK;
}

/* --- all of it ---------------------------------------------------------------------------- */

static const char *plural(uint64_t count) {
	return count == 1 ? "" : "s";
}

static void write_verdict(const struct checking *checking) {
	const struct journal_files *files = &checking->journal->reader->files;
	const uint64_t *found = checking->found;
	FILE *out = checking->writer->out;
	bool bad = false;

	writer_print(out, checking->journal->path);
	fprintf(out, ": %" PRIu32 " file%s, %" PRIu64 " record%s", files->count,
	    plural(files->count), checking->records, plural(checking->records));
	if (found[FINDING_TORN] > 0)
		fprintf(out, ", %" PRIu64 " torn tail%s", found[FINDING_TORN],
		    plural(found[FINDING_TORN]));
	if (found[FINDING_DAMAGE] > 0)
		fprintf(out, ", %" PRIu64 " damaged place%s", found[FINDING_DAMAGE],
		    plural(found[FINDING_DAMAGE]));
	if (found[FINDING_LATER] > 0)
		fprintf(out, ", %" PRIu64 " of a later version", found[FINDING_LATER]);
	if (found[FINDING_FAULT] > 0)
		fprintf(out, ", %" PRIu64 " unreadable", found[FINDING_FAULT]);
	bad = found[FINDING_DAMAGE] + found[FINDING_LATER] + found[FINDING_FAULT] > 0;
	fputs(bad ? "\n" : ": intact\n", out);
}

static int code_of(const struct checking *checking) {
	return checking->found[FINDING_FAULT] > 0 ? EX_IOERR :
	    checking->found[FINDING_DAMAGE] > 0 ? EX_DATAERR :
	    checking->found[FINDING_LATER] > 0 ? EX_PROTOCOL : EX_OK;
}

static int check_one(struct ctl *ctl, const struct opened_journal *journal) {
	struct checking checking = { .writer = &ctl->writer, .journal = journal };
	int code;

	check_slots(&checking);
	progress_begin("journal check", bytes_of(&journal->reader->files));
	code = check_records(&checking);
	progress_end();
	if (journal->reader->files.foreign > 0)
		note_finding(&checking, FINDING_FOREIGN, (struct journal_place){ 0, 0 }, 0,
		    "in the directory: %" PRIu32 " name%s not part of the journal",
		    journal->reader->files.foreign, plural(journal->reader->files.foreign));
	if (!ctl->writer.json)
		write_verdict(&checking);
	return journal_worse(code, code_of(&checking));
}

int command_JOURNAL_CHECK(struct ctl *ctl) {
	struct opened_journals journals;
	int code = journals_open(ctl, &journals);

	if (code != EX_OK)
		return code;
	code = journals.code;
	if (ctl->writer.json)
		writer_list_begin(&ctl->writer, NULL);
	for (size_t i = 0; i < journals.count; i++)
		code = journal_worse(code, check_one(ctl, &journals.list[i]));
	if (ctl->writer.json)
		writer_list_end(&ctl->writer);
	journals_close(&journals);
	return code;
}
