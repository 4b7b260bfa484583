/* SPDX-License-Identifier: ISC */
/* Does the daemon do its work? */
#ifndef VIEW_HEALTH_H
#define VIEW_HEALTH_H

#include <stdbool.h>
#include "view/view.h"

/* A role that gives no sign of life for so long is as good as away. */
#define HEALTH_SILENCE_NS (INT64_C(3) * 1000 * 1000 * 1000)

/* A role takes up a new configuration within a second. */
#define HEALTH_BEHIND_NS (INT64_C(2) * 1000 * 1000 * 1000)

/* Does this role still work with an older configuration than the one in force, for longer
 * than that takes?  (It could not map the new one; its log line says why.) */
bool health_role_is_behind(const struct view *view, const struct reader_role *role);

/* "live", "behind" (a role is), "stale" or "replaced". */
const char *health_word(const struct view *view);

/* Is this role there?  One that has nothing to do by this configuration is. */
bool health_role_is_up(const struct view *view, const struct reader_role *role);

#endif
