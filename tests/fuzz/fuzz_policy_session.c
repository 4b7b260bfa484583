/* SPDX-License-Identifier: ISC */
/*
 * Connections of Postfix's to the policy front end, with the real engine behind it: requests
 * cut anywhere and many at once, clients that do not read, close or only half close, and time
 * that goes by.  However that is mixed: each whole request has exactly one answer, in a
 * connection that is not closed before it was heard out without a reason that we know; and when
 * all are gone, from the kernel's table, too, nobody is counted.
 *
 * Input: operations (operations.h), see do_one.
 */
#include <errno.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "engine/session/witness.h"
#include "front/policy/policy.h"
#include "tests/fuzz/fresh_site.h"
#include "tests/fuzz/operations.h"
#include "tests/fuzz/own_beat.h"
#include "tests/fuzz/own_clock.h"
#include "wire/ask/policy_request.h"

#define SITE "classes = ( { name = \"few\"; match = [ \"192.0.2.0/24\", \"few.example\" ]; " \
	"hold_at = 3; refuse_at = 2; }, " \
	"{ name = \"soft\"; match = [ \"198.51.100.0/24\" ]; hold_at = 2; refuse_at = 2; " \
	"action = \"defer\"; client = { sessions = 1; }; }, " \
	"{ name = \"all\"; match = [ \"*\" ]; hold_at = 9; refuse_at = 8; " \
	"client = { rate = \"3/s\"; }; } );\n"
#ifdef WITH_ACCOUNTS
#define ACCOUNTS "accounts = ( { name = \"staff\"; match = [ \"*@b.example\", \"u\" ]; " \
	"each = { recipients = \"3/1h\"; messages = \"2/1h\"; bytes = \"100k/1h\"; }; }, " \
	"{ name = \"rest\"; match = \"*\"; action = \"reject\"; each = { recipients = \"2/1h\"; }; } );\n"
#else
#define ACCOUNTS ""
#endif

#define CLIENTS		6
#define SAID_MOST	100000	/* by one client: more than a request may be */
#define LOOKS		10	/* of the keeper's, until the last session is over */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct client {
	int fd;			/* -1: none */
	char *said;		/* all that it is to say (SAID_MOST), */
	size_t length, sent;	/* and what of it was sent */
	size_t parsed;		/* begin of the request that is not whole */
	struct policy_parser parser;
	unsigned asked, answered;
	bool bad;		/* what stands there is no request */
	bool half_closed, closed;	/* closed: by the front end */
	bool may_be_late;	/* time went by, while something was unfinished or unread */
	char heard[4096];
	size_t heard_length;
};

static struct fresh_site fresh;
static struct policy_front *front;
static struct sockaddr_un places[2];	/* of the listeners: proof auto, lease */
static struct client clients[CLIENTS];

/* Tuples that requests tell of, and which of them the kernel lists. */
#define ADDRESSES	5
#define PORTS		4
static const char *const addresses[] = { "192.0.2.1", "192.0.2.2", "198.51.100.1",
	"203.0.113.9", "2001:db8::1", "unknown", "", "300.1.2.3" };
static struct witness *witness;
static bool listed[ADDRESSES * PORTS];
static bool adopted;

static void no_line(void *context, const char *text) {
	(void)context;
	for (; *text != '\0'; text++)
		MUST(*text >= ' ' && *text <= '~');
}

/* --- the kernel's table --------------------------------------------------------------------- */

static struct connection tuple_of(unsigned number) {
	const char *address = addresses[number / PORTS];
	struct connection one = { .client_port = (uint16_t)(1000 + number % PORTS),
		.server_port = 25, .alive = true };

	MUST(address_parse(address, strlen(address), &one.client));
	MUST(address_parse("192.0.2.25", 10, &one.server));
	return one;
}

static enum lookup_result look_up(void *context, const struct connection *which,
    struct connection *found) {
	(void)context;
	for (unsigned i = 0; i < ADDRESSES * PORTS; i++) {
		struct connection one = tuple_of(i);

		if (!listed[i] || one.client_port != which->client_port ||
		    !address_equal(&one.client, &which->client) ||
		    (which->server_port != 0 && which->server_port != one.server_port))
			continue;
		if (found != NULL)
			*found = one;
		return LOOKUP_ALIVE;
	}
	return LOOKUP_GONE;
}

static const struct witness_calls kernel = { .lookup = look_up };

