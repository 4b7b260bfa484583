/* SPDX-License-Identifier: ISC */
/* Putting a new configuration in force while the daemon runs. */
#ifndef ROLE_RELOAD_H
#define ROLE_RELOAD_H

#include "role/supervise/supervised.h"

/* Has the file compiled and published; the old configuration stays where that fails.  Logs
 * and counts, and answers the keeper if it asked, by that number, else 0.  Not while one is on
 * its way. */
void reload_begin(struct supervisor *supervisor, uint64_t asked);

/* May the keeper have one now?  Not while one is on its way, nor more than four a second, nor
 * after those that it asked for took a tenth of the time to compile, and six seconds besides. */
bool reload_may_be_asked(const struct supervisor *supervisor, int64_t now_ns);

/* Has `block` published: the one in force, but for what was found of sites.  Not while one is on its way. */
void reload_site(struct supervisor *supervisor, const struct generation *block);

/* Sends what is to be sent, and gives up what takes too long. */
void reload_turn(struct supervisor *supervisor, int64_t now_ns);

/* The keeper reports that it published one, could not, or needs the one in force again.
 * False: it was never ordered that. */
bool reload_hear(struct supervisor *supervisor, const struct keeper_report *report);

/* True: the process that ended was the one that compiles. */
bool reload_bury(struct supervisor *supervisor, pid_t pid, int status);

/* There is another keeper. */
void reload_send_again(struct supervisor *supervisor);

bool reload_is_busy(const struct reload *reload);
void reload_end(struct reload *reload);

/* Logs what a compilation said, an event each. */
void reload_log_messages(const struct config_messages *messages);

#endif
