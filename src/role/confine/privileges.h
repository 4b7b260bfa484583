/* SPDX-License-Identifier: ISC */
/* Who the roles run as, and the way down to it. */
#ifndef ROLE_PRIVILEGES_H
#define ROLE_PRIVILEGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/diag.h"
#include "config/generation/generation.h"

struct identity {
	bool drop;		/* false: not started as root, nothing to give up */
	uid_t uid;
	gid_t gid;
	bool stand_in;		/* nobody, as the default user does not exist */
	char user[64];		/* for initgroups */
	gid_t hints_group;	/* the keeper is in that one, too; (gid_t)-1: there is none */
};

/* Looks up `user` and `group` of the configuration (the group defaults to the
 * user's own, and nobody stands in where nobody made the default user), and
 * hints.group; without root, who we are already.  -1 with *diag: unknown, or root. */
int identity_find(struct identity *identity, const struct generation *generation,
    struct diag *diag);

/* A user's or group's number by name or as a plain number; -1 with *diag. */
int identity_user(const char *name, uid_t *uid, struct diag *diag);
int identity_group(const char *name, gid_t *gid, struct diag *diag);

/* Before a role's exec: the user's supplementary groups, and two more; (gid_t)-1: none.  Nothing
 * of the name services that know them stays in the role.  -1 with *diag. */
int privileges_join(const struct identity *identity, const gid_t more[2],
    struct diag *diag);

/* In a role, after exec: group and user for good, every capability, no new privileges, not
 * dumpable; proves all of it, and that there is no way back.  Clears the parent-death signal:
 * set it again afterwards.  -1 with *diag. */
int privileges_drop(const struct identity *identity, struct diag *diag);

/* Raises the limit of open files to `wanted`, or as far as it may go. */
void privileges_raise_files(unsigned long wanted);

#endif
