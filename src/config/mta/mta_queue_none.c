/* SPDX-License-Identifier: ISC */
/* mta[].drive in a build without the managed queue (configure --disable-queue). */
#include "config/read/compilation.h"

bool compilation_drives(const struct compilation *c) {
	(void)c;
	return false;
}

void compile_mta_queue(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	if (mta->drive != 0)
		complain(c, compilation_member(group, "mta[].drive"),
		    "mta.drive: this posternd was built without the managed queue");
}

void compile_mta_queue_beside(struct compilation *c, const config_setting_t *group,
    const struct generation_mta *mta, const struct generation_mta *other) {
	(void)c, (void)group, (void)mta, (void)other;
}
