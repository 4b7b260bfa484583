/* SPDX-License-Identifier: ISC */
/*
 * What is known of a destination as text, "KEY=VALUE ...", in the journal's records
 * of destinations:
 *
 *	flags ok failed held event		numbers
 *	law state size ceiling rule ...		of its window, where it has one
 *	success failure cohorts			with a point
 *	resumed until canary			times: ns from when it was written, or "ever"
 *
 * What is 0 is left out, keys that are not known are passed over: so an older program reads
 * what a newer one has written, and the other way round.  Pure; any thread.
 */
#ifndef SEGMENT_STATE_TEXT_H
#define SEGMENT_STATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/destination/destinations.h"

#define STATE_TEXT_MAX	1024

/* All but name and reason; returns its length.  "": nothing is known of it. */
size_t state_text_write(const struct destination_window *window, int64_t now_ns,
    char out[STATE_TEXT_MAX]);

/* Sets window->state and event; the rest of *window is as before.
 * `then_ns`: when it was written, by the clock of now; what counts by the clock of another
 * boot is left out without `same_boot`.  The text is cut to words.  False: it makes no
 * sense. */
bool state_text_read(char *text, int64_t then_ns, bool same_boot,
    struct destination_window *window);

#endif
