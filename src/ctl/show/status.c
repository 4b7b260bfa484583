/* SPDX-License-Identifier: ISC */
/* posternctl status. */
#include <sysexits.h>

#include "ctl/cli/ctl.h"
#include "ctl/act/state.h"
#include "view/status.h"

int command_STATUS(struct ctl *ctl) {
	struct state state;
	int result = state_open(ctl, &state);

	if (result == EX_OK)
		view_status_write(&state.view, &ctl->writer, ctl->all);
	return state_close(&state, result);
}
