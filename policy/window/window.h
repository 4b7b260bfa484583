/* SPDX-License-Identifier: ISC */
/*
 * How many deliveries may run at once to one destination, learned from how they
 * went: three laws over one state (DESIGN section 7; contrib/documents.md,
 * rows C1 on).
 *
 *	document	the pseudo-code of that document, to the letter
 *	postfix		what Postfix ships today
 *	probe		ours: remembers the ceiling that it hit, and tries above it with
 *			one delivery at a time (a canary), at intervals that double; once
 *			one is accepted, the next goes at once
 *
 * Pure: time is an argument (ns of one clock that counts through suspend), there is
 * no memory but *window.  The caller serialises changes of one window.
 */
#ifndef POLICY_WINDOW_H
#define POLICY_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "policy/reply/reply.h"

struct level_verdict;

enum window_law { WINDOW_LAW_PROBE, WINDOW_LAW_POSTFIX, WINDOW_LAW_DOCUMENT, WINDOW_LAW_COUNT };
/* "probe", "postfix", "document" */
const char *window_law_word(enum window_law law);

/* Feedback amounts: x | x/y (both FIXED) | x/concurrency | x/sqrt_concurrency, which is
 * 1 for the law postfix, as Postfix is built without it. */
enum window_feedback_form { FEEDBACK_FIXED, FEEDBACK_PER_CONCURRENCY,
	FEEDBACK_PER_SQRT_CONCURRENCY };
struct window_feedback {
	enum window_feedback_form form;
	double amount;			/* x, or x/y; 0..1 */
};
/* Reads "1", "0.5", "1/4", "1/concurrency", "1/sqrt_concurrency"; false: none of these,
 * or an amount outside 0..1. */
bool window_feedback_parse(const char *text, size_t length, struct window_feedback *out);

/* The document's six parameters (one of which only logs), and what the other laws
 * need besides. */
struct window_settings {
	enum window_law law;
	uint32_t initial;		/* initial_destination_concurrency, 5 */
	uint32_t limit;			/* destination_concurrency_limit, 20; 0: none */
	struct window_feedback positive, negative;	/* 1, 1 */
	double failed_cohort_limit;	/* 1; 0: never dead */
	int64_t suspend_ns;		/* dead for so long, 300 s */
	int64_t canary_least_ns, canary_most_ns;	/* 10 s, 600 s */
	int64_t believe_ns;		/* 300 s: an acceptance of this age still speaks against
					 * a refusal at its level */
	uint32_t believe_refusals;	/* 4 refusals in a row convince all the same */
	bool shared;			/* the limit is of all nodes of a cluster together: for the
					 * caller, who divides it */
};
extern const struct window_settings window_defaults;

/* What the window stands at; never told by the number alone. */
enum window_state {
	WINDOW_OPEN,		/* no ceiling is known */
	WINDOW_LIMITED,		/* a ceiling is known, or set */
	WINDOW_DEAD,		/* suspended until until_ns */
	WINDOW_HELD,		/* until until_ns (INT64_MAX: until it is resumed) */
	WINDOW_STATE_COUNT
};
/* "open", "limited", "dead", "held" */
const char *window_state_word(enum window_state state);

/* What made it DEAD or HELD.  A delivery that succeeds ends what the cohorts began, and
 * nothing else. */
enum window_cause {
	WINDOW_CAUSE_COHORTS,	/* too many consecutive failures of its own deliveries */
	WINDOW_CAUSE_RULE,		/* a provider rule */
	WINDOW_CAUSE_HAND,		/* an administrator, here or at another node */
	WINDOW_CAUSE_NODE,		/* another node of the cluster, which learned it */
	WINDOW_CAUSE_COUNT
};

/* Are these numbers that a configuration can give?  For a block that somebody else wrote. */
bool window_settings_are_sound(const struct window_settings *settings);

/* All that is kept of a destination's window, in shared memory: no pointers, zeros are
 * no valid window.  64 bytes. */
struct window {
	double fail_cohorts;	/* is compared with a sum of parts: exact to the last bit */
	float success, failure;
	union {
		int64_t until_ns;	/* DEAD, HELD: the end */
		/* probe, neither: when the first no of the last flight was heard; 0: none was */
		int64_t flight_ns;
	};
	int64_t canary_ns;		/* probe: the next may go then; while one is out: gives it up */
	uint16_t concurrency;		/* the window; also while DEAD: what it will be */
	uint16_t ceiling;		/* highest level that is accepted; 0: not known */
	uint8_t state : 3;		/* enum window_state */
	uint8_t cause : 3;		/* DEAD, HELD: enum window_cause */
	uint8_t law : 2;		/* enum window_law that it was begun with */
	uint8_t accepted_span;		/* number of the current span of accepted[] */
	/* probe; see window_probe.c */
	uint8_t canary_step : 6;	/* how often the interval was doubled */
	uint8_t canary_out : 1;		/* one was issued, its result is awaited */
	uint8_t told : 1;		/* the ceiling was told, not found */
	uint8_t refused_run : 5;	/* refusals in a row */
	uint8_t convinced : 1;		/* the row has lowered the ceiling */
	uint8_t weak : 1;		/* the ceiling was found by fewer than believe_refusals */
	uint8_t slow_ceiling : 1;	/* it was found by slow deliveries */
	uint8_t lowered : 4;		/* the window, by failures of a level not known yet */
	uint8_t run_below : 4;		/* accepted since the row began, at lower levels */
	uint8_t run_ended;		/* deliveries that ended since it began */
	uint16_t run_level;		/* lowest refused level of the row */
	uint16_t run_from;		/* level of the first */
	uint16_t run_first;		/* when it started */
	uint16_t noise;			/* refusals that meant nothing, of 65536 attempts */
	/* highest level accepted in the current span of believe_ns and in the one before */
	uint16_t accepted[2];
	uint16_t climb : 3;		/* canaries accepted since a refusal: the ceiling rises */
	uint16_t calm : 13;		/* accepted since the last canary */
	/* probe; see window_slow.c */
	uint64_t usual_level : 12;	/* 0: none yet */
	uint64_t usual_10ms : 16;	/* what a delivery takes up to there; 0: not known */
	uint64_t above_10ms : 16;	/* and above it, of late; 0: none yet */
	uint64_t above_seen : 3;	/* deliveries above it since it was judged */
	uint64_t slow_seen : 3;		/* of them that were slow */
	uint64_t first_end : 14;	/* when the first of them ended: seconds, in a circle */
};
_Static_assert(sizeof(struct window) == 64, "eight words");

