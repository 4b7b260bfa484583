/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The options of `posternctl simulate window'.
 * MODEL    A row for each option of defs/simulations.def: how it is read, and between
 *          what.  What is not given stays as by default.
 * ERRORS   Complained about with the option, and what it should be: EX_USAGE.
 * THREADS  One.
 */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "lab/simulate_options.h"

#define COUNT_MAX	10000000u
#define WINDOW_MAX	10000u
#define DURATION_MAX	(24 * 3600 * NS_PER_SECOND)

static bool take_count(const char *text, size_t length, uint32_t least, uint32_t most,
    uint32_t *out) {
	return text_to_u32(text, length, most, out) && *out >= least;
}

static bool take_duration(const char *text, int64_t least, int64_t *out) {
	return text_to_duration_ns(text, out) && *out >= least && *out <= DURATION_MAX;
}

/* --- one option each ---------------------------------------------------------------- */

static bool take_law(struct simulation *s, const char *text) {
	for (unsigned law = 0; law < WINDOW_LAW_COUNT; law++)
		if (strcmp(text, window_law_word((enum window_law)law)) == 0) {
			s->window.law = (enum window_law)law;
			return true;
		}
	return false;
}

static bool take_feedback(struct simulation *s, const char *text) {
	const char *comma = strchr(text, ',');
	size_t length = comma != NULL ? (size_t)(comma - text) : strlen(text);

	if (!window_feedback_parse(text, length, &s->window.positive))
		return false;
	s->window.negative = s->window.positive;
	return comma == NULL ||
	    window_feedback_parse(comma + 1, strlen(comma + 1), &s->window.negative);
}

/* "5", "5,20@600s" */
static bool take_changes(struct simulated_changes *changes, const char *text) {
	int64_t last_ns = 0;

	for (changes->count = 0; changes->count < SIMULATED_CHANGES_MAX;) {
		struct simulated_change *change = &changes->list[changes->count++];
		size_t length = strcspn(text, ",@"), time = 0;
		char duration[32];

		change->at_ns = 0;
		if (!take_count(text, length, 0, WINDOW_MAX, &change->limit))
			return false;
		text += length;
		if (*text == '@') {
			time = strcspn(++text, ",");
			if (!text_copy(duration, sizeof(duration), text, time) ||
			    !take_duration(duration, 0, &change->at_ns))
				return false;
			text += time;
		}
		if ((changes->count == 1) != (time == 0) || change->at_ns < last_ns)
			return false;
		last_ns = change->at_ns;
		if (*text++ == '\0')
			return true;
	}
	return false;
}

static bool take_server_limit(struct simulation *s, const char *text) {
	return take_changes(&s->limits, text);
}

static bool take_deliveries(struct simulation *s, const char *text) {
	uint32_t count;

	if (!take_count(text, strlen(text), 1, COUNT_MAX, &count))
		return false;
	s->deliveries = count;
	return true;
}

static bool take_initial(struct simulation *s, const char *text) {
	return take_count(text, strlen(text), 1, WINDOW_MAX, &s->window.initial);
}

static bool take_limit(struct simulation *s, const char *text) {
	return take_count(text, strlen(text), 0, WINDOW_MAX, &s->window.limit);
}

static bool take_service(struct simulation *s, const char *text) {
	return take_duration(text, NS_PER_MS, &s->service_ns);
}

static bool take_jitter(struct simulation *s, const char *text) {
	return text_to_share(text, &s->jitter);
}

static bool take_refusal(struct simulation *s, const char *text) {
	return take_duration(text, 0, &s->refusal_ns);
}

static bool take_report_delay(struct simulation *s, const char *text) {
	return take_duration(text, 0, &s->report_ns);
}

static bool take_report_every(struct simulation *s, const char *text) {
	return take_duration(text, 0, &s->report_every_ns);
}

static bool take_obey_delay(struct simulation *s, const char *text) {
	return take_duration(text, 0, &s->obey_ns);
}

static bool take_arrivals(struct simulation *s, const char *text) {
	return take_count(text, strlen(text), 0, COUNT_MAX, &s->arrivals);
}

static bool take_first_window(struct simulation *s, const char *text) {
	return take_count(text, strlen(text), 0, WINDOW_MAX, &s->first_window);
}

static bool take_noise(struct simulation *s, const char *text) {
	return text_to_share(text, &s->noise);
}

static bool take_bad_servers(struct simulation *s, const char *text) {
	return strncmp(text, "1/", 2) == 0 &&
	    take_count(text + 2, strlen(text + 2), 1, WINDOW_MAX, &s->bad_of);
}

static bool take_ceiling(struct simulation *s, const char *text) {
	return take_changes(&s->ceilings, text);
}

static bool take_word(const char *text, const char *const *words, unsigned count,
    unsigned *out) {
	for (*out = 0; *out < count; (*out)++)
		if (strcmp(text, words[*out]) == 0)
			return true;
	return false;
}

static bool take_server_mode(struct simulation *s, const char *text) {
	static const char *const words[] = { "refuse", "connect-timeout", "greeting-timeout" };
	unsigned mode;

	if (!take_word(text, words, 3, &mode))
		return false;
	s->mode = (enum simulated_mode)mode;
	return true;
}

static bool take_seed(struct simulation *s, const char *text) {
	uint32_t seed;

	if (!text_to_u32(text, strlen(text), UINT32_MAX, &seed))
		return false;
	s->seed = seed;
	return true;
}

static bool take_failed_cohorts(struct simulation *s, const char *text) {
	uint32_t limit;

	if (!take_count(text, strlen(text), 0, WINDOW_MAX, &limit))
		return false;
	s->window.failed_cohort_limit = limit;
	return true;
}

static bool take_levels(struct simulation *s, const char *text) {
	static const char *const words[] = { "known", "log", "none" };
	unsigned levels;

	if (!take_word(text, words, 3, &levels))
		return false;
	s->levels = (enum simulated_levels)levels;
	return true;
}

static bool take_cache(struct simulation *s, const char *text) {
	return take_duration(text, 0, &s->cache_ns);
}

static bool take_every(struct simulation *s, const char *text) {
	return take_duration(text, NS_PER_MS, &s->every_ns);
}

/* --- all ---------------------------------------------------------------------------- */

static const struct {
	bool (*take)(struct simulation *simulation, const char *text);
	const char *should;
} options[SIMULATION_COUNT] = {
#define FIELD(symbol, take, should) [SIMULATION_##symbol] = { take, should }
	FIELD(LAW, take_law, "probe, postfix or document"),
	FIELD(FEEDBACK, take_feedback,
	    "x, x/y, x/concurrency or x/sqrt_concurrency, from 0 to 1"),
	FIELD(SERVER_LIMIT, take_server_limit,
	    "K, or K,K2@TIME with increasing times, such as \"5,20@600s\""),
	FIELD(DELIVERIES, take_deliveries, "1 to 10000000"),
	FIELD(INITIAL, take_initial, "1 to 10000"),
	FIELD(LIMIT, take_limit, "0 to 10000"),
	FIELD(SERVICE, take_service, "1ms to 1d"),
	FIELD(JITTER, take_jitter, "0 to 1, or 0% to 100%"),
	FIELD(REFUSAL, take_refusal, "0s to 1d"),
	FIELD(REPORT_DELAY, take_report_delay, "0s to 1d"),
	FIELD(REPORT_EVERY, take_report_every, "0s to 1d"),
	FIELD(OBEY_DELAY, take_obey_delay, "0s to 1d"),
	FIELD(ARRIVALS, take_arrivals, "0 to 10000000"),
	FIELD(FIRST_WINDOW, take_first_window, "0 to 10000"),
	FIELD(NOISE, take_noise, "0 to 1, or 0% to 100%"),
	FIELD(BAD_SERVERS, take_bad_servers, "1/K"),
	FIELD(CEILING, take_ceiling,
	    "C, or C,C2@TIME with increasing times, such as \"12,7@600s\""),
	FIELD(SERVER_MODE, take_server_mode,
	    "refuse, connect-timeout or greeting-timeout"),
	FIELD(CONNECTION_CACHE, take_cache, "0s to 1d"),
	FIELD(SEED, take_seed, "0 to 4294967295"),
	FIELD(FAILED_COHORTS, take_failed_cohorts, "0 to 10000"),
	FIELD(LEVELS, take_levels, "known, log or none"),
	FIELD(EVERY, take_every, "1ms to 1d"),
#undef FIELD
};

void simulate_defaults(struct simulation *simulation) {
	*simulation = (struct simulation){
		.window = window_defaults,
		.limits = { .list = { { .at_ns = 0, .limit = 5 } }, .count = 1 },
		.deliveries = 1000,
		.service_ns = 2 * NS_PER_SECOND,
		.refusal_ns = 50 * NS_PER_MS,
		.jitter = 0.05,
		.seed = 1,
	};
}

bool simulate_take(struct simulation *simulation, enum simulation_option option,
    const char *text, const char **should) {
	*should = options[option].should;
	return options[option].take(simulation, text);
}
