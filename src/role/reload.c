/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Reload: SIGHUP and posternctl both end here.
 * MODEL    Compile, keep what waits for a restart, publish.  Until the number is
 *          published nothing has changed, and after it nothing can fail.
 * ERRORS   A mistake in the file or a full disk: the old configuration stays,
 *          and everybody who asked hears why.
 * THREADS  The supervisor's.
 */
#include "role/reload.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/log.h"
#include "base/sd_notify.h"
#include "base/text.h"
#include "role/children.h"
#include "role/confinement.h"
#include "role/restart_only.h"
#include "role/supervisor.h"
#include "segment/segment.h"

static void count(struct supervisor *supervisor, enum counter counter) {
	atomic_fetch_add(&segment_header(supervisor->segment)->counters[counter],
	    1);
}

static void note_setting(void *context, const char *setting) {
	struct reload_outcome *outcome = context;

	log_event(EVENT_NEEDS_RESTART, "setting=%s", setting);
	if (outcome->needs_count == RELOAD_NEEDS_MAX)
		return;
	text_copy(outcome->needs_restart[outcome->needs_count++],
	    sizeof(outcome->needs_restart[0]), setting, strlen(setting));
}

static void refuse(struct supervisor *supervisor, struct reload_outcome *outcome,
    int code, const char *why) {
	char reason[sizeof(outcome->error)];

	outcome->exit_code = code;
	text_copy(outcome->error, sizeof(outcome->error), why, strlen(why));
	count(supervisor, COUNTER_RELOADS_REFUSED);
	log_event(EVENT_CONFIG,
	    "text=\"not reloaded, the old configuration stays\" generation=%" PRIu64
	    " reason=\"%s\"", outcome->generation,
	    log_sentence(reason, sizeof(reason), why));
}

static void put_in_force(struct supervisor *supervisor, struct generation *wanted,
    struct reload_outcome *outcome) {
	struct diag diag;
	struct generation *block;

	config_restart_differences(supervisor->generation, wanted, note_setting,
	    outcome);
	block = restart_only_keep(wanted, supervisor->generation);
	if (block == NULL) {
		free(wanted);
		refuse(supervisor, outcome, EX_OSERR, "no memory");
		return;
	}
	if (segment_publish(supervisor->segment, block, &diag) != 0) {
		free(block);
		refuse(supervisor, outcome, EX_TEMPFAIL, diag.text);
		return;
	}
	free(supervisor->generation);
	supervisor->generation = block;
	outcome->generation = block->number;
	children_replan(supervisor);
	count(supervisor, COUNTER_RELOADS);
	log_event(EVENT_RELOADED, "generation=%" PRIu64 " classes=%u rules=%u",
	    block->number, block->class_count, block->rule_count);
	confinement_note(block);
}

void reload_run(struct supervisor *supervisor, struct reload_outcome *outcome) {
	struct generation *wanted;
	char text[64];

	memset(outcome, 0, sizeof(*outcome));
	outcome->generation = supervisor->generation->number;
	sd_notify_reloading();
	wanted = config_compile(supervisor->config_file, &outcome->messages);
	supervisor_log_messages(&outcome->messages);
	if (wanted != NULL) {
		put_in_force(supervisor, wanted, outcome);
	} else {
		snprintf(text, sizeof(text), "%zu mistake%s in the configuration",
		    outcome->messages.errors,
		    outcome->messages.errors == 1 ? "" : "s");
		refuse(supervisor, outcome, EX_CONFIG, text);
	}
	sd_notify_send("READY=1");
}

void reload_outcome_free(struct reload_outcome *outcome) {
	config_messages_free(&outcome->messages);
}
