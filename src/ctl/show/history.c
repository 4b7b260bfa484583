/* SPDX-License-Identifier: ISC */
/* posternctl history: the last 24 hours, minute by minute. */
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/cli/ctl.h"
#include "ctl/act/state.h"
#include "view/history.h"

#define ROWS_FOR_PEOPLE	60u

static int minutes_wanted(const struct ctl *ctl, unsigned *minutes) {
	int64_t ns;

	*minutes = 60;
	if (ctl->since == NULL)
		return EX_OK;
	if (!text_to_duration_ns(ctl->since, &ns) || ns < 60 * NS_PER_SECOND ||
	    ns > (int64_t)HISTORY_MINUTES * 60 * NS_PER_SECOND)
		return ctl_usage(COMMAND_HISTORY, "--since %s: must be a time from 1m to 24h",
		    ctl->since);
	*minutes = (unsigned)(ns / (60 * NS_PER_SECOND));
	return EX_OK;
}

static int show_history(struct ctl *ctl, const struct state *state,
    const struct view_history_want *want) {
	struct history *history;
	struct diag diag;
	int result = EX_OK;

	if (state->view.generation != NULL && state->view.generation->history_bytes == 0) {
		ctl_complain("no history is kept (state.history = 0)");
		return EX_UNAVAILABLE;
	}
	if (history_look(&history, state->view.path, &diag) != 0)
		return ctl_fail(&diag);
	if (view_history_write(history, view_history_minute(), want, &ctl->writer) != 0) {
		ctl_complain(want->kind == HISTORY_SESSIONS ? "%sno minute is known yet" :
		    "%s: no history: it is unknown, or not among the busiest (state.history)",
		    want->name);
		result = EX_NOHOST;
	}
	history_close(&history);
	return result;
}

int command_HISTORY(struct ctl *ctl) {
	struct view_history_want want = { .kind = HISTORY_SESSIONS, .name = "" };
	char name[SEGMENT_NAME_MAX + 1];
	struct state state;
	int result = minutes_wanted(ctl, &want.minutes);

	if (result != EX_OK)
		return result;
	if (ctl->class != NULL && ctl->argument_count > 0)
		return ctl_usage(COMMAND_HISTORY, "history: a destination or --class, not both");
	if (ctl->class != NULL)
		want = (struct view_history_want){ HISTORY_CLASS, ctl->class, want.minutes, 1 };
	else if (ctl->argument_count > 0)
		want = (struct view_history_want){ HISTORY_DESTINATION, history_folded(
		    ctl->arguments[0], name), want.minutes, 1 };
	if (!ctl->writer.json)
		want.step = (want.minutes + ROWS_FOR_PEOPLE - 1) / ROWS_FOR_PEOPLE;
	result = state_open(ctl, &state);
	if (result == EX_OK || result == EX_UNAVAILABLE) {
		int shown = state.view.reader == NULL ? result : show_history(ctl, &state, &want);

		result = shown == EX_OK ? result : shown;
	}
	return state_close(&state, result);
}
