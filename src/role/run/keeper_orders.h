/* SPDX-License-Identifier: ISC */
/*
 * What supervisor and keeper say to each other: one datagram each, of a fixed size.  The keeper
 * has the segment and the control socket, the supervisor all that needs root.  The keeper is
 * not trusted: a report that makes no sense ends it.
 */
#ifndef ROLE_KEEPER_ORDERS_H
#define ROLE_KEEPER_ORDERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/diag.h"
#include "role/run/alert.h"
#include "segment/file/layout.h"

struct pollfd;

enum keeper_order_kind {
	KEEPER_ORDER_PUBLISH = 1,	/* that of the descriptor that comes along, as `number` */
	KEEPER_ORDER_DIED,		/* process `pid` of `place` */
	KEEPER_ORDER_COUNT,		/* `amount` more of `counter` */
	KEEPER_ORDER_STARTED,		/* the metrics role, as `pid`, at `amount` (ns) */
	KEEPER_ORDER_RELOADED,		/* what came of reload `number`: `exit_code`, `text`, the
					 * generation in force (`amount`); along with it comes the
					 * compiler's report, if there is one */
	KEEPER_ORDER_END,		/* the daemon stops: readers are to see that at once */
};

struct keeper_order {
	uint32_t kind;
	uint32_t place;
	int32_t pid;
	uint32_t counter;	/* enum counter */
	int32_t exit_code;
	uint64_t amount;
	uint64_t number;	/* of a generation: it comes back with the report */
	char text[600];
};

enum keeper_report_kind {
	KEEPER_REPORT_PUBLISHED = 1,	/* generation `number` */
	KEEPER_REPORT_REFUSED,		/* generation `number` could not be published, and why */
	KEEPER_REPORT_MISSING,		/* the generation in force is not published */
	KEEPER_REPORT_STATE,		/* `journal_failed`, `alerts_from`: when they change */
	KEEPER_REPORT_RELOAD,		/* asks for a reload, by a `number` of its own, not 0 */
	KEEPER_REPORT_GATE_SHUT,	/* the gate's command is to be run */
	KEEPER_REPORT_GATE_OPEN,
	KEEPER_REPORT_ALERT,
};

struct keeper_report {
	uint32_t kind;
	uint32_t journal_failed;	/* 1: a journal cannot be written */
	uint64_t number;
	uint64_t alerts_from;		/* for the next keeper: what was not looked at yet */
	char text[400];			/* printable ASCII */
	struct alert alert;
};

/* The supervisor's end. */
struct keeper_orders {
	int fd;				/* -1: there is no keeper */
	int64_t report_tat_ns;		/* the rate of reports */
	_Atomic uint64_t counts[COUNTER_COUNT];	/* that no keeper has heard of yet */
};

void keeper_orders_init(struct keeper_orders *orders);
/* For a new keeper: its end, close-on-exec and non-blocking, or -1 with *diag. */
int keeper_orders_open(struct keeper_orders *orders, struct diag *diag);
void keeper_orders_close(struct keeper_orders *orders);

/* `passed_fd`: what the order brings along, or -1.  False: it could not be sent, as there is no
 * keeper, or it does not read. */
bool keeper_orders_send(const struct keeper_orders *orders, const struct keeper_order *order,
    int passed_fd);

/* Counts; the keeper hears of it with the next keeper_orders_turn. */
void keeper_orders_count(struct keeper_orders *orders, enum counter counter);
void keeper_orders_turn(struct keeper_orders *orders);

/* What to wait for; nothing while reports come faster than they may. */
void keeper_orders_poll(const struct keeper_orders *orders, int64_t now_ns,
    struct pollfd *polled);
/* The next report, checked.  0: there is none for now, it came too soon and waits, or the
 * keeper hung up; -1 with *why (static text): it broke the rules. */
int keeper_orders_read(struct keeper_orders *orders, int64_t now_ns,
    struct keeper_report *report, const char **why);

/* The keeper's end. */

/* 1, 0: there is none for now; -1: the supervisor hung up.  *passed_fd: the caller's to close,
 * or -1. */
int keeper_order_receive(int fd, struct keeper_order *order, int *passed_fd);
/* False: it could not be sent; the supervisor does not read. */
bool keeper_report_send(int fd, const struct keeper_report *report);

/* Does a report make sense?  Else *why.  For tests, too. */
bool keeper_report_is_sound(const struct keeper_report *report, const char **why);

#endif
