/* SPDX-License-Identifier: ISC */
/* posternctl destinations: those whose name fits the pattern (a mask, as in classes). */
#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "ctl/cli/ctl.h"
#include "ctl/act/state.h"
#include "view/destinations.h"
#include "view/name_pattern.h"

/* The state says what would be done. */
static void tell_observed(const struct ctl *ctl, const struct view_destinations *all) {
	char text[ENFORCEMENT_TEXT_MAX];

	if (ctl->writer.json || all->lacking.kind == ENFORCEMENT_APPLIED)
		return;
	if (all->lacking.kind == ENFORCEMENT_OBSERVED)
		ctl_complain("no mail is held: outbound mail is in observe mode "
		    "(outbound.observe)");
	else
		ctl_complain("%s: mail flows", enforcement_text(all->lacking.kind,
		    all->lacking.mta, text));
}

static bool fits(const void *pattern, const char *name) {
	return name_fits(name, pattern);
}

static int list_destinations(struct ctl *ctl, const struct mask *pattern) {
	const struct view_choice choice = { .wants = pattern == NULL ? NULL : fits,
		.context = pattern, .no_recipients = ctl->relays,
		.relays = ctl->relays };
	struct view_destinations all;
	struct state state;
	int result = state_open(ctl, &state);

	if (result != EX_OK)
		return state_close(&state, result);
	if (view_destinations_gather(&state.view, &choice, &all) != 0) {
		result = ctl_os_error(errno);
	} else {
		state_torn(all.torn_seen, "destinations");
		state_torn(all.torn_windows, "windows");
		state_torn(all.torn_recipients, "recipients");
		if (ctl->relays) {
			view_relays_write(&all, &ctl->writer);
		} else {
			view_destinations_write(&all, &ctl->writer, NULL);
			tell_observed(ctl, &all);
		}
	}
	view_destinations_free(&all);
	return state_close(&state, result);
}

int command_DESTINATIONS(struct ctl *ctl) {
	struct mask pattern;
	const char *why;

	if (ctl->argument_count == 0)
		return list_destinations(ctl, NULL);
	if (!name_pattern(ctl->arguments[0], &pattern, &why))
		return ctl_usage(COMMAND_DESTINATIONS, "bad pattern %s: %s",
		    ctl->arguments[0], why);
	return list_destinations(ctl, &pattern);
}
