/* SPDX-License-Identifier: ISC */
/* What a mail server says of the order of its queue: mta[].schedule, mta[].local_schedule. */
#include "config/read/compilation.h"

void compile_mta_schedule(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	static const char *const paths[GENERATION_TRANSPORTS] = { "mta[].schedule",
		"mta[].local_schedule" };

	for (unsigned i = 0; i < GENERATION_TRANSPORTS; i++) {
		mta->transports[i] = compilation_header(c)->schedule.job;
		compilation_store(c, BOOK_MAIN, paths[i], compilation_member(group, paths[i]),
		    &mta->transports[i]);
	}
}
