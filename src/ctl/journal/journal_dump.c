/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl journal dump: the records of a journal, a line each.
 * MODEL    The journal's reader tells them in their order; each has its place and its
 *          header's members, then those of its type (journal_fields.c).  Names that came
 *          with mail are printed as the writer prints whatever it is given.
 * ERRORS   What cannot be read is complained about and passed over, with the exit code of
 *          journal check.
 * THREADS  One.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "ctl/journal/journal.h"
#include "ctl/journal/journal_record.h"
#include "view/name_pattern.h"

#define DOMAIN_MAX	1024

struct dumping {
	struct writer *writer;
	const struct opened_journal *journal;
	struct known_messages known;
	const char *id;			/* NULL: any */
	const struct mask *destination;	/* NULL: any */
	unsigned type;			/* 0: any */
	int code;
};

/* --- which ones --------------------------------------------------------------------------- */

static bool domain_fits(const struct dumping *dumping, struct journal_text domain) {
	char name[DOMAIN_MAX];

	if (domain.length == 0 || domain.length >= sizeof(name) ||
	    memchr(domain.text, '\0', domain.length) != NULL)
		return false;
	text_copy(name, sizeof(name), domain.text, domain.length);
	return name_fits(name, dumping->destination);
}

/* What stands behind the last @, or all of it. */
static struct journal_text domain_of(struct journal_text address) {
	for (uint16_t i = address.length; i > 0; i--)
		if (address.text[i - 1] == '@')
			return (struct journal_text){ address.text + i,
				(uint16_t)(address.length - i) };
	return address;
}

static bool destination_fits(const struct dumping *dumping, const struct decoded *decoded) {
	struct journal_list groups = decoded->record.envelope.groups;
	struct journal_group group;

	switch (decoded->type) {
	case JOURNAL_ENVELOPE:
	case JOURNAL_REPLACEMENT:
		while (journal_group_next(&groups, &group))
			if (domain_fits(dumping, group.domain))
				return true;
		return false;
	case JOURNAL_DELIVERY:
		return domain_fits(dumping, decoded->record.delivery.domain);
	case JOURNAL_DESTINATION:
		return domain_fits(dumping, decoded->record.destination.name);
	case JOURNAL_HELD_RECIPIENT:
		return domain_fits(dumping, domain_of(decoded->record.held_recipient.address));
	case JOURNAL_MANUAL:
		return decoded->record.manual.what != JOURNAL_ON_CLASS &&
		    domain_fits(dumping, domain_of(decoded->record.manual.name));
	default:
		return false;
	}
}

static bool is_wanted(const struct dumping *dumping, const struct decoded *decoded,
    const char *id) {
	if (dumping->type != 0 && (unsigned)decoded->type != dumping->type)
		return false;
	if (dumping->id != NULL &&
	    (!decoded_is_of_message(decoded) || id == NULL || strcmp(id, dumping->id) != 0))
		return false;
	if (dumping->destination != NULL &&
	    (!decoded->known || decoded->spoiled || !destination_fits(dumping, decoded)))
		return false;
	return true;
}

/* --- lines -------------------------------------------------------------------------------- */

static void begin_line(const struct dumping *dumping, struct journal_place place,
    const char *type, uint64_t sequence) {
	struct writer *writer = dumping->writer;
	struct journal_place_text file;

	writer_line_begin(writer);
	writer_text(writer, "journal", journal_what_for(dumping->journal));
	writer_text(writer, "file", journal_file_path(dumping->journal, place.file, &file));
	writer_number(writer, "offset", place.offset);
	writer_number(writer, "sequence", sequence);
	writer_text(writer, "type", type);
}

static void write_head(const struct dumping *dumping, struct journal_place place) {
	const struct journal_file *file = journal_files_find(&dumping->journal->reader->files,
	    place.file);
	struct writer *writer = dumping->writer;
	char time[JOURNAL_TIME_MAX];

	if (file == NULL || file->head_state != JOURNAL_HEAD_GOOD)
		return;
	writer_text(writer, "kind", journal_kind_word(file->head.kind));
	writer_number(writer, "number", file->head.number);
	writer_member(writer, "created", COLUMN_TEXT,
	    journal_time_value(file->head.created_ns, time));
	writer_member(writer, "previous", COLUMN_NUMBER,
	    file->head.previous == 0 ? value_unknown() : value_number(file->head.previous));
	writer_member(writer, "previous_end", COLUMN_NUMBER,
	    file->head.previous == 0 ? value_unknown() : value_number(file->head.previous_end));
}

