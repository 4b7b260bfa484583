/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Opens what the lists read.
 * MODEL    A state file that was replaced between open and look is opened again.
 *          The configuration in force is the block that the daemon published
 *          beside the state, not the file that an admin may be editing.
 * ERRORS   No state file: -1.  No block: the parts that need it are not known.
 * THREADS  One.
 */
#include "view/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/plain_file.h"
#include "base/text.h"

#define REOPEN_TRIES	5

static int open_block(const char *path, const struct generation **out,
    struct diag *diag) {
	int fd = plain_file_open(path), result;

	if (fd < 0)
		return errno == ELOOP || errno == EINVAL ?
		    diag_set(diag, 0, "%s: not a configuration block", path) :
		    diag_set(diag, errno, "%s", path);
	result = reader_generation_open(fd, path, out, diag);
	close(fd);
	return result;
}

static void close_generation(struct view *view) {
	if (view->generation != NULL)
		segment_unmap_generation(view->generation);
	view->generation = NULL;
	/* it has places in that */
	free(view->accounts);
	view->accounts = NULL;
}

/* The number tells one from another within the life of a state file alone. */
static void open_generation(struct view *view) {
	char path[PATH_MAX + 32];

	if (view->generation != NULL && view->generation->number == view->status.generation)
		return;
	close_generation(view);
	view->no_generation = (struct diag){ .error = 0 };
	if (view->status.generation == 0)
		return;
	snprintf(path, sizeof(path), "%s.config.%llu", view->path,
	    (unsigned long long)view->status.generation);
	(void)open_block(path, &view->generation, &view->no_generation);
}

int view_refresh(struct view *view, struct diag *diag) {
	for (unsigned tries = 0; tries < REOPEN_TRIES; tries++) {
		if (view->reader == NULL) {
			close_generation(view);
			if (reader_open(&view->reader, view->path, diag) != 0)
				return -1;
		}
		reader_status(view->reader, &view->status);
		if (view->status.health != READER_REPLACED || tries + 1 == REOPEN_TRIES)
			break;
		segment_unmap(&view->reader);
	}
	open_generation(view);
	return 0;
}

int view_open(struct view *view, const char *state_path, struct diag *diag) {
	memset(view, 0, sizeof(*view));
	if (!text_copy(view->path, sizeof(view->path), state_path, strlen(state_path)))
		return diag_set(diag, ENAMETOOLONG, "%s", state_path);
	return view_refresh(view, diag);
}

void view_close(struct view *view) {
	segment_unmap(&view->reader);
	close_generation(view);
}

const char *view_class_of(const char *name) {
	static const char prefix[] = "class:";

	return strncmp(name, prefix, sizeof(prefix) - 1) == 0 ? name + sizeof(prefix) - 1 : NULL;
}

struct enforcement view_enforcement(const struct view *view, const char *name,
    unsigned mta_bits) {
	const char *class = view_class_of(name);
	bool asked = view->status.counters[COUNTER_OUTBOUND_QUESTIONS] > 0;

	return class != NULL ? enforcement_of_class(view->generation, class, asked) :
	    enforcement_of(view->generation, mta_bits, asked);
}

const char *view_away(const struct view *view, char out[VIEW_AWAY_MAX]) {
	const struct reader_status *status = &view->status;
	long long silent_s = (status->now_ns - status->heartbeat_ns) / NS_PER_SECOND;

	if (status->heartbeat_ns <= 0 || silent_s < 0)
		return "posternd is not running (no heartbeat since the last boot)";
	(void)text_append(out, VIEW_AWAY_MAX, 0, "posternd is not running (last heartbeat %lld s "
	    "ago)", silent_s);
	return out;
}

const char *view_session_state(const struct session *session) {
	static const char *const words[SESSION_STATES] = { "free", "open", "deferred",
		"uncounted", "refused" };

	return words[session->control.state];
}

const char *view_role_name(const struct reader_role *role, char out[VIEW_ROLE_NAME_MAX]) {
	size_t length = text_append(out, VIEW_ROLE_NAME_MAX, 0, "%s", role_word(role->kind));

	if (role->kind != ROLE_SUPERVISOR)
		(void)text_append(out, VIEW_ROLE_NAME_MAX, length, ".%u", (unsigned)role->number);
	return out;
}
