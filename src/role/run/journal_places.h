/* SPDX-License-Identifier: ISC */
/* The directories of the journal (journal.path), made while there are the rights for it
 * and given to the user that the roles run as. */
#ifndef ROLE_JOURNAL_PLACES_H
#define ROLE_JOURNAL_PLACES_H

#include "config/generation/generation.h"
#include "role/confine/privileges.h"

/* What was told of each: a failure is told once, until it is one no more. */
struct journal_places {
	bool told[JOURNAL_ROOMS], told_base;
	bool looked;		/* before: what is only told at a start was told */
	int64_t looked_ns;
};

/* Makes those that are needed and are not there, or not ours alone; at the start, and
 * then at most every 2 s while a role says that it cannot write (`ill`).
 * What cannot be done is logged: Postern runs without.  Supervisor only. */
void journal_places_turn(struct journal_places *places, const struct generation *generation,
    const struct identity *identity, bool ill, int64_t now_ns);

/* Makes one, with its parents: 0700, of the identity's user, and gives him the files
 * in it where it was somebody else's.  0, or -1 with *diag. */
int journal_place_make(const char *base, const char *word, const struct identity *identity,
    struct diag *diag);

#endif
