/* SPDX-License-Identifier: ISC */
/* destinations[].pace, and the action slow of reply rules, in a build without paces (configure
 * --disable-pace): such a reply lowers the window. */
#include "config/read/compilation.h"

void compile_pace(struct compilation *c, const config_setting_t *group,
    const struct rate_limit *pace) {
	(void)pace;
	if (compilation_member(group, "pace") != NULL)
		complain(c, compilation_member(group, "pace"),
		    "destinations.pace: this posternd was built without paces");
}

void compile_slow(struct compilation *c, const config_setting_t *group,
    struct generation_reply_rule *rule) {
	(void)c, (void)group;
	if (rule->action != REPLY_ACTION_SLOW)
		return;
	rule->action = REPLY_ACTION_NONE;
	if (!rule->has_class)
		rule->class = RESULT_REMOTE_THROTTLE;
	rule->has_class = true;
}
