/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  One word about the daemon, for whoever watches many machines.
 * MODEL    Unhealthy is what keeps Postern from its own work.  That it does its work (a
 *          gate that is shut, destinations that are suspended) is no fault.
 * THREADS  One.
 */
#include "view/health.h"

#include <string.h>

#include "base/clock.h"
#include "view/verdict.h"

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
	struct reader_role role;

	for (uint32_t i = 0; view->status.health == READER_LIVE &&
	     reader_role(view->reader, i, &role); i++)
		if (health_role_is_behind(view, &role))
			return "behind";
	return view_health(view->status.health);
}

static void say_role(FILE *out, const struct view *view, const struct reader_role *role) {
	long long silent_s = (view->status.now_ns - role->heartbeat_ns) / NS_PER_SECOND;
	char name[VIEW_ROLE_NAME_MAX];

	view_role_name(role, name);
	if (role->pid <= 0)
		fprintf(out, "worker %s is not running\n", name);
	else if (health_role_is_up(view, role))
		fprintf(out, "worker %s uses configuration %llu instead of %llu (see the "
		    "log)\n",
		    name, (unsigned long long)role->generation,
		    (unsigned long long)view->status.generation);
	else
		fprintf(out, "worker %s is not responding (last heartbeat %lld s ago)\n",
		    name, silent_s);
}

static bool check_state(const struct view *view, FILE *out) {
	bool lives = view->status.health == READER_LIVE;
	char away[VIEW_AWAY_MAX];

	if (!lives && out != NULL)
		fprintf(out, "%s\n", view_away(view, away));
	return lives;
}

/* The verdict's, but for what was said above. */
static void write_notes(struct view *view, FILE *out) {
	struct view_verdict verdict;

	view_verdict(view, &verdict);
	for (unsigned i = 0; i < verdict.count; i++)
		if (strcmp(verdict.parts[i].about, "workers") != 0 && !verdict.parts[i].is_mode)
			fprintf(out, "note: %s\n", verdict.parts[i].text);
}

static bool check_drive(const struct view *view, FILE *out) {
	if (view->generation == NULL || !generation_drive_is_refused(view->generation))
		return true;
	if (out != NULL)
		fprintf(out, "the queue is not managed because the service restricts posternd: "
		    "%s\n",
		    view->generation->confined);
	return false;
}

bool health_check(struct view *view, FILE *out) {
	bool healthy = check_state(view, out);
	struct reader_role role;

	for (uint32_t i = 0; reader_role(view->reader, i, &role); i++) {
		if (health_role_is_up(view, &role) && !health_role_is_behind(view, &role))
			continue;
		healthy = false;
		if (out != NULL)
			say_role(out, view, &role);
	}
	healthy = check_drive(view, out) && healthy;
	if (out == NULL)
		return healthy;
	if (healthy)
		fputs("ok\n", out);
	write_notes(view, out);
	return healthy;
}
