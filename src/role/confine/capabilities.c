/* SPDX-License-Identifier: ISC */
/* By bare system calls, of the thread that calls: a role has one then. */
#include "role/confine/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORDS	_LINUX_CAPABILITY_U32S_3

static int sets_get(struct __user_cap_data_struct sets[WORDS]) {
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };

	return (int)syscall(SYS_capget, &head, sets);
}

static int sets_clear(void) {
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[WORDS] = { { .effective = 0 } };

	return (int)syscall(SYS_capset, &head, none);
}

static bool may_unbind(void) {
	struct __user_cap_data_struct sets[WORDS];

	return sets_get(sets) == 0 && (sets[CAP_TO_INDEX(CAP_SETPCAP)].effective &
	    CAP_TO_MASK(CAP_SETPCAP)) != 0;
}

bool capabilities_unbind(void) {
	if (!may_unbind())
		return false;
	/* until the kernel knows no more of them */
	for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
		(void)prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	return true;
}

static bool is_empty(const struct __user_cap_data_struct sets[WORDS]) {
	for (unsigned i = 0; i < WORDS; i++)
		if ((sets[i].effective | sets[i].permitted | sets[i].inheritable) != 0)
			return false;
	return true;
}

int capabilities_clear(bool unbound, struct diag *diag) {
	struct __user_cap_data_struct sets[WORDS];

	/* a kernel before 4.3 has no ambient ones */
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL)
		return diag_set(diag, errno, "cannot clear the ambient capabilities");
	if (sets_clear() != 0)
		return diag_set(diag, errno, "cannot clear the capabilities");
	if (sets_get(sets) != 0)
		return diag_set(diag, errno, "cannot read the capabilities");
	if (!is_empty(sets))
		return diag_set(diag, 0, "capabilities were not dropped");
	for (unsigned long i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) {
		if (unbound && prctl(PR_CAPBSET_READ, i, 0, 0, 0) != 0)
			return diag_set(diag, 0, "capability %lu can still be acquired", i);
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0) > 0)
			return diag_set(diag, 0, "capability %lu is still ambient", i);
	}
	return 0;
}
