/* SPDX-License-Identifier: ISC */
/*
 * Milter connections as libmilter itself reads them, the real one with its threads, and our front
 * end behind it: packets in order and out of it, whole, in pieces, of any bytes and any length,
 * connections that end anywhere.  Each question that comes in its order has exactly one answer; as
 * many sessions are counted as were admitted and are not over; none is when all connections are.
 *
 * FOR_ACCOUNTS: the same for the socket that asks at each recipient (fuzz_milter_accounts).
 *
 * Input: operations (operations.h), see do_one.  Of an operation of 128 and more the packet is
 * sent in two pieces.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "front/milter/milter.h"
#include "segment/file/internal.h"
#include "tests/fuzz/operations.h"
#include "tests/fuzz/own_clock.h"
#include "tests/unit/site.h"

#ifdef FOR_ACCOUNTS
#define IS_FOR_ACCOUNTS true
#define CLASSES "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 9; } );\n" \
	"accounts = ( { name = \"staff\"; match = [ \"*@b.example\", \"u\" ]; each = { " \
	"recipients = \"3/1h\"; messages = \"2/1h\"; bytes = \"10k/1h\"; }; }, { name = \"rest\"; " \
	"match = \"*\"; action = \"reject\"; each = { recipients = \"2/1h\"; }; } );\n"
#else
#define IS_FOR_ACCOUNTS false
#define CLASSES "classes = ( { name = \"few\"; match = [ \"192.0.2.0/24\", \"few.example\" ]; " \
	"hold_at = 3; refuse_at = 2; text = \"100% of {class}\"; }, { name = \"all\"; " \
	"match = [ \"*\" ]; hold_at = 9; refuse_at = 8; client = { sessions = 2; }; } );\n"
#endif
#define CLIENTS		4
#define WAIT_S		1
#define NUDGES		20
#define HEARD_MOST	65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct client {
	int fd;			/* -1: none */
	bool orderly;		/* all that was sent came in its order */
	char last;		/* the command before; 0: none */
	unsigned asked, answered;
	bool connects;		/* the last question is CONNECT, of a client that counts */
	bool counts;		/* its session was admitted */
	unsigned char heard[HEARD_MOST];
	size_t length;
};

static struct site site;
static struct sockaddr_un place;
static struct client clients[CLIENTS];
static unsigned serial;

/* --- the front end --------------------------------------------------------------------------- */

static void no_line(void *context, const char *text) {
	(void)context, (void)text;
}

static void *run(void *context) {
	struct diag diag;
	int fd = *(int *)context;

	(void)milter_front_run(site.engine, fd, site.milter_listener, IS_FOR_ACCOUNTS, &diag);
	_exit(1);	/* libmilter was told to end */
}

static void begin_once(void) {
	socklen_t length = sizeof(place);
	static int fd = -1;
	pthread_t thread;

	if (fd >= 0)
		return;
	(void)signal(SIGPIPE, SIG_IGN);
	log_redirect(no_line, NULL);
	site_open_sized(&site, 64, 64, CLASSES);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	place = (struct sockaddr_un){ .sun_family = AF_UNIX };
	MUST(bind(fd, (struct sockaddr *)&place, sizeof(sa_family_t)) == 0);
	MUST(listen(fd, 64) == 0);
	MUST(getsockname(fd, (struct sockaddr *)&place, &length) == 0);
	MUST(pthread_create(&thread, NULL, run, &fd) == 0);
}

static unsigned open_sessions(void) {
	unsigned open = 0;

	for (uint32_t i = 0; i < site.segment->header->record_count; i++)
		open += atomic_load(&site.segment->records[i].open);
	return open;
}

/* --- a client ---------------------------------------------------------------------------------- */

static int connection(void) {
	const struct timeval limit = { .tv_sec = WAIT_S };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0);
	MUST(connect(fd, (struct sockaddr *)&place,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 6)) == 0);
	return fd;
}

static void client_open(struct client *c) {
	if (c->fd >= 0)
		return;
	c->fd = connection();
	c->orderly = true;
	c->last = 0;
	c->asked = c->answered = 0;
	c->connects = c->counts = false;
	c->length = 0;
}

static void client_sends(struct client *c, const void *bytes, size_t length, bool in_two) {
	size_t first = in_two ? length / 2 : length;
	const char *at = bytes;

	if (c->fd < 0)
		return;
	/* whoever closed has said all that it had to say */
	if (send(c->fd, at, first, MSG_NOSIGNAL) == (ssize_t)first && first < length)
		(void)!send(c->fd, at + first, length - first, MSG_NOSIGNAL);
}

