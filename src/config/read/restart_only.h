/* SPDX-License-Identifier: ISC */
/* Settings that a reload cannot change. */
#ifndef CONFIG_RESTART_ONLY_H
#define CONFIG_RESTART_ONLY_H

#include "config/generation/generation.h"

/* Which of them differ: calls `each` with the setting's name (such as "state.sessions"). */
void restart_only_differences(const struct generation *running, const struct generation *wanted,
    void (*each)(void *context, const char *setting), void *context);

/* Gives `wanted` the sizes, sockets, users, number of processes and so on of
 * `running`; a listener of the same address takes its new proof.  Returns the
 * block, which may have moved (free()), or NULL without memory: then `wanted`
 * is gone, too. */
struct generation *restart_only_keep(struct generation *wanted,
    const struct generation *running);

#endif
