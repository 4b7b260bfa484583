/* SPDX-License-Identifier: ISC */
/*
 * A pace as people write it: "200/1h".  In the shortest of second, minute, hour and day in which
 * its number is whole (within half a percent), or 100 and more.
 */
#ifndef BASE_PACE_TEXT_H
#define BASE_PACE_TEXT_H

#include <stdint.h>

#define PACE_TEXT_MAX	32

/* Of the interval between two messages; 0 or less: "none".  Returns out. */
const char *pace_text(int64_t interval_ns, char out[PACE_TEXT_MAX]);

#endif