static void take_answers(struct client *c) {
	size_t used = 0;

	while (c->length - used >= 5) {
		const unsigned char *at = c->heard + used;
		size_t length = (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];

		MUST(length >= 1 && length < 4096);
		if (c->length - used < 4 + length)
			break;
		MUST(strchr("Ocatrsy", at[4]) != NULL);
		c->answered++;
		if (c->answered == c->asked && c->connects)
			c->counts = at[4] == 'c';
		used += 4 + length;
	}
	c->length -= used;
	memmove(c->heard, c->heard + used, c->length);
	MUST(c->answered <= c->asked);
}

/* False: it has ended. */
static bool client_hears(struct client *c) {
	ssize_t n;

	/* with all workers in the middle of packets libmilter (8.17.1) forgets now and then that
	 * it has one more connection, until the next one comes */
	for (unsigned i = 0; (n = recv(c->fd, c->heard + c->length, sizeof(c->heard) - c->length,
	    0)) < 0 && errno != ECONNRESET; i++) {
		MUST(i < NUDGES);
		close(connection());
	}
	if (n <= 0)
		return false;
	c->length += (size_t)n;
	take_answers(c);
	return true;
}

/* All answers that are due. */
static void client_waits(struct client *c) {
	while (c->fd >= 0 && c->orderly && c->answered < c->asked)
		MUST(client_hears(c));
}

/* When we see the end, libmilter has told our front end of it. */
static void client_close(struct client *c) {
	if (c->fd < 0)
		return;
	(void)shutdown(c->fd, SHUT_WR);
	while (client_hears(c))
		;
	MUST(!c->orderly || c->answered == c->asked);
	MUST(!c->orderly || c->length == 0);
	close(c->fd);
	c->fd = -1;
	c->counts = false;
}

/* All is said and heard: who was admitted is counted. */
static void check_counts(void) {
	unsigned count = 0;
	bool known = !IS_FOR_ACCOUNTS;

	for (unsigned i = 0; i < CLIENTS; i++) {
		struct client *c = &clients[i];

		client_waits(c);
		known &= c->fd < 0 || c->orderly;
		count += c->counts;
	}
	MUST(!known || open_sessions() == count);
}

/* --- packets ------------------------------------------------------------------------------------- */

/* May it come behind the last one, as the protocol has it? */
static bool is_in_order(char last, char command) {
	static const char *const after[] = { "OC", "CHMUD", "HHMUD", "MRUD", "RRTLNUD", "TLNUD",
		"LLND", "NBED", "BBED", "EMHD" };

	if (last == 0)
		return command == 'O';
	for (size_t i = 0; i < sizeof(after) / sizeof(after[0]); i++)
		if (after[i][0] == last)
			return command == 'D' ? strchr(after[i], 'D') != NULL || last == 'O' :
			    strchr(after[i] + 1, command) != NULL;
	return false;
}

static void packet(struct client *c, char command, const void *data, size_t length, bool in_two) {
	unsigned char bytes[1024 + 5];

	if (c->fd < 0)
		return;
	if (length > 1024)
		length = 1024;
	bytes[0] = bytes[1] = 0;
	bytes[2] = (unsigned char)((length + 1) >> 8);
	bytes[3] = (unsigned char)(length + 1);
	bytes[4] = (unsigned char)command;
	if (length > 0)
		memcpy(bytes + 5, data, length);
	/* libmilter drops what comes behind an unknown command */
	c->orderly &= is_in_order(c->last, command) && command != 'U';
	if (command != 'D') {
		client_waits(c);	/* as mail servers do; so it is known who is admitted */
		c->last = command;
		c->connects = false;
	}
	c->asked += command != 'D';
	client_sends(c, bytes, length + 5, in_two);
}

static void negotiate(struct client *c, uint8_t how, bool in_two) {
	unsigned char data[12] = { 0, 0, 0, 6, 0, 0, 1, 0xff, 0, 0x1f, 0xff, 0xff };

	if (how % 8 == 7)
		data[3] = how / 8;	/* another version */
	if (how % 8 == 6)
		memset(data + 4, how / 8, 8);
	packet(c, 'O', data, how % 8 == 5 ? 7 : 12, in_two);
	c->orderly &= how % 8 < 5;
}

static void connects(struct client *c, uint8_t how, bool in_two) {
	static const char *const names[] = { "[192.0.2.1]", "a.few.example", "x.example", "" };
	static const char *const addresses[] = { "192.0.2.1", "192.0.2.2", "203.0.113.9",
		"IPv6:2001:db8::1", "nonsense", "/run/socket" };
	static const char families[] = "44446L";
	unsigned which = how / 4 % 6, port = how >= 240 ? 0 : 1000 + ++serial % 60000;
	char data[200];
	size_t length = (size_t)snprintf(data, sizeof(data), "%s", names[how % 4]) + 1;

	data[length++] = which == 3 ? '6' : families[which];
	data[length++] = (char)(port >> 8);
	data[length++] = (char)port;
	length += (size_t)snprintf(data + length, sizeof(data) - length, "%s", addresses[which]) + 1;
	packet(c, 'C', data, length, in_two);
	/* what is no address ends it, and with one that is not known nobody is counted */
	c->orderly &= which < 4 && c->fd >= 0;
	c->counts = false;
	c->connects = which < 4 && port != 0;
}

