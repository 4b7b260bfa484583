/* SPDX-License-Identifier: ISC */
/* The pace of a destination in a build without paces (configure --disable-pace): none is ever in
 * force, and what a journal or a state file has of one is no state. */
#include "policy/window/pace.h"

const struct pace_settings pace_defaults = { .by = 0 };

bool pace_settings_are_sound(const struct pace_settings *settings) {
	return settings->limit.count == 0;
}

bool pace_is_learned(const struct pace *pace) {
	(void)pace;
	return false;
}

bool pace_differs(const struct pace *a, const struct pace *b) {
	(void)a, (void)b;
	return false;
}

int64_t pace_changed_ns(const struct pace *pace) {
	(void)pace;
	return 0;
}

void pace_set(struct pace *pace, const struct pace_settings *settings, int64_t interval_ns,
    int64_t now_ns) {
	(void)pace, (void)settings, (void)interval_ns, (void)now_ns;
}

int64_t pace_wait_ns(const struct pace *pace, const struct pace_settings *settings,
    int64_t now_ns) {
	(void)pace, (void)settings, (void)now_ns;
	return 0;
}

void pace_look(const struct pace *pace, const struct pace_settings *settings, int64_t now_ns,
    struct pace_view *view) {
	(void)pace, (void)settings, (void)now_ns;
	*view = (struct pace_view){ .interval_ns = 0 };
}
