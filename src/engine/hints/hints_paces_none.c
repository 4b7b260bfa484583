/* SPDX-License-Identifier: ISC */
/* Paces in the hints file, in a build without paces (configure --disable-pace): there are none. */
#include "engine/hints/hints_internal.h"

uint32_t hint_paces_wanted(const struct engine_hints *hints) {
	(void)hints;
	return 0;
}

void hint_paces_begin(struct engine_hints *hints) {
	(void)hints;
}

void hint_paces_free(struct engine_hints *hints) {
	(void)hints;
}

void hint_pace_follow(struct engine_hints *hints, const struct hint_key *key,
    const struct window_owner *owner, bool is_paced) {
	(void)hints, (void)key, (void)owner, (void)is_paced;
}

void hint_paces_turn(struct engine_hints *hints) {
	(void)hints;
}
