/* SPDX-License-Identifier: ISC */
/* A setting out of a configuration file that does not parse. */
#ifndef CTL_SCAN_H
#define CTL_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* Looks for group = { ... name = "VALUE" ... } in libconfig's syntax, whatever
 * is wrong around it; of a value that is an array, list or group, the first
 * string that stands in it (of a group: its `address`).  False: not found, and
 * *out is as it was. */
bool scan_setting(const char *text, const char *group, const char *name,
    char *out, size_t size);

#endif
