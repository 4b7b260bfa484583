/* SPDX-License-Identifier: ISC */
/*
 * Which lanes carry a window (DESIGN sections 1, 7 and 11).  A lane is a clone of a
 * Postfix transport with a fixed concurrency, its width; mail of one queue (a mail
 * server's mail for one next hop) may be given to several lanes at once, and as each
 * has a queue of its own in the queue manager, their widths add up.
 *
 * Law: mail that was given to a lane stays there until it was tried once
 *.  So a lane that is left counts as used until its mail has
 * drained or the mail server was reloaded, and another lane comes to it only where
 * the sum of all that are used stays within what is allowed.
 *
 * Pure: no clock, no memory of its own.
 */
#ifndef POLICY_LANE_H
#define POLICY_LANE_H

#include <stdbool.h>
#include <stdint.h>

#define LANE_WIDTHS_MAX	16
#define LANE_SET_MAX	4	/* lanes that one queue's mail is given to at once */
#define LANE_WIDTH_MOST	10000

struct lane_widths {
	uint32_t count;
	uint16_t width[LANE_WIDTHS_MAX];	/* rising, no two the same */
	/* Deliveries that the transport itself runs to one next hop, which it does until
	 * its mail is given to lanes; 0: any number. */
	uint32_t origin;
	uint16_t keep_from;	/* lanes so wide keep connections for a moment; 0: none does */
};

/* Bit i: the lane of width[i].  LANE_ORIGIN: the transport that was cloned. */
typedef uint32_t lane_set;
#define LANE_ORIGIN	(UINT32_C(1) << LANE_WIDTHS_MAX)

/* Of their widths. */
uint32_t lane_sum(const struct lane_widths *widths, lane_set set);

struct lane_now {
	lane_set given;		/* mail is given to these now; 0: none yet, or held */
	lane_set used;		/* mail may be in these: given, or left and not drained */
	lane_set waiting;	/* of those: mail waits in them for a place */
	lane_set slow;		/* of those: what waits there will take long to drain */
	lane_set blocked;	/* mail must not be given to these now: Postfix would defer it */
	uint32_t allowed;	/* so many deliveries at once, for this queue alone; 0: none */
	/* Messages given one by one to a lane that is not `used`: how many are out, and
	 * which lane it is (or LANE_WIDTHS_MAX); and the lane of a canary that is out. */
	uint32_t singles, single, canary;
	bool limited;		/* more than `allowed` is known to do harm: rather wait */
	bool patient;		/* it was given to lanes that are too wide for long enough */
	/* So many are known to do no harm: lanes come up to these, and single messages try the
	 * rest of what is allowed; 0: all of it. */
	uint32_t proven;
	lane_set refused;	/* mail goes by others, if there are any: see lane_is_refused */
};

struct lane_choice {
	lane_set give;		/* at most LANE_SET_MAX lanes, or LANE_ORIGIN alone; 0: hold */
	lane_set wanted;	/* what it would be if nothing were in use, or blocked */
	bool reload;		/* mail waits in a lane that is too wide by now, or Postfix
				 * suspended most of what is wanted: only a reload of the mail
				 * server helps at once */
};

/* The part of a pseudo-cohort that one failure is: what the queue manager adds up until
 * it suspends a lane by itself (a success clears it). */
static inline double lane_failure(uint16_t width) {
	return 1.0 / width;
}

/* Is a lane of this width one too many?  `row`: its deliveries that failed in a row;
 * `others`: mail of other lanes was accepted since the first of them.  Only of a lane of 1:
 * the queue manager suspends wider ones by itself, and that one never. */
bool lane_is_refused(uint16_t width, uint32_t row, bool others);

/* What mail is to be given to from now on.  Whatever it says, the sum of `used`, `give`
 * and the single messages is within `allowed`, or `give` brings no lane that is not used.
 * (Where even the narrowest lane is wider than `allowed`, that one is the exception.) */
void lane_choose(const struct lane_widths *widths, const struct lane_now *now,
    struct lane_choice *choice);

/* How many more messages may go one by one, beside what was given, as no set of lanes
 * fills the window now; *lane: by which lane, a narrow one that keeps no connections where
 * there is one.  0 while mail does not wait in all that it
 * was given to. */
uint32_t lane_singles(const struct lane_widths *widths, const struct lane_now *now,
    lane_set give, uint32_t *lane);

/* A lane for one message above the window, beside what was given: one that nothing is
 * in, the narrowest.  LANE_WIDTHS_MAX: there is none, or what runs does not fill the
 * window, so that it would not be above it. */
uint32_t lane_canary(const struct lane_widths *widths, const struct lane_now *now,
    lane_set give);

/* When has the mail of a lane that was left at left_ns drained, if nothing more is heard
 * of it?  last_ns: its last result (0: none); longest_ns: the longest deliveries of late
 * (0: not known). */
int64_t lane_drained_ns(int64_t left_ns, int64_t last_ns, int64_t longest_ns);

/* The share of `allowed` that one of several queues gets which run by one window: all
 * that wait get the same, those that do not leave what they do not take.  `rest`: the
 * deliveries of queues that do not wait. */
uint32_t lane_share(uint32_t window, uint32_t rest, uint32_t waiting);

#endif
