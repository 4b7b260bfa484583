/* SPDX-License-Identifier: ISC */
/* What a service manager forbids to the supervisor, and so to the commands that it runs. */
#ifndef ROLE_CONFINEMENT_H
#define ROLE_CONFINEMENT_H

#include "config/generation.h"

/* Logs (config-note) which settings of the generation it stands in the way of.  The
 * supervisor, when it starts and after a reload. */
void confinement_note(const struct generation *generation);

#endif
