/* SPDX-License-Identifier: ISC */
/* The other machines, as the cluster role told of them. */
#ifndef VIEW_CLUSTER_H
#define VIEW_CLUSTER_H

#include "view/view.h"

#ifdef WITH_CLUSTER
/* What posternctl cluster shows.  -1: no memory (errno). */
int view_cluster_write(const struct view *view, struct writer *writer);

/* The state's word, toned; "none" where there is no cluster. */
struct value view_cluster_state(const struct view *view, const struct cluster_told *told);
#else
static inline int view_cluster_write(const struct view *view, struct writer *writer) {
	(void)view;
	writer_object_begin(writer, NULL);
	writer_text(writer, "state", "none");
	writer_object_end(writer);
	return 0;
}

static inline struct value view_cluster_state(const struct view *view,
    const struct cluster_told *told) {
	(void)view, (void)told;
	return value_text("none");
}
#endif

#endif
