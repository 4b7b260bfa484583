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

static void add_window(struct text *text, const struct window *w, int64_t now_ns) {
	const struct {
		const char *key;
		uint32_t value;
	} numbers[] = {
		{ "law", w->law }, { "state", w->state }, { "size", w->concurrency },
		{ "ceiling", w->ceiling }, { "cause", w->cause }, { "told", w->told },
		{ "weak", w->weak }, { "step", w->canary_step }, { "out", w->canary_out },
		{ "lowered", w->lowered }, { "run", w->refused_run },
		{ "convinced", w->convinced }, { "run_below", w->run_below },
		{ "run_ended", w->run_ended }, { "run_level", w->run_level },
		{ "run_from", w->run_from }, { "run_first", w->run_first },
		{ "noise", w->noise }, { "level0", w->accepted[0] },
		{ "level1", w->accepted[1] }, { "span", w->accepted_span },
		{ "climb", w->climb }, { "calm", w->calm },
	};

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		add_number(text, numbers[i].key, numbers[i].value);
	add_double(text, "success", w->success);
	add_double(text, "failure", w->failure);
	add_double(text, "cohorts", w->fail_cohorts);
	add_time(text, "until", w->until_ns, now_ns);
	add_time(text, "canary", w->canary_ns, now_ns);
}

size_t state_text_write(const struct destination_window *window, int64_t now_ns,
    char out[STATE_TEXT_MAX]) {
	const struct destination_state *s = &window->state;
	struct text text = { out, 0 };

	out[0] = '\0';
	add_number(&text, "flags", s->flags);
	add_number(&text, "ok", s->ok);
	add_number(&text, "failed", s->failed);
	add_number(&text, "held", s->held);
	add_time(&text, "resumed", s->resumed_ns, now_ns);
	add_number(&text, "event", window->event);
	if (s->begun)
		add_window(&text, &s->window, now_ns);
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

/* Where a number goes. */
static bool set_number(struct destination_window *to, const char *key,
    uint64_t value) {
	struct window *w = &to->state.window;
	struct destination_state *s = &to->state;

#define FIELD(word, member, cut) \
	if (strcmp(key, word) == 0) { \
		member = cut value; \
		return (uint64_t)member == value; \
	}
	FIELD("flags", s->flags, (uint8_t))
	FIELD("ok", s->ok, (uint32_t))
	FIELD("failed", s->failed, (uint32_t))
	FIELD("held", s->held, (uint32_t))
	FIELD("event", to->event, (uint64_t))
	FIELD("law", w->law, 0x3 &)
	FIELD("state", w->state, 0x7 &)
	FIELD("cause", w->cause, 0x7 &)
	FIELD("size", w->concurrency, (uint16_t))
	FIELD("ceiling", w->ceiling, (uint16_t))
	FIELD("rule", w->cause, (bool))		/* of versions that knew no other cause */
	FIELD("told", w->told, (bool))
	FIELD("weak", w->weak, (bool))
	FIELD("step", w->canary_step, 0x3f &)
	FIELD("out", w->canary_out, (bool))
	FIELD("lowered", w->lowered, 0xf &)
	FIELD("run", w->refused_run, 0x1f &)
	FIELD("convinced", w->convinced, (bool))
	FIELD("run_below", w->run_below, 0xf &)
	FIELD("run_ended", w->run_ended, (uint8_t))
	FIELD("run_level", w->run_level, (uint16_t))
	FIELD("run_from", w->run_from, (uint16_t))
	FIELD("run_first", w->run_first, (uint16_t))
	FIELD("noise", w->noise, (uint16_t))
	FIELD("level0", w->accepted[0], (uint16_t))
	FIELD("level1", w->accepted[1], (uint16_t))
	FIELD("span", w->accepted_span, (uint8_t))
	FIELD("climb", w->climb, 0x7 &)
	FIELD("calm", w->calm, 0x1fff &)
#undef FIELD
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
		return double_of(text, &w->success);
	if (strcmp(key, "failure") == 0)
		return double_of(text, &w->failure);
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
