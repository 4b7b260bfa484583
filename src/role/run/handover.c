/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Carry a role's context across exec.
 * MODEL    The structure as it is, as both sides are the same program; behind it, in a fixed
 *          order, what its pointers lead to.
 * ERRORS   A file that ends early, or is of another size, is none.
 * THREADS  One on both sides.
 */
#include "role/run/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "role/link/row.h"

#define TEXT_MAX	(2 * PATH_MAX)

bool handover_put(FILE *out, const void *bytes, size_t size) {
	return fwrite(bytes, size, 1, out) == 1;
}

bool handover_get(FILE *in, void *bytes, size_t size) {
	return fread(bytes, size, 1, in) == 1;
}

static bool put_text(FILE *out, const char *text) {
	uint32_t length = (uint32_t)strlen(text);

	return handover_put(out, &length, sizeof(length)) && (length == 0 || handover_put(out, text, length));
}

/* The caller's (malloc); NULL: the file is at its end, or there is no memory. */
static char *get_text(FILE *in) {
	uint32_t length;
	char *text;

	if (!handover_get(in, &length, sizeof(length)) || length > TEXT_MAX)
		return NULL;
	text = calloc(length + 1, 1);
	if (text == NULL || length == 0 || handover_get(in, text, length))
		return text;
	free(text);
	return NULL;
}

static bool put_logs(FILE *out, const struct role_context *context) {
	for (unsigned i = 0; i < context->log_count; i++) {
		const struct log_candidates *files = &context->logs[i];

		if (!put_text(out, files->log))
			return false;
		for (unsigned f = 0; f < files->count; f++)
			if (!put_text(out, files->list[f].path))
				return false;
	}
	return true;
}

static bool get_logs(FILE *in, struct role_context *context) {
	for (unsigned i = 0; i < context->log_count; i++) {
		struct log_candidates *files = &context->logs[i];

		if ((files->log = get_text(in)) == NULL)
			return false;
		for (unsigned f = 0; f < files->count; f++)
			if ((files->list[f].path = get_text(in)) == NULL)
				return false;
	}
	return true;
}

/* Without addresses of ours. */
static bool put_handover(FILE *out, const struct handover *handover) {
	static struct handover copy;	/* for a stack it is large */
	struct role_context *context = &copy.context;

	copy = *handover;
	context->segment = NULL;
	context->onlooker = NULL;
	context->queue_places = NULL;
	context->secret = NULL;
	for (unsigned i = 0; i < context->log_count; i++) {
		context->logs[i].log = NULL;
		for (unsigned f = 0; f < context->logs[i].count; f++)
			context->logs[i].list[f].path = NULL;
	}
	return handover_put(out, &copy, sizeof(copy));
}

static bool put_all(FILE *out, const struct handover *handover) {
	const struct role_context *context = &handover->context;
	const struct role_row *row = role_row_of(context->kind);

	return put_handover(out, handover) &&
	    put_logs(out, context) &&
	    (row == NULL || row->put == NULL || row->put(out, context));
}

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))

static bool is_sound(const struct role_context *context) {
	if (context->socket_count > COUNT_OF(context->sockets) ||
	    context->netlink_count > COUNT_OF(context->netlink_fds) ||
	    context->log_count > COUNT_OF(context->logs))
		return false;
	for (unsigned i = 0; i < context->log_count; i++)
		if (context->logs[i].count > COUNT_OF(context->logs[i].list))
			return false;
	return true;
}

static bool get_all(FILE *in, struct handover *handover, struct diag *diag) {
	struct role_context *context = &handover->context;
	const struct role_row *row;

	diag_set(diag, 0, "it is incomplete");
	if (!handover_get(in, handover, sizeof(*handover)) || !is_sound(context) ||
	    !get_logs(in, context))
		return false;
	row = role_row_of(context->kind);
	return row == NULL || row->get == NULL || row->get(in, context, diag);
}

static void fd_keep(int fd) {
	if (fd >= 0)
		(void)fcntl(fd, F_SETFD, 0);
}

/* Every other one is close-on-exec where it is opened; this is for one that was not. */
static void keep_descriptors(const struct handover *handover) {
	const struct role_context *context = &handover->context;
	const struct role_row *row = role_row_of(context->kind);

	(void)syscall(SYS_close_range, (unsigned)STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	fd_keep(handover->result_fd);
	for (unsigned i = 0; i < ROLE_FDS; i++)
		fd_keep(context->fds[i]);
	for (unsigned i = 0; i < context->socket_count; i++)
		fd_keep(context->sockets[i].fd);
	for (unsigned i = 0; i < context->netlink_count; i++)
		fd_keep(context->netlink_fds[i]);
	for (unsigned i = 0; i < context->log_count; i++)
		for (unsigned f = 0; f < context->logs[i].count; f++)
			fd_keep(context->logs[i].list[f].fd);
	if (row != NULL && row->keep != NULL)
		row->keep(context, fd_keep);
}

int handover_send(const struct handover *handover, struct diag *diag) {
	int fd = memfd_create("postern-role", MFD_CLOEXEC), copy;
	FILE *out;
	bool done;

	if (fd < 0)
		return diag_set(diag, errno, "cannot create a memory file");
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	out = copy < 0 ? NULL : fdopen(copy, "w");
	if (out == NULL)
		return diag_set(diag, errno, "cannot write to a memory file");
	/* a password is in no buffer that stays */
	(void)setvbuf(out, NULL, _IONBF, 0);
	done = put_all(out, handover);
	if (fclose(out) != 0 || !done || lseek(fd, 0, SEEK_SET) != 0)
		return diag_set(diag, errno, "cannot write to a memory file");
	keep_descriptors(handover);
	fd_keep(fd);
	return fd;
}

int handover_receive(int fd, struct handover *handover, struct diag *diag) {
	FILE *in = fdopen(fd, "r");
	bool done;

	if (in == NULL)
		return diag_set(diag, errno, "descriptor %d", fd);
	(void)setvbuf(in, NULL, _IONBF, 0);
	done = get_all(in, handover, diag);
	(void)fclose(in);
	return done ? 0 : -1;
}
