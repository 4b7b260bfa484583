/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Warm-up of a source address (warm.h).
 * MODEL    A step of the plan, and counts of the day that runs.  A day is judged when the next
 *          message comes after its end, so that late results count.
 * ERRORS   None.
 * THREADS  No state.
 */
#include "policy/window/warm.h"

#define SINCE_MOST_NS	(3650 * WARM_DAY_NS)
#define ANSWERED_PART	4

bool warm_settings_are_sound(const struct warm_settings *settings) {
	if (settings->steps < 1 || settings->steps > WARM_STEPS_MAX || settings->plan[0] < 1)
		return false;
	for (uint32_t i = 0; i < settings->steps; i++)
		if (settings->plan[i] > WARM_NUMBER_MAX ||
		    (i > 0 && settings->plan[i] <= settings->plan[i - 1]))
			return false;
	return settings->grow_used >= 0 && settings->grow_used <= 1 &&
	    settings->grow_throttled > 0 && settings->grow_throttled <= settings->back_throttled &&
	    settings->back_throttled <= 1 &&
	    (settings->idle_ns == 0 || settings->idle_ns >= WARM_DAY_NS);
}

const char *warm_verdict_word(enum warm_verdict verdict) {
	static const char *const words[WARM_VERDICT_COUNT] = { "new", "grew", "unused", "throttled",
		"back", "idle" };

	return words[verdict];
}

/* A plan that is shorter than the one before is not passed by that. */
static void plan_settle(struct warm *warm, const struct warm_settings *settings) {
	if (warm->steps != 0 && warm->steps != settings->steps) {
		if (warm->step >= warm->steps)
			warm->step = (uint16_t)settings->steps;
		else if (warm->step >= settings->steps)
			warm->step = 0;
	}
	if (warm->step > settings->steps)
		warm->step = 0;
	warm->steps = (uint8_t)settings->steps;
}

/* What no call has left, and clocks that stepped back. */
static void warm_settle(struct warm *warm, const struct warm_settings *settings, int64_t now_ns) {
	plan_settle(warm, settings);
	if (warm->verdict >= WARM_VERDICT_COUNT)
		warm->verdict = WARM_NEW;
	if (warm->throttled > warm->answered)
		warm->answered = warm->throttled;
	if (warm->day_ns > now_ns)
		warm->day_ns = now_ns;
	if (warm->day_ns < now_ns - SINCE_MOST_NS)
		warm->day_ns = now_ns - SINCE_MOST_NS;
}

static bool is_throttled(const struct warm *warm, double share) {
	return warm->answered >= WARM_RESULTS && warm->throttled >= share * warm->answered;
}

static uint32_t number_of(const struct warm_settings *settings, uint32_t step) {
	return step < settings->steps ? settings->plan[step] : UINT32_MAX;
}

/* So many may go today; UINT32_MAX: none binds. */
static uint32_t number_now(const struct warm *warm, const struct warm_settings *settings) {
	bool bad = is_throttled(warm, settings->back_throttled);

	return number_of(settings, bad && warm->step > 0 ? warm->step - 1u : warm->step);
}

/* --- a day is over -------------------------------------------------------------------- */

static enum warm_verdict judge_day(const struct warm *warm,
    const struct warm_settings *settings) {
	double number = number_of(settings, warm->step < settings->steps ? warm->step :
	    settings->steps - 1);
	uint32_t before = warm->step > 0 ? number_of(settings, warm->step - 1u) : 0;

	if (is_throttled(warm, settings->back_throttled))
		return warm->answered - warm->throttled > before ? WARM_THROTTLED : WARM_BACK;
	if (warm->sent < settings->grow_used * number || warm->answered < warm->sent / ANSWERED_PART)
		return WARM_UNUSED;
	return is_throttled(warm, settings->grow_throttled) ? WARM_THROTTLED : WARM_GREW;
}

/* The highest step of half of the number, or less. */
static void forget_half(struct warm *warm, const struct warm_settings *settings) {
	uint32_t number = settings->plan[warm->step < settings->steps ? warm->step :
	    settings->steps - 1];

	while (warm->step > 0 && number_of(settings, warm->step) > number / 2)
		warm->step--;
}

