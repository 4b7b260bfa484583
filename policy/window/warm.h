/* SPDX-License-Identifier: ISC */
/*
 * How many messages a day a new source address may send: a plan of daily numbers, each used
 * once the one before was, and went well (DESIGN section 17).
 *
 * THE LAW.  A day is 24 hours of the source's own: it begins with a message, and the next
 * begins with the first message after its end.  Never more messages go in a day than its
 * number of the plan.  When a day begins, the one before is judged by the results of its
 * messages:
 *	back	the share back_throttled of them, or more, was throttled, and no more were
 *		accepted than by the step before: back to that
 *	grow	the share grow_used of the number was sent, a quarter of that was answered
 *		(nobody may hear an address that is blocked), and less than grow_throttled
 *		was throttled: the next step; after the last one, no number binds
 *	repeat	the same number, otherwise
 * A day that is bad so far ends early: once back_throttled is reached, no more goes than by
 * the step before.  So a step that is too high for the receiver costs that share at most, and
 * is repeated while it carries more than the one before.  Shares count from WARM_RESULTS
 * results on.  After each `idle` of silence, the number is half of what it was, or less:
 * receivers forget, but not all at once.  With another plan, the step is the one at the same
 * place, or the first one where there is none; all of a plan that was passed stays passed.
 *
 * Pure: time is an argument (ns of one clock that counts through suspend and is not set),
 * there is no memory but *warm.  The caller serialises changes.  Where a clock stepped back,
 * the day begins then, and keeps its count.  Any bytes may stand in *warm: what no call below
 * left is made sound, with a lower number rather than a higher one.
 */
#ifndef POLICY_WARM_H
#define POLICY_WARM_H

#include <stdbool.h>
#include <stdint.h>

#define WARM_STEPS_MAX	60
#define WARM_NUMBER_MAX	UINT32_C(1000000000)
#define WARM_RESULTS	10
#define WARM_DAY_NS	INT64_C(86400000000000)

struct warm_settings {
	uint32_t plan[WARM_STEPS_MAX];	/* messages a day; each more than the one before */
	uint32_t steps;			/* 1 at least */
	double grow_used;		/* 0..1 */
	double grow_throttled;		/* above 0, up to back_throttled */
	double back_throttled;		/* up to 1 */
	int64_t idle_ns;		/* 0: silence means nothing; a day at least */
};

/* Are these numbers that a configuration can give?  For a block that somebody else wrote. */
bool warm_settings_are_sound(const struct warm_settings *settings);

/* What was decided when the day began. */
enum warm_verdict { WARM_NEW, WARM_GREW, WARM_UNUSED, WARM_THROTTLED, WARM_BACK, WARM_IDLE,
	WARM_VERDICT_COUNT };
/* "new", "grew", "unused", "throttled", "back", "idle" */
const char *warm_verdict_word(enum warm_verdict verdict);

/* Of one source, and one provider where the plan is for each.  Zeros: it has never sent. */
struct warm {
	int64_t day_ns;		/* when the day began; less than 0: before the clock did */
	uint32_t sent;		/* in it; 0: there was no day yet */
	uint32_t answered;	/* of these */
	uint32_t throttled;
	uint16_t step;		/* of the plan; settings->steps: all of it was passed */
	uint8_t verdict;	/* enum warm_verdict */
	uint8_t steps;		/* settings->steps when it was counted last; 0: not known */
};
_Static_assert(sizeof(struct warm) == 24, "three words");

/* Counts a message: 0; or says in how many ns the next day can begin. */
int64_t warm_take(struct warm *warm, const struct warm_settings *settings, int64_t now_ns);

/* So many more may go now, in the day that runs or would begin; UINT32_MAX: no number binds. */
uint32_t warm_left(const struct warm *warm, const struct warm_settings *settings, int64_t now_ns);

/* Counts so many that went, whether they might or not. */
void warm_count(struct warm *warm, const struct warm_settings *settings, uint32_t count,
    int64_t now_ns);

/* The result of a message sent at sent_ns, accepted or throttled (0 or less: not known).  Of an
 * earlier day it says nothing. */
void warm_result(struct warm *warm, const struct warm_settings *settings, bool throttled,
    int64_t sent_ns, int64_t now_ns);

/* A state of another boot's clock, whose day began since_ns ago. */
void warm_restore(struct warm *warm, const struct warm_settings *settings, int64_t since_ns,
    int64_t now_ns);

struct warm_view {
	uint32_t step;		/* from 1; 0: warm, no number binds */
	uint32_t number;	/* of the step; 0: none binds */
	uint32_t sent;		/* in the day that runs, or ran last */
	bool is_cut;		/* it is bad so far: the number of the step before binds */
	int64_t ends_ns;	/* 0: no day runs */
	enum warm_verdict verdict;
};
void warm_look(const struct warm *warm, const struct warm_settings *settings, int64_t now_ns,
    struct warm_view *view);

#endif
