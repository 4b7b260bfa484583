/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Restrict what files a role can open.
 * MODEL    Landlock of the kernel's own version, by bare system calls, as headers and the C
 *          library are older than many kernels.  What is open already stays so.
 * ERRORS   A directory that is not there is left out.
 * THREADS  One.
 */
#include "role/confine/sandbox_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sd_log.h"
#include "base/text.h"
#include "config/read/listen_address.h"

/* The same on every processor; <linux/landlock.h> may be older. */
#define CALL_CREATE	444
#define CALL_ADD	445
#define CALL_RESTRICT	446
#define ASK_VERSION	1u
#define RULE_BENEATH	1
#define RULE_PORT	2

#define WRITE_FILE	(UINT64_C(1) << 1)
#define READ_FILE	(UINT64_C(1) << 2)
#define READ_DIRECTORY	(UINT64_C(1) << 3)
#define REMOVE_FILE	(UINT64_C(1) << 5)
#define MAKE_FILE	(UINT64_C(1) << 8)
#define TRUNCATE	(UINT64_C(1) << 14)	/* version 3 */

#define READING		(READ_FILE | READ_DIRECTORY)
#define WRITING		(READING | WRITE_FILE | REMOVE_FILE | MAKE_FILE | TRUNCATE)
#define CONNECT_TO	(UINT64_C(1) << 1)
#define OF_A_FILE	(READ_FILE | WRITE_FILE | TRUNCATE)

struct ruleset {
	uint64_t files;
	uint64_t ports;		/* version 4: bind, connect */
	uint64_t scopes;	/* version 6: abstract unix sockets, signals */
};

/* struct landlock_path_beneath_attr. */
struct beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

/* struct landlock_net_port_attr. */
struct port {
	uint64_t allowed;
	uint64_t port;
};

static int version(void) {
	return (int)syscall(CALL_CREATE, NULL, 0, ASK_VERSION);
}

bool sandbox_files_can(void) {
	return version() >= 1;
}

static struct ruleset all_of(int which) {
	/* how many kinds of access each version knows */
	static const unsigned kinds[] = { 0, 13, 14, 15, 15, 16 };
	unsigned known = (unsigned)which < sizeof(kinds) / sizeof(kinds[0]) ?
	    kinds[which] : 16;

	return (struct ruleset){ .files = (UINT64_C(1) << known) - 1,
		.ports = which >= 4 ? 3 : 0, .scopes = which >= 6 ? 3 : 0 };
}

static size_t bytes_of(int which) {
	return which >= 6 ? sizeof(struct ruleset) : which >= 4 ? 2 * sizeof(uint64_t) :
	    sizeof(uint64_t);
}

struct sandbox_files {
	int fd;
	uint64_t known;
};

static int files_allow(const struct sandbox_files *files, const char *path, uint64_t access,
    struct diag *diag) {
	struct beneath rule = { .allowed = access & files->known,
		.parent = open(path, O_PATH | O_CLOEXEC) };
	struct stat status;
	int error = 0;

	if (rule.parent < 0)
		return 0;
	if (fstat(rule.parent, &status) == 0 && !S_ISDIR(status.st_mode))
		rule.allowed &= OF_A_FILE;
	/* a rule that allows nothing is refused: a file, where a directory was meant */
	if (rule.allowed != 0 && syscall(CALL_ADD, files->fd, RULE_BENEATH, &rule, 0) != 0)
		error = errno;
	close(rule.parent);
	return error == 0 ? 0 : diag_set(diag, error, "cannot add a Landlock rule for %s",
	    path);
}

/* The directory of the path's first `length` characters. */
static int allow_directory(const struct sandbox_files *files, const char *path,
    size_t length, uint64_t access, struct diag *diag) {
	char directory[PATH_MAX];

	while (length > 0 && path[length - 1] != '/')
		length--;
	/* but for the root's own, the slash goes */
	if (length > 1)
		length--;
	if (length == 0 || !text_copy(directory, sizeof(directory), path, length))
		return 0;
	return files_allow(files, directory, access, diag);
}

/* Up to the first name with a wildcard.  What is not there (behind a link, or of a later
 * configuration) has to be opened by root. */
static int allow_logs(const struct sandbox_files *files, const struct generation *generation,
    uint64_t access, struct diag *diag) {
	for (uint32_t i = 0; i < generation->mta_count; i++) {
		const char *log = generation_text(generation, generation->mtas[i].log);

		if (!sd_log_is(log) &&
		    allow_directory(files, log, strcspn(log, "*?[%"), access, diag) != 0)
			return -1;
	}
	return 0;
}

