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
#include "policy/window/pace.h"

#define TICK_NS		INT64_C(100000)
#define CHANGE_NS	INT64_C(10000000)	/* of times of changes */
#define MINUTE_NS	INT64_C(60000000000)
#define MINUTE		(MINUTE_NS / TICK_NS)
#define SHORTEST	(1000000000 / PACE_MOST / TICK_NS)
#define LONGEST		(PACE_INTERVAL_MOST_NS / TICK_NS)
#define COUNT_MOST	65535
#define HALVED_MOST	31
#define LONGER_MOST	3	/* 8 periods */
#define REFUSED_MOST	4	/* 1/16, 16 periods */
#define PUNISHED_MOST	6	/* the same, where refusals are punished */
/* A result without a time of sending belongs to the present pace after so long. */
#define FLIGHT_NS	MINUTE_NS

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

/* --- intervals ----------------------------------------------------------------------- */

static int64_t interval_within(double ticks) {
	int64_t whole;

	if (ticks <= SHORTEST || ticks >= LONGEST)
		return ticks <= SHORTEST ? SHORTEST : LONGEST;
	whole = (int64_t)ticks;
	return whole + ((double)whole < ticks);
}

static int64_t interval_of(const struct rate_limit *limit) {
	return interval_within((double)limit->period_ns / limit->count / TICK_NS);
}

/* In 16 bits, rounded up: below 2048 as it is, else 2048 + the lower 11 bits, doubled once less
 * than the upper 5 say.  Longer intervals have greater codes. */
static unsigned interval_code(int64_t ticks) {
	unsigned doubled = 0;

	if (ticks < 2048)
		return (unsigned)ticks;
	while (ticks >= 4096) {
		ticks = (ticks + 1) / 2;
		doubled++;
	}
	return (doubled + 1) << 11 | (unsigned)(ticks - 2048);
}

static int64_t interval_decode(unsigned code) {
	return code < 2048 ? (int64_t)code : (int64_t)(2048 + (code & 2047)) << ((code >> 11) - 1);
}

/* As it is stored; 0 stays 0. */
static int64_t interval_stored(double ticks) {
	return interval_decode(interval_code(interval_within(ticks)));
}

/* --- the state ------------------------------------------------------------------------- */

/* A line, where a pace is in force; or a meter, which counts what is accepted. */
struct state {
	bool line;
	int64_t time;		/* line: tokens are taken until then; meter: this minute began */
	int64_t changed_ns;	/* the pace, last */
	int64_t interval;	/* that was learned; 0: the configured one is in force */
	int64_t proven;		/* 0: not known */
	unsigned count, last;	/* meter: accepted in this minute, and in the last */
	unsigned refused;	/* trials in a row */
	unsigned halved;	/* so often for the moment (rule 2) */
	unsigned longer;	/* the period is doubled so often (rule 3) */
	bool accepted;		/* of what was sent since the change */
	bool raised;		/* since it was lowered last */
	bool slowly;		/* no more half ways (rule 5) */
};

/* words[0]: time 44 bits, interval or count 16, line, accepted, raised, slowly; words[1]: changed
 * 36 bits, proven or last 16, refused 4, halved 5, longer 3. */
static struct state state_unpack(const struct pace *pace) {
	uint64_t a = pace->words[0], b = pace->words[1];
	unsigned first = (unsigned)(a >> 44 & 0xffff), second = (unsigned)(b >> 36 & 0xffff);
	bool line = a >> 60 & 1;

	return (struct state){
		.line = line,
		.time = (int64_t)(a & ((UINT64_C(1) << 44) - 1)),
		.changed_ns = (int64_t)(b & ((UINT64_C(1) << 36) - 1)) * CHANGE_NS,
		.interval = line ? interval_decode(first) : 0,
		.proven = line ? interval_decode(second) : 0,
		.count = first,
		.last = second,
		.refused = (unsigned)(b >> 52 & 15),
		.halved = (unsigned)(b >> 56 & 31),
		.longer = (unsigned)(b >> 61 & 7),
		.accepted = a >> 61 & 1,
		.raised = a >> 62 & 1,
		.slowly = a >> 63 & 1,
	};
}

static void state_pack(const struct state *state, struct pace *pace) {
	uint64_t first = state->line ? interval_code(state->interval) : state->count;
	uint64_t second = state->line ? interval_code(state->proven) : state->last;

	pace->words[0] = ((uint64_t)state->time & ((UINT64_C(1) << 44) - 1)) | first << 44 |
	    (uint64_t)state->line << 60 | (uint64_t)state->accepted << 61 |
	    (uint64_t)state->raised << 62 | (uint64_t)state->slowly << 63;
	pace->words[1] = ((uint64_t)(state->changed_ns / CHANGE_NS) & ((UINT64_C(1) << 36) - 1)) |
	    second << 36 | (uint64_t)state->refused << 52 | (uint64_t)state->halved << 56 |
	    (uint64_t)state->longer << 61;
}

static unsigned refused_most(const struct state *state) {
	return state->slowly ? PUNISHED_MOST : REFUSED_MOST;
}

