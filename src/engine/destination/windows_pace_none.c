/* SPDX-License-Identifier: ISC */
/* Tokens in a build without paces (configure --disable-pace): any number may go. */
#include "engine/destination/windows_internal.h"

int64_t windows_pace_take_held(struct state_lock *lock, const struct window_rules *rules,
    int64_t now_ns) {
	(void)lock, (void)rules, (void)now_ns;
	return 0;
}

void windows_pace_count(struct state_lock *lock, const struct window_rules *rules,
    const struct window_owner *owner, int64_t now_ns) {
	(void)lock, (void)rules, (void)owner, (void)now_ns;
}

void windows_pace_see(const struct engine *engine, const struct generation *generation,
    const struct window_owner *owner, uint32_t most, int64_t now_ns, struct window_tokens *out) {
	(void)engine, (void)generation, (void)owner, (void)now_ns;
	*out = (struct window_tokens){ .taken = most };
}

void windows_pace_restore(const struct engine *engine, const struct generation *generation,
    const char *name, int64_t age_ns, int64_t now_ns, struct pace *pace) {
	(void)engine, (void)generation, (void)name, (void)age_ns, (void)now_ns;
	*pace = (struct pace){ { 0, 0 } };
}
