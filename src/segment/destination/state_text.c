/* SPDX-License-Identifier: ISC */
/* What is known of a destination as text.  No lock, no state: any thread. */
#include "segment/destination/state_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment/destination/seen_text.h"

#define STATE_TEXT_EVER	"ever"

/* Key, member, and what cuts a number to it. */
#define STATE_NUMBERS(X) \
	X("flags", s->flags, (uint8_t)) \
	X("ok", s->ok, (uint32_t)) \
	X("failed", s->failed, (uint32_t)) \
	X("held", s->held, (uint32_t))
#define WINDOW_NUMBERS(X) \
	X("law", w->law, 0x3 &) \
	X("state", w->state, 0x7 &) \
	X("size", w->concurrency, (uint16_t)) \
	X("ceiling", w->ceiling, (uint16_t)) \
	X("cause", w->cause, 0x7 &) \
	X("told", w->told, (bool)) \
	X("weak", w->weak, (bool)) \
	X("step", w->canary_step, 0x3f &) \
	X("out", w->canary_out, (bool)) \
	X("lowered", w->lowered, 0xf &) \
	X("run", w->refused_run, 0x1f &) \
	X("convinced", w->convinced, (bool)) \
	X("run_below", w->run_below, 0xf &) \
	X("run_ended", w->run_ended, (uint8_t)) \
	X("run_level", w->run_level, (uint16_t)) \
	X("run_from", w->run_from, (uint16_t)) \
	X("run_first", w->run_first, (uint16_t)) \
	X("noise", w->noise, (uint16_t)) \
	X("level0", w->accepted[0], (uint16_t)) \
	X("level1", w->accepted[1], (uint16_t)) \
	X("span", w->accepted_span, (uint8_t)) \
	X("climb", w->climb, 0x7 &) \
	X("calm", w->calm, 0x1fff &) \
	X("slow", w->slow_ceiling, (bool)) \
	X("usual_level", w->usual_level, 0xfff &) \
	X("usual_10ms", w->usual_10ms, 0xffff &)

/* --- writing ------------------------------------------------------------------- */

struct text {
	char *out;
	size_t length;
};

static void add_key(struct text *text, const char *key) {
	size_t length = strlen(key);

	if (text->length > 0)
		text->out[text->length++] = ' ';
	memcpy(text->out + text->length, key, length);
	text->length += length;
	text->out[text->length++] = '=';
	text->out[text->length] = '\0';
}

/* By hand, as this is done for each destination that changes. */
static void add_number(struct text *text, const char *key, uint64_t value) {
	char digits[24];
	unsigned count = 0;

	if (value == 0)
		return;
	add_key(text, key);
	for (; value != 0; value /= 10)
		digits[count++] = (char)('0' + value % 10);
	while (count > 0)
		text->out[text->length++] = digits[--count];
	text->out[text->length] = '\0';
}

static void add_double(struct text *text, const char *key, double value) {
	if (!(value < 0) && !(value > 0))
		return;
	add_key(text, key);
	text->length += (size_t)snprintf(text->out + text->length, 32, "%.17g", value);
}

static void add_time(struct text *text, const char *key, int64_t time_ns, int64_t now_ns) {
	if (time_ns == 0)
		return;
	add_key(text, key);
	if (time_ns == INT64_MAX)
		text->length += (size_t)snprintf(text->out + text->length, 32, "%s",
		    STATE_TEXT_EVER);
	else
		text->length += (size_t)snprintf(text->out + text->length, 32,
		    "%" PRId64, time_ns - now_ns);
}

size_t state_text_write(const struct destination_window *window, int64_t now_ns,
    char out[STATE_TEXT_MAX]) {
	const struct destination_state *s = &window->state;
	const struct window *w = &s->window;
	struct text text = { out, 0 };

	out[0] = '\0';
#define ADD(key, member, cut) add_number(&text, key, member);
	STATE_NUMBERS(ADD)
	add_time(&text, "resumed", s->resumed_ns, now_ns);
	add_number(&text, "event", window->event);
	if (!s->begun)
		return text.length;
	WINDOW_NUMBERS(ADD)
#undef ADD
	add_double(&text, "success", w->success);
	add_double(&text, "failure", w->failure);
	add_double(&text, "cohorts", w->fail_cohorts);
	add_time(&text, "until", w->until_ns, now_ns);
	add_time(&text, "canary", w->canary_ns, now_ns);
	return text.length;
}

