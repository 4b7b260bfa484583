/* SPDX-License-Identifier: ISC */
/*
 * The journals that a command looks at, which it never changes: also while the daemon
 * writes them.  A journal is one directory of files (journal/frame.h); the configuration's
 * has up to four of them below it.  One thread.
 */
#ifndef CTL_JOURNAL_H
#define CTL_JOURNAL_H

#include <limits.h>

#include "ctl/cli/ctl.h"
#include "journal/reader.h"

#define JOURNALS_MAX	(JOURNAL_KINDS - 1)

struct journal_place_text {
	char text[PATH_MAX + JOURNAL_NAME_MAX + 2];
};

struct opened_journal {
	char path[PATH_MAX];
	const char *name;	/* "feed" ...; NULL: it was named by itself */
	struct journal_reader *reader;
};

struct opened_journals {
	struct opened_journal list[JOURNALS_MAX];
	size_t count;
	int code;		/* of those that could not be opened; else EX_OK */
};

/* Those below the command's argument, or that directory itself, or the configuration's.
 * EX_OK: at least one is open; else an exit code after a complaint.  One of several that
 * cannot be opened is complained about, and left out: `code`.  journals_close them. */
int journals_open(const struct ctl *ctl, struct opened_journals *journals);
void journals_close(struct opened_journals *journals);

/* The path of a file of it; 0: of its positions.  `out` is returned. */
const char *journal_file_path(const struct opened_journal *journal, uint32_t number,
    struct journal_place_text *out);

/* What it is for: "feed" ..., "unknown". */
const char *journal_what_for(const struct opened_journal *journal);

/* Those that count; NULL: there are none. */
const struct journal_positions *journal_positions_of(const struct opened_journal *journal);

/* Files are gone that the positions count, before the first that is there. */
bool journal_lacks_first(const struct opened_journal *journal);

/* Is it only that files are missing which nothing needs: below the first that counts some
 * stay, as a later version wrote in them, or as nobody has read them? */
bool journal_needs_it_not(const struct opened_journal *journal,
    const struct journal_found *found);

/* The worse of two exit codes, as the man page has it. */
int journal_worse(int code, int other);

#endif
