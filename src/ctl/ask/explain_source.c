/* SPDX-License-Identifier: ISC */
/* posternctl explain source: where the warm-up of source addresses stands.  One thread. */
#include <sysexits.h>

#include "ctl/act/state.h"
#include "ctl/cli/ctl.h"
#include "view/sources.h"

int command_EXPLAIN_SOURCE(struct ctl *ctl) {
	const char *name = ctl->argument_count > 0 ? ctl->arguments[0] : NULL;
	struct state state;
	int result = state_open(ctl, &state);

	if (result == EX_OK && state.view.generation == NULL) {
		ctl_complain("the active configuration cannot be read: %s",
		    state.view.no_generation.text);
		result = EX_UNAVAILABLE;
	} else if (result == EX_OK && state.view.generation->source_count == 0) {
		ctl_complain("%s: no sources are configured (sources)", ctl->config_path);
		result = EX_UNAVAILABLE;
	} else if (result == EX_OK && name != NULL && !view_source_is_known(&state.view, name)) {
		ctl_complain("unknown source %s", name);
		result = EX_DATAERR;
	}
	if (result == EX_OK)
		view_sources_write(&state.view, name, &ctl->writer, NULL);
	return state_close(&state, result);
}
