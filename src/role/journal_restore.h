/* SPDX-License-Identifier: ISC */
/* What was learned, out of the journal, before the first role is started. */
#ifndef ROLE_JOURNAL_RESTORE_H
#define ROLE_JOURNAL_RESTORE_H

#include "role/supervisor.h"

/* Where the segment was newly built without it.  A process of its own, with the rights of
 * the roles, reads the files, as these are theirs; it is waited for, for 40 s at most.
 * What goes wrong is logged: it is served all the same, and the files are kept for a while.
 * Before the sockets are opened: till then clients are refused, and go by themselves. */
void journal_restore(struct supervisor *supervisor);

#endif
