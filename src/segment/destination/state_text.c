/* SPDX-License-Identifier: ISC */
/* What is known of a destination as text.  Relays are noted anew, the oldest first. */
#include "segment/destination/state_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "segment/file/internal.h"
#include "segment/file/name.h"

#define STATE_TEXT_EVER	"ever"
#define PACE_AGE_MOST	(INT64_MAX / 4)

/* Key, member, and what cuts a number to it.  In their order. */
#define STATE_ROWS(NUMBER, TIME) \
	NUMBER("flags", s->flags, (uint8_t)) \
	NUMBER("ok", s->ok, (uint32_t)) \
	NUMBER("failed", s->failed, (uint32_t)) \
	NUMBER("held", s->held, (uint32_t)) \
	TIME("resumed", s->resumed_ns) \
	NUMBER("event", window->event, (uint64_t))
#define PACE_ROWS(NUMBER) \
	NUMBER("pace1", s->pace.words[0], (uint64_t)) \
	NUMBER("pace2", s->pace.words[1], (uint64_t))
#define WINDOW_ROWS(NUMBER, TIME, REAL) \
	NUMBER("law", w->law, 0x3 &) \
	NUMBER("state", w->state, 0x7 &) \
	NUMBER("size", w->concurrency, (uint16_t)) \
	NUMBER("ceiling", w->ceiling, (uint16_t)) \
	NUMBER("cause", w->cause, 0x7 &) \
	NUMBER("told", w->told, (bool)) \
	NUMBER("weak", w->weak, (bool)) \
	NUMBER("step", w->canary_step, 0x3f &) \
	NUMBER("out", w->canary_out, (bool)) \
	NUMBER("lowered", w->lowered, 0xf &) \
	NUMBER("run", w->refused_run, 0x1f &) \
	NUMBER("convinced", w->convinced, (bool)) \
	NUMBER("run_below", w->run_below, 0xf &) \
	NUMBER("run_ended", w->run_ended, (uint8_t)) \
	NUMBER("run_level", w->run_level, (uint16_t)) \
	NUMBER("run_from", w->run_from, (uint16_t)) \
	NUMBER("run_first", w->run_first, (uint16_t)) \
	NUMBER("noise", w->noise, (uint16_t)) \
	NUMBER("level0", w->accepted[0], (uint16_t)) \
	NUMBER("level1", w->accepted[1], (uint16_t)) \
	NUMBER("span", w->accepted_span, (uint8_t)) \
	NUMBER("climb", w->climb, 0x7 &) \
	NUMBER("calm", w->calm, 0x1fff &) \
	NUMBER("slow", w->slow_ceiling, (bool)) \
	NUMBER("usual_level", w->usual_level, 0xfff &) \
	NUMBER("usual_10ms", w->usual_10ms, 0xffff &) \
	REAL("success", w->success, (float)) \
	REAL("failure", w->failure, (float)) \
	REAL("cohorts", w->fail_cohorts, (double)) \
	TIME("until", w->until_ns) \
	TIME("canary", w->canary_ns)

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

static void add_mtas(struct text *text, const struct segment *segment, const char *key,
    uint8_t bits) {
	const char *comma = "";

	for (unsigned i = 0; i < SEGMENT_MTAS; i++) {
		char name[SEGMENT_NAME_MAX + 1];

		name_copy(segment->header->mtas[i].name, name);
		if ((bits >> i & 1) == 0 || name[0] == '\0')
			continue;
		if (*comma == '\0')
			add_key(text, key);
		text->length = text_append(text->out, STATE_TEXT_MAX, text->length, "%s%.80s", comma,
		    name);
		comma = ",";
	}
}

/* One that is in force. */
static void add_pace(struct text *text, const struct destination_state *s, int64_t now_ns) {
	int64_t changed_ns = pace_changed_ns(&s->pace);

	if (changed_ns == 0)
		return;
#define ADD_NUMBER(key, member, cut) add_number(text, key, member);
	PACE_ROWS(ADD_NUMBER)
#undef ADD_NUMBER
	if (changed_ns < now_ns)
		add_number(text, "pace_age", (uint64_t)(now_ns - changed_ns));
}

static void add_seen(struct text *text, const struct segment *segment, const char *name,
    int64_t now_ns) {
	char address[ADDRESS_TEXT_MAX], relay[SEGMENT_NAME_MAX + 1];
	struct destination_seen seen;

	if (!destinations_find(segment, name, strlen(name), &seen) ||
	    (seen.cloned_by == 0 && seen.other_by == 0 && seen.relay_count == 0))
		return;
	add_time(text, "seen", seen.seen_ns, now_ns);
	add_mtas(text, segment, "cloned", seen.cloned_by);
	add_mtas(text, segment, "other", seen.other_by);
	for (unsigned i = 0; i < seen.relay_count; i++) {
		(void)relays_find(segment, &seen.relays[i], relay);
		address_format(&seen.relays[i], address);
		text->length = text_append(text->out, STATE_TEXT_MAX, text->length,
		    " relay=%s/%s", address, relay);
	}
}

