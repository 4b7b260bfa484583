/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A unit that shuts us in too far says so before mail is in trouble.
 * MODEL    Whatever the unit is made of, the kernel says what is left: we are compared with
 *          the system's first process.  What cannot be compared is confined, too.
 * ERRORS   Without /proc nothing is known: not confined.
 * THREADS  The supervisor's.
 */
#include "role/confine/confinement.h"

#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

static void difference_add(char *out, size_t size, const char *what) {
	size_t length = strlen(out);

	(void)text_append(out, size, length, "%s%s", length == 0 ? "" : ", ", what);
}

/* All of a file of /proc, or NULL; free it. */
static char *read_all(const char *path) {
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	ssize_t length = file == NULL ? -1 : getdelim(&text, &size, '\0', file);

	if (file != NULL)
		fclose(file);
	if (length >= 0)
		return text;
	free(text);
	return NULL;
}

/* The number behind "\nNAME:"; 0 where there is none. */
static unsigned long long number_of(const char *status, const char *name, int base) {
	char label[32];
	const char *at;

	snprintf(label, sizeof(label), "\n%s:", name);
	at = strstr(status, label);
	return at == NULL ? 0 : strtoull(at + strlen(label), NULL, base);
}

static void compare_status(const char *ours, const char *first, char *out, size_t size) {
	if ((number_of(first, "CapBnd", 16) & ~number_of(ours, "CapBnd", 16)) != 0)
		difference_add(out, size, "fewer capabilities");
	if (number_of(ours, "NoNewPrivs", 10) > number_of(first, "NoNewPrivs", 10))
		difference_add(out, size, "no new privileges");
	if (number_of(ours, "Seccomp", 10) > number_of(first, "Seccomp", 10) ||
	    number_of(ours, "Seccomp_filters", 10) > number_of(first, "Seccomp_filters", 10))
		difference_add(out, size, "fewer system calls");
}

static void compare_limits(char *out, size_t size) {
	struct rlimit ours, first;

#define IS_LOWER(kind) \
	(getrlimit(kind, &ours) == 0 && prlimit(1, kind, NULL, &first) == 0 && \
	    ours.rlim_cur < first.rlim_cur)
	if (IS_LOWER(RLIMIT_AS) || IS_LOWER(RLIMIT_CPU) || IS_LOWER(RLIMIT_DATA) ||
	    IS_LOWER(RLIMIT_FSIZE))
		difference_add(out, size, "lower resource limits");
#undef IS_LOWER
}

/* AppArmor's, in force. */
static void compare_profiles(char *out, size_t size) {
	char *ours = read_all("/proc/self/attr/apparmor/current");
	char *first = read_all("/proc/1/attr/apparmor/current");

	if (ours != NULL && strstr(ours, "(enforce)") != NULL &&
	    (first == NULL || strcmp(ours, first) != 0))
		difference_add(out, size, "an AppArmor profile");
	free(ours);
	free(first);
}

static void compare_files(char *out, size_t size) {
	struct stat ours, first;
	char *our_mounts, *first_mounts;

	if (stat("/proc/self/ns/user", &ours) != 0)
		return;
	/* with fewer capabilities it cannot be seen */
	if (stat("/proc/1/ns/user", &first) != 0 ? out[0] == '\0' : ours.st_ino != first.st_ino)
		difference_add(out, size, "another user namespace");
	if (stat("/proc/self/ns/mnt", &ours) == 0 && stat("/proc/1/ns/mnt", &first) == 0 &&
	    ours.st_ino == first.st_ino)
		return;
	our_mounts = read_all("/proc/self/mountinfo");
	first_mounts = read_all("/proc/1/mountinfo");
	if (our_mounts == NULL || first_mounts == NULL)
		difference_add(out, size, "files");
	else
		confinement_compare_mounts(our_mounts, first_mounts, out, size);
	free(our_mounts);
	free(first_mounts);
}

/* A namespace that an admin made around all of the mail system is none of a unit's. */
static bool is_a_service(void) {
	return getppid() == 1 || getenv("NOTIFY_SOCKET") != NULL ||
	    getenv("INVOCATION_ID") != NULL;
}

void confinement_find(char *out, size_t size) {
	char *ours = read_all("/proc/self/status"), *first = read_all("/proc/1/status");

	out[0] = '\0';
	if (ours != NULL && is_a_service() && geteuid() == 0) {
		if (first == NULL)
			difference_add(out, size, "other processes");
		else
			compare_status(ours, first, out, size);
		compare_limits(out, size);
		compare_profiles(out, size);
		compare_files(out, size);
	}
	free(ours);
	free(first);
}

void confinement_note(const struct generation *generation) {
	char lacks[2 * GENERATION_CONFINED];

	if (generation_drive_is_refused(generation))
		log_event(EVENT_CONFIG_NOTE, "setting=mta[].drive text=\"the queue is not "
		    "managed and Sendmail's own queue runs deliver, because under this service "
		    "Sendmail would bounce mail (%s); install posternd-sendmail.conf (SERVICE "
		    "in posternd(8))\"",
		    log_sentence(lacks, sizeof(lacks), generation->confined));
	if (generation->netns_count > 0 && geteuid() == 0 &&
	    prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) == 0)
		log_event(EVENT_CONFIG_NOTE, "setting=witness.netns text=\"the service manager "
		    "forbids entering network namespaces; install posternd-netns.conf (SERVICE "
		    "in posternd(8))\"");
}
