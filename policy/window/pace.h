/* SPDX-License-Identifier: ISC */
/*
 * How many messages per time may go to one destination: a pace that the administrator
 * sets, or that is learned where the site answers "slower" (DESIGN section 16).
 *
 * THE LAW.  A token bucket (policy/limit/rate.h has the algorithm): a message takes a
 * token, tokens come at the pace, `burst` of them are kept.  Never more than burst +
 * pace * t messages go in any time t.  The pace in force is the configured one, or a lower
 * one that was learned:
 *	1. A reply that means "slower" lowers the pace by the share `by`, to `floor` at the
 *	   lowest.  Results of messages sent before the last change of the pace do not count:
 *	   one flight lowers it once.  Where no pace is configured, it begins with the rate
 *	   of what was accepted in the last one to two minutes, or with 10 a second.
 *	2. While nothing was accepted since, further refusals lower it for the moment only:
 *	   the first acceptance undoes them.  A site that counts per hour refuses until its
 *	   hour is over, and that says nothing about the pace after it.  So tries go at
 *	   intervals that grow, to 8 periods or to floor's, whichever is longer.  What the
 *	   site takes is then known: it accepted for a time A, and refused for a time S, so
 *	   the pace after it is at most A / (A + S) of what it was (not where it had risen:
 *	   then A is not known).  Where nothing is proven yet (rule 4), that is taken for it
 *	   until a rise to it is refused.
 *	3. After a period up_ns without refusal, in which something was accepted, the pace
 *	   rises by the share `up`, if messages wait.  Where rule 2 lasted longer than a period,
 *	   the next rise waits as long (8 periods at most), and each one after it half as long
 *	   as the one before.  At the configured pace, or above PACE_MOST a second, nothing
 *	   learned is left.
 *	4. A pace that lasted such a period is proven.  One above it is a trial: with each trial
 *	   refused in a row the next comes after twice as many periods, and goes half as far,
 *	   down to 1/16; each that lasts does the opposite.
 *	5. Below the proven pace a rise goes half of the way back to it, after an eighth of a
 *	   period if it was lowered once only.  Where that is refused,
 *	   the site punishes: only `up` counts from then on, and trials go down to 1/64.  Where
 *	   such a rise is refused, too, nothing is proven any more.  A refusal at the proven
 *	   pace takes it one step down.
 * Rules 4 and 5 keep the pace near the highest that the site takes: plain additions and
 * halvings would leave a quarter of it unused, and be refused as often for ever.
 *
 * Pure: time is an argument (ns of one clock that counts through suspend, less than 10
 * years), there is no memory but *pace.  The caller serialises changes of one pace.  A clock
 * that stepped back delays by one interval at most; any bytes may stand in *pace (what no
 * call below left is made sound, or begun anew).
 */
#ifndef POLICY_PACE_H
#define POLICY_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/limit/rate.h"

#define PACE_MOST	1000	/* messages a second */
#define PACE_BURST_MOST	1000
#define PACE_INTERVAL_MOST_NS	INT64_C(86400000000000)	/* the lowest pace is one a day */
#define PACE_UP_LEAST_NS	INT64_C(1000000000)
#define PACE_UP_MOST_NS	(31 * PACE_INTERVAL_MOST_NS)

struct pace_settings {
	struct rate_limit limit;	/* count 0: none is configured; burst 0: 1 */
	double by;		/* rule 1: 0.01..0.95 */
	struct rate_limit floor;	/* its burst means nothing */
	double up;		/* rule 3: 0.01..10 */
	int64_t up_ns;
};
extern const struct pace_settings pace_defaults;	/* none; 50 %, 30/1h, 10 % in 10 min */

/* Are these numbers that a configuration can give?  For a block that somebody else wrote. */
bool pace_settings_are_sound(const struct pace_settings *settings);

/* All that is kept of a destination's pace, in shared memory.  Zeros: nothing is known. */
struct pace {
	uint64_t words[2];
};

/* Nothing else is known without settings.  Lower than configured, or none is? */
bool pace_is_learned(const struct pace *pace);
/* Is another pace in force?  Not where only tokens were taken, or results counted. */
bool pace_differs(const struct pace *a, const struct pace *b);
/* When it changed last, rounded up to 0.1 s; 0: none is in force. */
int64_t pace_changed_ns(const struct pace *pace);

/* This pace is in force from now on, whatever was learned: until results are told of. */
void pace_set(struct pace *pace, const struct pace_settings *settings, int64_t interval_ns,
    int64_t now_ns);

/* Takes a token: 0; or leaves it, and says after how many ns to ask again, if the pace does
 * not change before.  To be asked means that a message waits: the pace may rise. */
int64_t pace_take(struct pace *pace, const struct pace_settings *settings, int64_t now_ns);

/* The same time, and nothing changes. */
int64_t pace_wait_ns(const struct pace *pace, const struct pace_settings *settings,
    int64_t now_ns);

/* Tokens are taken until then, burst of them with the interval between two at most: when the
 * bucket is full again, or was so last; 0: none was ever taken. */
int64_t pace_taken_ns(const struct pace *pace, const struct pace_settings *settings,
    int64_t now_ns);

/* A message sent at sent_ns (when its token was taken, where that is known; 0 or less: not
 * known) was accepted, or got a reply that means "slower".  Results that say neither are not
 * told here.  True: the pace was lowered, and not for the moment only. */
void pace_accepted(struct pace *pace, const struct pace_settings *settings, int64_t sent_ns,
    int64_t now_ns);
bool pace_refused(struct pace *pace, const struct pace_settings *settings, int64_t sent_ns,
    int64_t now_ns);

/* A state of another boot's clock, or of another node, whose last change was since_ns ago (0:
 * not known).  The bucket begins empty. */
void pace_restore(struct pace *pace, const struct pace_settings *settings, int64_t since_ns,
    int64_t now_ns);

/* For lists and hints. */
struct pace_view {
	int64_t interval_ns;	/* between two messages just now; 0: no pace is in force */
	int64_t proven_ns;	/* the same of the proven pace; 0: not known */
	bool is_learned;	/* lower than configured, or none is */
	bool is_refused;	/* all of late was (rule 2) */
	int64_t raise_ns;	/* it rises no earlier; 0: it is not learned */
};
void pace_look(const struct pace *pace, const struct pace_settings *settings, int64_t now_ns,
    struct pace_view *view);

#endif
