/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl journal stat: how large a journal is, and how much of it is garbage.
 * MODEL    All files are walked once.  Of messages what counts is the envelope of the
 *          highest sequence, and what a run has written since; of what was learned and done
 *          by hand all from the last whole checkpoint on.  The rest is garbage, whether it
 *          is marked so or not, as are the files below the first one that counts.
 * ERRORS   As journal check, which tells the places: here they are only counted.
 * THREADS  One.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "ctl/journal/journal.h"
#include "ctl/journal/journal_record.h"

#define SUFFIX		"suffix"

struct summing {
	const struct opened_journal *journal;
	struct known_messages known;
	struct journal_place begin, suffix;	/* {0, 0}: not said */
	uint64_t bytes, records, damaged, later;
	uint64_t heads;				/* bytes of them */
	uint64_t state;				/* of snapshots and the like that count */
	uint64_t begun;				/* of those since a checkpoint's begin */
	bool in_checkpoint;			/* it is not whole yet: those before it count, too */
	uint64_t checkpoint, void_before;	/* sequences: of its begin; of the last whole one */
	uint64_t suffix_bytes, suffix_records;
	uint64_t first, last;			/* sequences */
	int code;
};

/* --- walking ------------------------------------------------------------------------------ */

static bool is_before(struct journal_place a, struct journal_place b) {
	return journal_place_pack(a) < journal_place_pack(b);
}

/* What stands before a checkpoint's begin is garbage once its end is there. */
static void sum_state(struct summing *sum, const struct decoded *decoded,
    const struct journal_found *found) {
	uint32_t length = found->length;

	if (decoded->known && decoded->type == JOURNAL_CHECKPOINT_BEGIN) {
		sum->begun = 0;
		sum->checkpoint = found->frame.sequence;
		sum->in_checkpoint = true;
	}
	sum->state += length;
	sum->begun += length;
	if (decoded->known && decoded->type == JOURNAL_CHECKPOINT_END && sum->in_checkpoint) {
		sum->state = sum->begun;
		sum->void_before = sum->checkpoint;
		sum->in_checkpoint = false;
	}
}

static void sum_record(struct summing *sum, const struct journal_found *found) {
	const struct journal_frame *frame = &found->frame;
	struct decoded decoded;

	sum->records++;
	if (sum->first == 0 || frame->sequence < sum->first)
		sum->first = frame->sequence;
	if (frame->sequence > sum->last)
		sum->last = frame->sequence;
	if (!is_before(found->place, sum->suffix) && sum->suffix.file != 0) {
		sum->suffix_bytes += found->length;
		sum->suffix_records++;
	}
	if (found->kind == JOURNAL_FOUND_LATER || journal_type_word(frame->type) == NULL)
		sum->later++;
	if (is_before(found->place, sum->begin))
		return;
	journal_decode(frame, &decoded);
	if (decoded.known && decoded.type == JOURNAL_HEAD)
		sum->heads += found->length;
	else if (decoded_is_of_message(&decoded))
		(void)known_take(&sum->known, &decoded, frame, found->length);
	else
		sum_state(sum, &decoded, found);
}

static bool sum_found(void *context, const struct journal_found *found) {
	struct summing *sum = context;

	if (found->kind == JOURNAL_FOUND_RECORD || found->kind == JOURNAL_FOUND_LATER)
		sum_record(sum, found);
	else if ((found->kind == JOURNAL_FOUND_DAMAGE &&
	    !journal_needs_it_not(sum->journal, found)) ||
	    (found->kind == JOURNAL_FOUND_FAULT && found->error != ENOENT))
		sum->damaged++;
	return true;
}

/* --- what is told ------------------------------------------------------------------------- */

struct messages_found {
	uint64_t bytes, waiting, working;
};

static struct messages_found count_messages(const struct summing *sum) {
	struct messages_found found = { .bytes = 0 };

	for (size_t i = 0; i < sum->known.count; i++) {
		const struct known_message *message = &sum->known.list[i];

		if (message->state == KNOWN_DONE || message->sequence < sum->void_before)
			continue;
		found.bytes += message->bytes;
		found.waiting += message->state == KNOWN_WAITS;
		found.working += message->state == KNOWN_WORKS;
	}
	return found;
}

static void position_row(void *context, struct writer *writer, const void *item) {
	const struct journal_position *one = item;
	bool known = one->place.file != 0;

	(void)context;
	writer_text(writer, "position", one->name);
	writer_number_if(writer, "file", known, one->place.file);
	writer_number_if(writer, "offset", known, one->place.offset);
}

