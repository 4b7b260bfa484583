/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The keeper's end of keeper_orders.h.
 * MODEL    An order is carried out when it comes; a report that does not fit into the socket
 *          comes with a later look.
 * ERRORS   What cannot be published is reported with its reason.  A supervisor that hangs up
 *          ends the keeper.
 * THREADS  The keeper's loop.
 */
#include "role/run/keeper_duties.h"

#include <event2/event.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/decision/history.h"
#include "front/control/control.h"
#include "role/run/alert_watch.h"
#include "role/run/compiler.h"
#include "role/link/generation_memory.h"
#include "role/run/keeper_orders.h"
#include "segment/onlooker.h"
#include "segment/file/segment.h"
#include "segment/file/stir.h"

#define PUBLISH_WAIT_NS	(3 * NS_PER_SECOND)

struct keeper_duties {
	struct segment *segment;
	struct onlooker *onlooker;
	int fd;
	struct event_base *base;
	struct event *event;
	uint64_t published;		/* how many generations */
	struct control *control;	/* NULL: nobody asks for a reload */
	struct alert_watch watch;
	struct engine_history *history;
	int history_error;		/* as was logged last */
	bool journal_failed;		/* as the supervisor was told last */
	uint64_t alerts_from;
	bool told;			/* and that it was */
};

static uint64_t published(const struct segment *segment) {
	return atomic_load(&segment_header(segment)->generation);
}

static int generation_publish(struct segment *segment, int generation_fd, uint64_t number,
    struct diag *diag) {
	struct generation *generation = generation_memory_map(generation_fd, diag);
	int result;

	if (generation == NULL)
		return -1;
	generation->number = number;
	result = segment_publish(segment, generation, diag);
	generation_memory_unmap(generation);
	return result;
}

static void carry_out_publish(struct keeper_duties *duties, const struct keeper_order *order,
    int generation_fd) {
	struct keeper_report report = { .kind = KEEPER_REPORT_PUBLISHED,
		.number = order->number };
	struct diag diag;

	if (generation_publish(duties->segment, generation_fd, order->number, &diag) != 0) {
		report.kind = KEEPER_REPORT_REFUSED;
		log_sentence(report.text, sizeof(report.text), diag.text);
	} else {
		duties->published++;
		segment_stir(segment_header(duties->segment));
	}
	(void)keeper_report_send(duties->fd, &report);
}

/* All of them, and itself the last. */
static void end_all(struct segment *segment) {
	for (unsigned place = 0; place < SEGMENT_ROLES_MAX; place++)
		(void)segment_role_died(segment, place, atomic_load(
		    &segment_header(segment)->roles[place].pid));
	_exit(EX_OK);
}

/* For those who asked. */
static void pass_on_reloaded(struct keeper_duties *duties, const struct keeper_order *order,
    int report_fd) {
	static struct compiler_report report;
	struct control_reloaded reloaded = { .number = order->number,
		.exit_code = order->exit_code, .error = order->text,
		.generation = order->amount, .messages = &report.messages };

	report = (struct compiler_report){ .fd = -1 };
	if (report_fd >= 0 && compiler_report_read(report_fd, &report)) {
		reloaded.needs_restart = report.needs_restart;
		reloaded.needs_count = report.needs_count;
	}
	if (duties->control != NULL)
		control_reloaded(duties->control, &reloaded);
	config_messages_free(&report.messages);
}

static void carry_out(struct keeper_duties *duties, const struct keeper_order *order,
    int passed_fd) {
	switch (order->kind) {
	case KEEPER_ORDER_PUBLISH:
		carry_out_publish(duties, order, passed_fd);
		break;
	case KEEPER_ORDER_DIED:
		if (segment_role_died(duties->segment, order->place, order->pid))
			segment_count_some(duties->segment, COUNTER_ROLE_RESTARTS, 1);
		break;
	case KEEPER_ORDER_COUNT:
		segment_count_some(duties->segment, (enum counter)order->counter,
		    order->amount);
		break;
	case KEEPER_ORDER_STARTED:
		onlooker_started(duties->segment, order->pid, (int64_t)order->amount);
		break;
	case KEEPER_ORDER_RELOADED:
		pass_on_reloaded(duties, order, passed_fd);
		break;
	case KEEPER_ORDER_END:
		end_all(duties->segment);
	}
}

/* -1: the supervisor hung up. */
static int keeper_duties_obey(struct keeper_duties *duties) {
	struct keeper_order order;
	int passed_fd, got;

	while ((got = keeper_order_receive(duties->fd, &order, &passed_fd)) > 0) {
		carry_out(duties, &order, passed_fd);
		if (passed_fd >= 0)
			close(passed_fd);
	}
	return got;
}

/* What stands in the segment's place of it is the generation in force, and sound. */
static bool is_in_force(const struct role_context *context, struct diag *diag) {
	uint64_t number = published(context->segment);
	const struct generation *generation;

	/* a keeper before this one may have published what was given up meanwhile */
	if (number != context->generation_number) {
		diag_set(diag, 0, "generation %" PRIu64 " is not active", number);
		return false;
	}
	if (segment_map_generation(context->segment, number, &generation, diag) != 0)
		return false;
	segment_unmap_generation(generation);
	return true;
}

/* Carries out orders until one published a generation. */
static int publish_again(struct keeper_duties *duties, struct diag *diag) {
	const struct keeper_report report = { .kind = KEEPER_REPORT_MISSING };
	uint64_t before = duties->published;
	struct pollfd link = { .fd = duties->fd, .events = POLLIN };
	int64_t end_ns = clock_now_ns() + PUBLISH_WAIT_NS;

	(void)keeper_report_send(duties->fd, &report);
	while (duties->published == before && clock_now_ns() < end_ns) {
		(void)poll(&link, 1, 100);
		if (keeper_duties_obey(duties) < 0)
			break;
	}
	return duties->published != before ? 0 :
	    diag_set(diag, 0, "the supervisor sent no configuration to publish");
}