static void day_judge(struct warm *warm, const struct warm_settings *settings, int64_t now_ns) {
	int64_t silent_ns = now_ns - warm->day_ns - WARM_DAY_NS;
	bool idle = settings->idle_ns > 0 && silent_ns >= settings->idle_ns;

	warm->verdict = idle ? WARM_IDLE : (uint8_t)judge_day(warm, settings);
	for (; idle && silent_ns >= settings->idle_ns && warm->step > 0; silent_ns -= settings->idle_ns)
		forget_half(warm, settings);
	if (warm->verdict == WARM_BACK && warm->step > 0)
		warm->step--;
	if (warm->verdict == WARM_GREW && warm->step < settings->steps)
		warm->step++;
}

static bool is_day_over(const struct warm *warm, int64_t now_ns) {
	return now_ns - warm->day_ns >= WARM_DAY_NS;
}

static void day_begin(struct warm *warm, const struct warm_settings *settings, int64_t now_ns) {
	if (warm->sent > 0)
		day_judge(warm, settings, now_ns);
	*warm = (struct warm){ .day_ns = now_ns, .step = warm->step, .verdict = warm->verdict,
		.steps = warm->steps };
}

/* --- from outside ----------------------------------------------------------------------- */

static void warm_begin(struct warm *warm, const struct warm_settings *settings, int64_t now_ns) {
	warm_settle(warm, settings, now_ns);
	if (warm->sent == 0 || is_day_over(warm, now_ns))
		day_begin(warm, settings, now_ns);
}

int64_t warm_take(struct warm *warm, const struct warm_settings *settings, int64_t now_ns) {
	warm_begin(warm, settings, now_ns);
	if (warm->sent >= number_now(warm, settings))
		return warm->day_ns + WARM_DAY_NS - now_ns;
	warm->sent++;
	return 0;
}

uint32_t warm_left(const struct warm *warm, const struct warm_settings *settings, int64_t now_ns) {
	struct warm copy = *warm;
	uint32_t number;

	warm_begin(&copy, settings, now_ns);
	number = number_now(&copy, settings);
	if (number == UINT32_MAX)
		return number;
	return number > copy.sent ? number - copy.sent : 0;
}

void warm_count(struct warm *warm, const struct warm_settings *settings, uint32_t count,
    int64_t now_ns) {
	if (count == 0)
		return;
	warm_begin(warm, settings, now_ns);
	warm->sent = count < UINT32_MAX - warm->sent ? warm->sent + count : UINT32_MAX;
}

void warm_result(struct warm *warm, const struct warm_settings *settings, bool throttled,
    int64_t sent_ns, int64_t now_ns) {
	warm_settle(warm, settings, now_ns);
	if (warm->sent == 0 || (sent_ns > 0 && sent_ns < warm->day_ns) ||
	    warm->answered == UINT32_MAX)
		return;
	warm->answered++;
	warm->throttled += throttled;
}

void warm_restore(struct warm *warm, const struct warm_settings *settings, int64_t since_ns,
    int64_t now_ns) {
	warm->day_ns = now_ns - (since_ns < SINCE_MOST_NS ? since_ns : SINCE_MOST_NS);
	warm_settle(warm, settings, now_ns);
}

void warm_look(const struct warm *warm, const struct warm_settings *settings, int64_t now_ns,
    struct warm_view *view) {
	struct warm copy = *warm;

	warm_settle(&copy, settings, now_ns);
	*view = (struct warm_view){
		.step = copy.step < settings->steps ? copy.step + 1u : 0,
		.number = copy.step < settings->steps ? settings->plan[copy.step] : 0,
		.sent = copy.sent,
		.is_cut = number_now(&copy, settings) < number_of(settings, copy.step),
		.ends_ns = copy.sent > 0 ? copy.day_ns + WARM_DAY_NS : 0,
		.verdict = (enum warm_verdict)copy.verdict,
	};
}
