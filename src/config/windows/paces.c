/* SPDX-License-Identifier: ISC */
/*
 * Paces: of destinations, and what a reply rule with action slow says of them (by, floor and up).
 * The law is policy/window/pace.h.
 */
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/read/compilation.h"

static bool value_of(const config_setting_t *group, const char *path,
    struct setting_value *out) {
	return compilation_value_of(setting_find_in(BOOK_PROVIDERS, path), group, out) ||
	    compilation_member(group, path) == NULL;
}

static void refuse(struct compilation *c, const config_setting_t *group, const char *member,
    const char *text, const char *wanted) {
	char quoted[128];

	complain(c, compilation_member(group, member), "replies.%s: \"%s\" is not %s", member,
	    log_sentence(quoted, sizeof(quoted), text), wanted);
}

/* "10%/10m" */
static bool read_up(const char *text, struct pace_settings *out) {
	const char *slash = strchr(text, '/');
	char share[16];

	return slash != NULL && text_copy(share, sizeof(share), text, (size_t)(slash - text)) &&
	    text_to_share(share, &out->up) && text_to_duration_ns(slash + 1, &out->up_ns);
}

static void check(struct compilation *c, const config_setting_t *group,
    const struct pace_settings *settings) {
	struct pace_settings by = pace_defaults, floor = pace_defaults, up = pace_defaults;

	/* each alone */
	by.by = settings->by;
	floor.floor = settings->floor;
	up.up = settings->up;
	up.up_ns = settings->up_ns;
	if (!pace_settings_are_sound(&by))
		complain(c, compilation_member(group, "by"),
		    "replies.by: must be between 1%% and 95%%");
	if (!pace_settings_are_sound(&floor))
		complain(c, compilation_member(group, "floor"),
		    "replies.floor: must be between \"1/1d\" and \"1000/1s\"");
	if (!pace_settings_are_sound(&up))
		complain(c, compilation_member(group, "up"),
		    "replies.up: must be between 1%% and 100%%, in a time between 1s and 31d");
}

static void check_unused(struct compilation *c, const config_setting_t *group) {
	static const char *const members[] = { "by", "floor", "up" };

	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		const config_setting_t *where = compilation_member(group, members[i]);

		if (where != NULL)
			complain(c, where, "replies.%s is for action \"slow\" only", members[i]);
	}
}

void compile_slow(struct compilation *c, const config_setting_t *group,
    struct generation_reply_rule *rule) {
	struct pace_settings settings = pace_defaults;
	struct setting_value by, floor, up;

	if (rule->action != REPLY_ACTION_SLOW) {
		check_unused(c, group);
		return;
	}
	if (!value_of(group, "replies[].by", &by) || !value_of(group, "replies[].floor", &floor) ||
	    !value_of(group, "replies[].up", &up))
		return;	/* check.c has said so */
	settings.floor = (struct rate_limit){ .count = (uint32_t)floor.number,
		.period_ns = floor.period_ns };
	if (!text_to_share(by.text, &settings.by))
		refuse(c, group, "by", by.text, "a share such as \"50%\"");
	else if (!read_up(up.text, &settings))
		refuse(c, group, "up", up.text, "a rise such as \"10%/10m\"");
	else
		check(c, group, &settings);
	rule->pace = block_store(&c->block, &settings, sizeof(settings));
	if (rule->has_class)
		return;
	rule->class = RESULT_REMOTE_THROTTLE;
	rule->has_class = rule->pace_alone = true;
}

void compile_pace(struct compilation *c, const config_setting_t *group,
    const struct rate_limit *pace) {
	const config_setting_t *where = compilation_member(group, "pace");
	const config_setting_t *burst = compilation_member(group, "pace_burst");

	if (where == NULL && burst != NULL)
		complain(c, burst, "destinations.pace_burst needs pace");
	if (pace->count > 0 && !generation_pace_is_sound(pace))
		complain(c, where, "destinations.pace: must be between \"1/1d\" and \"1000/1s\"");
}
