/* SPDX-License-Identifier: ISC */
/*
 * The queue role: it may read the names of queue directories, which were opened before its
 * privileges were gone, and nothing else of them; for files and for processes it asks the
 * supervisor.
 */
#include <sysexits.h>

#include "base/log.h"
#include "engine/engine.h"
#include "front/queue/queue_drive.h"
#include "front/decision/window_log.h"
#include "role/queue/queue_places.h"
#include "role/link/role.h"

int queue_role_main(const struct role_context *context) {
	static struct queue_drive_directory directories[QUEUE_PLACES_MAX];
	const struct queue_places *places = context->queue_places;
	const struct control_access *control_access[GENERATION_LISTENERS_MAX];
	int control_fds[GENERATION_LISTENERS_MAX];
	struct queue_drive_setup setup = { .directories = directories,
		.directory_count = places->count, .notify_fd = places->notify_fd,
		.link_fd = context->queue_fd, .control_fds = control_fds,
		.control_access = control_access, .control_count = context->socket_count };
	struct engine *engine;
	struct diag diag;

	for (unsigned i = 0; i < places->count; i++)
		directories[i] = (struct queue_drive_directory){
			.mta = places->list[i].mta, .is_local = places->list[i].is_local,
			.fd = places->list[i].fd,
			.watch = places->list[i].watch, .path = places->list[i].path };
	for (unsigned i = 0; i < context->socket_count; i++) {
		control_fds[i] = context->sockets[i].fd;
		control_access[i] = context->sockets[i].access;
	}
	if (role_open_engine(context, &engine, &diag) == 0) {
		window_log_listen(engine);
		if (queue_drive_run(engine, &setup, &diag) == 0)
			return EX_OK;
	}
	log_event(EVENT_SYSTEM, "from=queue text=\"%s\"", diag.text);
	return EX_OSERR;
}
