/* SPDX-License-Identifier: ISC */
/* The commands of a cluster in a build without clusters (configure --disable-cluster). */
#include <sysexits.h>

#include "ctl/cli/ctl.h"

int command_without_cluster(struct ctl *ctl) {
	(void)ctl;
	ctl_complain("this posternctl was built without clusters");
	return EX_UNAVAILABLE;
}
