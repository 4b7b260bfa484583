/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The first steps of a role's process after exec.
 * MODEL    It has its descriptors and is root still: exec makes a process readable for all of
 *          its user, a change of user ends that.  So it reads what the supervisor hands over,
 *          nothing else, drops its privileges, enters its sandbox, and then maps the segment, in which
 *          others can have written anything.
 * ERRORS   Any: the process ends, the supervisor starts another.
 * THREADS  One.
 */
#include "role/run/role_begin.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "engine/engine.h"
#include "role/run/feed_role.h"
#include "role/link/generation_memory.h"
#include "role/run/handover.h"
#include "role/run/keeper_duties.h"
#include "role/confine/misdeed.h"
#include "role/run/prepare_begin.h"
#include "role/confine/privileges.h"
#include "role/link/role.h"
#include "role/link/row.h"
#include "role/confine/sandbox.h"
#include "segment/onlooker.h"
#include "segment/file/segment.h"

static int role_failed(const char *what, const struct diag *diag, int code) {
	log_event(EVENT_SYSTEM, "text=\"%s: %s\"", what, diag->text);
	return code;
}

/* The kernel keeps 15 characters. */
static void role_set_title(const struct handover *handover) {
	char title[16];
	unsigned number = handover->context.number;
	int word = (int)strcspn(handover->name, "."), room = number < 10 ? 6 : 5;

	text_append(title, sizeof(title), 0, "postern-%.*s%u",
	    word < room ? word : room, handover->name, number);
	(void)prctl(PR_SET_NAME, title, 0, 0, 0);
}

/* By the supervisor's own configuration: any role could have written what is published. */
static int role_enter_sandbox(struct role_context *context, uint32_t *what,
    struct diag *diag) {
	struct generation *generation = generation_memory_map(context->fds[ROLE_FD_GENERATION], diag);
	int result;

	if (generation == NULL)
		return -1;
	close(context->fds[ROLE_FD_GENERATION]);
	context->fds[ROLE_FD_GENERATION] = -1;
	tzset();	/* its file is read once */
	if (context->kind == ROLE_FEED)
		feed_role_load(generation);
	misdeed_listen();
	result = sandbox_enter(generation, context->kind, context->fds[ROLE_FD_LIFELINE], what, diag);
	generation_memory_unmap(generation);
	return result;
}

static int role_serve(const struct role_context *context, struct diag *diag) {
	static int (*const mains[ROLE_KINDS])(const struct role_context *, struct engine *,
	    struct diag *) = {
		[ROLE_POLICY] = policy_role_main, [ROLE_MILTER] = milter_role_main,
		[ROLE_KEEPER] = keeper_role_main, [ROLE_FEED] = feed_role_main,
		[ROLE_METRICS] = metrics_role_main,
	};
	const struct role_row *row = role_row_of(context->kind);
	struct engine *engine;

	if (engine_open(&engine, context->segment, context->role_slot, diag) != 0)
		return -1;
	engine_beat_on(engine, context->fds[ROLE_FD_LIFELINE], context->fds[ROLE_FD_NUDGE]);
	if (row != NULL)
		return row->main(context, engine, diag);
	if (mains[context->kind] == NULL)
		return diag_set(diag, 0, "this build has no such worker");
	return mains[context->kind](context, engine, diag);
}

/* It returns only when it cannot go on. */
static int role_main(const struct role_context *context, const char *name) {
	struct diag diag;

	if (role_serve(context, &diag) == 0)
		return EX_OK;
	log_event(EVENT_SYSTEM, "from=%.*s text=\"%s\"", (int)strcspn(name, "."), name, diag.text);
	return EX_OSERR;
}

static int role_attach(struct role_context *context, const char *path, struct diag *diag) {
	context->onlooker = NULL;
	if (context->fds[ROLE_FD_ONLOOKER] >= 0 &&
	    (context->onlooker = onlooker_map(context->fds[ROLE_FD_ONLOOKER], diag)) == NULL)
		return -1;
	if (context->kind == ROLE_METRICS)
		return segment_attach_to_look(&context->segment, context->fds[ROLE_FD_STATE], path,
		    context->onlooker, diag);
	return segment_attach(&context->segment, context->fds[ROLE_FD_STATE], path, diag);
}

int role_begin(const char *descriptor) {
	static struct handover handover;
	struct role_context *context = &handover.context;
	struct diag diag;
	uint32_t fd, what;

	/* started by another user than root, it has nothing to drop that would do this */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return EX_NOPERM;
	if (!text_to_u32(descriptor, strlen(descriptor), INT32_MAX, &fd) ||
	    handover_receive((int)fd, &handover, &diag) != 0) {
		fputs("posternd: " ROLE_BEGIN_OPTION " is for posternd only\n", stderr);
		return EX_USAGE;
	}
	log_open(handover.log_target, "posternd", handover.log_facility);
	log_set_role(handover.name);
	if (privileges_drop(&handover.identity, &diag) != 0)
		return role_failed("cannot drop privileges", &diag, EX_NOPERM);
	process_die_with(handover.supervisor_pid);
	role_set_title(&handover);
	process_reset_signals();
	if (handover.duty != HANDOVER_SERVE)
		return prepare_begin(&handover);
	if (role_enter_sandbox(context, &what, &diag) != 0)
		return role_failed("cannot enter the sandbox", &diag, EX_NOPERM);
	if (role_attach(context, handover.state_path, &diag) != 0)
		return role_failed("cannot map the state", &diag, EX_DATAERR);
	segment_role_starting(context->segment, context->kind, context->number,
	    clock_now_ns());
	atomic_store(&segment_role(context->segment, context->role_slot)->sandbox, what);
	if (context->kind == ROLE_KEEPER && keeper_duties_prepare(context, &diag) != 0)
		return role_failed("cannot publish the configuration", &diag, EX_CANTCREAT);
	return role_main(context, handover.name);
}
