/* SPDX-License-Identifier: ISC */
/* Names of hosts and domains as the segment stores them: in lower case, without a
 * dot at the end, zeros behind.  Any thread. */
#ifndef SEGMENT_NAME_H
#define SEGMENT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/file/layout.h"

#define NAME_WORDS	(SEGMENT_NAME_MAX / 8)
_Static_assert(SEGMENT_NAME_MAX % 8 == 0, "names are whole words");

/* A name in the form that is stored; one dot at its end is let pass.  Returns how many words
 * it has; behind them are zeros.  0: it is empty or longer than SEGMENT_NAME_MAX, or has blanks
 * or control characters. */
uint32_t name_fold(const char *name, size_t length, uint64_t words[NAME_WORDS]);

/* A keyed hash of words of a name or the like; zeros at their end say nothing. */
uint64_t name_hash(const struct siphash_key *key, const uint64_t *words, uint32_t count);

#define RECIPIENT_WORDS	(RECIPIENT_MAX / 8)
_Static_assert(RECIPIENT_MAX % 8 == 0, "addresses are whole words");

/* The same for a recipient's address, of at most RECIPIENT_MAX bytes. */
uint32_t recipient_fold(const char *address, size_t length,
    uint64_t words[RECIPIENT_WORDS]);
bool recipient_is_folded(const char address[RECIPIENT_MAX]);

/* Is it what name_fold makes? */
bool name_is_folded(const char name[SEGMENT_NAME_MAX]);

/* A class's or a mail server's name, from where any role can write: read once, and ended. */
void name_copy(const char from[SEGMENT_NAME_MAX], char out[SEGMENT_NAME_MAX + 1]);

/* Text that may be shown and saved: printable ASCII, and NULs behind it.  The first
 * copies it, cut at size; '?' stands for all other bytes. */
void text_harmless(const char *from, char *to, size_t size);
bool text_is_harmless(const char *text, size_t size);

#endif
