/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  See state_directory.h.
 * MODEL    The directory is the roles' user's: nobody else makes files in it, members of the
 *          roles' group, who may look, neither.  So sockets are to be elsewhere, which is noted.
 *          One that root made is shared with the roles' group; Sendmail refuses a socket below
 *          a directory that a group may write.
 * ERRORS   What cannot be made or given to its owner stops the start.
 * THREADS  One, the supervisor's.
 */
#include "role/supervise/state_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "config/read/listen_address.h"

#define OWN_MODE	0755

/* Where other programs keep files of theirs. */
static bool is_public(const char *directory) {
	static const char *const public[] = { "/dev/shm", "/run/lock", "/run/user", "/var/cache",
		"/var/lib", "/var/local", "/var/lock", "/var/log", "/var/mail", "/var/opt",
		"/var/run", "/var/spool", "/var/tmp" };

	for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
		if (strcmp(directory, public[i]) == 0)
			return true;
	return strchr(directory + 1, '/') == NULL;
}

/* Is a socket in it, or below it? */
static bool has_socket(const struct generation *generation, const char *directory) {
	size_t length = strlen(directory);
	struct listen_address address;
	const char *why;

	for (uint32_t i = 0; i < generation->listener_count; i++)
		if (listen_address_parse(generation_text(generation,
			generation->listeners[i].address), &address, &why) &&
		    address.socket_address.ss_family == AF_UNIX &&
		    strncmp(address.path, directory, length) == 0 &&
		    address.path[length] == '/')
			return true;
	return false;
}

static void directory_note(const char *directory, const char *text) {
	char quoted[PATH_MAX];

	log_event(EVENT_CONFIG_NOTE, "setting=state.path directory=%s text=\"%s\"",
	    log_quote(quoted, sizeof(quoted), directory, strlen(directory)), text);
}

static void note_of_roles(const char *directory) {
	directory_note(directory, "the directory belongs to the user of the workers: a compromised "
	    "worker could replace the sockets in it; move them to a directory of root");
}

static int share_old(int fd, const char *directory, const struct identity *identity,
    bool has_sockets, struct diag *diag) {
	struct stat status;

	if (!identity->drop || fstat(fd, &status) != 0)
		return 0;
	if (status.st_uid == identity->uid && has_sockets)
		note_of_roles(directory);
	/* whether the roles can use it is found when they do */
	if (status.st_uid != 0 || is_public(directory) ||
	    (status.st_mode & (S_IXOTH | S_ISVTX | S_IWOTH)) != S_IXOTH)
		return 0;
	if (fchown(fd, (uid_t)-1, identity->gid) != 0 ||
	    fchmod(fd, (status.st_mode & 07777) | S_ISVTX | S_IRWXG) != 0)
		return diag_set(diag, errno, "cannot give the workers write permission in %s",
		    directory);
	directory_note(directory, has_sockets ? "the directory belonged to root alone; the group of the "
	    "workers can now create files there, so Sendmail will refuse the sockets in it: "
	    "use a separate directory for state.path" : "the directory belonged to root alone; the group of the "
	    "workers can now create files there");
	return 0;
}

static int give_new(int fd, const char *directory, const struct identity *identity,
    bool has_sockets, struct diag *diag) {
	if (fchmod(fd, OWN_MODE) != 0 || fchown(fd, identity->uid, identity->gid) != 0)
		return diag_set(diag, errno, "cannot set the owner of %s", directory);
	if (identity->drop && has_sockets)
		note_of_roles(directory);
	return 0;
}

/* /run is empty after a boot. */
static int make_with_parent(const char *directory) {
	char parent[PATH_MAX];

	if (mkdir(directory, OWN_MODE) == 0)
		return 0;
	if (errno != ENOENT || !text_copy(parent, sizeof(parent), directory, strlen(directory)) ||
	    mkdir(dirname(parent), OWN_MODE) != 0)
		return -1;
	return mkdir(directory, OWN_MODE);
}

int state_directory_make(const struct generation *generation, const struct identity *identity,
    struct diag *diag) {
	const char *state = generation_text(generation, generation->state_path), *directory;
	bool has_sockets, is_new;
	char path[PATH_MAX];
	int fd, result;

	if (!text_copy(path, sizeof(path), state, strlen(state)))
		return diag_set(diag, ENAMETOOLONG, "state.path");
	directory = dirname(path);
	is_new = make_with_parent(directory) == 0;
	if (!is_new && errno != EEXIST)
		return diag_set(diag, errno, "cannot create directory %s", directory);
	fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return is_new ? diag_set(diag, errno, "cannot open %s", directory) : 0;
	has_sockets = has_socket(generation, directory);
	if (is_new)
		result = give_new(fd, directory, identity, has_sockets, diag);
	else
		result = share_old(fd, directory, identity, has_sockets, diag);
	close(fd);
	return result;
}
