/* SPDX-License-Identifier: ISC */
/*
 * The feed role: the logs are often for root alone, hence opened before the privileges are
 * gone.  Which of the files the last feed had not let go of stands in the segment, which root
 * does not read: so all that may be are opened, and this process chooses.
 */
#include "role/run/feed_role.h"

#include <limits.h>
#include <string.h>

#include "base/sd_log.h"
#include "engine/engine.h"
#include "front/serve/sd_library.h"
#include "role/confine/privileges.h"
#include "segment/file/feed_position.h"

bool feed_role_needed(const struct generation *generation) {
	uint32_t i;

	for (i = 0; i < generation->mta_count; i++)
		if (generation->mtas[i].log != 0)
			return true;
	for (i = 0; i < generation->listener_count; i++)
		if (generation->listeners[i].kind == LISTENER_SYSLOG ||
		    generation->listeners[i].kind == LISTENER_EVENTS)
			return true;
	return false;
}

static bool is_opened(const struct role_context *context, const char *log) {
	unsigned i;

	for (i = 0; i < context->log_count; i++)
		if (strcmp(context->logs[i].log, log) == 0)
			return true;
	return false;
}

void feed_role_open(const struct generation *generation, struct role_context *context) {
	uint32_t i;

	for (i = 0; context->kind == ROLE_FEED && i < generation->mta_count; i++) {
		const char *log = generation_text(generation,
		    generation->mtas[i].log);

		if (*log != '\0' && strlen(log) < PATH_MAX && !sd_log_is(log) &&
		    !is_opened(context, log))
			log_files_open_all(log, &context->logs[context->log_count++]);
	}
}

void feed_role_load(const struct generation *generation) {
	struct diag diag;

	/* without it the feed asks once more, and says why */
	if (generation_reads_sd_journal(generation))
		(void)sd_library(&diag);
}

gid_t feed_role_group(const struct generation *generation) {
	struct diag diag;
	gid_t group;

	return generation_reads_sd_journal(generation) &&
	    identity_group(SD_LOG_GROUP, &group, &diag) == 0 ? group : (gid_t)-1;
}

/* Those that it has not let go of, and those that came since. */
static void choose_files(const struct segment *segment, struct log_candidates *from,
    struct log_files *files) {
	struct feed_position known[FEED_FILES_MAX];
	uint32_t records[FEED_FILES_MAX];
	unsigned count = feed_positions(segment, feed_log_id(from->log), known, records);

	log_files_choose(from, known, count, files);
}

int feed_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag) {
	struct feed_socket sockets[GENERATION_LISTENERS_MAX];
	struct log_files logs[GENERATION_MTAS_MAX];
	struct feed_setup setup = { .logs = logs, .log_count = context->log_count,
		.sockets = sockets, .socket_count = context->socket_count,
		.mta_fd = context->fds[ROLE_FD_MTA] };
	unsigned i;

	for (i = 0; i < context->log_count; i++) {
		struct log_candidates all = context->logs[i];

		choose_files(context->segment, &all, &logs[i]);
	}
	for (i = 0; i < context->socket_count; i++)
		sockets[i] = (struct feed_socket){ context->sockets[i].fd,
			context->sockets[i].listener, context->sockets[i].kind };
	return feed_run(engine, &setup, diag);
}
