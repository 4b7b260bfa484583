/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  One word about the daemon, for whoever watches many machines.
 * MODEL    Unhealthy is what keeps Postern from its own work.  That it does its work (a
 *          gate that is shut, destinations that are suspended) is no fault.
 * THREADS  One.
 */
#include "view/health.h"

#include "base/clock.h"

static bool has_nothing_to_do(const struct view *view, const struct reader_role *role) {
	return role->kind == ROLE_QUEUE && view->generation != NULL &&
	    !generation_drives(view->generation);
}

bool health_role_is_up(const struct view *view, const struct reader_role *role) {
	return has_nothing_to_do(view, role) || (role->pid > 0 &&
	    view->status.now_ns - role->heartbeat_ns < HEALTH_SILENCE_NS);
}

bool health_role_is_behind(const struct view *view, const struct reader_role *role) {
	const struct reader_status *status = &view->status;
	int64_t since_ns = role->started_ns > status->published_ns ?
	    role->started_ns : status->published_ns;

	return role->pid > 0 && role->generation < status->generation &&
	    status->now_ns - since_ns > HEALTH_BEHIND_NS;
}

const char *health_word(const struct view *view) {
	static const char *const words[] = { [READER_LIVE] = "live", [READER_STALE] = "stale",
		[READER_REPLACED] = "replaced" };
	struct reader_role role;

	for (uint32_t i = 0; view->status.health == READER_LIVE &&
	     reader_role(view->reader, i, &role); i++)
		if (health_role_is_behind(view, &role))
			return "behind";
	return words[view->status.health];
}