static void line_begin(struct state *state, int64_t now_ns) {
	*state = (struct state){ .line = true, .time = now_ns / TICK_NS, .changed_ns = now_ns };
}

static void meter_begin(struct state *state, int64_t now_ns) {
	*state = (struct state){ .time = now_ns / TICK_NS };
}

static void meter_turn(struct state *state, int64_t now) {
	int64_t since = now - state->time;

	if (since < 0)
		state->time = now;
	if (since < MINUTE)
		return;
	state->last = since < 2 * MINUTE ? state->count : 0;
	state->count = 0;
	state->time = now - since % MINUTE;
}

/* --- the line ---------------------------------------------------------------------------- */

static int64_t burst_of(const struct pace_settings *settings) {
	return settings->limit.burst != 0 ? settings->limit.burst : 1;
}

/* The interval that was learned, or is configured. */
static int64_t line_interval(const struct state *state, const struct pace_settings *settings) {
	return state->interval != 0 ? state->interval : interval_of(&settings->limit);
}

/* The one in force: longer for the moment where all is refused.  *sum_ns: of all that were,
 * since the first refusal. */
static int64_t line_now_sum(const struct state *state, const struct pace_settings *settings,
    int64_t *sum_ns) {
	double interval = (double)line_interval(state, settings);
	double most = (double)interval_of(&settings->floor);

	if (most < (double)(settings->up_ns << LONGER_MOST) / TICK_NS)
		most = (double)(settings->up_ns << LONGER_MOST) / TICK_NS;
	*sum_ns = 0;
	for (unsigned i = 0; i < state->halved; i++) {
		*sum_ns += interval_within(interval) * TICK_NS;
		if (interval < most) {
			interval /= 1 - settings->by;
			interval = interval < most ? interval : most;
		}
	}
	return interval_within(interval);
}

static int64_t line_now(const struct state *state, const struct pace_settings *settings) {
	int64_t sum_ns;

	return line_now_sum(state, settings, &sum_ns);
}

static int64_t line_empty_time(const struct state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	return (now_ns + TICK_NS - 1) / TICK_NS + burst_of(settings) * line_now(state, settings);
}

static int64_t line_wait_ns(const struct state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	int64_t kept = (burst_of(settings) - 1) * line_now(state, settings);
	int64_t ahead = state->time - now_ns / TICK_NS - kept;

	return ahead > 0 ? ahead * TICK_NS - now_ns % TICK_NS : 0;
}

static void line_cap(struct state *state, const struct pace_settings *settings) {
	if (settings->limit.count > 0 && state->interval <= interval_of(&settings->limit))
		state->interval = 0;
}

