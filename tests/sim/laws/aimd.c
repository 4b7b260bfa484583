/* SPDX-License-Identifier: ISC */
/*
 * Additive increase, multiplicative decrease, as TCP has it (Chiu and Jain 1989; RFC 5681
 * without slow start): one more a round of acceptances, half once a flight of refusals.
 */
#include "tests/sim/laws/law.h"

struct aimd {
	double window;
	int64_t halved_ns;
};

static void aimd_begin(void *state) {
	((struct aimd *)state)->window = LAW_INITIAL;
}

static uint32_t aimd_window(const void *state, int64_t now_ns) {
	(void)now_ns;
	return law_whole(((const struct aimd *)state)->window);
}

static void aimd_hear(void *state, const struct law_result *result, int64_t now_ns) {
	struct aimd *aimd = state;

	if (law_accepts(result)) {
		/* Only a window that is used may grow (RFC 7661). */
		if (2 * (result->in_flight + 1) >= law_whole(aimd->window))
			aimd->window = law_within(aimd->window + 1 / aimd->window);
	} else if (result->start_ns >= aimd->halved_ns) {
		aimd->window = law_within(aimd->window / 2);
		aimd->halved_ns = now_ns;
	}
}

const struct law law_aimd = { .name = "aimd", .source = "Chiu and Jain 1989, RFC 5681",
	.bytes = sizeof(struct aimd), .begin = aimd_begin, .window = aimd_window,
	.hear = aimd_hear };
