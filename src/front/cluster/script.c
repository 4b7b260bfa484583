/* SPDX-License-Identifier: ISC */
/* The scripts, out of the program itself: script_data.inc is made of front/cluster/NAME.lua
 * by front/page/embed when this is built. */
#include "front/cluster/script.h"

#include "front/cluster/script_data.inc"

#define SCRIPT(name)	{ (const char *)name##_lua, sizeof(name##_lua) }

const char *cluster_script_text(enum cluster_script script, size_t *length) {
	static const struct { const char *text; size_t length; } scripts[] = {
		[CLUSTER_SCRIPT_LEASE] = SCRIPT(lease),
		[CLUSTER_SCRIPT_PUT] = SCRIPT(know_put),
		[CLUSTER_SCRIPT_CHANGED] = SCRIPT(know_changed),
		[CLUSTER_SCRIPT_GET] = SCRIPT(know_get),
	};

	*length = scripts[script].length;
	return scripts[script].text;
}
