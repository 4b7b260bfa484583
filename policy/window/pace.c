/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The pace of messages to a destination (pace.h).
 * MODEL    Everything is an interval between two messages, in ticks: a longer one is a lower
 *          pace.  `time` is the theoretical arrival time of the generic cell rate algorithm.
 *          Each call unpacks the state, brings it within what these settings can have left, and
 *          packs what became of it.
 * ERRORS   None.
 * THREADS  No state.
 */
#include "policy/window/pace_internal.h"

#define MINUTE_NS	INT64_C(60000000000)
#define METER		(60000000000 / TICK_NS)	/* of what is counted together */
#define HALVED_MOST	31
#define LONGER_MOST	3	/* 8 periods */
#define REFUSED_MOST	4	/* 1/16, 16 periods */
#define PUNISHED_MOST	6	/* the same, where refusals are punished */
#define RETURNS		8	/* half ways in a period */

/* A result without a time of sending belongs to the present pace after so long. */
#define FLIGHT_NS	MINUTE_NS
#define GUESSED		1.05	/* what a site takes is guessed a little too high else */
#define SILENT		8	/* ... and where it refused for less than that part, not at all */

const struct pace_settings pace_defaults = {
	.by = 0.5,
	.floor = { .period_ns = 60 * MINUTE_NS, .count = 30 },
	.up = 0.1,
	.up_ns = 10 * MINUTE_NS,
};

static bool limit_is_sound(const struct rate_limit *limit) {
	return limit->count > 0 && limit->period_ns > 0 &&
	    limit->period_ns / limit->count >= 1000000000 / PACE_MOST &&
	    limit->period_ns / limit->count <= PACE_INTERVAL_MOST_NS;
}

bool pace_settings_are_sound(const struct pace_settings *settings) {
	return (settings->limit.count == 0 || limit_is_sound(&settings->limit)) &&
	    settings->limit.burst <= PACE_BURST_MOST && limit_is_sound(&settings->floor) &&
	    settings->by >= 0.01 && settings->by <= 0.95 &&
	    settings->up >= 0.01 && settings->up <= 10 &&
	    settings->up_ns >= PACE_UP_LEAST_NS && settings->up_ns <= PACE_UP_MOST_NS;
}

/* --- the state ------------------------------------------------------------------------- */

static unsigned refused_most(const struct pace_state *state) {
	return state->slowly ? PUNISHED_MOST : REFUSED_MOST;
}

static void line_begin(struct pace_state *state, int64_t now_ns) {
	*state = (struct pace_state){ .line = true, .time = now_ns / TICK_NS, .changed_ns = now_ns };
}

static void meter_begin(struct pace_state *state, int64_t now_ns) {
	*state = (struct pace_state){ .time = now_ns / TICK_NS };
}

static void meter_turn(struct pace_state *state, int64_t now) {
	int64_t since = now - state->time;

	if (since < 0)
		state->time = now;
	if (since < METER)
		return;
	state->last = since < 2 * METER ? state->count : 0;
	state->count = 0;
	state->time = now - since % METER;
}

/* It begins with a message. */
static void meter_count(struct pace_state *state, int64_t now) {
	if (state->count == 0 && state->last == 0)
		state->time = now;
	state->count += state->count < COUNT_MOST;
}

/* --- the line ---------------------------------------------------------------------------- */

static int64_t burst_of(const struct pace_settings *settings) {
	return settings->limit.burst != 0 ? settings->limit.burst : 1;
}

/* The interval that was learned, or is configured. */
static int64_t line_interval(const struct pace_state *state, const struct pace_settings *settings) {
	return state->interval != 0 ? state->interval : pace_interval_of(&settings->limit);
}

/* The one in force: longer for the moment where all is refused.  *sum_ns: of all that were,
 * since the first refusal. */
static int64_t line_now_sum(const struct pace_state *state, const struct pace_settings *settings,
    int64_t *sum_ns) {
	double interval = (double)line_interval(state, settings);
	double most = (double)pace_interval_of(&settings->floor);

	if (most < (double)(settings->up_ns << LONGER_MOST) / TICK_NS)
		most = (double)(settings->up_ns << LONGER_MOST) / TICK_NS;
	*sum_ns = 0;
	for (unsigned i = 0; i < state->halved; i++) {
		*sum_ns += pace_interval_within(interval) * TICK_NS;
		if (interval < most) {
			interval /= 1 - settings->by;
			interval = interval < most ? interval : most;
		}
	}
	return pace_interval_within(interval);
}

static int64_t line_now(const struct pace_state *state, const struct pace_settings *settings) {
	int64_t sum_ns;

	return line_now_sum(state, settings, &sum_ns);
}