/* Half a second of the keeper's. */
static void dump(void) {
	struct engine *engine = fresh.site.engine;
	const struct generation *generation = engine_pin(engine);
	struct connection list[ADDRESSES * PORTS];
	struct witness_news news;
	size_t count = 0;
	uint32_t sequence;

	own_clock_pass(NS_PER_SECOND / 2);
	for (unsigned i = 0; i < ADDRESSES * PORTS; i++)
		if (listed[i])
			list[count++] = tuple_of(i);
	sequence = witness_dump_begin(witness);
	witness_dump_end(witness, generation, sequence, list, count, clock_now_ns());
	witness_expire(witness, generation, clock_now_ns());
	witness_news(witness, &news);
	adopted |= news.adopted > 0;
	MUST(news.repairs == 0);
	engine_unpin(engine, generation);
}

/* --- the front end ----------------------------------------------------------------------- */

static void listen_at(struct sockaddr_un *place, uint8_t listener) {
	socklen_t length = sizeof(*place);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct diag diag;

	/* an abstract name that the kernel picks */
	*place = (struct sockaddr_un){ .sun_family = AF_UNIX };
	MUST(bind(fd, (struct sockaddr *)place, sizeof(sa_family_t)) == 0);
	MUST(listen(fd, 64) == 0);
	MUST(getsockname(fd, (struct sockaddr *)place, &length) == 0);
	MUST(policy_front_listen(front, fd, listener, &diag) == 0);
}

static void turn(void) {
	struct event_base *base = policy_front_base(front);

	for (unsigned i = 0; i < 3; i++)
		(void)event_base_loop(base, EVLOOP_NONBLOCK);
}

static void begin(void) {
	struct diag diag;

	own_clock_begin();
	log_redirect(no_line, NULL);
	fresh_site_begin(&fresh, SITE ACCOUNTS);
	engine_heartbeat(fresh.site.engine, clock_now_ns());
	memset(listed, 0, sizeof(listed));
	adopted = false;
	MUST(engine_lend_witness(fresh.site.engine, &kernel, &diag) == 0);
	MUST(witness_open(&witness, fresh.site.engine, &kernel, 16, &diag) == 0);
	MUST(policy_front_open(&front, fresh.site.engine, &diag) == 0);
	listen_at(&places[0], fresh.site.auto_listener);
	listen_at(&places[1], fresh.site.lease_listener);
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i] = (struct client){ .fd = -1 };
}

/* --- clients ----------------------------------------------------------------------------- */

static void client_open(struct client *c, unsigned which) {
	static char said[CLIENTS][SAID_MOST];
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 6);

	if (c->fd >= 0)
		return;
	*c = (struct client){ .fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
		.said = said[c - clients] };
	policy_parser_reset(&c->parser);
	if (connect(c->fd, (struct sockaddr *)&places[which % 2], length) != 0) {
		close(c->fd);	/* too many that were not accepted yet */
		c->fd = -1;
	}
}

static void client_close(struct client *c) {
	if (c->fd < 0)
		return;
	close(c->fd);
	*c = (struct client){ .fd = -1 };
}

static void client_says(struct client *c, const char *text, size_t length) {
	if (c->fd < 0 || length == 0 || c->length + length > SAID_MOST)
		return;
	memcpy(c->said + c->length, text, length);
	c->length += length;
}

/* What was sent so far: how many requests it has. */
static void count_asked(struct client *c) {
	struct policy_error error;
	long used;

	while (!c->bad && c->parsed < c->sent) {
		used = policy_parser_feed(&c->parser, c->said + c->parsed, c->sent - c->parsed,
		    &error);
		c->bad = used < 0;
		if (used <= 0)
			break;
		policy_parser_reset(&c->parser);
		c->asked++;
		c->parsed += (size_t)used;
	}
}

static void client_sends(struct client *c, size_t most) {
	size_t length = c->length - c->sent;
	ssize_t n;

	if (c->fd < 0 || c->half_closed)
		return;
	length = length < most ? length : most;
	n = length == 0 ? 0 : send(c->fd, c->said + c->sent, length, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n <= 0)
		return;
	c->sent += (size_t)n;
	count_asked(c);
}

/* Whole answers of what was heard. */
static void count_answers(struct client *c) {
	char *end;

	c->heard[c->heard_length] = '\0';
	MUST(strlen(c->heard) == c->heard_length);
	while ((end = strstr(c->heard, "\n\n")) != NULL) {
		size_t length = (size_t)(end + 2 - c->heard);

		MUST(strncmp(c->heard, "action=", 7) == 0);
		for (const char *at = c->heard; at < end; at++)
			MUST(*at >= ' ' && *at <= '~');
		c->answered++;
		c->heard_length -= length;
		memmove(c->heard, end + 2, c->heard_length + 1);
	}
	MUST(c->answered <= c->asked);
}

