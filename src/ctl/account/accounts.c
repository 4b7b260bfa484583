/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl accounts, account, explain account, forget account, resume account.
 * MODEL    The state file and the configuration in force tell all but the last two, which
 *          the daemon does.
 * ERRORS   No accounts in the configuration, or in this build: EX_UNAVAILABLE.
 * THREADS  One.
 */
#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "ctl/act/control_client.h"
#include "ctl/cli/ctl.h"
#include "ctl/act/state.h"
#include "view/accounts.h"

#ifdef WITH_ACCOUNTS
static int check_there(const struct ctl *ctl, const struct state *state) {
	if (state->view.generation == NULL) {
		ctl_complain("the active configuration cannot be read: %s",
		    state->view.no_generation.text);
		return EX_UNAVAILABLE;
	}
	if (state->view.generation->accounts.count > 0)
		return EX_OK;
	ctl_complain("%s: no accounts are configured (accounts)", ctl->config_path);
	return EX_UNAVAILABLE;
}

int command_ACCOUNTS(struct ctl *ctl) {
	struct view_accounts_choice choice = { .over = ctl->over,
		.pattern = ctl->argument_count > 0 ? ctl->arguments[0] : NULL };
	unsigned torn = 0;
	struct state state;
	int result;

	if (ctl->sort != NULL && !view_accounts_order(ctl->sort, &choice.order)) {
		ctl_complain("accounts: --sort: use used, refused, accepted, seen or login");
		return EX_USAGE;
	}
	result = state_open(ctl, &state);
	if (result == EX_OK)
		result = check_there(ctl, &state);
	if (result == EX_OK &&
	    view_accounts_write(&state.view, &ctl->writer, &choice, &torn) != 0)
		result = ctl_os_error(errno);
	state_torn(torn, "accounts");
	return state_close(&state, result);
}

static int show_account(struct ctl *ctl, bool explain) {
	struct state state;
	int result = state_open(ctl, &state);

	if (result == EX_OK)
		result = check_there(ctl, &state);
	if (result == EX_OK && !view_account_write(&state.view, &ctl->writer, ctl->arguments[0],
	    explain)) {
		ctl_complain("%s: no entry of accounts matches this login; it has no limits",
		    ctl->arguments[0]);
		result = EX_NOHOST;
	}
	return state_close(&state, result);
}

int command_ACCOUNT(struct ctl *ctl) {
	return show_account(ctl, false);
}

int command_EXPLAIN_ACCOUNT(struct ctl *ctl) {
	return show_account(ctl, true);
}

static int order(struct ctl *ctl, const char *words) {
	const struct control_field fields[] = { { "command", words },
		{ "login", ctl->arguments[0] } };
	struct places places;
	int result = places_find(ctl, &places);

	if (result == EX_OK)
		result = control_order(places.control, fields, 2, NULL, NULL);
	return result;
}

int command_FORGET_ACCOUNT(struct ctl *ctl) {
	return order(ctl, "forget account");
}

int command_RESUME_ACCOUNT(struct ctl *ctl) {
	return order(ctl, "resume account");
}
#else
int command_without_accounts(struct ctl *ctl) {
	(void)ctl;
	ctl_complain("this build has no accounts (configure --disable-accounts)");
	return EX_UNAVAILABLE;
}
#endif
