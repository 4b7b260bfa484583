/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Orders to the keeper, reports from it.
 * MODEL    A pair of sequenced-packet sockets, made for each keeper.  Nothing waits: what does
 *          not fit into the socket is not sent, and the caller sends it again later or ends
 *          the keeper.
 * ERRORS   Of the keeper: static text.
 * THREADS  One at each end.
 */
#include "role/run/keeper_orders.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/datagram.h"
#include "policy/limit/rate.h"

/* More wait in the socket: the keeper could go on for ever. */
static const struct rate_limit reports = { .period_ns = NS_PER_SECOND, .count = 500,
	.burst = 256 };

void keeper_orders_init(struct keeper_orders *orders) {
	memset(orders, 0, sizeof(*orders));
	orders->fd = -1;
}

int keeper_orders_open(struct keeper_orders *orders, struct diag *diag) {
	int fds[2];

	keeper_orders_close(orders);
	if (datagram_pair(fds, diag) != 0)
		return -1;
	orders->fd = fds[0];
	return fds[1];
}

void keeper_orders_close(struct keeper_orders *orders) {
	if (orders->fd >= 0)
		close(orders->fd);
	orders->fd = -1;
}

bool keeper_orders_send(const struct keeper_orders *orders, const struct keeper_order *order,
    int passed_fd) {
	return orders->fd >= 0 && datagram_send(orders->fd, order, sizeof(*order), passed_fd);
}

void keeper_orders_count(struct keeper_orders *orders, enum counter counter) {
	atomic_fetch_add(&orders->counts[counter], 1);
}

void keeper_orders_turn(struct keeper_orders *orders) {
	for (uint32_t i = 0; i < COUNTER_COUNT && orders->fd >= 0; i++) {
		uint64_t amount = atomic_load(&orders->counts[i]);

		if (amount != 0 && keeper_orders_send(orders, &(struct keeper_order){
			.kind = KEEPER_ORDER_COUNT, .counter = i, .amount = amount }, -1))
			atomic_fetch_sub(&orders->counts[i], amount);
	}
}

static bool is_text(const char *text, size_t size) {
	size_t length = strnlen(text, size);

	for (size_t i = 0; i < length; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return length < size;
}

static bool is_alert(const struct alert *alert) {
	uint8_t observed;

	memcpy(&observed, &alert->observed, sizeof(observed));
	return (unsigned)alert->kind < ALERT_KINDS && observed <= 1 &&
	    is_text(alert->subject, sizeof(alert->subject)) && alert->subject[0] != '\0' &&
	    /* deaths are reported here: it could have the real one left out as a repetition */
	    (alert->kind != ALERT_ROLE || strcmp(alert->subject, "queue") == 0) &&
	    is_text(alert->text, sizeof(alert->text)) &&
	    is_text(alert->rule, sizeof(alert->rule)) && is_text(alert->id, sizeof(alert->id));
}

bool keeper_report_is_sound(const struct keeper_report *report, const char **why) {
	*why = "invalid text";
	if (!is_text(report->text, sizeof(report->text)))
		return false;
	switch (report->kind) {
	case KEEPER_REPORT_PUBLISHED:
	case KEEPER_REPORT_REFUSED:
	case KEEPER_REPORT_MISSING:
	case KEEPER_REPORT_STATE:
	case KEEPER_REPORT_GATE_SHUT:
	case KEEPER_REPORT_GATE_OPEN:
		return true;
	case KEEPER_REPORT_RELOAD:
		*why = "a reload without a number";
		return report->number != 0;
	case KEEPER_REPORT_ALERT:
		*why = "invalid alert";
		return is_alert(&report->alert);
	default:
		*why = "unknown kind of report";
		return false;
	}
}

void keeper_orders_poll(const struct keeper_orders *orders, int64_t now_ns,
    struct pollfd *polled) {
	*polled = (struct pollfd){ .events = POLLIN,
		.fd = rate_allows(&reports, orders->report_tat_ns, now_ns) ? orders->fd : -1 };
}

int keeper_orders_read(struct keeper_orders *orders, int64_t now_ns,
    struct keeper_report *report, const char **why) {
	ssize_t length;

	if (orders->fd < 0 || !rate_allows(&reports, orders->report_tat_ns, now_ns))
		return 0;
	length = recv(orders->fd, report, sizeof(*report), MSG_DONTWAIT | MSG_TRUNC);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (length <= 0) {
		/* it has died: whoever buries it starts another */
		keeper_orders_close(orders);
		return 0;
	}
	orders->report_tat_ns = rate_after(&reports, orders->report_tat_ns, now_ns);
	*why = "a report has the wrong size";
	if (length != (ssize_t)sizeof(*report))
		return -1;
	return keeper_report_is_sound(report, why) ? 1 : -1;
}

int keeper_order_receive(int fd, struct keeper_order *order, int *passed_fd) {
	ssize_t length = datagram_receive(fd, order, sizeof(*order), passed_fd);

	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	return length == (ssize_t)sizeof(*order) ? 1 : -1;
}

bool keeper_report_send(int fd, const struct keeper_report *report) {
	return datagram_send(fd, report, sizeof(*report), -1);
}