static int64_t line_empty_time(const struct pace_state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	return (now_ns + TICK_NS - 1) / TICK_NS + burst_of(settings) * line_now(state, settings);
}

static int64_t line_wait_ns(const struct pace_state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	int64_t kept = (burst_of(settings) - 1) * line_now(state, settings);
	int64_t ahead = state->time - now_ns / TICK_NS - kept;

	return ahead > 0 ? ahead * TICK_NS - now_ns % TICK_NS : 0;
}

static void line_cap(struct pace_state *state, const struct pace_settings *settings) {
	if (settings->limit.count > 0 && state->interval <= pace_interval_of(&settings->limit))
		state->interval = 0;
}

/* Clocks that stepped back, other settings than before, and what no call has left. */
static void line_settle(struct pace_state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	int64_t empty;

	if (state->interval != 0)
		state->interval = pace_interval_stored((double)state->interval);
	if (state->proven != 0)
		state->proven = pace_interval_stored((double)state->proven);
	line_cap(state, settings);
	if (state->refused > refused_most(state))
		state->refused = refused_most(state);
	if (state->longer > LONGER_MOST)
		state->longer = LONGER_MOST;
	if (state->changed_ns > now_ns + CHANGE_NS)
		state->changed_ns = now_ns;
	empty = line_empty_time(state, settings, now_ns);
	if (state->time > empty)
		state->time = empty;
}

static struct pace_state state_settled(const struct pace *pace, const struct pace_settings *settings,
    int64_t now_ns) {
	struct pace_state state = pace_unpack(pace);

	if (!state.line && settings->limit.count > 0)
		line_begin(&state, now_ns);
	else if (state.line && state.interval == 0 && settings->limit.count == 0)
		meter_begin(&state, now_ns);
	if (state.line)
		line_settle(&state, settings, now_ns);
	else
		meter_turn(&state, now_ns / TICK_NS);
	return state;
}

/* --- changes of the pace -------------------------------------------------------------- */

/* What was sent in the same CHANGE_NS was sent before. */
static void line_changed(struct pace_state *state, int64_t now_ns) {
	state->changed_ns = (now_ns / CHANGE_NS + 1) * CHANGE_NS;
	state->accepted = false;
}

static bool is_trial(const struct pace_state *state, const struct pace_settings *settings) {
	return state->proven == 0 || line_interval(state, settings) <= state->proven;
}

static int64_t period_ns(const struct pace_state *state, const struct pace_settings *settings) {
	int64_t period_ns = settings->up_ns << state->longer;

	if (is_trial(state, settings))
		return period_ns << state->refused;
	return state->slowly || state->deeply ? period_ns : period_ns / RETURNS;
}

static bool is_period_over(const struct pace_state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	return state->accepted && now_ns - state->changed_ns >= period_ns(state, settings);
}

/* Up, or one step of the trials that are refused. */
static double line_step(const struct pace_state *state, const struct pace_settings *settings) {
	return 1 + settings->up / (1 << state->refused);
}

/* Rule 4: this pace has lasted. */
static double next_trial(struct pace_state *state, const struct pace_settings *settings) {
	if (state->interval < state->proven && state->refused > 0)
		state->refused--;
	if (state->longer > 0)
		state->longer--;
	state->proven = state->interval;
	state->guessed = state->deeply = false;
	return (double)state->interval / line_step(state, settings);
}

/* Rule 5. */
static double next_return(const struct pace_state *state, const struct pace_settings *settings) {
	double interval = (double)state->interval, proven = (double)state->proven;
	double half = 2 / (1 / interval + 1 / proven), next = interval / (1 + settings->up);

	if (!state->slowly && half < next)
		next = half;
	return next > proven ? next : proven;
}

static unsigned next_code(struct pace_state *state, const struct pace_settings *settings) {
	double next = is_trial(state, settings) ? next_trial(state, settings) :
	    next_return(state, settings);
	unsigned code = pace_interval_code(pace_interval_within(next));

	return code < pace_interval_code(state->interval) ? code : pace_interval_code(state->interval) - 1;
}

/* As many tokens as with the interval before. */
static void line_rescale(struct pace_state *state, const struct pace_settings *settings,
    int64_t before, int64_t now_ns) {
	int64_t now = now_ns / TICK_NS, ahead = state->time - now;

	if (ahead > 0)
		state->time = now + 1 + (int64_t)((double)ahead *
		    (double)line_now(state, settings) / (double)before);
}

