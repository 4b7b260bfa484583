/* SPDX-License-Identifier: ISC */
/* What stands in the words of a destination's state.  No lock, no state: any thread. */
#include <string.h>

#include "segment/destination/destination_table.h"

#define PACE_IN_STATE	(KEPT_WORDS + WINDOW_WORDS)
_Static_assert(STATE_WORDS * 8 == PACE_IN_STATE * 8 + sizeof(struct pace), "all three");

void state_decode(const uint64_t words[STATE_WORDS], uint64_t seen,
    int64_t created_ns, struct destination_state *out) {
	uint32_t resumed_ds = RESUMED_OF(words);

	memcpy(&out->window, words + KEPT_WORDS, sizeof(out->window));
	out->begun = out->window.concurrency != 0;
	memcpy(&out->pace, words + PACE_IN_STATE, sizeof(out->pace));
	out->flags = FLAGS_OF(words);
	out->in_flight = IN_FLIGHT_OF(words);
	out->connected = CONNECTED_OF(words);
	out->running = RUNNING_OF(words);
	out->ok = OK_OF(words);
	out->failed = FAILED_OF(words);
	out->held = HELD_OF(words);
	out->resumed_ns = resumed_ds == 0 ? 0 :
	    created_ns + resumed_ds * DS_NS;
	out->seen_ns = created_ns + SEEN_DS(seen) * DS_NS;
}

static uint32_t resumed_ds(int64_t resumed_ns, int64_t created_ns) {
	int64_t ds;

	if (resumed_ns <= 0)
		return 0;
	ds = (resumed_ns - created_ns + DS_NS - 1) / DS_NS;
	return ds < 1 ? 1 : ds > RESUMED_MOST ? RESUMED_MOST : (uint32_t)ds;
}

void state_encode(const struct destination_state *state, int64_t created_ns,
    uint64_t words[STATE_WORDS]) {
	uint8_t flags = state->flags & (uint8_t)~DESTINATION_HELD;

	if (state->begun && window_is_by_hand(&state->window))
		flags |= DESTINATION_HELD;
	words[0] = state->ok | (uint64_t)state->failed << 32;
	words[1] = state->held | (words[1] & UINT64_C(0x00ffffff00000000)) |
	    (uint64_t)flags << 56;
	words[2] = state->in_flight | (uint64_t)state->connected << 12 |
	    (uint64_t)(state->running < FLIGHTS_MOST ? state->running :
		FLIGHTS_MOST) << 24 |
	    (uint64_t)resumed_ds(state->resumed_ns, created_ns) << RESUMED_SHIFT;
	if (state->begun)
		memcpy(words + KEPT_WORDS, &state->window, sizeof(state->window));
	else
		memset(words + KEPT_WORDS, 0, sizeof(state->window));
	memcpy(words + PACE_IN_STATE, &state->pace, sizeof(state->pace));
}

static bool is_begun(const struct window *window) {
	static const struct window none;

	return memcmp(window, &none, sizeof(none)) != 0;
}

bool state_make_sound(struct destination_state *state) {
	if (is_begun(&state->window) && window_is_sound(&state->window))
		return false;
	state->begun = false;
	if (!is_begun(&state->window))
		return false;
	memset(&state->window, 0, sizeof(state->window));
	return true;
}

bool states_is_timed(const uint64_t *words) {
	struct window window;

	memcpy(&window, words, sizeof(window));
	return window.state == WINDOW_DEAD || window.state == WINDOW_HELD ||
	    window.canary_out;
}
