/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  postern-simulate pace.
 * MODEL    One object with a table of the laws; with --every a table of states in it.
 * ERRORS   Complained about.
 * THREADS  One.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "lab/lab.h"
#include "lab/memory.h"
#include "lab/option_rows.h"
#include "lab/simulate_pace.h"

#define STATES_MAX	1000000u

/* The options, and what is not of the simulation itself. */
struct choices {
	struct pace_simulation simulation;
	enum paced_law first, last;
};

struct outcome {
	enum paced_law law;
	struct pace_simulation_result result;
};

/* --- options ---------------------------------------------------------------------------- */

static bool parse_law(void *values, const char *text) {
	struct choices *choices = values;

	choices->first = PACED_SLOW;
	choices->last = PACED_UNPACED;
	if (strcmp(text, "all") == 0)
		return true;
	for (unsigned law = 0; law < PACED_LAW_COUNT; law++)
		if (strcmp(text, paced_law_word((enum paced_law)law)) == 0) {
			choices->first = choices->last = (enum paced_law)law;
			return true;
		}
	return false;
}

/* The burst stays. */
static bool parse_pace_rate(struct rate_limit *rate, const char *text) {
	struct pace_settings settings = pace_defaults;

	if (!text_to_rate(text, &rate->count, &rate->period_ns))
		return false;
	settings.floor = *rate;
	return pace_settings_are_sound(&settings);
}

static bool parse_pace(void *values, const char *text) {
	struct pace_simulation *s = &((struct choices *)values)->simulation;

	if (strcmp(text, "none") == 0) {
		s->rules.pace.limit.count = 0;
		return true;
	}
	return parse_pace_rate(&s->rules.pace.limit, text);
}

static bool parse_floor(void *values, const char *text) {
	return parse_pace_rate(&((struct choices *)values)->simulation.rules.pace.floor, text);
}

static bool parse_low(void *values, const char *text) {
	return parse_pace_rate(&((struct choices *)values)->simulation.rules.low, text);
}

/* "30/1m,60@2h": a rate, and the list without the time of the first. */
static bool parse_site(void *values, const char *text) {
	struct paced_site *site = &((struct choices *)values)->simulation.site;
	size_t length = strcspn(text, ","), digits = strcspn(text, "/");
	char first[32], list[512];
	uint32_t count;

	if (!text_copy(first, sizeof(first), text, length) ||
	    !text_to_rate(first, &count, &site->per_ns) || site->per_ns < NS_PER_SECOND ||
	    site->per_ns > DAY || text_append(list, sizeof(list), 0, "%.*s%s", (int)digits, text,
		text + length) >= sizeof(list))
		return false;
	site->limit_count = option_parse_counts(list, true, PACED_LIMIT_MAX, DAY, site->limits,
	    PACED_CHANGES_MAX);
	return site->limit_count > 0;
}

static bool parse_by(void *values, const char *text) {
	struct pace_settings *pace = &((struct choices *)values)->simulation.rules.pace;

	return text_to_share(text, &pace->by) && pace->by >= 0.01 && pace->by <= 0.95;
}

static bool parse_up(void *values, const char *text) {
	struct pace_settings *pace = &((struct choices *)values)->simulation.rules.pace;
	const char *slash = strchr(text, '/');
	char share[32];

	return slash != NULL && text_copy(share, sizeof(share), text, (size_t)(slash - text)) &&
	    text_to_share(share, &pace->up) && pace->up >= 0.01 &&
	    option_parse_duration(slash + 1, PACE_UP_LEAST_NS, DAY, &pace->up_ns);
}

/* All other fields are the simulation's, which stands first. */
#define OPTIONS_OF	struct pace_simulation
static const struct option_row option_rows[] = {
#include "defs/simulate_pace.def"
};
_Static_assert(offsetof(struct choices, simulation) == 0, "options name fields of it");

static const struct option_table option_table = { option_rows,
	sizeof(option_rows) / sizeof(option_rows[0]) };