/* --- reading -------------------------------------------------------------------- */

static bool number_of(const char *text, uint64_t *out) {
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0';
}

static bool time_of(const char *text, int64_t then_ns, int64_t *out) {
	long long left;
	char *end;

	if (text == NULL || *text == '\0')
		return false;
	if (strcmp(text, STATE_TEXT_EVER) == 0) {
		*out = INT64_MAX;
		return true;
	}
	errno = 0;
	left = strtoll(text, &end, 10);
	if (errno != 0 || *end != '\0' || left > INT64_MAX / 4 ||
	    left < INT64_MIN / 4)
		return false;
	*out = then_ns + left;
	/* 0 says that there is none */
	*out = *out < 1 ? 1 : *out;
	return true;
}

static bool double_of(const char *text, double *out) {
	char *end;

	*out = strtod(text, &end);
	return end != text && *end == '\0';
}

static bool float_of(const char *text, float *out) {
	double value;
	bool ok = double_of(text, &value);

	*out = (float)value;
	return ok;
}

/* Where a number goes. */
static bool set_number(struct destination_window *to, const char *key,
    uint64_t value) {
	struct window *w = &to->state.window;
	struct destination_state *s = &to->state;

#define SET(word, member, cut) \
	if (strcmp(key, word) == 0) { \
		member = cut value; \
		return (uint64_t)member == value; \
	}
	STATE_NUMBERS(SET)
	WINDOW_NUMBERS(SET)
	SET("event", to->event, (uint64_t))
#undef SET
	return true;
}

/* seen_text.h reads these. */
static bool is_seen(const char *key) {
	return strcmp(key, SEEN_KEY) == 0 || strcmp(key, SEEN_CLONED_KEY) == 0 ||
	    strcmp(key, SEEN_OTHER_KEY) == 0 || strcmp(key, SEEN_RELAY_KEY) == 0;
}

static bool set_key(struct destination_window *to, const char *key, const char *text,
    int64_t then_ns) {
	struct window *w = &to->state.window;
	uint64_t value;

	if (is_seen(key))
		return true;
	if (strcmp(key, "success") == 0)
		return float_of(text, &w->success);
	if (strcmp(key, "failure") == 0)
		return float_of(text, &w->failure);
	if (strcmp(key, "cohorts") == 0)
		return double_of(text, &w->fail_cohorts);
	if (strcmp(key, "until") == 0)
		return time_of(text, then_ns, &w->until_ns);
	if (strcmp(key, "canary") == 0)
		return time_of(text, then_ns, &w->canary_ns);
	if (strcmp(key, "resumed") == 0)
		return time_of(text, then_ns, &to->state.resumed_ns);
	return number_of(text, &value) && set_number(to, key, value);
}

bool state_text_read(char *text, int64_t then_ns, bool same_boot,
    struct destination_window *window) {
	struct window *w = &window->state.window;
	char *rest = NULL, *word;

	memset(&window->state, 0, sizeof(window->state));
	for (word = strtok_r(text, " ", &rest); word != NULL;
	     word = strtok_r(NULL, " ", &rest)) {
		char *value = strchr(word, '=');

		if (value == NULL)
			return false;
		*value++ = '\0';
		if (!set_key(window, word, value, then_ns))
			return false;
	}
	window->state.begun = w->concurrency != 0;
	if ((window->state.flags & DESTINATION_HELD) != 0)
		w->cause = WINDOW_CAUSE_HAND;
	if (window->state.begun && !same_boot) {
		/* told by the clock of that boot */
		memset(w->accepted, 0, sizeof(w->accepted));
		w->accepted_span = 0;
		w->refused_run = 0;
		w->run_level = w->run_from = w->run_first = 0;
	}
	return !window->state.begun || window_is_sound(w);
}
