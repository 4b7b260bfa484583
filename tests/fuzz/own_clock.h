/* SPDX-License-Identifier: ISC */
/* The time of a fuzz target: it stands still until the input moves it.  own_clock.c stands in
 * the place of base/clock.c. */
#ifndef TESTS_FUZZ_OWN_CLOCK_H
#define TESTS_FUZZ_OWN_CLOCK_H

#include "base/clock.h"

/* Where both clocks stand when an input begins. */
void own_clock_begin(void);
/* Time goes by; the wall clock can be set besides. */
void own_clock_pass(int64_t ns);
void own_clock_set_wall(int64_t by_ns);

#endif