static bool client_hears(struct client *c) {
	ssize_t n;

	if (c->fd < 0 || c->closed)
		return false;
	n = recv(c->fd, c->heard + c->heard_length, sizeof(c->heard) - 1 - c->heard_length,
	    MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		c->closed = true;
	if (n <= 0)
		return n == 0;
	c->heard_length += (size_t)n;
	count_answers(c);
	return true;
}

/* Until nobody has anything to say; then each has what it is to have. */
static void settle(void) {
	bool more = true;

	while (more) {
		more = false;
		turn();
		for (unsigned i = 0; i < CLIENTS; i++)
			more |= client_hears(&clients[i]);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		const struct client *c = &clients[i];

		if (c->fd < 0 || (c->closed && c->may_be_late))
			continue;
		MUST(c->answered == c->asked && c->heard_length == 0);
		MUST(c->closed == (c->bad || c->half_closed));
	}
}

/* --- requests ---------------------------------------------------------------------------- */

static void one_request(struct client *c, struct operations *operations) {
	static const char *const states[] = { "CONNECT", "RCPT", "XCLIENT", "MAIL", "DATA",
		"END-OF-MESSAGE", "EHLO", "VRFY" };
	static const char *const names[] = { "unknown", "a.few.example", "few.example", "x.y" };
	static const char *const logins[] = { "", "", "u", "v@b.example", "w" };
	static const char *const senders[] = { "a@b.example", "", "u" };
	static const char *const recipients[] = { "c@d.example", "postmaster", "e@f.example", "" };
	unsigned what = take_byte(operations), who = take_byte(operations), mail = take_byte(operations);
	char text[1024];
	int length = snprintf(text, sizeof(text), "request=smtpd_access_policy\n"
	    "protocol_state=%s\nclient_address=%s\nclient_port=%u\nclient_name=%s\n"
	    "server_address=192.0.2.25\nserver_port=25\nsender=%s\nrecipient=%s\nsasl_username=%s\n"
	    "instance=%x.%x\nqueue_id=%s\nsize=%u\nrecipient_count=%u\n\n", states[what % 8],
	    addresses[who % 8], what / 8 % 16 == 15 ? 0 : 1000 + what / 8 % 4, names[who / 8 % 4],
	    senders[mail % 3], recipients[mail / 3 % 4], logins[mail / 12 % 5], who / 32, mail % 8,
	    mail % 2 == 0 ? "" : "4Zabc", mail * 100, mail % 5);

	client_says(c, text, (size_t)length);
}

static void one_second(unsigned count) {
	own_clock_pass(count % 12 * NS_PER_SECOND);
	dump();
	dump();
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i].may_be_late |= clients[i].sent > clients[i].parsed ||
		    clients[i].answered < clients[i].asked;
	own_beat();
	turn();
}

static void do_one(struct operations *operations) {
	uint8_t order = take_byte(operations);
	struct client *c = &clients[(order >> 4) % CLIENTS];
	const char *bytes;
	char again[600];
	size_t length;

	switch (order % 16) {
	case 0:
		client_open(c, order >> 7);
		break;
	case 1:
		client_close(c);
		break;
	case 2:
		if (c->fd >= 0)
			c->half_closed = shutdown(c->fd, SHUT_WR) == 0 || c->half_closed;
		break;
	case 3: case 4: case 5:
		one_request(c, operations);
		client_sends(c, SIZE_MAX);
		break;
	case 6: case 7:
		one_request(c, operations);
		break;
	case 8:
		length = take_bytes(operations, &bytes);
		client_says(c, bytes, length);
		break;
	case 9:
		client_sends(c, take_byte(operations));
		break;
	case 10:
		client_sends(c, SIZE_MAX);
		break;
	case 11:
		turn();
		break;
	case 12:
		(void)client_hears(c);
		break;
	case 13:
		length = take_byte(operations);
		if (length >= 128) {
			unsigned number = take_byte(operations) % (ADDRESSES * PORTS);

			listed[number] = !listed[number];
		}
		one_second((unsigned)length % 128);
		break;
	case 14:
		/* the same again and again: it is more than goes out at once */
		length = c->length < sizeof(again) ? c->length : sizeof(again);
		if (length > 0)
			memcpy(again, c->said, length);
		for (unsigned i = take_byte(operations); i > 0; i--)
			client_says(c, again, length);
		client_sends(c, SIZE_MAX);
		break;
	default:
		settle();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct operations operations = { data, data + size };

	begin();
	for (unsigned i = 0; i < 500 && has_more(&operations); i++)
		do_one(&operations);
	settle();
	fresh_site_check(&fresh, !adopted);
	for (unsigned i = 0; i < CLIENTS; i++)
		client_close(&clients[i]);
	turn();
	memset(listed, 0, sizeof(listed));
	for (unsigned i = 0; i < LOOKS && fresh_site_open(&fresh) > 0; i++) {
		dump();
		own_beat();
	}
	MUST(fresh_site_open(&fresh) == 0);
	fresh_site_check(&fresh, true);
	policy_front_close(&front);
	witness_close(&witness);
	return 0;
}