/* systemd's journal; the machine's ID names its directory. */
static int allow_sd_journal(const struct sandbox_files *files,
    const struct generation *generation, struct diag *diag) {
	static const char *const usual[] = { SD_LOG_PERSISTENT, SD_LOG_VOLATILE,
		"/etc/machine-id" };
	struct sd_log name;
	const char *why;

	if (!generation_reads_sd_journal(generation))
		return 0;
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (files_allow(files, usual[i], READING, diag) != 0)
			return -1;
	for (uint32_t i = 0; i < generation->mta_count; i++) {
		const char *log = generation_text(generation, generation->mtas[i].log);

		if (sd_log_is(log) && sd_log_parse(log, &name, &why) &&
		    name.directory[0] != '\0' &&
		    files_allow(files, name.directory, READING, diag) != 0)
			return -1;
	}
	return 0;
}

/* All of it, as a role's directory below it may be made anew while the role lives. */
static int allow_journal(const struct sandbox_files *files,
    const struct generation *generation, enum role_kind kind, struct diag *diag) {
	const char *base = generation_text(generation, generation->journal.path);

	if (*base == '\0' || (kind != ROLE_KEEPER && kind != ROLE_FEED && kind != ROLE_QUEUE))
		return 0;
	return files_allow(files, base, WRITING, diag);
}

uint16_t sandbox_port(const struct generation *generation) {
	const struct sockaddr_storage *to;
	struct listen_address address;
	const char *why;

	if (!generation_has_cluster(generation) || !listen_address_parse(
	    generation_text(generation, generation->cluster.redis), &address, &why))
		return 0;
	to = &address.socket_address;
	return ntohs(to->ss_family == AF_INET ?
	    ((const struct sockaddr_in *)(const void *)to)->sin_port :
	    to->ss_family == AF_INET6 ?
	    ((const struct sockaddr_in6 *)(const void *)to)->sin6_port : 0);
}

/* That of Redis, for the cluster role; of no other role any, where the kernel knows how. */
static int allow_port(const struct sandbox_files *files, int which,
    const struct generation *generation, enum role_kind kind, struct diag *diag) {
	const struct port rule = { .allowed = CONNECT_TO,
		.port = sandbox_port(generation) };

	if (which < 4 || kind != ROLE_CLUSTER || rule.port == 0)
		return 0;
	return syscall(CALL_ADD, files->fd, RULE_PORT, &rule, 0) == 0 ? 0 :
	    diag_set(diag, errno, "cannot add a Landlock rule for a port");
}

static int allow_all(const struct sandbox_files *files, const struct generation *generation,
    enum role_kind kind, struct diag *diag) {
	/* who asks (its start time), time zones, what malloc asks */
	static const char *const tables[] = { "/proc", "/usr/share/zoneinfo", "/etc/localtime",
		"/sys/devices/system/cpu" };

	const char *state = generation_text(generation, generation->state_path);

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		if (files_allow(files, tables[i], READING, diag) != 0)
			return -1;
	if (allow_directory(files, state, strlen(state),
	    kind == ROLE_KEEPER ? WRITING : READING, diag) != 0)
		return -1;
	if (kind == ROLE_FEED && (allow_logs(files, generation, READING, diag) != 0 ||
		allow_sd_journal(files, generation, diag) != 0))
		return -1;
	/* their sizes tell what is unread */
	if (kind == ROLE_METRICS && allow_logs(files, generation, READ_DIRECTORY, diag) != 0)
		return -1;
	return allow_journal(files, generation, kind, diag);
}

int sandbox_files_restrict(const struct generation *generation, enum role_kind kind,
    struct diag *diag) {
	int which = version(), result;
	struct ruleset all = all_of(which);
	struct sandbox_files files = { .known = all.files };

	files.fd = (int)syscall(CALL_CREATE, &all, bytes_of(which), 0);
	if (files.fd < 0)
		return diag_set(diag, errno, "cannot create a Landlock ruleset");
	result = allow_all(&files, generation, kind, diag);
	if (result == 0)
		result = allow_port(&files, which, generation, kind, diag);
	if (result == 0 && syscall(CALL_RESTRICT, files.fd, 0) != 0)
		result = diag_set(diag, errno, "cannot activate Landlock");
	close(files.fd);
	return result;
}