/* Clocks that stepped back, other settings than before, and what no call has left. */
static void line_settle(struct state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	int64_t empty;

	if (state->interval != 0)
		state->interval = interval_stored((double)state->interval);
	if (state->proven != 0)
		state->proven = interval_stored((double)state->proven);
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

static struct state state_settled(const struct pace *pace, const struct pace_settings *settings,
    int64_t now_ns) {
	struct state state = state_unpack(pace);

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

/* What was sent in the same 10 ms was sent before. */
static void line_changed(struct state *state, int64_t now_ns) {
	state->changed_ns = (now_ns / CHANGE_NS + 1) * CHANGE_NS;
	state->accepted = false;
}

static bool is_trial(const struct state *state, const struct pace_settings *settings) {
	return state->proven == 0 || line_interval(state, settings) <= state->proven;
}

static int64_t period_ns(const struct state *state, const struct pace_settings *settings) {
	return settings->up_ns <<
	    (state->longer + (is_trial(state, settings) ? state->refused : 0));
}

static bool is_period_over(const struct state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	return state->accepted && now_ns - state->changed_ns >= period_ns(state, settings);
}

/* Up, or one step of the trials that are refused. */
static double line_step(const struct state *state, const struct pace_settings *settings) {
	return 1 + settings->up / (1 << state->refused);
}

/* Rule 4: this pace has lasted. */
static double next_trial(struct state *state, const struct pace_settings *settings) {
	if (state->interval < state->proven && state->refused > 0)
		state->refused--;
	if (state->longer > 0)
		state->longer--;
	state->proven = state->interval;
	return (double)state->interval / line_step(state, settings);
}

/* Rule 5. */
static double next_return(const struct state *state, const struct pace_settings *settings) {
	double interval = (double)state->interval, proven = (double)state->proven;
	double half = 2 / (1 / interval + 1 / proven), next = interval / (1 + settings->up);

	if (!state->slowly && half < next)
		next = half;
	return next > proven ? next : proven;
}

static unsigned next_code(struct state *state, const struct pace_settings *settings) {
	double next = is_trial(state, settings) ? next_trial(state, settings) :
	    next_return(state, settings);
	unsigned code = interval_code(interval_within(next));

	return code < interval_code(state->interval) ? code : interval_code(state->interval) - 1;
}

static void line_raise(struct state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	int64_t before = state->interval, now = now_ns / TICK_NS, ahead = state->time - now;

	if (before == SHORTEST && settings->limit.count == 0) {
		meter_begin(state, now_ns);
		return;
	}
	state->interval = interval_decode(next_code(state, settings));
	line_cap(state, settings);
	/* as many tokens as before */
	if (ahead > 0)
		state->time = now + 1 + (int64_t)((double)ahead *
		    (double)line_interval(state, settings) / (double)before);
	line_changed(state, now_ns);
	state->raised = true;
	line_settle(state, settings, now_ns);
}

/* What a refusal says about the proven pace. */
static void line_doubt(struct state *state, const struct pace_settings *settings) {
	int64_t interval = interval_stored((double)line_interval(state, settings));

	if (state->proven == 0)
		return;
	if (interval < state->proven) {
		state->refused += state->refused < refused_most(state);
	} else if (interval == state->proven) {
		state->proven = interval_stored((double)interval * line_step(state, settings));
	} else if (state->raised && state->slowly) {
		state->proven = 0;
		state->refused = 0;
		state->slowly = false;
	} else if (state->raised) {
		state->slowly = true;
	}
}

/* False: it stands at the floor, or below. */
static bool line_lower(struct state *state, const struct pace_settings *settings) {
	double interval = (double)line_interval(state, settings), next = interval / (1 - settings->by);
	double floor = (double)interval_of(&settings->floor);

	if (interval_stored(interval) >= interval_stored(floor))
		return false;
	state->interval = interval_stored(next < floor ? next : floor);
	state->raised = false;
	return true;
}

/* --- tokens --------------------------------------------------------------------------- */

static int64_t state_take(struct state *state, const struct pace_settings *settings,
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
	struct state state = state_settled(pace, settings, now_ns);
	int64_t wait = state.line ? state_take(&state, settings, now_ns) : 0;

	state_pack(&state, pace);
	return wait;
}

int64_t pace_wait_ns(const struct pace *pace, const struct pace_settings *settings,
    int64_t now_ns) {
	struct state state = state_settled(pace, settings, now_ns);

	return state.line ? line_wait_ns(&state, settings, now_ns) : 0;
}

/* --- results ----------------------------------------------------------------------------- */

/* Was it sent at the present pace? */
static bool is_of_now(const struct state *state, int64_t sent_ns, int64_t now_ns) {
	return sent_ns > 0 ? sent_ns >= state->changed_ns :
	    now_ns - state->changed_ns >= FLIGHT_NS;
}

static void line_accepted(struct state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	int64_t silence_ns;

	(void)line_now_sum(state, settings, &silence_ns);
	while (state->longer < LONGER_MOST && settings->up_ns << state->longer < silence_ns)
		state->longer++;
	if (state->halved > 0)
		line_changed(state, now_ns);
	state->halved = 0;
	state->accepted = true;
	if (state->interval == 0 && is_period_over(state, settings, now_ns)) {
		/* the site takes all of it */
		state->proven = 0;
		state->refused = 0;
		state->longer = 0;
		state->slowly = false;
	}
}

void pace_accepted(struct pace *pace, const struct pace_settings *settings, int64_t sent_ns,
    int64_t now_ns) {
	struct state state = state_settled(pace, settings, now_ns);

	if (!state.line)
		state.count += state.count < COUNT_MOST;
	else if (is_of_now(&state, sent_ns, now_ns))
		line_accepted(&state, settings, now_ns);
	state_pack(&state, pace);
}

/* The pace to begin with where none was in force; not below the floor. */
static void meter_end(struct state *state, const struct pace_settings *settings, int64_t now_ns) {
	unsigned count = state->count > state->last ? state->count : state->last;
	double interval = (double)MINUTE / (count > 0 ? count : 1);
	double most = (double)interval_of(&settings->floor);

	line_begin(state, now_ns);
	state->interval = interval_stored(interval < most ? interval : most);
	state->accepted = true;
}

static bool line_refused(struct state *state, const struct pace_settings *settings,
    int64_t now_ns) {
	bool lowered = false;

	if (state->accepted || state->raised || state->interval == 0) {
		line_doubt(state, settings);
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
	struct state state = state_settled(pace, settings, now_ns);
	bool lowered = false, counts = !state.line || is_of_now(&state, sent_ns, now_ns);

	if (!state.line)
		meter_end(&state, settings, now_ns);
	if (counts)
		lowered = line_refused(&state, settings, now_ns);
	state_pack(&state, pace);
	return lowered;
}

void pace_restore(struct pace *pace, const struct pace_settings *settings, int64_t since_ns,
    int64_t now_ns) {
	struct state state = state_unpack(pace);

	if (!state.line)
		state = (struct state){ .line = false };
	state.changed_ns = since_ns > 0 && since_ns < now_ns ? now_ns - since_ns : now_ns;
	state_pack(&state, pace);
	state = state_settled(pace, settings, now_ns);
	if (state.line)
		state.time = line_empty_time(&state, settings, now_ns);
	state_pack(&state, pace);
}

void pace_look(const struct pace *pace, const struct pace_settings *settings, int64_t now_ns,
    struct pace_view *view) {
	struct state state = state_settled(pace, settings, now_ns);

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
