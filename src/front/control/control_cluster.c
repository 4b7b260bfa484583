/* SPDX-License-Identifier: ISC */
/* The control server's answer to cluster forget: the order is put where the cluster role
 * finds it; what comes of it, it tells in the segment.  And what it tells there of itself, for
 * other answers. */
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/knowledge.h"
#include "front/control/control_answer.h"
#include "front/control/control_row.h"
#include "segment/cluster/cluster_told.h"
#include "wire/cluster/cluster_call.h"

#define SILENT_NS	(10 * NS_PER_SECOND)
#define FAILS_NS	(3 * NS_PER_SECOND)	/* it is tried again each second */

size_t control_answer_cluster(struct engine *engine, const struct control_frame *request,
    uid_t uid, char *out) {
	const char *node = control_frame_get(request, "node");
	char name[CLUSTER_TOLD_NAME] = "";
	struct control_writer writer;

	if (node == NULL || !cluster_node_name_is_good(node))
		return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_USAGE,
		    "node: not a valid node name");
	text_append(name, sizeof(name), 0, "%s", node);
	control_answer_begin(&writer, out);
	control_writer_add(&writer, "order", "%llu",
	    (unsigned long long)engine_cluster_order(engine, name, uid));
	return control_answer_finish(&writer, out);
}

/* Nothing is written while the channel is not heard. */
static bool can_tell(const struct cluster_told *told, int64_t now_ns) {
	bool well = told->state == CLUSTER_STATE_JOINED || told->state == CLUSTER_STATE_WAITING;
	bool fails = told->unwritten > 0 && told->error != 0 && now_ns - told->error_ns < FAILS_NS;

	return well && told->hears != 0 && !fails;
}

void control_answer_untold(struct control_writer *writer, struct engine *engine,
    const struct generation *generation, const char *name, int64_t now_ns) {
	struct cluster_told told;

	if (!generation_has_cluster(generation) ||
	    !knowledge_tells_of(generation, name, strlen(name)))
		return;
	(void)cluster_told_read(engine_cluster_told(engine), &told);
	if (now_ns - told.told_ns > SILENT_NS)
		control_writer_add(writer, "untold", "state away");
	else if (!can_tell(&told, now_ns))
		control_writer_add(writer, "untold", "state %s%s%s%s%s",
		    cluster_state_word((enum cluster_state)told.state),
		    told.error == 0 ? "" : ", error ", told.error == 0 ? "" :
		    cluster_error_word((enum cluster_error)(told.error - 1)),
		    told.error == 0 ? "" : ": ", told.error == 0 ? "" : told.why);
}
