/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A pace in 16 bytes (pace.h).
 * MODEL    Times of this kind have 5 bits of exponent, and are rounded up.
 * ERRORS   None: any bytes are some state.
 * THREADS  No state.
 */
#include "policy/window/pace_internal.h"

#define ACTIVE_BITS	10

int64_t pace_interval_within(double ticks) {
	int64_t whole;

	if (ticks <= SHORTEST || ticks >= LONGEST)
		return ticks <= SHORTEST ? SHORTEST : LONGEST;
	whole = (int64_t)ticks;
	return whole + ((double)whole < ticks);
}

int64_t pace_interval_of(const struct rate_limit *limit) {
	return pace_interval_within((double)limit->period_ns / limit->count / TICK_NS);
}

/* In so many bits, 5 of them an exponent, rounded up.  Longer times have greater codes. */
static unsigned code_of(int64_t ticks, unsigned bits) {
	int64_t first = INT64_C(1) << (bits - 5);
	unsigned doubled = 0;

	if (ticks < first)
		return (unsigned)ticks;
	while (ticks >= 2 * first) {
		ticks = (ticks + 1) / 2;
		doubled++;
	}
	return (doubled + 1) << (bits - 5) | (unsigned)(ticks - first);
}

static int64_t code_value(unsigned code, unsigned bits) {
	unsigned first = 1u << (bits - 5);

	return code < first ? (int64_t)code : (int64_t)(first + code % first) << (code / first - 1);
}

unsigned pace_interval_code(int64_t ticks) {
	return code_of(ticks, CODE_BITS);
}

int64_t pace_interval_decode(unsigned code) {
	return code_value(code, CODE_BITS);
}

int64_t pace_interval_stored(double ticks) {
	return pace_interval_decode(pace_interval_code(pace_interval_within(ticks)));
}

/* words[0]: time 42 bits, interval or count 14, line, accepted, raised, slowly, longer 2; words[1]:
 * changed 32 bits, proven or last 14, refused 3, halved 5, active 10. */
struct pace_state pace_unpack(const struct pace *pace) {
	uint64_t a = pace->words[0], b = pace->words[1];
	unsigned first = (unsigned)(a >> 42 & COUNT_MOST), second = (unsigned)(b >> 32 & COUNT_MOST);
	bool line = a >> 56 & 1;

	return (struct pace_state){
		.line = line,
		.time = (int64_t)(a & ((UINT64_C(1) << 42) - 1)),
		.changed_ns = (int64_t)(b & UINT32_MAX) * CHANGE_NS,
		.interval = line ? pace_interval_decode(first) : 0,
		.proven = line ? pace_interval_decode(second) : 0,
		.count = first,
		.last = second,
		.active = code_value((unsigned)(b >> 54), ACTIVE_BITS),
		.refused = (unsigned)(b >> 46 & 7),
		.halved = (unsigned)(b >> 49 & 31),
		.longer = (unsigned)(a >> 60 & 3),
		.accepted = a >> 57 & 1,
		.raised = a >> 58 & 1,
		.slowly = a >> 59 & 1,
		.guessed = a >> 62 & 1,
		.deeply = a >> 63 & 1,
	};
}

void pace_pack(const struct pace_state *state, struct pace *pace) {
	uint64_t first = state->line ? pace_interval_code(state->interval) : state->count;
	uint64_t second = state->line ? pace_interval_code(state->proven) : state->last;

	pace->words[0] = ((uint64_t)state->time & ((UINT64_C(1) << 42) - 1)) | first << 42 |
	    (uint64_t)state->line << 56 | (uint64_t)state->accepted << 57 |
	    (uint64_t)state->raised << 58 | (uint64_t)state->slowly << 59 |
	    (uint64_t)state->longer << 60 | (uint64_t)state->guessed << 62 |
	    (uint64_t)state->deeply << 63;
	pace->words[1] = ((uint64_t)(state->changed_ns / CHANGE_NS) & UINT32_MAX) | second << 32 |
	    (uint64_t)state->refused << 46 | (uint64_t)state->halved << 49 |
	    (uint64_t)code_of(state->active, ACTIVE_BITS) << 54;
}

/* --- what the words say as they are: whoever stores a state asks for each --------------- */

#define LINE_BIT	(UINT64_C(1) << 56)
#define INTERVAL_BITS	((uint64_t)COUNT_MOST << 42)
#define HALVED_BITS	(UINT64_C(31) << 49)

bool pace_is_learned(const struct pace *pace) {
	return (pace->words[0] & LINE_BIT) != 0 && (pace->words[0] & INTERVAL_BITS) != 0;
}

bool pace_differs(const struct pace *a, const struct pace *b) {
	uint64_t changed = a->words[0] ^ b->words[0];

	if (((a->words[0] | b->words[0]) & LINE_BIT) == 0)
		return false;
	return (changed & (LINE_BIT | INTERVAL_BITS)) != 0 ||
	    ((a->words[1] ^ b->words[1]) & HALVED_BITS) != 0;
}

int64_t pace_changed_ns(const struct pace *pace) {
	struct pace_state state = pace_unpack(pace);

	return state.line ? state.changed_ns : 0;
}
