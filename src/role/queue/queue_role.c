/* SPDX-License-Identifier: ISC */
/*
 * The queue role: it may read the names of queue directories, which were opened before its
 * privileges were gone, and nothing else of them; for files and for processes it asks the
 * supervisor.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/queue/queue_watch.h"
#include "front/queue/queue_drive.h"
#include "front/decision/window_log.h"
#include "role/link/row.h"
#include "role/queue/queue_link.h"
#include "role/queue/queue_places.h"
#include "role/run/handover.h"

/* Ends with 0 when directories have to be opened by root, or there are none. */
static int queue_role_main(const struct role_context *context, struct engine *engine,
    struct diag *diag) {
	const struct queue_places *places = context->queue_places;
	const struct control_access *control_access[GENERATION_LISTENERS_MAX];
	int control_fds[GENERATION_LISTENERS_MAX];
	struct queue_drive_setup setup = { .directories = places->list,
		.directory_count = places->count, .notify_fd = places->notify_fd,
		.link_fd = context->fds[ROLE_FD_ROW], .control_fds = control_fds,
		.control_access = control_access, .control_count = context->socket_count };

	for (unsigned i = 0; i < context->socket_count; i++) {
		control_fds[i] = context->sockets[i].fd;
		control_access[i] = &context->sockets[i].access;
	}
	window_log_listen(engine);
	return queue_drive_run(engine, &setup, diag);
}

static int queue_role_open(const struct generation *generation, struct role_context *context,
    struct diag *diag) {
	(void)generation, (void)diag;
	context->queue_places = queue_link_places();
	return 0;
}

static bool queue_role_put(FILE *out, const struct role_context *context) {
	const struct queue_places *places = context->queue_places;

	return handover_put(out, places, offsetof(struct queue_places, list) +
	    places->count * sizeof(places->list[0]));
}

static bool queue_role_get(FILE *in, struct role_context *context, struct diag *diag) {
	struct queue_places *places = malloc(sizeof(*places));

	(void)diag;
	context->queue_places = places;
	return places != NULL && handover_get(in, places, offsetof(struct queue_places, list)) &&
	    places->count <= QUEUE_PLACES_MAX &&
	    handover_get(in, places->list, places->count * sizeof(places->list[0]));
}

static void queue_role_keep(const struct role_context *context, void (*keep_fd)(int fd)) {
	keep_fd(context->queue_places->notify_fd);
	for (unsigned i = 0; i < context->queue_places->count; i++)
		keep_fd(context->queue_places->list[i].fd);
}

/* There is one keeper in a process. */
static void queue_role_watch(struct engine *engine, int64_t now_ns) {
	static int64_t last_ns;
	const struct generation *generation = engine_pin(engine);
	int64_t away_ns = queue_watch_look(&last_ns, engine, generation, now_ns);

	engine_unpin(engine, generation);
	if (away_ns != 0)
		log_event(away_ns > 0 ? EVENT_QUEUE_AWAY : EVENT_QUEUE_BACK, "away=%llds",
		    llabs(away_ns) / NS_PER_SECOND);
}

static const struct role_row_link queue_row_link = {
	.init = queue_link_init, .open = queue_link_open, .close = queue_link_close,
	.poll = queue_link_poll, .turn = queue_link_turn,
	.next_ns = queue_link_next_ns, .reloaded = queue_link_reloaded,
};
extern const struct role_row queue_row;
const struct role_row queue_row = {
	.kind = ROLE_QUEUE, .main = queue_role_main, .open = queue_role_open, .put = queue_role_put,
	.get = queue_role_get, .keep = queue_role_keep, .watch = queue_role_watch,
	.link = &queue_row_link,
};
