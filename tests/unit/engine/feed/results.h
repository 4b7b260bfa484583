/* SPDX-License-Identifier: ISC */
/* Delivery results in virtual time, for tests of what windows learn. */
#ifndef TESTS_RESULTS_H
#define TESTS_RESULTS_H

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/feed/feed.h"
#include "engine/destination/windows.h"
#include "tests/unit/own_site.h"

static int64_t now_ns;

static inline struct span span_of(const char *text) {
	return (struct span){ text, text == NULL ? 0 : strlen(text) };
}

/* One line of a log, for the recipient's domain. */
struct line {
	const char *domain;
	const char *relay_name, *relay;	/* or NULL: none */
	uint16_t port;			/* 0: 25 */
	const char *queue_id;		/* NULL: another one each time */
	const char *recipient;		/* NULL: one of the domain */
	enum delivery_status status;
	const char *text;
	const char *program;		/* NULL: "postfix/smtp" */
	uint16_t dsn;			/* 2, 4, 5; 0: by the status */
	int64_t took_ms;
	int64_t delay_ms;
	uint32_t conn_use;		/* 0: 1 */
	unsigned mta;			/* number of the mail server whose log it stands in */
	struct feed_origin origin;
};

static const char accepted[] = "250 2.0.0 Ok: queued as 4ZQ";
static const char refused[] = "host mx.example.net[192.0.2.1] refused to talk to me: "
    "421 4.7.0 too many connections";
static const char down[] = "connect to mx.example.net[192.0.2.1]:25: Connection refused";

static inline bool feed_line(const struct line *line) {
	static unsigned serial;
	static char recipient[256], queue_id[32];
	struct feed_outcome outcome;
	struct delivery d = {
		.source = DELIVERY_OF_POSTFIX, .status = line->status,
		.agent = line->program == NULL ? AGENT_SMTP :
		    strstr(line->program, "/retry") != NULL ? AGENT_ERROR :
		    strstr(line->program, "/local") != NULL ? AGENT_LOCAL : AGENT_SMTP,
		.program = span_of(line->program == NULL ? "postfix/smtp" : line->program),
		.domain = span_of(line->domain), .relay_name = span_of(line->relay_name),
		.text = span_of(line->text), .recipients = 1,
		.conn_use = line->conn_use == 0 ? 1 : line->conn_use,
		.delay_ms = line->delay_ms, .delays_ms = { 10, 10, 0, line->took_ms },
	};

	snprintf(recipient, sizeof(recipient), "user@%s", line->domain);
	snprintf(queue_id, sizeof(queue_id), "4Z%06X", ++serial);
	d.recipient = span_of(line->recipient == NULL ? recipient : line->recipient);
	d.queue_id = span_of(line->queue_id == NULL ? queue_id : line->queue_id);
	d.dsn[0] = line->dsn != 0 ? line->dsn : line->status == DELIVERY_SENT ? 2 :
	    line->status == DELIVERY_BOUNCED ? 5 : 4;
	d.relay = span_of(line->relay_name == NULL ? "none" : "mx[192.0.2.1]:25");
	if (line->relay != NULL && !address_parse(line->relay, strlen(line->relay),
	    &d.relay_address))
		return false;
	d.relay_port = line->relay == NULL ? 0 : line->port == 0 ? 25 : line->port;
	outcome = engine_feed_delivery(site.engine, site.generation, 1U << line->mta, &d, &line->origin, now_ns);
#ifdef RESULTS_ALSO
	RESULTS_ALSO(&d, outcome);
#endif
	return outcome.learned;
}

/* The usual ones. */
static inline void sent(const char *domain, int64_t took_ms) {
	(void)feed_line(&(struct line){ .domain = domain, .relay_name = "mx.example.net",
		.relay = "192.0.2.1", .status = DELIVERY_SENT, .text = accepted,
		.took_ms = took_ms });
}

static inline void failed(const char *domain, const char *text) {
	(void)feed_line(&(struct line){ .domain = domain, .status = DELIVERY_DEFERRED,
		.text = text, .took_ms = 50 });
}

static inline struct window_owner owner_of(const char *name) {
	struct window_owner owner;

	windows_owner(site.engine, site.generation, name, strlen(name), &owner);
	return owner;
}

static inline struct window_view view_of(const char *name) {
	struct window_owner owner = owner_of(name);
	struct window_view view;

	(void)windows_view(site.engine, site.generation, &owner, now_ns, &view);
	return view;
}

static inline void pass(int64_t seconds) {
	now_ns += seconds * NS_PER_SECOND;
	engine_feed_turn(site.engine, site.generation, now_ns);
	windows_turn(site.engine, site.generation, now_ns);
}

#endif
