/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A unit that shuts us in too far says so before mail is in trouble.
 * MODEL    Each of the shipped drop-ins has its mark: a variable that the unit sets, and a
 *          capability.
 * ERRORS   None.
 * THREADS  The supervisor's.
 */
#include "role/confinement.h"

#include <linux/capability.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"

#define UNIT_VARIABLE	"POSTERN_CONFINED"	/* conf/posternd.service.in */

void confinement_note(const struct generation *generation) {
	const char *unit = getenv(UNIT_VARIABLE);

	if (generation_drives(generation) && unit != NULL && unit[0] != '\0')
		log_event(EVENT_CONFIG_NOTE, "setting=mta[].drive text=\"the service manager "
		    "forbids what Sendmail's deliveries may need: see SERVICE in posternd(8), "
		    "posternd-sendmail.conf\"");
	if (generation->netns_count > 0 && geteuid() == 0 &&
	    prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) == 0)
		log_event(EVENT_CONFIG_NOTE, "setting=witness.netns text=\"the service manager "
		    "does not let us enter network namespaces: see SERVICE in posternd(8), "
		    "posternd-netns.conf\"");
}
