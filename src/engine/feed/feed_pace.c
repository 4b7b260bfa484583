/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What a result says of the pace of messages to its destination.
 * MODEL    Inside the transaction of feed.c; policy/window/pace.h is the law.  Its time is
 *          that of the clock, whenever the result was read: tokens are taken by it.  A message
 *          was sent when its delivery began, at the earliest by what the log says.
 * ERRORS   What was read late is not counted where no pace is in force yet: it would come
 *          faster than it went.
 * THREADS  One.
 */
#include "base/clock.h"
#include "engine/feed/feed_internal.h"

#define LATE_NS		(5 * NS_PER_SECOND)

/* A pace that was not in force yet has not changed since. */
static int64_t sent_ns(const struct feed_learning *l) {
	const struct feed_result *result = l->result;

	if (pace_changed_ns(&l->lock.state.pace) == 0)
		return result->clock_ns;
	return result->has_start ? result->start_ns - result->slack_ns : 0;
}

static int64_t interval_ns(const struct feed_learning *l, const struct pace_settings *settings) {
	struct pace_view view;

	pace_look(&l->lock.state.pace, settings, l->result->clock_ns, &view);
	return view.interval_ns;
}

static void refused(struct feed_learning *l) {
	struct pace_settings settings = *l->rule.pace;

	settings.limit = l->rules.pace.limit;
	l->told.pace_before_ns = interval_ns(l, &settings);
	l->told.slowed = pace_refused(&l->lock.state.pace, &settings, sent_ns(l),
	    l->result->clock_ns);
	l->told.pace_ns = interval_ns(l, &settings);
}

static void accepted(struct feed_learning *l) {
	struct pace *pace = &l->lock.state.pace;
	const struct feed_result *result = l->result;

	if (pace_changed_ns(pace) == 0 && l->rules.pace.limit.count == 0 &&
	    result->clock_ns - result->end_ns > LATE_NS)
		return;
	pace_accepted(pace, &l->rules.pace, sent_ns(l), result->clock_ns);
}

void feed_pace(struct feed_learning *l) {
	/* what an administrator set stays */
	if ((l->lock.state.flags & DESTINATION_PACE) != 0)
		return;
	if (l->fires && l->rule.action == REPLY_ACTION_SLOW)
		refused(l);
	else if (l->class == RESULT_OK && l->counts &&
	    (l->rules.is_paced || pace_is_learned(&l->lock.state.pace)))
		accepted(l);
}
