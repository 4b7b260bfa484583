/* SPDX-License-Identifier: ISC */
/* The group cluster, and classes[].scope, in a build without clusters (configure
 * --disable-cluster). */
#include "config/read/compilation.h"

void compile_cluster(struct compilation *c) {
	const config_setting_t *group = config_lookup(&c->config, "cluster");

	if (group != NULL)
		complain(c, group, "cluster: this posternd was built without clusters");
}

void compile_cluster_scope(struct compilation *c, const config_setting_t *group,
    struct generation_class *class, const char *name) {
	if (class->wants_shared != 0 && config_lookup(&c->config, "cluster") == NULL)
		complain(c, compilation_member(group, "classes[].scope"),
		    "class %s: scope \"cluster\": this posternd was built without clusters", name);
}

void compile_cluster_end(struct compilation *c) {
	(void)c;
}

void generation_share_out(struct generation *g) {
	(void)g;
}