static void dump_record(struct dumping *dumping, const struct journal_found *found) {
	const struct journal_frame *frame = &found->frame;
	struct writer *writer = dumping->writer;
	const char *word = journal_type_word(frame->type), *id;
	struct decoded decoded;
	char number[16] = "";

	journal_decode(frame, &decoded);
	id = known_id(&dumping->known,
	    known_take(&dumping->known, &decoded, frame, found->length));
	if (!is_wanted(dumping, &decoded, id))
		return;
	text_append(number, sizeof(number), 0, "%u", (unsigned)frame->type);
	begin_line(dumping, found->place, word != NULL ? word : number, frame->sequence);
	writer_number(writer, "version", frame->version);
	writer_number(writer, "bytes", found->length);
	writer_truth(writer, "garbage", !journal_mark_is_live(frame->mark));
	writer_number(writer, "synced", journal_frame_synced(frame));
	if (decoded.spoiled)
		writer_truth(writer, "spoiled", true);
	else if (decoded.known && decoded.type == JOURNAL_HEAD)
		write_head(dumping, found->place);
	else if (decoded.known)
		decoded_write(&decoded, id, writer);
	writer_line_end(writer);
}

/* The slots of the file positions, the one that counts last. */
static void dump_positions(const struct dumping *dumping) {
	const struct journal_reader *reader = dumping->journal->reader;
	struct decoded decoded = { .known = true, .type = JOURNAL_POSITIONS };

	if (!is_wanted(dumping, &decoded, NULL))
		return;
	for (int i = 0; i < JOURNAL_SLOTS; i++) {
		int slot = reader->slot < 0 ? i : (reader->slot + 1 + i) % JOURNAL_SLOTS;
		const struct journal_slot *one = &reader->slots[slot];

		if (one->state != JOURNAL_SLOT_GOOD)
			continue;
		decoded.record.positions = one->positions;
		begin_line(dumping, (struct journal_place){ 0, (uint32_t)slot * JOURNAL_SLOT },
		    journal_type_word(JOURNAL_POSITIONS), one->serial);
		writer_truth(dumping->writer, "counts", slot == reader->slot);
		decoded_write(&decoded, NULL, dumping->writer);
		writer_line_end(dumping->writer);
	}
}

/* --- all of it ---------------------------------------------------------------------------- */

static void complain_of(struct dumping *dumping, const struct journal_found *found) {
	struct journal_place_text file;
	const char *what = found->kind == JOURNAL_FOUND_TORN ? "torn tail" :
	    found->kind == JOURNAL_FOUND_FAULT ? "unreadable" : "damage";

	if (found->kind == JOURNAL_FOUND_FAULT && found->error == ENOENT)
		return;
	journal_file_path(dumping->journal, found->place.file, &file);
	ctl_complain("%s:%" PRIu32 ": %s: %s", file.text, found->place.offset, what,
	    found->kind == JOURNAL_FOUND_FAULT ? strerror(found->error) : found->why);
	if (found->kind != JOURNAL_FOUND_TORN)
		dumping->code = journal_worse(dumping->code,
		    found->kind == JOURNAL_FOUND_FAULT ? EX_IOERR : EX_DATAERR);
}

static bool dump_found(void *context, const struct journal_found *found) {
	if (found->kind == JOURNAL_FOUND_RECORD || found->kind == JOURNAL_FOUND_LATER)
		dump_record(context, found);
	else
		complain_of(context, found);
	return true;
}

static void dump_one(struct dumping *dumping) {
	dump_positions(dumping);
	if (!journal_each(&dumping->journal->reader->files, (struct journal_place){ 0, 0 },
	    dump_found, dumping))
		dumping->known.no_memory = true;
}

/* False: complained about. */
static bool find_type(const char *word, unsigned *type) {
	char known[512] = "";
	size_t length = 0;

	*type = 0;
	for (unsigned number = 1; word != NULL && number <= UINT8_MAX; number++) {
		const char *other = journal_type_word(number);

		if (other == NULL)
			continue;
		if (strcmp(word, other) == 0) {
			*type = number;
			return true;
		}
		length = text_append(known, sizeof(known), length, "%s%s",
		    length > 0 ? ", " : "", other);
	}
	if (word != NULL)
		ctl_usage(COMMAND_JOURNAL_DUMP, "--type %s: must be %s", word, known);
	return word == NULL;
}

int command_JOURNAL_DUMP(struct ctl *ctl) {
	struct dumping dumping = { .writer = &ctl->writer, .id = ctl->id };
	struct opened_journals journals;
	struct mask mask;
	const char *why;
	int code;

	if (!find_type(ctl->type, &dumping.type))
		return EX_USAGE;
	if (ctl->destination != NULL) {
		if (!name_pattern(ctl->destination, &mask, &why))
			return ctl_usage(COMMAND_JOURNAL_DUMP, "bad pattern %s: %s",
			    ctl->destination, why);
		dumping.destination = &mask;
	}
	code = journals_open(ctl, &journals);
	if (code != EX_OK)
		return code;
	dumping.code = journals.code;
	for (size_t i = 0; i < journals.count; i++) {
		dumping.journal = &journals.list[i];
		dump_one(&dumping);
		if (dumping.known.no_memory)
			dumping.code = ctl_os_error(ENOMEM);
		known_free(&dumping.known);
	}
	journals_close(&journals);
	return dumping.code;
}