int keeper_duties_prepare(const struct role_context *context, struct diag *diag) {
	struct keeper_duties duties = { .segment = context->segment,
		.fd = context->fds[ROLE_FD_ORDERS] };

	for (unsigned place = 0; place < SEGMENT_ROLES_MAX; place++)
		if (!context->planned[place])
			segment_role_forget(context->segment, place);
	/* it was asked for before this keeper's time, and could not be had */
	if (segment_is_unlearned(context->segment))
		segment_has_learned(context->segment, false);
	if (is_in_force(context, diag))
		return 0;
	log_event(EVENT_SYSTEM, "text=\"publishing again: %s\"", diag->text);
	return publish_again(&duties, diag);
}

static void on_order(evutil_socket_t fd, short what, void *argument) {
	struct keeper_duties *duties = argument;

	(void)fd;
	(void)what;
	if (keeper_duties_obey(duties) == 0)
		return;
	/* the keeper that is started in our place has a new link */
	log_event(EVENT_SYSTEM, "from=keeper text=\"the supervisor sends no more orders\"");
	event_del(duties->event);
	(void)event_base_loopbreak(duties->base);
}

bool keeper_duties_reload(void *duties, uint64_t number) {
	const struct keeper_report report = { .kind = KEEPER_REPORT_RELOAD, .number = number };

	return keeper_report_send(((const struct keeper_duties *)duties)->fd, &report);
}

void keeper_duties_serve(struct keeper_duties *duties, struct control *control) {
	duties->control = control;
}

void keeper_duties_gate(const struct keeper_duties *duties, bool shut) {
	const struct keeper_report report = { .kind = shut ? KEEPER_REPORT_GATE_SHUT :
		KEEPER_REPORT_GATE_OPEN };

	(void)keeper_report_send(duties->fd, &report);
}

static bool report_alert(void *context, const struct alert *alert) {
	const struct keeper_duties *duties = context;
	struct keeper_report report = { .kind = KEEPER_REPORT_ALERT, .alert = *alert };

	return keeper_report_send(duties->fd, &report);
}

int keeper_duties_open(struct keeper_duties **result, const struct role_context *context,
    struct event_base *base, struct diag *diag) {
	struct keeper_duties *duties = calloc(1, sizeof(*duties));

	*result = duties;
	if (duties == NULL)
		return diag_set(diag, 0, "no memory for the keeper's duties");
	duties->segment = context->segment;
	duties->onlooker = context->onlooker;
	duties->fd = context->fds[ROLE_FD_ORDERS];
	duties->base = base;
	duties->history = engine_history_new(context->segment);
	if (duties->history == NULL)
		return diag_set(diag, 0, "no memory for the history");
	duties->watch.found = report_alert;
	duties->watch.context = duties;
	alert_watch_begin(&duties->watch, context->segment, context->alerts_from);
	duties->event = event_new(base, duties->fd, EV_READ | EV_PERSIST, on_order, duties);
	if (duties->event == NULL || event_add(duties->event, NULL) != 0)
		return diag_set(diag, 0, "no memory for an event");
	return 0;
}

int64_t keeper_duties_turn(struct keeper_duties *duties, int64_t now_ns) {
	const struct segment_header *header = segment_header(duties->segment);
	unsigned metrics = segment_role_place(ROLE_METRICS, 0);

	onlooker_carry(duties->segment, duties->onlooker, now_ns);
	return atomic_load(&header->roles[metrics].pid) != 0 ? NS_PER_SECOND : ENGINE_REST_NS;
}

void keeper_duties_beat(struct keeper_duties *duties, const struct generation *generation,
    int64_t now_ns) {
	const char *what;
	int error;

	alert_watch_turn(&duties->watch, generation, now_ns);
	error = engine_history_turn(duties->history, generation, now_ns, clock_wall_ns(), &what);
	if (error != 0 && error != duties->history_error)
		log_event(EVENT_SYSTEM, "from=keeper text=\"cannot %s: %s\"", what,
		    strerror(error));
	duties->history_error = error;
}

static bool journal_failed(const struct segment_header *header) {
	for (unsigned i = 0; i < SEGMENT_JOURNALS; i++)
		if (atomic_load(&header->journals[i].fares) == JOURNAL_FARES_ILL)
			return true;
	return false;
}

/* Where it is another one than it was told. */
static void report_state(struct keeper_duties *duties) {
	struct keeper_report report = { .kind = KEEPER_REPORT_STATE,
		.journal_failed = journal_failed(segment_header(duties->segment)),
		.alerts_from = duties->watch.events.next };

	if (duties->told && duties->journal_failed == (report.journal_failed != 0) &&
	    duties->alerts_from == report.alerts_from)
		return;
	duties->journal_failed = report.journal_failed != 0;
	duties->alerts_from = report.alerts_from;
	duties->told = keeper_report_send(duties->fd, &report);
}

void keeper_duties_second(struct keeper_duties *duties) {
	struct keeper_report report = { .kind = KEEPER_REPORT_MISSING };

	if (segment_restore(duties->segment, getppid()))
		log_event(EVENT_REPAIRED,
		    "text=\"the header of the state file was overwritten; restored\"");
	report_state(duties);
	if (!segment_generation_is_there(duties->segment, published(duties->segment)))
		(void)keeper_report_send(duties->fd, &report);
}