static void line_raise(struct pace_state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	int64_t before = state->interval;

	if (before == SHORTEST && settings->limit.count == 0) {
		meter_begin(state, now_ns);
		return;
	}
	state->interval = pace_interval_decode(next_code(state, settings));
	line_cap(state, settings);
	line_rescale(state, settings, before, now_ns);
	line_changed(state, now_ns);
	state->raised = true;
	line_settle(state, settings, now_ns);
}

/* What a refusal says about the proven pace. */
static void line_doubt(struct pace_state *state, const struct pace_settings *settings) {
	int64_t interval = pace_interval_stored((double)line_interval(state, settings));

	if (state->proven == 0)
		return;
	if (interval > state->proven && !state->raised)
		state->deeply = true;
	if (interval < state->proven) {
		state->refused += state->refused < refused_most(state);
	} else if (interval == state->proven) {
		state->proven = pace_interval_stored((double)interval * line_step(state, settings));
	} else if (state->raised && (state->slowly || state->guessed)) {
		state->proven = 0;
		state->refused = 0;
		state->slowly = state->guessed = false;
	} else if (state->raised) {
		state->slowly = true;
	}
}

/* False: it stands at the floor, or below. */
static bool line_lower(struct pace_state *state, const struct pace_settings *settings) {
	double interval = (double)line_interval(state, settings), next = interval / (1 - settings->by);
	double floor = (double)pace_interval_of(&settings->floor);

	if (pace_interval_stored(interval) >= pace_interval_stored(floor))
		return false;
	state->interval = pace_interval_stored(next < floor ? next : floor);
	state->raised = false;
	return true;
}

/* --- tokens --------------------------------------------------------------------------- */

static int64_t state_take(struct pace_state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	int64_t now = (now_ns + TICK_NS - 1) / TICK_NS;
	int64_t wait = line_wait_ns(state, settings, now_ns);

	if (wait > 0 && state->interval != 0 && is_period_over(state, settings, now_ns)) {
		line_raise(state, settings, now_ns);
		if (!state->line)
			return 0;
		wait = line_wait_ns(state, settings, now_ns);
	}
	if (wait == 0)
		state->time = (state->time > now ? state->time : now) + line_now(state, settings);
	return wait;
}

int64_t pace_take(struct pace *pace, const struct pace_settings *settings, int64_t now_ns) {
	struct pace_state state = state_settled(pace, settings, now_ns);
	int64_t wait = state.line ? state_take(&state, settings, now_ns) : 0;

	pace_pack(&state, pace);
	return wait;
}

int64_t pace_wait_ns(const struct pace *pace, const struct pace_settings *settings,
    int64_t now_ns) {
	struct pace_state state = state_settled(pace, settings, now_ns);

	return state.line ? line_wait_ns(&state, settings, now_ns) : 0;
}

int64_t pace_taken_ns(const struct pace *pace, const struct pace_settings *settings,
    int64_t now_ns) {
	struct pace_state state = pace_unpack(pace);

	if (state.line)
		state = state_settled(pace, settings, now_ns);
	return state.line ? state.time * TICK_NS : 0;
}

/* --- results ----------------------------------------------------------------------------- */

/* Was it sent at the present pace? */
static bool is_of_now(const struct pace_state *state, int64_t sent_ns, int64_t now_ns) {
	return sent_ns > 0 ? sent_ns >= state->changed_ns :
	    now_ns - state->changed_ns >= FLIGHT_NS;
}

/* All was refused for so long.  What was accepted before, and in this time, is what the site
 * takes. */
static void line_silent(struct pace_state *state, const struct pace_settings *settings,
    int64_t silence_ns) {
	double interval = (double)line_interval(state, settings) * (1 - settings->by);
	double floor = (double)pace_interval_of(&settings->floor);
	int64_t guess;

	while (state->longer < LONGER_MOST && settings->up_ns << state->longer < silence_ns)
		state->longer++;
	interval *= GUESSED * (1 + (double)silence_ns / TICK_NS / (double)state->active);
	guess = pace_interval_stored(interval < floor ? interval : floor);
	if (state->interval != 0 && state->active > 0 && guess > state->interval)
		state->interval = guess;
	if (state->interval != 0 && silence_ns / TICK_NS >= state->active / SILENT && state->active > 0 &&
	    (state->proven == 0 || state->guessed)) {
		state->proven = guess;
		state->guessed = true;
	}
	state->active = 0;
}

