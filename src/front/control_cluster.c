/* SPDX-License-Identifier: ISC */
/* The control server's answer to cluster forget: the order is put where the cluster role
 * finds it; what comes of it, it tells in the segment. */
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "engine/cluster.h"
#include "front/control_internal.h"
#include "front/control_row.h"
#include "wire/cluster_call.h"

size_t control_answer_cluster(struct engine *engine, const struct control_frame *request,
    char *out) {
	const char *node = control_frame_get(request, "node");
	char name[CLUSTER_TOLD_NAME] = "";
	struct control_writer writer;
	size_t length;

	if (node == NULL || !cluster_node_name_is_good(node))
		return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_USAGE,
		    "node: not a name that a machine may have");
	text_append(name, sizeof(name), 0, "%s", node);
	control_writer_begin(&writer, out, CONTROL_ANSWER_BYTES);
	control_writer_add(&writer, "row", "1");
	control_writer_add(&writer, "order", "%llu",
	    (unsigned long long)engine_cluster_order(engine, name));
	length = control_writer_finish(&writer);
	return length + control_answer_end(out + length, CONTROL_ANSWER_BYTES - length, EX_OK, "");
}
