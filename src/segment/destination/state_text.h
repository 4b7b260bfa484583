/* SPDX-License-Identifier: ISC */
/*
 * What is known of a destination as text, "KEY=VALUE ...", in the journal's records
 * of destinations:
 *
 *	flags ok failed held event		numbers
 *	law state size ceiling rule ...		of its window, where it has one
 *	success failure cohorts			with a point
 *	resumed until canary seen		times: ns from when it was written, or "ever"
 *	pace1 pace2 pace_age			of its pace: words, and ns since it changed
 *	cloned=MTA,... other=MTA,...		who sends there; names, as numbers may be others by then
 *	relay=ADDRESS/NAME			that of the last delivery comes first
 *
 * What is 0 is left out, keys that are not known are passed over: so an older program reads
 * what a newer one has written, and the other way round.  Any thread.
 */
#ifndef SEGMENT_STATE_TEXT_H
#define SEGMENT_STATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "segment/destination/destinations.h"

#define STATE_TEXT_MAX	3072

/* What is not in its state: when its pace changed, and by which relays and mail servers mail
 * goes, out of a text, which it points into. */
struct state_seen {
	int64_t seen_ns;
	int64_t pace_age_ns;		/* for pace_restore; 0: it is not known */
	char *cloned, *other;		/* NULL: nobody */
	char *relays[DESTINATION_RELAYS];
	unsigned relay_count;
};

/* All but name and reason; returns its length.  "": nothing is known of it. */
size_t state_text_write(const struct segment *segment, const struct destination_window *window,
    int64_t now_ns, char out[STATE_TEXT_MAX]);

/* Sets window->state and event; the rest of *window is as before.  A pace wants pace_restore.
 * `then_ns`: when it was written, by the clock of now; what counts by the clock of another
 * boot is left out without `same_boot`.  The text is cut to words.  False: it makes no
 * sense. */
bool state_text_read(char *text, int64_t then_ns, bool same_boot,
    struct destination_window *window, struct state_seen *seen);
/* Notes it as destinations_note does; its texts are cut. */
void state_seen_note(struct segment *segment, const char *name, const struct state_seen *seen);

#endif
