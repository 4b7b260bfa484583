/* SPDX-License-Identifier: ISC */
/* Giving up capabilities, all of them, without libcap. */
#ifndef ROLE_CAPABILITIES_H
#define ROLE_CAPABILITIES_H

#include <stdbool.h>

#include "base/diag.h"

/* Empties the bounding set; before the user is changed, as it takes CAP_SETPCAP.  False:
 * without that it stays, of no use to whom no_new_privs is set. */
bool capabilities_unbind(void);

/* Empties all other sets of this thread, and proves that all are empty, the bounding one
 * where it was `unbound`.  -1 with *diag. */
int capabilities_clear(bool unbound, struct diag *diag);

#endif