size_t state_text_write(const struct segment *segment, const struct destination_window *window,
    int64_t now_ns, char out[STATE_TEXT_MAX]) {
	const struct destination_state *s = &window->state;
	const struct window *w = &s->window;
	struct text text = { out, 0 };

	out[0] = '\0';
#define ADD_NUMBER(key, member, cut) add_number(&text, key, member);
#define ADD_TIME(key, member) add_time(&text, key, member, now_ns);
#define ADD_REAL(key, member, cut) add_double(&text, key, (double)member);
	STATE_ROWS(ADD_NUMBER, ADD_TIME)
	add_pace(&text, s, now_ns);
	if (s->begun) {
		WINDOW_ROWS(ADD_NUMBER, ADD_TIME, ADD_REAL)
	}
#undef ADD_NUMBER
#undef ADD_TIME
#undef ADD_REAL
	add_seen(&text, segment, window->name, now_ns);
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

/* What is read: texts point into it. */
struct state_reading {
	struct destination_window *window;
	struct state_seen *seen;
	int64_t then_ns;
};

static bool set_key(struct state_reading *reading, const char *key, char *text) {
	struct destination_window *window = reading->window;
	struct destination_state *s = &window->state;
	struct window *w = &s->window;
	struct state_seen *seen = reading->seen;
	uint64_t number = 0;
	double real = 0;
	bool ok;

#define SET_NUMBER(word, member, cut) \
	if (strcmp(key, word) == 0) { \
		ok = number_of(text, &number); \
		member = cut number; \
		return ok && (uint64_t)member == number; \
	}
#define SET_TIME(word, member) \
	if (strcmp(key, word) == 0) \
		return time_of(text, reading->then_ns, &member);
#define SET_REAL(word, member, cut) \
	if (strcmp(key, word) == 0) { \
		ok = double_of(text, &real); \
		member = cut real; \
		return ok; \
	}
	STATE_ROWS(SET_NUMBER, SET_TIME)
	PACE_ROWS(SET_NUMBER)
	WINDOW_ROWS(SET_NUMBER, SET_TIME, SET_REAL)
	SET_TIME("seen", seen->seen_ns)
#undef SET_NUMBER
#undef SET_TIME
#undef SET_REAL
	if (strcmp(key, "pace_age") == 0)
		return number_of(text, &number) && number <= PACE_AGE_MOST &&
		    (seen->pace_age_ns = (int64_t)number) >= 0;
	if (strcmp(key, "cloned") == 0)
		seen->cloned = text;
	else if (strcmp(key, "other") == 0)
		seen->other = text;
	else if (strcmp(key, "relay") != 0)
		return number_of(text, &number);
	else if (seen->relay_count < DESTINATION_RELAYS)
		seen->relays[seen->relay_count++] = text;
	return true;
}

bool state_text_read(char *text, int64_t then_ns, bool same_boot,
    struct destination_window *window, struct state_seen *seen) {
	struct state_reading reading = { window, seen, then_ns };
	struct window *w = &window->state.window;
	char *rest = NULL, *word;

	memset(&window->state, 0, sizeof(window->state));
	*seen = (struct state_seen){ .seen_ns = then_ns };
	for (word = strtok_r(text, " ", &rest); word != NULL;
	     word = strtok_r(NULL, " ", &rest)) {
		char *value = strchr(word, '=');

		if (value == NULL)
			return false;
		*value++ = '\0';
		if (!set_key(&reading, word, value))
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

/* --- how mail goes there -------------------------------------------------------- */

static void note_relay(struct segment *segment, const struct state_seen *seen, const char *name,
    char *relay) {
	struct delivery_seen delivery = { .name = name, .name_length = strlen(name),
		.mta = UINT8_MAX };
	char *slash = strchr(relay, '/');

	if (slash == NULL)
		return;
	*slash++ = '\0';
	if (!address_parse(relay, strlen(relay), &delivery.relay))
		return;
	delivery.relay_name = *slash == '\0' ? NULL : slash;
	delivery.relay_name_length = strlen(slash);
	(void)destinations_note(segment, &delivery, seen->seen_ns);
}

static uint8_t bits_of(const struct segment *segment, char *names) {
	char *rest = NULL;
	uint8_t bits = 0;

	if (names == NULL)
		return 0;
	for (char *name = strtok_r(names, ",", &rest); name != NULL;
	     name = strtok_r(NULL, ",", &rest))
		for (unsigned i = 0; i < SEGMENT_MTAS; i++)
			if (strncmp(segment->header->mtas[i].name, name,
				sizeof(segment->header->mtas[i].name)) == 0)
				bits |= (uint8_t)(1 << i);
	return bits;
}

static void note_mtas(struct segment *segment, const struct state_seen *seen, const char *name,
    uint8_t bits, bool cloned) {
	struct delivery_seen delivery = { .name = name, .name_length = strlen(name),
		.cloned = cloned };

	for (; delivery.mta < SEGMENT_MTAS; delivery.mta++)
		if ((bits >> delivery.mta & 1) != 0)
			(void)destinations_note(segment, &delivery, seen->seen_ns);
}

void state_seen_note(struct segment *segment, const char *name, const struct state_seen *seen) {
	for (unsigned i = seen->relay_count; i-- > 0;)
		note_relay(segment, seen, name, seen->relays[i]);
	note_mtas(segment, seen, name, bits_of(segment, seen->cloned), true);
	note_mtas(segment, seen, name, bits_of(segment, seen->other), false);
}
