/* SPDX-License-Identifier: ISC */
/*
 * The list of a Postfix queue as `postqueue -j` prints it (postqueue(1)): one JSON
 * object a line for each message, sans I/O.  Untrusted: addresses are chosen by
 * senders, reasons by remote servers.
 *
 *	{"queue_name": "deferred", "queue_id": "3F9A21C04D", "arrival_time": 1700000000,
 *	 "message_size": 306, "forced_expire": false, "sender": "a@example.com",
 *	 "recipients": [{"address": "b@example.org", "delay_reason": "connect to ..."}]}
 *
 * Members may come in any order before "recipients"; others are passed over.
 */
#ifndef WIRE_QUEUE_LIST_H
#define WIRE_QUEUE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/reply/delivery.h"

struct queue_listed {
	struct span queue_id;
	int64_t arrival_s;	/* wall clock; 0: not told */
	/* where the next recipient is looked for */
	char *at, *end;
};

/* Takes a line up to its recipients.  `line` is changed: texts are unescaped where they
 * lie (what is not ASCII as it stands).  False: it is no such object. */
bool queue_list_scan(char *line, size_t length, struct queue_listed *out);

/* The next recipient; `reason` may be empty.  False: there is none, or the line is cut
 * or goes on as something else. */
bool queue_list_recipient(struct queue_listed *listed, struct span *address,
    struct span *reason);

#endif
