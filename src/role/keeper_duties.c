/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The keeper's end of keeper_orders.h.
 * MODEL    An order is carried out when it comes; a report that does not fit into the socket
 *          comes with a later look.
 * ERRORS   What cannot be published is reported with its reason.  A supervisor that hangs up
 *          ends the keeper.
 * THREADS  The keeper's loop.
 */
#include "role/keeper_duties.h"

#include <event2/event.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "role/alert_watch.h"
#include "role/generation_memory.h"
#include "role/keeper_orders.h"
#include "segment/onlooker.h"
#include "segment/segment.h"

struct keeper_duties {
	struct segment *segment;
	struct onlooker *onlooker;
	int fd;
	struct event_base *base;
	struct event *event;
	struct alert_watch watch;
};

static uint64_t published(const struct segment *segment) {
	return atomic_load(&segment_header(segment)->generation);
}

static int publish(struct segment *segment, int generation_fd, uint64_t *number,
    struct diag *diag) {
	struct generation *generation = generation_memory_read(generation_fd, diag);
	int result;

	if (generation == NULL)
		return -1;
	result = segment_publish(segment, generation, diag);
	*number = generation->number;
	free(generation);
	return result;
}

int keeper_duties_prepare(const struct role_context *context, struct diag *diag) {
	struct keeper_report report = { .kind = KEEPER_REPORT_PUBLISHED };
	struct segment *segment = context->segment;
	const struct generation *there;

	for (unsigned place = 0; place < SEGMENT_ROLES_MAX; place++)
		if (!context->planned[place])
			segment_role_forget(segment, place);
	/* it was asked for before this keeper's time, and could not be had */
	if (segment_is_unlearned(segment))
		segment_has_learned(segment, false);
	if (segment_map_generation(segment, published(segment), &there, diag) != 0) {
		log_event(EVENT_SYSTEM, "text=\"published again: %s\"", diag->text);
		if (publish(segment, context->generation_fd, &report.number, diag) != 0)
			return -1;
		/* it obeys roles by the number */
		(void)keeper_report_send(context->orders_fd, &report);
		return 0;
	}
	segment_unmap_generation(there);
	return 0;
}

static void carry_out_publish(struct keeper_duties *duties, const struct keeper_order *order,
    int generation_fd) {
	struct keeper_report report = { .kind = KEEPER_REPORT_PUBLISHED,
		.ticket = order->ticket };
	struct diag diag;

	if (publish(duties->segment, generation_fd, &report.number, &diag) != 0) {
		report.kind = KEEPER_REPORT_REFUSED;
		log_sentence(report.text, sizeof(report.text), diag.text);
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

static void carry_out(struct keeper_duties *duties, const struct keeper_order *order,
    int generation_fd) {
	switch (order->kind) {
	case KEEPER_ORDER_PUBLISH:
		carry_out_publish(duties, order, generation_fd);
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
	case KEEPER_ORDER_END:
		end_all(duties->segment);
	}
}

static void on_order(evutil_socket_t fd, short what, void *argument) {
	struct keeper_duties *duties = argument;
	struct keeper_order order;
	int generation_fd, got;

	(void)what;
	while ((got = keeper_order_receive(fd, &order, &generation_fd)) > 0) {
		carry_out(duties, &order, generation_fd);
		if (generation_fd >= 0)
			close(generation_fd);
	}
	if (got == 0)
		return;
	/* the keeper that is started in our place has a new link */
	log_event(EVENT_SYSTEM, "from=keeper text=\"the supervisor gives no more orders\"");
	event_del(duties->event);
	(void)event_base_loopbreak(duties->base);
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
	duties->fd = context->orders_fd;
	duties->base = base;
	duties->watch.found = report_alert;
	duties->watch.context = duties;
	alert_watch_begin(&duties->watch, context->segment, context->alerts_from);
	duties->event = event_new(base, duties->fd, EV_READ | EV_PERSIST, on_order, duties);
	if (duties->event == NULL || event_add(duties->event, NULL) != 0)
		return diag_set(diag, 0, "no memory for an event");
	return 0;
}

void keeper_duties_beat(struct keeper_duties *duties, const struct generation *generation,
    int64_t now_ns) {
	onlooker_carry(duties->segment, duties->onlooker, now_ns);
	alert_watch_turn(&duties->watch, generation, now_ns);
}

static bool journal_failed(const struct segment_header *header) {
	for (unsigned i = 0; i < SEGMENT_JOURNALS; i++)
		if (atomic_load(&header->journals[i].fares) == JOURNAL_FARES_ILL)
			return true;
	return false;
}

void keeper_duties_second(struct keeper_duties *duties) {
	struct keeper_report report = { .kind = KEEPER_REPORT_STATE,
		.journal_failed = journal_failed(segment_header(duties->segment)),
		.alerts_from = duties->watch.events.next };

	(void)keeper_report_send(duties->fd, &report);
	if (segment_generation_is_there(duties->segment, published(duties->segment)))
		return;
	report = (struct keeper_report){ .kind = KEEPER_REPORT_MISSING };
	(void)keeper_report_send(duties->fd, &report);
}