/* One finished attempt. */
struct window_result {
	enum result_class class;
	uint32_t level;		/* the place that it asked for: one more than the
				 * deliveries, accepted and not ended, in flight when it
				 * started; 0: not known */
	uint32_t in_flight;	/* deliveries in flight just now, as far as is known (by a
				 * log: accepted, a moment ago), this one not counted */
	int64_t start_ns;	/* when it started; 0 or less: not known; after now: now */
	int64_t took_ns;	/* of one that was accepted and whose level is known; 0: not known */
	int64_t given_ns;	/* since then the mail server could not be told to wait with it, at
				 * the earliest; 0 or less, or later: when it started */
	bool answered;		/* of a failure: the site said no; else there was no answer */
	bool canary;		/* it was issued as one */
};

/* What a result or the time did, for logs and hints. */
struct window_change {
	bool window;		/* concurrency or ceiling */
	bool died;
	bool revived;
};

void window_begin(struct window *window, const struct window_settings *settings);

/* Is it one that window_begin and the calls below could have left?  For memory that
 * somebody else wrote. */
bool window_is_sound(const struct window *window);

/* Another law or other limits since it was begun: goes on with what it knows. */
void window_adjust(struct window *window, const struct window_settings *settings);

/* Takes a result into account.  Only SITE_FAILURE is negative feedback for document
 * and postfix; probe listens to REMOTE_THROTTLE, too.  OK, RCPT_TEMPORARY and PERMANENT
 * by the remote are positive; LOCAL and SUSPENDED are neutral. */
void window_result(struct window *window, const struct window_settings *settings,
    const struct window_result *result, int64_t now_ns, struct window_change *change);

/* The level of a result that window_result was told without one (level 0) is known by
 * now (policy/window/level.h; 0 again: it cannot be known): moves what probe knows of the
 * ceiling, and gives back what was taken on suspicion.  Verdicts come in the order of
 * their starts.  Canaries' results are not told here. */
void window_late_level(struct window *window, const struct window_settings *settings,
    enum result_class class, uint32_t level, int64_t now_ns, struct window_change *change);

/* Of such a result that was delivered: when it started, how long it took, and with how many in
 * flight. */
void window_took(struct window *window, const struct window_settings *settings,
    const struct level_verdict *verdict, int64_t now_ns, struct window_change *change);

/* Time passes: a destination whose suspension or hold has ended comes back, a canary
 * that was lost is given up. */
void window_turn(struct window *window, const struct window_settings *settings,
    uint32_t in_flight, int64_t now_ns, struct window_change *change);

/* How many deliveries may run at once now, canary not counted; 0: none (dead or
 * held). */
uint32_t window_now(const struct window *window, const struct window_settings *settings,
    int64_t now_ns);

/* While no ceiling is known, probe: how many deliveries ran at once lately, or `initial`; the
 * rest of the window was never tried.  0: all of the window may be used. */
uint32_t window_proven(const struct window *window, const struct window_settings *settings);

/* May one delivery go above window_now, to find out?  probe only.  Ask when the window
 * is full: a canary that starts at a lower level proves nothing. */
bool window_canary_due(const struct window *window, const struct window_settings *settings,
    int64_t now_ns);
/* It was issued; its result is awaited until give_up_ns. */
void window_canary_issued(struct window *window, const struct window_settings *settings,
    int64_t give_up_ns);

/* --- by rule, by hand, by another node ------------------------------------- */

/* Dead until `until_ns` at least; one that is held stays so. */
void window_suspend(struct window *window, enum window_cause cause, int64_t until_ns);
void window_hold(struct window *window, enum window_cause cause, int64_t until_ns);
bool window_is_shut(const struct window *window);	/* DEAD or HELD */
bool window_is_by_hand(const struct window *window);	/* the same, by an administrator */
/* The concurrency from now on (0: as it was), or for when it comes back: a window that is shut
 * stays so, by the same cause.  Failures and cohorts of an open one are forgotten. */
void window_set_concurrency(struct window *window, const struct window_settings *settings,
    uint32_t concurrency);
/* Open again, with `concurrency` (0: what it was, or initial); failures and cohorts are
 * forgotten, the ceiling is kept. */
void window_resume(struct window *window, const struct window_settings *settings,
    uint32_t concurrency);
/* A ceiling that somebody told: the remote, a rule, an operator.  0: forget it. */
void window_set_ceiling(struct window *window, const struct window_settings *settings,
    uint32_t ceiling, int64_t now_ns);

#endif
