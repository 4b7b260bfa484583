/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl cluster and posternctl cluster forget.
 * MODEL    The state file knows all that the cluster role does: nobody but that role talks to
 *          Redis.  What it is asked to do goes by the daemon, and what came of it is read.
 * ERRORS   No cluster: EX_UNAVAILABLE.
 * THREADS  One.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "ctl/act/control_client.h"
#include "ctl/cli/ctl.h"
#include "ctl/act/state.h"
#include "view/cluster.h"

#define PATIENCE_NS	(10 * NS_PER_SECOND)
#define LOOK_MS		50

static int check_there(const struct ctl *ctl, const struct state *state) {
	if (state->view.generation != NULL && generation_has_cluster(state->view.generation))
		return EX_OK;
	ctl_complain("%s: no cluster is configured (block cluster)", ctl->config_path);
	return EX_UNAVAILABLE;
}

int command_CLUSTER(struct ctl *ctl) {
	struct state state;
	int result = state_open(ctl, &state);

	if (result == EX_OK)
		result = check_there(ctl, &state);
	if (result == EX_OK && view_cluster_write(&state.view, &ctl->writer) != 0)
		result = ctl_os_error(errno);
	return state_close(&state, result);
}

/* --- forget ---------------------------------------------------------------------------- */

static void take_order(void *context, const struct control_frame *frame) {
	const char *number = control_frame_get(frame, "order");

	if (number == NULL || !text_to_u64(number, context))
		*(uint64_t *)context = 0;
}

static int tell_outcome(const char *node, const struct cluster_told *told) {
	switch ((enum cluster_outcome)told->order_outcome) {
	case CLUSTER_OUTCOME_DONE:
		return EX_OK;
	case CLUSTER_OUTCOME_ALIVE:
		ctl_complain("%s: the node is alive, or was until a moment ago; stop posternd "
		    "there first, and try again when its lease has ended", node);
		return EX_TEMPFAIL;
	case CLUSTER_OUTCOME_UNKNOWN:
		ctl_complain("%s: unknown node", node);
		return EX_NOHOST;
	case CLUSTER_OUTCOME_ITSELF:
		ctl_complain("%s: a node cannot remove itself; stop posternd here and run this "
		    "command on another node", node);
		return EX_USAGE;
	case CLUSTER_OUTCOME_UNSURE:
		ctl_complain("%s: the result is unknown; see posternctl cluster and try again",
		    node);
		return EX_TEMPFAIL;
	default:
		ctl_complain("%s: not removed, because this node is not connected to the "
		    "cluster; posternctl cluster shows why", node);
		return EX_UNAVAILABLE;
	}
}

static int wait_for(struct state *state, const char *node, uint64_t order) {
	int64_t end_ns = clock_now_ns() + PATIENCE_NS;
	struct cluster_told told;

	while (clock_now_ns() < end_ns) {
		bool known = reader_cluster(state->view.reader, &told);

		if (known && told.order_number == order)
			return tell_outcome(node, &told);
		/* what became of this one, that does not tell */
		if (known && told.order_number > order) {
			ctl_complain("%s: another node is being removed at the same time; try "
			    "again", node);
			return EX_TEMPFAIL;
		}
		(void)poll(NULL, 0, LOOK_MS);
	}
	ctl_complain("%s: the cluster worker does not answer", node);
	return EX_TEMPFAIL;
}

int command_CLUSTER_FORGET(struct ctl *ctl) {
	const char *node = ctl->arguments[0];
	const struct control_field fields[] = { { "command", "cluster forget" },
		{ "node", node } };
	uint64_t order = 0;
	struct state state;
	int result = state_open(ctl, &state);

	if (result == EX_OK)
		result = check_there(ctl, &state);
	if (result == EX_OK)
		result = control_order(state.places.control, fields, 2, take_order, &order);
	if (result == EX_OK)
		result = wait_for(&state, node, order);
	return state_close(&state, result);
}