static void write_positions(struct summing *sum, struct writer *writer) {
	static const struct journal_positions none;
	const struct journal_positions *found = journal_positions_of(sum->journal);
	const struct journal_positions *positions = found == NULL ? &none : found;
	bool known = found != NULL;
	char time[JOURNAL_TIME_MAX];

	writer_member(writer, "recorded", COLUMN_TEXT, known ?
	    journal_time_value(positions->when_ns, time) : value_unknown());
	writer_number_if(writer, "synced", known, positions->synced);
	writer_number_if(writer, "syncs", known, positions->syncs);
	writer_number_if(writer, "deliveries", known, positions->results);
	writer_decimal(writer, "syncs_per_delivery", positions->results > 0 ?
	    value_decimal((double)positions->syncs / (double)positions->results) :
	    value_unknown());
	writer_table(writer, &(const struct table){ .name = "positions", .row = position_row,
	    .items = positions->positions, .each = sizeof(positions->positions[0]),
	    .count = positions->positions_count < JOURNAL_POSITIONS_MAX ? positions->positions_count :
	    JOURNAL_POSITIONS_MAX });
}

static void write_one(struct summing *sum, const char *name, struct writer *writer) {
	struct messages_found messages = count_messages(sum);
	const char *kind = journal_what_for(sum->journal);
	bool of_messages = strcmp(kind, "queue") == 0;
	bool suffix = sum->suffix.file != 0;
	uint64_t live = messages.bytes + sum->state + sum->heads;
	uint64_t garbage = sum->bytes > live ? sum->bytes - live : 0;

	writer_object_begin(writer, name);
	writer_text(writer, "directory", sum->journal->path);
	writer_text(writer, "kind", kind);
	writer_number(writer, "files", sum->journal->reader->files.count);
	writer_member(writer, "bytes", COLUMN_BYTES, value_number(sum->bytes));
	writer_member(writer, "garbage_bytes", COLUMN_BYTES, value_number(garbage));
	writer_decimal(writer, "garbage_percent", sum->bytes == 0 ? value_unknown() :
	    value_decimal(100.0 * (double)garbage / (double)sum->bytes));
	writer_number(writer, "records", sum->records);
	writer_number_if(writer, "first_sequence", sum->records > 0, sum->first);
	writer_number_if(writer, "last_sequence", sum->records > 0, sum->last);
	writer_number(writer, "damaged", sum->damaged);
	writer_number(writer, "later", sum->later);
	writer_number_if(writer, "queued", of_messages, messages.waiting + messages.working);
	writer_number_if(writer, "working", of_messages, messages.working);
	writer_member(writer, "suffix_bytes", COLUMN_BYTES, value_number_if(suffix,
	    sum->suffix_bytes));
	writer_number_if(writer, "suffix_records", suffix, sum->suffix_records);
	write_positions(sum, writer);
	writer_object_end(writer);
}

static int stat_one(struct ctl *ctl, const struct opened_journal *journal) {
	const char *name = journal->name != NULL ? journal->name : journal_what_for(journal);
	struct summing sum = { .journal = journal };
	const struct journal_positions *positions = journal_positions_of(journal);
	const struct journal_files *files = &journal->reader->files;
	int code = EX_OK;

	sum.begin = journal_reader_begin(journal->reader);
	for (uint32_t i = 0; positions != NULL && i < positions->positions_count; i++)
		if (strcmp(positions->positions[i].name, SUFFIX) == 0)
			sum.suffix = positions->positions[i].place;
	if (!journal_each(&journal->reader->files, (struct journal_place){ 0, 0 }, sum_found,
	    &sum))
		sum.known.no_memory = true;
	if (positions != NULL && positions->synced > sum.last && sum.damaged == 0)
		sum.damaged++;		/* the last files are gone */
	sum.damaged += journal_lacks_first(journal);
	for (uint32_t i = 0; i < files->count; i++)
		sum.bytes += files->files[i].size;
	if (sum.known.no_memory) {
		code = ctl_os_error(ENOMEM);
	} else {
		write_one(&sum, name, &ctl->writer);
	}
	if (sum.damaged > 0) {
		ctl_complain("%s: %" PRIu64 " place%s cannot be read; run \"posternctl journal "
		    "check\" to list them",
		    journal->path, sum.damaged, sum.damaged == 1 ? "" : "s");
		code = journal_worse(code, EX_DATAERR);
	}
	known_free(&sum.known);
	return code;
}

int command_JOURNAL_STAT(struct ctl *ctl) {
	struct opened_journals journals;
	int code = journals_open(ctl, &journals);

	if (code != EX_OK)
		return code;
	code = journals.code;
	writer_object_begin(&ctl->writer, NULL);
	for (size_t i = 0; i < journals.count; i++)
		code = journal_worse(code, stat_one(ctl, &journals.list[i]));
	writer_object_end(&ctl->writer);
	journals_close(&journals);
	return code;
}
