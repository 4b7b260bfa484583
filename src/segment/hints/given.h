/* SPDX-License-Identifier: ISC */
/*
 * How many messages postern-lookup may still give to each source that is warmed up (DESIGN section
 * 17): a file beside the hints, PATH.given, that the group of the hints may write.  A number is
 * counted down before the answer that it is for is given, by whichever process; so it is used once.
 * The keeper adds to it, and takes back.  Another file is made with each hints file, whose header
 * names it: what is left in the one before is taken back first.
 *
 * A program of that group can write anything into it: it can spend numbers or use more of them, as
 * it could by wrong answers.  The keeper believes no more than it released.
 */
#ifndef SEGMENT_GIVEN_H
#define SEGMENT_GIVEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"

#define GIVEN_ROWS	64	/* 0: mail of no provider, or all mail; then providers */
#define GIVEN_COLUMNS	16	/* sources */

struct given_out;

/* --- the keeper ------------------------------------------------------------------------ */

/* The file that lies there; NULL: none that is whole and ours. */
struct given_out *given_open(const char *hints_path);
/* What is left under a key, which is 0 from then on; 0: nothing. */
uint32_t given_close_key(struct given_out *given, uint64_t key);

/* A new one, in its place.  NULL with *diag. */
struct given_out *given_make(const char *hints_path, gid_t group, struct diag *diag);
uint64_t given_id(const struct given_out *given);
void given_free(struct given_out **given);
/* Has somebody cut it short?  Then nothing of it may be touched. */
bool given_was_cut(const struct given_out *given);
/* Or removed?  Then nobody finds it, though who has it open can go on. */
bool given_is_gone(const struct given_out *given);
void given_set_key(struct given_out *given, uint32_t row, uint32_t column, uint64_t key);
uint32_t given_left(const struct given_out *given, uint32_t row, uint32_t column);
void given_add(struct given_out *given, uint32_t row, uint32_t column, uint32_t count);
/* So many at most; returns how many these were. */
uint32_t given_take_back(struct given_out *given, uint32_t row, uint32_t column, uint32_t count);

/* --- postern-lookup ------------------------------------------------------------------------ */

/* The file of this id; NULL: it is not there, or cannot be written. */
struct given_out *given_open_for_taking(const char *hints_path, uint64_t id);
/* Takes one; false: none is left. */
bool given_take(struct given_out *given, uint32_t row, uint32_t column);

#endif
