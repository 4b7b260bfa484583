/* SPDX-License-Identifier: ISC */
/* The supervisor's roles: start, watch, bury. */
#ifndef ROLE_CHILDREN_H
#define ROLE_CHILDREN_H

#include "role/supervise/supervised.h"

/* Writes down which roles there are to be for the sockets that are open, each
 * due at once. */
void children_plan(struct supervisor *supervisor);

/* After a reload: the feed and the queue, where there is something for them now and was
 * nothing before. */
void children_replan(struct supervisor *supervisor);

/* Starts those that are due.  True: a keeper was. */
bool children_start(struct supervisor *supervisor, int64_t now_ns);

/* A process ended, that may have been one of them; says when that starts again. */
void children_bury(struct supervisor *supervisor, pid_t pid, int status, int64_t now_ns);

/* Kills those that gave no sign of life for 3 s in which we were awake. */
void children_check(struct supervisor *supervisor, int64_t now_ns);

/* While a journal cannot be written: has the directory of journal.path been made anew, or
 * another disk mounted there?  Roles that write there are then started again, as their
 * sandbox leaves them the old one alone. */
void children_check_journal(struct supervisor *supervisor);

/* Ends all roles, has the segment built again from what the text file and the journal hold, and
 * lets the roles start.  Where it cannot be built (a full disk), none is started, and damage is
 * found again some seconds later. */
void children_rebuild(struct supervisor *supervisor, int64_t now_ns);

/* A configuration was published: roles that rest take it up now, not with their next
 * heartbeat. */
void children_nudge(const struct supervisor *supervisor);

/* Does every role run, with a first heartbeat? */
bool children_ready(const struct supervisor *supervisor);

/* When the next one is due to start, or INT64_MAX. */
int64_t children_next_ns(const struct supervisor *supervisor, int64_t now_ns);

/* Kills all and waits until they are gone. */
void children_end(struct supervisor *supervisor);

#endif