void simulate_pace_defaults(struct pace_simulation *simulation) {
	*simulation = (struct pace_simulation){
		.rules = { .pace = pace_defaults, .low = { .burst = 1 }, .low_ns = HOUR,
		    .suspend_ns = 300 * NS_PER_SECOND },
		.site = { .limits = { { .at_ns = 0, .count = 30 } }, .limit_count = 1,
		    .per_ns = 60 * NS_PER_SECOND, .penalty = 1, .forgive_ns = HOUR },
		.messages = 20000,
		.concurrency = 20,
		.service_ns = NS_PER_SECOND,
		.refusal_ns = 200 * NS_PER_MS,
		.jitter = 0.2,
		.retry_ns = 300 * NS_PER_SECOND,
		.retry_most_ns = 4000 * NS_PER_SECOND,
		.for_ns = 6 * HOUR,
		.after_ns = 300 * NS_PER_SECOND,
		.seed = 1,
	};
	simulation->rules.pace.limit.burst = 1;
}

/* --- output ------------------------------------------------------------------------------ */

static void keep_state(void *context, const struct paced_state *state) {
	memory_rows_add(context, state, sizeof(*state), STATES_MAX);
}

static struct value per_hour(int64_t interval_ns) {
	return interval_ns > 0 ? value_decimal((double)HOUR / (double)interval_ns) : value_unknown();
}

static void state_row(void *context, struct writer *writer, const void *item) {
	const struct paced_state *state = item;

	(void)context;
	writer_decimal(writer, "time_s", value_decimal((double)state->at_ns / 1e9));
	writer_decimal(writer, "pace_per_hour", per_hour(state->interval_ns));
	writer_decimal(writer, "proven_per_hour", per_hour(state->proven_ns));
	writer_number(writer, "delivered", state->delivered);
	writer_number(writer, "refused", state->refused);
}

static struct value percent(double part, double whole) {
	return whole > 0 ? value_decimal(100 * part / whole) : value_unknown();
}

static void law_row(void *context, struct writer *writer, const void *item) {
	const struct pace_simulation *s = context;
	const struct outcome *outcome = item;
	const struct pace_simulation_result *r = &outcome->result;
	double hours = (double)(r->duration_ns - s->after_ns) / (double)HOUR;

	writer_text(writer, "law", paced_law_word(outcome->law));
	writer_decimal(writer, "refused_percent", percent((double)r->refused, (double)r->attempts));
	writer_decimal(writer, "taken_percent", percent((double)r->delivered, r->possible));
	writer_decimal(writer, "delivered_per_hour", hours > 0 ?
	    value_decimal((double)r->delivered / hours) : value_unknown());
	writer_number(writer, "delivered", r->delivered);
	writer_number(writer, "refused", r->refused);
	writer_number(writer, "early_refused", r->early_refused);
	writer_decimal(writer, "duration_s", value_decimal((double)r->duration_ns / 1e9));
}

static void write_result(struct writer *writer, struct pace_simulation *simulation,
    const struct outcome *outcomes, size_t count, const struct memory_rows *states) {
	writer_object_begin(writer, NULL);
	writer_table(writer, &(const struct table){ .name = "laws", .row = law_row,
	    .context = simulation, .items = outcomes, .count = count, .each = sizeof(*outcomes) });
	if (simulation->every_ns > 0)
		writer_table(writer, &(const struct table){ .name = "states", .row = state_row,
		    .items = states->list, .count = states->count,
		    .each = sizeof(struct paced_state) });
	writer_object_end(writer);
}

int lab_PACE(struct lab *lab) {
	struct outcome outcomes[PACED_LAW_COUNT];
	struct choices choices = { .first = PACED_SLOW, .last = PACED_UNPACED };
	struct pace_simulation *s = &choices.simulation;
	struct memory_rows states = { .list = NULL };
	size_t count = 0;
	int code;

	simulate_pace_defaults(s);
	s->show = keep_state;
	s->context = &states;
	code = lab_parse(lab, &option_table, &choices);
	if (code != LAB_RUN)
		return code;
	if (s->rules.low.count == 0)
		s->rules.low = (struct rate_limit){ .period_ns = 2 * s->site.per_ns,
			.count = s->site.limits[0].count, .burst = 1 };
	for (unsigned law = choices.first; law <= choices.last; law++) {
		outcomes[count].law = (enum paced_law)law;
		simulate_pace(s, (enum paced_law)law, &outcomes[count++].result);
	}
	code = EX_OK;
	if (states.full)
		code = lab_complain(EX_USAGE, "--every: too many states");
	else
		write_result(&lab->writer, s, outcomes, count, &states);
	free(states.list);
	return code;
}
