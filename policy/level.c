/* SPDX-License-Identifier: ISC */
/*
 * Levels rebuilt from a log (level.h).
 *
 * Model: a sweep over starts.  entries[0, active) are the accepted attempts that began
 * before the swept time and may still have been in flight there, in no order;
 * entries[active, count) wait, in the order of their starts.
 * Errors: none.  Threads: no state.
 */
#include "policy/level.h"