static void macros(struct client *c, uint8_t how, bool in_two) {
	static const char at_connect[] = "C{daemon_port}\0" "25\0{daemon_addr}\0" "192.0.2.25\0"
	    "{client_resolve}\0OK";
	static const char at_mail[] = "M{auth_authen}\0u\0i\0" "4Zabc";
	static const char other[] = "M{auth_authen}\0" "v@b.example";
	static const char end[] = "Ei\0" "4Zabc";

	switch (how % 4) {
	case 0:
		packet(c, 'D', at_connect, sizeof(at_connect), in_two);
		break;
	case 1:
		packet(c, 'D', at_mail, sizeof(at_mail), in_two);
		break;
	case 2:
		packet(c, 'D', end, sizeof(end), in_two);
		break;
	default:
		packet(c, 'D', other, sizeof(other), in_two);
	}
}

static void mail(struct client *c, uint8_t how, bool in_two) {
	static const char header[] = "Subject\0x", body[256] = "text";

	switch (how % 6) {
	case 0:
		packet(c, 'M', "<a@b.example>", 14, in_two);
		break;
	case 1:
		packet(c, 'R', how < 128 ? "<c@d.example>" : "<e@d.example>", 14, in_two);
		break;
	case 2:
		packet(c, 'L', header, sizeof(header), in_two);
		break;
	case 3:
		packet(c, 'N', NULL, 0, in_two);
		break;
	case 4:
		packet(c, 'B', body, how, in_two);
		break;
	default:
		packet(c, 'E', NULL, 0, in_two);
	}
}

static void odd_length(struct client *c, uint8_t how) {
	static const uint32_t lengths[] = { 0, 1, UINT32_MAX, 1048577, 65536, 0x7fffffff, 5, 2 };
	uint32_t length = lengths[how % 8];
	unsigned char bytes[5] = { (unsigned char)(length >> 24), (unsigned char)(length >> 16),
		(unsigned char)(length >> 8), (unsigned char)length, (unsigned char)"OCHMQ"[how / 8 % 5] };

	c->orderly = false;
	c->asked += 1;
	client_sends(c, bytes, sizeof(bytes), false);
}

/* libmilter (8.17.1) reads beyond its memory where a macro has no value. */
static char without_macros(unsigned char byte) {
	return byte == 'D' ? 'd' : (char)byte;
}

static void do_one(struct operations *operations) {
	uint8_t order = take_byte(operations);
	struct client *c = &clients[(order >> 4) % CLIENTS];
	bool in_two = order >= 128;
	char copy[256];
	const char *bytes;
	size_t length;

	switch (order % 16) {
	case 0:
		client_open(c);
		break;
	case 1:
		negotiate(c, take_byte(operations), in_two);
		break;
	case 2: case 3:
		connects(c, take_byte(operations), in_two);
		break;
	case 4:
		macros(c, take_byte(operations), in_two);
		break;
	case 5:
		packet(c, "HTUH"[take_byte(operations) % 4], "x", 2, in_two);
		break;
	case 6: case 7: case 8:
		mail(c, take_byte(operations), in_two);
		break;
	case 9:
		client_waits(c);
		c->orderly = false;	/* it has no answer, and may end a question */
		packet(c, 'A', NULL, 0, in_two);
		break;
	case 10:
		client_waits(c);
		client_sends(c, "\0\0\0\1Q", 5, in_two);
		client_close(c);
		break;
	case 11:
		client_waits(c);
		c->orderly = false;
		client_sends(c, "\0\0\0\1K", 5, in_two);
		break;
	case 12:
		length = take_bytes(operations, &bytes);
		packet(c, without_macros(take_byte(operations)), bytes, length, in_two);
		c->orderly = false;
		break;
	case 13:
		/* how many packets that may be */
		length = take_bytes(operations, &bytes);
		c->orderly = false;
		c->asked += (unsigned)length;
		for (size_t i = 0; i < length; i++)
			copy[i] = without_macros((unsigned char)bytes[i]);
		client_sends(c, copy, length, in_two);
		break;
	case 14:
		if (in_two)
			odd_length(c, take_byte(operations));
		else
			client_close(c);
		break;
	default:
		check_counts();
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct operations operations = { data, data + size };

	begin_once();
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i].fd = -1;
	for (unsigned i = 0; i < 200 && has_more(&operations); i++)
		do_one(&operations);
	check_counts();
	for (unsigned i = 0; i < CLIENTS; i++)
		client_close(&clients[i]);
	MUST(open_sessions() == 0 && site_is_consistent(&site));
	own_clock_pass(3600 * NS_PER_SECOND);	/* what was charged to accounts is over */
	return 0;
}
