/* SPDX-License-Identifier: ISC */
/* posternctl status: says by its exit code, too, whether the daemon lives. */
#include <sysexits.h>

#include "ctl/ctl.h"
#include "ctl/state.h"
#include "view/status.h"

int command_STATUS(struct ctl *ctl) {
	struct state state;
	int result = state_open(ctl, &state);

	if (result == EX_OK) {
		view_status_write(&state.view, &ctl->writer, ctl->all);
		if (state.view.status.health != READER_LIVE)
			result = EX_UNAVAILABLE;
	}
	state_close(&state);
	return result;
}
