/* SPDX-License-Identifier: ISC */
/* The control server's answers about other nodes in a build without clusters (configure
 * --disable-cluster). */
#include <sysexits.h>

#include "front/control/control_answer.h"
#include "front/control/control_row.h"

size_t control_answer_cluster(struct engine *engine, const struct control_frame *request,
    uid_t uid, char *out) {
	(void)engine, (void)request, (void)uid;
	return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_UNAVAILABLE,
	    "this posternd was built without clusters");
}

void control_answer_untold(struct control_writer *writer, struct engine *engine,
    const struct generation *generation, const char *name, int64_t now_ns) {
	(void)writer, (void)engine, (void)generation, (void)name, (void)now_ns;
}
