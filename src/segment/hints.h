/* SPDX-License-Identifier: ISC */
/*
 * The hints file (DESIGN section 11): what postern-lookup answers Postfix's queue
 * manager, written by the keeper, read without the daemon.  One file PATH.hints
 * beside the state, world-readable, mapped by both.  It holds
 *
 *	header	magic, version, boot id, beat (CLOCK_BOOTTIME), replaced
 *	groups	one for each host class: is it to be held now, and the text that
 *		tells why
 *	table	domain and mta -> group
 *
 * The table never changes in a file: another set of destinations is another file,
 * renamed into place.  Groups and beat change in place.  A file keeps its size for
 * its whole life, so that no mapping of it can meet its end.
 */
#ifndef SEGMENT_HINTS_H
#define SEGMENT_HINTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"

#define HINTS_TEXT_MAX		160
#define HINTS_NAME_MAX		255	/* bytes of a domain, and of an mta's name */
#define HINTS_STALE_NS		(INT64_C(5) * 1000 * 1000 * 1000)

/* --- writer: one thread ---------------------------------------------------- */

struct hints_writer;

struct hint {
	const char *domain;	/* lower case; longer than HINTS_NAME_MAX: left out */
	const char *mta;	/* its name in the configuration */
	uint32_t group;
};

/* `path` names the file that hints_writer_publish makes.  A file that an earlier
 * writer left there is marked replaced by the first publication. */
int hints_writer_open(struct hints_writer **writer, const char *path,
    struct diag *diag);
void hints_writer_close(struct hints_writer **writer);

/* A new table, complete with the states of its groups: texts[i] follows
 * "retry:4.7.1 " where group i is held, and is NULL where it is not.  The first of
 * two hints for the same domain and mta counts.  -1 with *diag: the file before
 * stays. */
int hints_writer_publish(struct hints_writer *writer, const struct hint *hints,
    size_t count, const char *const *texts, uint32_t group_count, int64_t now_ns,
    struct diag *diag);

/* Holds or frees (text NULL) a group of the published table. */
void hints_writer_hold(struct hints_writer *writer, uint32_t group,
    const char *text);

/* A sign of life; readers believe nothing that is older than HINTS_STALE_NS. */
void hints_writer_beat(struct hints_writer *writer, int64_t now_ns);

/* --- reader: one thread ---------------------------------------------------- */

struct hints_reader;

/* Opens nothing yet: the file may come later.  NULL: no memory. */
struct hints_reader *hints_reader_open(const char *path);
void hints_reader_close(struct hints_reader **reader);

/* Is mail for this domain (any case) to be held now?  Then `text` says why.  False
 * wherever there is a doubt: no file, foreign, of another boot, stale, torn. */
bool hints_reader_ask(struct hints_reader *reader, const char *mta,
    const char *domain, size_t domain_length, int64_t now_ns,
    char text[HINTS_TEXT_MAX + 1]);

#endif
