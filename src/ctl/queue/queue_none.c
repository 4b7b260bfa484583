/* SPDX-License-Identifier: ISC */
/* The commands of the managed queue in a build without it (configure --disable-queue). */
#include <sysexits.h>

#include "ctl/cli/ctl.h"

int command_without_queue(struct ctl *ctl) {
	(void)ctl;
	ctl_complain("this posternctl was built without the managed queue");
	return EX_UNAVAILABLE;
}
