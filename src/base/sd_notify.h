/* SPDX-License-Identifier: ISC */
/* Tells the service manager about us, by the socket named in NOTIFY_SOCKET;
 * without one every call does nothing. */
#ifndef BASE_SD_NOTIFY_H
#define BASE_SD_NOTIFY_H

#include <stdint.h>

/* `state` is lines of NAME=VALUE: "READY=1", "RELOADING=1", "STOPPING=1",
 * "WATCHDOG=1", "STATUS=...".  Never blocks; what cannot be sent is lost.  The
 * supervisor's thread only. */
void sd_notify_send(const char *state);

/* "RELOADING=1" with the time that the manager wants beside it; send
 * "READY=1" when done. */
void sd_notify_reloading(void);

/* How often "WATCHDOG=1" is wanted (half of what the manager allows), or 0. */
int64_t sd_notify_watchdog_ns(void);

#endif
