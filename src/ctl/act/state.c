/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Opens what status, classes and sessions read.
 * MODEL    Where it is: by the configuration, or by asking the daemon; then view/view.h.
 * ERRORS   No state file: an exit code.  No published configuration: a complaint.
 * THREADS  One.
 */
#include "ctl/act/state.h"

#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/text.h"
#include "ctl/act/control_client.h"
#include "segment/reader.h"

#define MISSED_BEAT_NS	(2 * NS_PER_SECOND)

/* Where its lock cannot be read, the pid decides; but that may be of another PID namespace, in
 * which a living daemon has beaten less than that ago. */
void state_look_for_daemon(struct view *view) {
	struct reader_status *status = &view->status;
	enum segment_holder holder;

	if (status->health != READER_LIVE)
		return;
	holder = segment_lock_look(view->path);
	if (holder == SEGMENT_FREE || (holder == SEGMENT_HOLDER_UNKNOWN &&
		status->now_ns - status->heartbeat_ns > MISSED_BEAT_NS &&
		process_is_gone(status->supervisor_pid)))
		status->health = READER_STALE;
}

static void ping_row(void *context, const struct control_frame *frame) {
	const char *path = control_frame_get(frame, "state");
	struct places *places = context;

	if (path != NULL)
		text_copy(places->state, sizeof(places->state), path, strlen(path));
}

int state_ask_place(struct places *places, struct diag *diag) {
	static const struct control_field request = { "command", "ping" };
	struct control_reply reply;

	return control_ask(places->control, &request, 1, CONTROL_TIMEOUT_MS, ping_row, places,
	    &reply, diag);
}

bool state_is_asked_for(const struct ctl *ctl) {
	return ctl->socket != NULL && !ctl->config_given;
}

int state_open(const struct ctl *ctl, struct state *state) {
	char away[VIEW_AWAY_MAX];
	struct diag diag;
	int result;

	memset(state, 0, sizeof(*state));
	result = places_find(ctl, &state->places);
	if (result == EX_OK && state_is_asked_for(ctl))
		result = state_ask_place(&state->places, &diag) == 0 ? EX_OK : ctl_fail(&diag);
	if (result != EX_OK)
		return result;
	if (view_open(&state->view, state->places.state, &diag) != 0)
		return ctl_fail(&diag);
	state_look_for_daemon(&state->view);
	if (state->view.status.health != READER_LIVE)
		ctl_complain("warning: %s; showing stale data", view_away(&state->view, away));
	if (state->view.no_generation.text[0] != '\0')
		ctl_complain("%s", state->view.no_generation.text);
	return EX_OK;
}

int state_close(struct state *state, int result) {
	bool away = state->view.reader != NULL && state->view.status.health != READER_LIVE;

	view_close(&state->view);
	return result == EX_OK && away ? EX_UNAVAILABLE : result;
}

void state_torn(unsigned torn, const char *what) {
	if (torn > 0)
		ctl_complain("%u %s omitted because they changed while being read",
		    torn, what);
}
