/* SPDX-License-Identifier: ISC */
/* Names that commands list by a pattern: a mask as in classes, or the name itself. */
#ifndef VIEW_NAME_PATTERN_H
#define VIEW_NAME_PATTERN_H

#include <stdbool.h>

#include "config/generation/generation.h"

/* "provider:google" and "u@d.example" are no masks, but names all the same.  False: it is
 * neither, and *why says so.  `text' must outlive *pattern. */
bool name_pattern(const char *text, struct mask *pattern, const char **why);
/* The window of one transport ("slow:d.example") fits what its destination does. */
bool name_fits(const char *name, const struct mask *pattern);

#endif
