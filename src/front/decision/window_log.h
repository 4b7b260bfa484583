/* SPDX-License-Identifier: ISC */
/* What happens to windows, in the log: one line each time. */
#ifndef FRONT_WINDOW_LOG_H
#define FRONT_WINDOW_LOG_H

#include "engine/engine.h"

/* From now on this engine's are logged.  Every role that feeds, asks or turns,
 * and the one that hears of other machines. */
void window_log_listen(struct engine *engine);

#endif
