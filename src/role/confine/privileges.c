/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  From root to the configured user, with proof.
 * ERRORS   Unknown users stop the start; a role that cannot give up root ends.
 * THREADS  One, before the role starts any.
 */
#include "role/confine/privileges.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/text.h"
#include "role/confine/capabilities.h"

#define DEFAULT_USER "postern"	/* as in defs/settings.def */

int identity_user(const char *name, uid_t *uid, struct diag *diag) {
	const struct passwd *entry;
	uint32_t number;

	errno = 0;
	entry = getpwnam(name);
	if (entry != NULL) {
		*uid = entry->pw_uid;
		return 0;
	}
	if (text_to_u32(name, strlen(name), UINT32_MAX - 1, &number)) {
		*uid = number;
		return 0;
	}
	return diag_set(diag, 0, "no such user: \"%s\"", name);
}

int identity_group(const char *name, gid_t *gid, struct diag *diag) {
	const struct group *entry;
	uint32_t number;

	errno = 0;
	entry = getgrnam(name);
	if (entry != NULL) {
		*gid = entry->gr_gid;
		return 0;
	}
	if (text_to_u32(name, strlen(name), UINT32_MAX - 1, &number)) {
		*gid = number;
		return 0;
	}
	return diag_set(diag, 0, "no such group: \"%s\"", name);
}

int identity_find(struct identity *identity, const struct generation *generation,
    struct diag *diag) {
	const char *user = generation_text(generation, generation->user);
	const char *group = generation_text(generation, generation->group);
	const char *hints = generation_text(generation, generation->hints_group);
	const struct passwd *entry;

	*identity = (struct identity){ .uid = geteuid(), .gid = getegid(),
		.hints_group = (gid_t)-1 };
	/* here, as a role's sandbox leaves it no /etc/group */
	if (hints[0] != '\0' && identity_group(hints, &identity->hints_group, diag) != 0)
		return -1;
	if (identity->uid != 0)
		return 0;
	if (user[0] == '\0')
		return diag_set(diag, 0, "posternd was started as root, but \"user\" is not "
		    "set");
	if (identity_user(user, &identity->uid, diag) != 0) {
		if (strcmp(user, DEFAULT_USER) != 0 ||
		    identity_user("nobody", &identity->uid, diag) != 0)
			return -1;
		identity->stand_in = true;
	}
	if (identity->uid == 0)
		return diag_set(diag, 0, "the workers must not run as user \"%s\"",
		    user);
	entry = getpwuid(identity->uid);
	if (entry != NULL) {
		identity->gid = entry->pw_gid;
		if (!text_copy(identity->user, sizeof(identity->user),
			entry->pw_name, strlen(entry->pw_name)))
			return diag_set(diag, 0, "the user name is too long");
	} else {
		identity->gid = identity->uid;
	}
	if (group[0] != '\0' && identity_group(group, &identity->gid, diag) != 0)
		return -1;
	identity->drop = true;
	return 0;
}

/* Files are given to groups that need not be the user's. */
static int join_more(const gid_t more[2]) {
	int count = getgroups(0, NULL), error;
	gid_t *groups = count < 0 ? NULL : calloc((size_t)count + 2, sizeof(*groups));

	if (groups == NULL)
		return errno;
	count = getgroups(count, groups);
	for (unsigned i = 0; i < 2 && count >= 0; i++)
		if (more[i] != (gid_t)-1)
			groups[count++] = more[i];
	error = count >= 0 && setgroups((size_t)count, groups) == 0 ? 0 : errno;
	free(groups);
	return error;
}

int privileges_join(const struct identity *identity, const gid_t more[2],
    struct diag *diag) {
	int error;

	if (!identity->drop)
		return 0;
	error = identity->user[0] != '\0' ? initgroups(identity->user, identity->gid) :
	    setgroups(0, NULL);
	if (error != 0 || join_more(more) != 0)
		return diag_set(diag, errno, "cannot set supplementary groups");
	return 0;
}

/* The user and the group, for good. */
static int change_user(const struct identity *identity, struct diag *diag) {
	if (setresgid(identity->gid, identity->gid, identity->gid) != 0)
		return diag_set(diag, errno, "cannot become group %u",
		    identity->gid);
	if (setresuid(identity->uid, identity->uid, identity->uid) != 0)
		return diag_set(diag, errno, "cannot become user %u",
		    identity->uid);
	return 0;
}

/* All three of each are the identity's, and nothing leads back. */
static int prove_user(const struct identity *identity, struct diag *diag) {
	uid_t real_uid, effective_uid, saved_uid;
	gid_t real_gid, effective_gid, saved_gid;

	if (getresuid(&real_uid, &effective_uid, &saved_uid) != 0 ||
	    getresgid(&real_gid, &effective_gid, &saved_gid) != 0)
		return diag_set(diag, errno, "cannot read the user IDs");
	if (real_uid != identity->uid || effective_uid != identity->uid ||
	    saved_uid != identity->uid || real_gid != identity->gid ||
	    effective_gid != identity->gid || saved_gid != identity->gid)
		return diag_set(diag, 0, "privileges were not dropped");
	if (setuid(0) == 0)
		return diag_set(diag, 0, "root privileges can still be acquired");
	return 0;
}

int privileges_drop(const struct identity *identity, struct diag *diag) {
	bool unbound;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return diag_set(diag, errno, "cannot set no_new_privs");
	unbound = capabilities_unbind();
	if (identity->drop && change_user(identity, diag) != 0)
		return -1;
	if (capabilities_clear(unbound, diag) != 0)
		return -1;
	/* nobody of the same user, another role, may trace it or read its memory */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return diag_set(diag, errno, "cannot clear the dumpable flag");
	if (prove_user(identity, diag) != 0)
		return -1;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 ||
	    prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
		return diag_set(diag, 0, "no_new_privs or the dumpable flag was not kept");
	return 0;
}

void privileges_raise_files(unsigned long wanted) {
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
		return;
	if (limit.rlim_max < wanted) {
		struct rlimit higher = { .rlim_cur = wanted, .rlim_max = wanted };

		if (setrlimit(RLIMIT_NOFILE, &higher) == 0)
			return;
	}
	limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}