static void line_accepted(struct pace_state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	int64_t silence_ns, before = line_now_sum(state, settings, &silence_ns);

	if (state->halved > 0) {
		/* it ended between the last refusal and now */
		line_silent(state, settings, silence_ns + (now_ns - state->changed_ns) / 2);
		state->halved = 0;
		line_rescale(state, settings, before, now_ns);
		line_changed(state, now_ns);
	}
	state->accepted = true;
	if (state->interval == 0 && is_period_over(state, settings, now_ns)) {
		/* the site takes all of it */
		state->proven = 0;
		state->refused = 0;
		state->longer = 0;
		state->slowly = false;
	}
}

/* It was on its way when the first was refused: the rate is that of one more. */
static void line_metered(struct pace_state *state, const struct pace_settings *settings) {
	double interval = (double)state->interval * (1 - settings->by);
	double count = (double)state->active / interval;

	state->interval = pace_interval_stored((double)state->interval * count / (count + 1));
}

void pace_accepted(struct pace *pace, const struct pace_settings *settings, int64_t sent_ns,
    int64_t now_ns) {
	struct pace_state state = state_settled(pace, settings, now_ns);

	if (!state.line)
		meter_count(&state, now_ns / TICK_NS);
	else if (is_of_now(&state, sent_ns, now_ns))
		line_accepted(&state, settings, now_ns);
	else if (state.guessed && state.proven == 0 && !state.accepted && state.active > 0)
		line_metered(&state, settings);
	pace_pack(&state, pace);
}

/* The pace to begin with where none was in force: what was accepted.  Nothing was: one in
 * CHANGE_NS, and rule 2 finds the rest. */
static void meter_end(struct pace_state *state, const struct pace_settings *settings, int64_t now_ns) {
	unsigned count = state->count + state->last;
	int64_t took = now_ns / TICK_NS - state->time + (state->last > 0 ? METER : 0);
	double interval, most = (double)pace_interval_of(&settings->floor);

	if (count == 0 || took < CHANGE_NS / TICK_NS)
		took = CHANGE_NS / TICK_NS;
	interval = (double)took / (count > 0 ? count : 1);
	line_begin(state, now_ns);
	state->interval = pace_interval_stored(interval < most ? interval : most);
	state->accepted = true;
	state->changed_ns = now_ns - took * TICK_NS;
	state->guessed = true;
}

static bool line_refused(struct pace_state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	bool lowered = false;

	if (state->accepted || state->raised || state->interval == 0) {
		line_doubt(state, settings);
		state->active = state->raised ? 0 :
		    (now_ns - state->changed_ns + CHANGE_NS) / TICK_NS;
		lowered = line_lower(state, settings);
	}
	if (!lowered && state->halved < HALVED_MOST)
		state->halved++;
	line_changed(state, now_ns);
	state->time = line_empty_time(state, settings, now_ns);
	return lowered;
}

bool pace_refused(struct pace *pace, const struct pace_settings *settings, int64_t sent_ns,
    int64_t now_ns) {
	struct pace_state state = state_settled(pace, settings, now_ns);
	bool lowered = false, counts = !state.line || is_of_now(&state, sent_ns, now_ns);

	if (!state.line)
		meter_end(&state, settings, now_ns);
	if (counts)
		lowered = line_refused(&state, settings, now_ns);
	pace_pack(&state, pace);
	return lowered;
}

void pace_set(struct pace *pace, const struct pace_settings *settings, int64_t interval_ns,
    int64_t now_ns) {
	struct pace_state state;

	line_begin(&state, now_ns);
	state.interval = pace_interval_stored((double)interval_ns / TICK_NS);
	line_settle(&state, settings, now_ns);
	pace_pack(&state, pace);
}

void pace_restore(struct pace *pace, const struct pace_settings *settings, int64_t since_ns,
    int64_t now_ns) {
	struct pace_state state = pace_unpack(pace);

	if (!state.line)
		state = (struct pace_state){ .line = false };
	state.changed_ns = since_ns > 0 && since_ns < now_ns ? now_ns - since_ns : now_ns;
	pace_pack(&state, pace);
	state = state_settled(pace, settings, now_ns);
	if (state.line)
		state.time = line_empty_time(&state, settings, now_ns);
	pace_pack(&state, pace);
}

void pace_look(const struct pace *pace, const struct pace_settings *settings, int64_t now_ns,
    struct pace_view *view) {
	struct pace_state state = state_settled(pace, settings, now_ns);

	*view = (struct pace_view){ .interval_ns = 0 };
	if (!state.line)
		return;
	view->interval_ns = line_now(&state, settings) * TICK_NS;
	view->proven_ns = state.proven * TICK_NS;
	view->is_learned = state.interval != 0;
	view->is_refused = state.halved > 0;
	if (view->is_learned)
		view->raise_ns = state.changed_ns + period_ns(&state, settings);
}
