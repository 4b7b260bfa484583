/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Finds and opens the journals that a command looks at.
 * MODEL    A directory that has a subdirectory of a journal's name is what journal.path
 *          names; any other is one journal.  Everything goes through the journal's reader,
 *          which writes nothing and takes no lock.
 * ERRORS   Complained about, with an exit code.
 * THREADS  One.
 */
#include "ctl/journal/journal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "base/text.h"

/* --- of one ------------------------------------------------------------------------- */

const char *journal_file_path(const struct opened_journal *journal, uint32_t number,
    struct journal_place_text *out) {
	char name[JOURNAL_NAME_MAX + 1] = JOURNAL_POSITIONS_NAME;

	if (number != 0)
		journal_file_name(number, name);
	snprintf(out->text, sizeof(out->text), "%s/%s", journal->path, name);
	return out->text;
}

const char *journal_what_for(const struct opened_journal *journal) {
	const struct journal_files *files = &journal->reader->files;

	for (uint32_t i = 0; i < files->count; i++)
		if (files->files[i].head_state == JOURNAL_HEAD_GOOD)
			return journal_kind_word(files->files[i].head.kind);
	return journal_kind_word(0);
}

const struct journal_positions *journal_positions_of(const struct opened_journal *journal) {
	const struct journal_reader *reader = journal->reader;

	return reader->slot < 0 ? NULL : &reader->slots[reader->slot].positions;
}

bool journal_lacks_first(const struct opened_journal *journal) {
	const struct journal_positions *positions = journal_positions_of(journal);
	const struct journal_files *files = &journal->reader->files;

	/* one that goes on from nowhere was begun when the others were gone, with all anew */
	return positions != NULL && positions->first_file != 0 && files->count > 0 &&
	    files->files[0].number > positions->first_file &&
	    files->files[0].head.previous >= positions->first_file;
}

bool journal_needs_it_not(const struct opened_journal *journal,
    const struct journal_found *found) {
	const struct journal_positions *positions = journal_positions_of(journal);

	return positions != NULL && found->kind == JOURNAL_FOUND_DAMAGE &&
	    found->place.offset == 0 && found->length == 0 &&
	    found->place.file <= positions->first_file;
}

/* Usage and the system's own troubles come first, then damage, then a later version. */
int journal_worse(int code, int other) {
	static const int order[] = { EX_OSERR, EX_IOERR, EX_NOPERM, EX_NOINPUT, EX_UNAVAILABLE,
		EX_DATAERR, EX_PROTOCOL };

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		if (code == order[i] || other == order[i])
			return order[i];
	return EX_OK;
}

/* --- finding them --------------------------------------------------------------------- */

static int code_of(int error, bool named) {
	switch (error) {
	case ENOENT: case ENOTDIR: case EINVAL: case ELOOP: case ENAMETOOLONG:
		return named ? EX_NOINPUT : EX_UNAVAILABLE;
	case EACCES: case EPERM:
		return EX_NOPERM;
	case EIO:
		return EX_IOERR;
	default:
		return EX_OSERR;
	}
}

#define OPEN_TRIES	10

static uint64_t serial_of(const struct journal_reader *reader) {
	return reader->slot < 0 ? 0 : reader->slots[reader->slot].serial;
}

/* The files and the positions as they were at one time: while both are being written they
 * are read until no other positions came in between. */
static int open_reader(struct opened_journal *journal, struct diag *diag) {
	int error = -journal_reader_open_path(&journal->reader, journal->path, diag);

	for (unsigned tries = 0; error == 0 && tries < OPEN_TRIES; tries++) {
		uint64_t serial = serial_of(journal->reader);

		journal_reader_close(&journal->reader);
		error = -journal_reader_open_path(&journal->reader, journal->path, diag);
		if (error == 0 && serial_of(journal->reader) == serial)
			break;
	}
	return error;
}

static void open_one(struct opened_journals *journals, const char *path, const char *name,
    bool named) {
	struct opened_journal *journal = &journals->list[journals->count];
	struct diag diag = { .error = 0 };
	int error;

	memset(journal, 0, sizeof(*journal));
	journal->name = name;
	text_copy(journal->path, sizeof(journal->path), path, strlen(path));
	error = open_reader(journal, &diag);
	if (error == 0) {
		journals->count++;
		return;
	}
	ctl_complain("%s", diag.text);
	journals->code = journal_worse(journals->code, code_of(error, named));
}

/* Whatever it is: opening it tells. */
static bool is_there(const char *path) {
	struct stat st;

	return lstat(path, &st) == 0;
}

/* The journals that are there below `path`, or that one. */
static void open_below(struct opened_journals *journals, const char *path, bool named) {
	char below[PATH_MAX];
	size_t found = 0;

	for (unsigned kind = JOURNAL_NONE + 1; kind < JOURNAL_KINDS; kind++) {
		const char *name = journal_kind_word(kind);
		int length = snprintf(below, sizeof(below), "%s/%s", path, name);

		if (length < 0 || (size_t)length >= sizeof(below) || !is_there(below))
			continue;
		found++;
		open_one(journals, below, name, named);
	}
	if (found == 0)
		open_one(journals, path, NULL, named);
}

/* Has it anything of a journal? */
static bool is_one(const struct opened_journal *journal) {
	const struct journal_reader *reader = journal->reader;

	return reader->files.count > 0 || reader->slot >= 0 ||
	    reader->slots[0].state != JOURNAL_SLOT_EMPTY ||
	    reader->slots[1].state != JOURNAL_SLOT_EMPTY;
}

static int find_path(const struct ctl *ctl, char path[PATH_MAX]) {
	struct places places;
	int result;

	if (ctl->argument_count > 0) {
		size_t length = strlen(ctl->arguments[0]);

		while (length > 1 && ctl->arguments[0][length - 1] == '/')
			length--;
		if (text_copy(path, PATH_MAX, ctl->arguments[0], length))
			return EX_OK;
		ctl_complain("%s: %s", ctl->arguments[0], strerror(ENAMETOOLONG));
		return EX_NOINPUT;
	}
	result = places_find(ctl, &places);
	if (result == EX_OK && places.journal[0] == '\0') {
		ctl_complain("%s: the journal is disabled (journal.path)", ctl->config_path);
		result = EX_UNAVAILABLE;
	}
	text_copy(path, PATH_MAX, places.journal, strlen(places.journal));
	return result;
}

int journals_open(const struct ctl *ctl, struct opened_journals *journals) {
	bool named = ctl->argument_count > 0;
	char path[PATH_MAX];
	struct stat st;
	int result = find_path(ctl, path);

	memset(journals, 0, sizeof(*journals));
	if (result != EX_OK)
		return result;
	if (stat(path, &st) != 0) {
		int error = errno;

		ctl_complain("%s: %s%s", path, strerror(error), named || error != ENOENT ? "" :
		    ": posternd has not created a journal there");
		return code_of(error, named);
	}
	open_below(journals, path, named);
	/* the directory that was named: surely a mistake */
	if (journals->count == 1 && strcmp(journals->list[0].path, path) == 0 &&
	    !is_one(&journals->list[0])) {
		ctl_complain("%s: there is no journal in this directory", path);
		journals_close(journals);
		return code_of(ENOENT, named);
	}
	return journals->count > 0 ? EX_OK : journals->code;
}

void journals_close(struct opened_journals *journals) {
	for (size_t i = 0; i < journals->count; i++)
		journal_reader_close(&journals->list[i].reader);
	journals->count = 0;
}
