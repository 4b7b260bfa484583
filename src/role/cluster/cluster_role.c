/* SPDX-License-Identifier: ISC */
/*
 * The cluster role: the one that connects to somewhere else.  Its password is often for root
 * alone, hence read before the privileges are gone; it is in no other process, in no core
 * and in no log.
 */
#include "role/cluster/cluster_role.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_stamp.h"
#include "base/log.h"
#include "base/text.h"
#include "front/cluster/cluster.h"
#include "front/decision/window_log.h"
#include "role/link/row.h"
#include "role/run/handover.h"

/* For the password: in no core, and in this process alone.  NULL with *diag. */
static struct cluster_secret *secret_page(struct diag *diag) {
	const size_t bytes = sizeof(struct cluster_secret);
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED) {
		diag_set(diag, errno, "no memory for a password");
		return NULL;
	}
	(void)madvise(page, bytes, MADV_DONTDUMP);
	return page;
}

/* Its first line. */
static const char *read_first_line(int fd, struct cluster_secret *secret) {
	struct stat status;
	ssize_t got;
	char *end;

	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return "not a regular file";
	if ((status.st_mode & S_IROTH) != 0)
		log_event(EVENT_CONFIG_NOTE,
		    "text=\"cluster.password_file is readable for all users; run chmod o-r\"");
	got = read(fd, secret->password, sizeof(secret->password));
	if (got < 0)
		return strerror(errno);
	end = memchr(secret->password, '\n', (size_t)got);
	if (end == NULL && (size_t)got == sizeof(secret->password)) {
		explicit_bzero(secret->password, sizeof(secret->password));
		return "its first line is too long";
	}
	secret->length = end == NULL ? (size_t)got : (size_t)(end - secret->password);
	explicit_bzero(secret->password + secret->length,
	    sizeof(secret->password) - secret->length);
	return secret->length == 0 ? "it is empty" : NULL;
}

/* After fork, while it is still root: reads cluster.password_file.  -1 with *diag: there is no
 * page for it. */
static int cluster_role_open(const struct generation *generation, struct role_context *context,
    struct diag *diag) {
	const char *path = generation_text(generation, generation->cluster.password_file);
	struct cluster_secret *secret;
	const char *wrong;
	int fd;

	secret = secret_page(diag);
	context->secret = secret;
	if (secret == NULL)
		return -1;
	if (*path == '\0')
		return 0;
	secret->stamp = file_stamp(path);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	wrong = fd < 0 ? strerror(errno) : read_first_line(fd, secret);
	if (fd >= 0)
		close(fd);
	if (wrong != NULL)
		text_append(secret->error, sizeof(secret->error), 0,
		    "cluster.password_file: %s", wrong);
	return 0;
}

/* Ends with 0 when its password has to be read by root once more. */
static int cluster_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag) {
	const struct cluster_secret *secret = context->secret;
	struct cluster_setup setup = { .password = secret->password,
		.password_length = secret->length, .password_stamp = secret->stamp,
		.password_error = secret->error[0] == '\0' ? NULL : secret->error };

	window_log_listen(engine);
	return cluster_run(engine, &setup, diag);
}

static bool cluster_role_put(FILE *out, const struct role_context *context) {
	return handover_put(out, context->secret, sizeof(*context->secret));
}

static bool cluster_role_get(FILE *in, struct role_context *context, struct diag *diag) {
	struct cluster_secret *secret = secret_page(diag);

	context->secret = secret;
	return secret != NULL && handover_get(in, secret, sizeof(*secret));
}

extern const struct role_row cluster_row;
const struct role_row cluster_row = {
	.kind = ROLE_CLUSTER, .main = cluster_role_main, .open = cluster_role_open,
	.put = cluster_role_put, .get = cluster_role_get,
};
