/* SPDX-License-Identifier: ISC */
/* Words of commands that people copy.  No state.  Any thread. */
#ifndef VIEW_SHELL_WORD_H
#define VIEW_SHELL_WORD_H

#include <stdbool.h>
#include <stddef.h>

/* A word for any shell: quoted where it has to be.  False: it does not fit, or has a byte that
 * is not printable ASCII. */
bool shell_word(const char *word, char *out, size_t size);

/* "posternctl VERB NAME OPTIONS".  False: as above; out is as it was, or cut. */
bool shell_command(const char *verb, const char *name, const char *options, char *out, size_t size);

#endif
