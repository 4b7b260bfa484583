/* SPDX-License-Identifier: ISC */
/*
 * The cluster role, all of it, and a Redis that answers well, late, in pieces, out of order, with
 * errors, with anything, or hangs up; while sessions come, destinations are suspended by hand and
 * time goes by.  Never is more leased than some answer granted, nothing once a lease is over, what
 * is told is printable, the password is told nobody, and no question is left without an end.
 *
 * The role's loop is ours: event_base_dispatch is the script of the input (do_one).
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/shares.h"
#include "engine/destination/windows.h"
#include "front/cluster/internal.h"
#include "segment/cluster/cluster_told.h"
#include "tests/fuzz/fresh_site.h"
#include "tests/fuzz/operations.h"
#include "tests/fuzz/own_clock.h"

#define PASSWORD	"sEcReT%9"
#define LEASE_NS	(15 * NS_PER_SECOND)
#define PEERS		2
#define COMMANDS	64	/* that wait for an answer */
#define WORDS		80
#define HEARD_MOST	131072

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct command {
	char kind;		/* A(UTH) S(CRIPT) C(hannel), or the script's: L P N G; ? */
	char head[200];		/* of the lease script */
	unsigned keys, count;	/* words behind the keys: pools, names */
	unsigned limits[WORDS], wants[WORDS], fixed[WORDS];
};

/* A connection of the role's. */
struct peer {
	int fd;			/* -1: none */
	char heard[HEARD_MOST];
	size_t length;
	struct command commands[COMMANDS];
	unsigned waiting, loaded;
};

static struct fresh_site fresh;
static struct operations operations;
static char directory[64], address[80], classes[1024];
static int listener = -1;
static struct peer peers[PEERS];
static bool refuses;
static unsigned split;		/* answers come in two pieces; 0: in one */
static unsigned tokens, events, numbers, epoch;
static uint32_t most_granted;
static struct event *tick;
static unsigned ports;
static bool log_is_fit;

static bool is_fit(const char *text) {
	if (strstr(text, PASSWORD) != NULL)
		return false;
	while (*text >= ' ' && *text <= '~')
		text++;
	return *text == '\0';
}

/* A bug would be logged, too. */
static void on_log(void *context, const char *text) {
	bool *fit = context;

	*fit &= is_fit(text);
}

/* --- what the role says ------------------------------------------------------------------- */

static void take_command(struct peer *peer, const struct span *words, unsigned count) {
	struct command *command = &peer->commands[peer->waiting];

	if (peer->waiting == COMMANDS)
		return;
	memset(command, 0, sizeof(*command));
	command->kind = words[0].text[0] == 'E' ? "LPNG"[words[1].text[39] & 3] :
	    words[0].text[0] == 'S' && words[0].text[1] == 'U' ? 'C' : words[0].text[0];
	peer->waiting++;
	if (words[0].text[0] != 'E')
		return;
	command->keys = (unsigned)strtoul(words[2].text, NULL, 10);
	MUST(3 + command->keys <= count);
	command->count = count - 3 - command->keys;
	if (command->kind != 'L')
		return;
	snprintf(command->head, sizeof(command->head), "%.*s", (int)words[6].length, words[6].text);
	command->count--;
	for (unsigned i = 0; i < command->count && i < WORDS; i++)
		MUST(sscanf(words[7 + i].text, "%u %*u %u %*u %*u %u", &command->limits[i],
		    &command->fixed[i], &command->wants[i]) == 3);
}

/* One whole command at `at`: its length; 0: it is not there yet. */
static size_t read_command(struct peer *peer, char *at, char *end) {
	static struct span words[CLUSTER_CALL_WORDS(1024)];
	char *begin = at, *line = memchr(at, '\n', (size_t)(end - at));
	unsigned count;

	if (line == NULL)
		return 0;
	MUST(sscanf(at, "*%u\r\n", &count) == 1 && count > 0 && count <= 1031);
	at = line + 1;
	for (unsigned i = 0; i < count; i++) {
		line = memchr(at, '\n', (size_t)(end - at));
		if (line == NULL)
			return 0;
		MUST(sscanf(at, "$%zu\r\n", &words[i].length) == 1);
		at = line + 1;
		if ((size_t)(end - at) < words[i].length + 2)
			return 0;
		words[i].text = at;
		MUST(memcmp(at + words[i].length, "\r\n", 2) == 0);
		at += words[i].length + 2;
	}
	take_command(peer, words, count);
	return (size_t)(at - begin);
}

static void hear(struct peer *peer) {
	size_t used = 0, one;
	ssize_t n;

	if (peer->fd < 0)
		return;
	n = recv(peer->fd, peer->heard + peer->length, sizeof(peer->heard) - 1 - peer->length,
	    MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		close(peer->fd);
		peer->fd = -1;
	}
	if (n <= 0)
		return;
	peer->length += (size_t)n;
	peer->heard[peer->length] = '\0';
	while ((one = read_command(peer, peer->heard + used, peer->heard + peer->length)) > 0)
		used += one;
	peer->length -= used;
	memmove(peer->heard, peer->heard + used, peer->length);
	MUST(peer->length < sizeof(peer->heard) - 1);
}

static void accept_one(void) {
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct peer *peer = peers[0].fd < 0 ? &peers[0] : &peers[1];

	if (fd < 0)
		return;
	if (refuses || peer->fd >= 0) {
		close(fd);
		return;
	}
	peer->fd = fd;
	peer->length = peer->waiting = peer->loaded = 0;
}

static void turn(void) {
	struct event_base *base = event_get_base(tick);

	for (unsigned i = 0; i < 3; i++) {
		accept_one();
		(void)event_base_loop(base, EVLOOP_NONBLOCK);
		for (unsigned k = 0; k < PEERS; k++)
			hear(&peers[k]);
	}
}

static void pass(int64_t ns) {
	own_clock_pass(ns);
	event_active(tick, EV_TIMEOUT, 0);
	turn();
}

/* --- what the server says ------------------------------------------------------------------ */

static void say(struct peer *peer, const char *text, size_t length) {
	size_t first = split > 0 && split < length ? split : length;

	if (peer->fd < 0)
		return;
	(void)!send(peer->fd, text, first, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (first == length)
		return;
	turn();
	if (peer->fd >= 0)
		(void)!send(peer->fd, text + first, length - first, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static char out[65536];
static size_t out_length;

__attribute__((format(printf, 1, 2))) static void add(const char *form, ...) {
	va_list arguments;
	int n;

	va_start(arguments, form);
	n = vsnprintf(out + out_length, sizeof(out) - out_length, form, arguments);
	va_end(arguments);
	if (n > 0 && (size_t)n < sizeof(out) - out_length)
		out_length += (size_t)n;
}

static void add_text(const char *text) {
	add("$%zu\r\n%s\r\n", strlen(text), text);
}

/* How many values a list has is known when it is whole: it comes in front of them. */
static void answer_lease(const struct command *command, uint8_t how) {
	char operation[16], told[20], text[20];
	unsigned long token, pools = 0;

	if (sscanf(command->head, "%15s %*s %*s %*s %lu %*s %19s", operation, &token, told) != 3)
		return;
	if (operation[0] == 'h') {
		token = ++tokens;
		snprintf(told, sizeof(told), "e%u", epoch);
	}
	if (how % 16 == 15)
		snprintf(told, sizeof(told), "x%u", how);	/* the server lost its data */
	if (operation[0] == 's')
		pools = command->count < WORDS ? command->count : WORDS;
	add("*%lu\r\n", 9 + 7 * pools + (operation[0] == 'l' ? 2 : 0));
	add_text("ok");
	add_text(told);
	snprintf(text, sizeof(text), ":%u\r\n", ++events);
	add("%s:%lu\r\n:%u\r\n:%u\r\n:3\r\n:%u\r\n:%u\r\n", text, token, 1 + how / 64,
	    how % 8 == 7 ? 5000 : 0, 1 + how % 3, 3);
	for (unsigned i = 0; i < pools; i++) {
		unsigned leasable = command->limits[i] - command->limits[i] / 10;
		unsigned granted = how % 4 == 3 ? how : command->wants[i] < leasable ?
		    command->wants[i] : leasable;

		if (granted > most_granted)
			most_granted = granted;
		add(":%u\r\n:%u\r\n:%u\r\n:%u\r\n:%u\r\n:%u\r\n:%u\r\n", granted, leasable,
		    how % 5, command->limits[i], leasable, leasable / 2, how >> 7);
	}
	if (operation[0] == 'l')
		add("*2\r\n*4\r\n$1\r\na\r\n:1\r\n:1\r\n:3\r\n*4\r\n$1\r\nb\r\n:%u\r\n:2\r\n:3\r\n"
		    "*1\r\n*7\r\n:0\r\n:%u\r\n:1\r\n:2\r\n:3\r\n:30\r\n:2\r\n", how & 1, how & 1);
}

static void answer_knowledge(const struct command *command, uint8_t how) {
	static const char *const names[] = { "d0.example", "d1.example", "x", "10.0.0.1" };
	static const char *const records[] = { "m=suspend,5,60000,too%20much", "l=7,-,slow",
		"c=9,4,told", "r=3,9 c=11,2,found", "m=resume,99,0,", "nonsense" };

	if (command->kind == 'P' && how % 8 == 7) {
		add("*1\r\n$4\r\nfull\r\n");
	} else if (command->kind == 'P') {
		add("*2\r\n$2\r\nok\r\n:%u\r\n", ++numbers);
	} else if (command->kind == 'N') {
		add("*%u\r\n$2\r\nok\r\n:%u\r\n", 2 + how % 4 * 2, numbers += how % 4);
		for (unsigned i = 0; i < how % 4; i++) {
			add_text(names[(how / 4 + i) % 4]);
			add(":%u\r\n", numbers - how % 4 + i + 1);
		}
	} else {
		unsigned count = command->count < 12 ? command->count : 12;

		add("*%u\r\n$2\r\nok\r\n:1000\r\n", 2 + 3 * count);
		for (unsigned i = 0; i < count; i++) {
			char text[100];

			snprintf(text, sizeof(text), "%u %s", how * 4, records[(how + i) % 6]);
			add(":%u\r\n$1\r\nb\r\n", how % 16 == 15 ? how : i + 1);
			add_text(text);
		}
	}
}

/* The answer to the command `which` of those that wait. */
static void answer(struct peer *peer, unsigned which, uint8_t how) {
	struct command command;

	if (which >= peer->waiting)
		return;
	command = peer->commands[which];
	memmove(&peer->commands[which], &peer->commands[which + 1],
	    (--peer->waiting - which) * sizeof(command));
	out_length = 0;
	switch (command.kind) {
	case 'A':
		add("+OK\r\n");
		break;
	case 'S':
		add("$40\r\n%039d%u\r\n", 0, peer->loaded++ % CLUSTER_SCRIPT_COUNT);
		break;
	case 'C':
		add("*3\r\n$9\r\nsubscribe\r\n$5\r\np1:dn\r\n:1\r\n");
		break;
	case 'L':
		answer_lease(&command, how);
		break;
	case 'P': case 'N': case 'G':
		answer_knowledge(&command, how);
		break;
	default:
		add("+OK\r\n");
	}
	say(peer, out, out_length);
}

static void answer_badly(struct peer *peer, uint8_t how) {
	static const char *const bad[] = { "-NOSCRIPT No matching script.\r\n",
		"-WRONGPASS " PASSWORD "\r\n", "-NOAUTH Authentication required.\r\n",
		"-ERR AUTH " PASSWORD " called\r\n", "-NOPERM no\r\n", "-WRONGTYPE no\r\n",
		"-OOM \x01\xff\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", ":5\r\n",
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "*3\r\n$5\r\nagain\r\n$1\r\n-\r\n:0\r\n",
		"*5\r\n$5\r\ntaken\r\n$2\r\ne1\r\n:3\r\n:5000\r\n$1\r\nz\r\n",
		"*4\r\n$4\r\nfull\r\n$2\r\ne1\r\n:3\r\n:3\r\n", "*3\r\n$3\r\nold\r\n$2\r\ne1\r\n:9\r\n",
		"*4\r\n$7\r\nforeign\r\n$1\r\n-\r\n:0\r\n$4\r\nnode\r\n",
		"*4\r\n$5\r\nnewer\r\n$1\r\n-\r\n:0\r\n:2\r\n", "$99999999\r\n", "*16385\r\n", "?\r\n",
		"*5\r\n$5\r\nlease\r\n$2\r\ne1\r\n:3\r\n:9000\r\n$1\r\nb\r\n", "+OK\r\n" };
	const char *text = bad[how % (sizeof(bad) / sizeof(bad[0]))];

	/* who knows the password may tell it; as an answer to it that is an accident */
	if (strstr(text, PASSWORD) != NULL && (peer->waiting == 0 || peer->commands[0].kind != 'A'))
		text = bad[0];
	if (peer->waiting > 0)
		memmove(&peer->commands[0], &peer->commands[1],
		    --peer->waiting * sizeof(peer->commands[0]));
	say(peer, text, strlen(text));
}

static void tell_news(struct peer *peer, uint8_t how) {
	static const char *const news[] = { "short", "1 b d0.example m=suspend,5,60000,x",
		"2 b d1.example c=9,4,told", "3 a d0.example l=7,-,y", "x", "9 b  z",
		"4 b d2.example r=5,8", "" };
	const char *text = news[how % 8];

	out_length = 0;
	add("*3\r\n$7\r\nmessage\r\n$5\r\np1:dn\r\n$%zu\r\n%s\r\n", strlen(text), text);
	say(peer, out, out_length);
}

/* --- what happens on this host --------------------------------------------------------------- */

static void suspend(uint8_t which) {
	char name[16];
	struct by_hand request = { .verb = which % 2 == 0 ? MANUAL_SUSPEND : MANUAL_RESUME,
		.name = name, .reason = "by hand", .for_ns = which * NS_PER_SECOND };
	struct window_owner owner;

	request.name_length = text_append(name, sizeof(name), 0, "d%u.example", which / 2 % 4);
	(void)windows_by_hand(fresh.site.engine, fresh.site.generation, &request, clock_now_ns(),
	    &owner);
}

static void check_shares(void) {
	struct share_class share;

	if (!shares_look(fresh.site.engine, fresh.site.generation, 0, clock_now_ns(), &share))
		return;
	MUST(share.leased.base <= most_granted && share.leased.extra <= most_granted);
	MUST(share.state == SHARE_LEASED || (share.leased.base == 0 && share.leased.extra == 0));
	MUST(share.until_ns <= clock_now_ns() + LEASE_NS);
}

static void do_one(void) {
	uint8_t order = take_byte(&operations);
	struct peer *peer = &peers[(order >> 4) % PEERS];
	const char *bytes;
	size_t length;
	char name[CLUSTER_TOLD_NAME] = "b";

	switch (order % 16) {
	case 0:
		pass(100 * NS_PER_MS);
		break;
	case 1:
		pass(take_byte(&operations) * 100 * NS_PER_MS);
		break;
	case 2: case 3:
		answer(peer, 0, take_byte(&operations));
		break;
	case 4:
		/* well, and time goes by */
		for (unsigned i = take_byte(&operations) % 16; i > 0; i--) {
			answer(&peers[0], 0, 0);
			answer(&peers[1], 0, 0);
			pass(100 * NS_PER_MS);
		}
		break;
	case 5:
		length = take_bytes(&operations, &bytes);
		say(peer, bytes, length);
		break;
	case 6: case 7:
		answer_badly(peer, take_byte(&operations));
		break;
	case 8:
		split = take_byte(&operations);
		break;
	case 9:
		if (peer->fd >= 0)
			close(peer->fd);
		peer->fd = -1;
		break;
	case 10:
		tell_news(peer, take_byte(&operations));
		break;
	case 11:
		refuses = (order & 128) != 0;
		break;
	case 12:
		for (unsigned i = take_byte(&operations) % 16; i > 0; i--)
			(void)site_inbound(&fresh.site, "192.0.2.1", (uint16_t)++ports, NULL, NULL);
		break;
	case 13:
		if ((order & 128) != 0)
			(void)engine_cluster_order(fresh.site.engine, name, 0);
		else
			suspend(take_byte(&operations));
		break;
	case 14:
		answer(peer, take_byte(&operations) % 4, 0);
		break;
	default:
		turn();
		break;
	}
	check_shares();
}

/* --- the role's loop --------------------------------------------------------------------------- */

static int find_tick(const struct event_base *base, const struct event *event, void *context) {
	(void)base, (void)context;
	if (event_get_fd(event) < 0 && (event_get_events(event) & EV_PERSIST) != 0)
		tick = (struct event *)(uintptr_t)event;
	return 0;
}

static void check_told(struct cluster *cluster) {
	struct cluster_told now;

	(void)cluster_told_read(engine_cluster_told(fresh.site.engine), &now);
	MUST(log_is_fit && is_fit(now.why) && is_fit(now.server) && is_fit(now.differs));
	MUST(cluster->runs <= RUNS_MAX);
}

/* Nobody answers any more: all that was asked has an end, and so have leases. */
static void end_all(struct cluster *cluster) {
	refuses = true;
	for (unsigned i = 0; i < PEERS; i++)
		if (peers[i].fd >= 0)
			close(peers[i].fd);
	peers[0].fd = peers[1].fd = -1;
	for (unsigned i = 0; i < 4; i++)
		pass(LEASE_NS / 2);
	MUST(cluster->runs == 0 && !cluster->call.out && !cluster->belongs);
	check_told(cluster);
}

int event_base_dispatch(struct event_base *base) {
	struct cluster *cluster;

	(void)event_base_foreach_event(base, find_tick, NULL);
	MUST(tick != NULL);
	event_del(tick);	/* time is ours */
	cluster = event_get_callback_arg(tick);
	for (unsigned i = 0; i < 400 && has_more(&operations) && !cluster->ended; i++)
		do_one();
	check_told(cluster);
	end_all(cluster);
	check_shares();
	return 0;
}

static void clean_up(struct cluster *cluster) {
	server_close(&cluster->server);
	knowledge_front_close(&cluster->knowledge);
	engine_unpin(cluster->engine, cluster->started);
	event_free(cluster->tick);
	event_base_free(cluster->base);
	free(cluster);	/* the role keeps it until it ends */
	tick = NULL;
}

/* --- one input ----------------------------------------------------------------------------------- */

static void remove_directory(void) {
	(void)unlink(address);
	(void)rmdir(directory);
}

static void begin_once(void) {
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	if (listener >= 0)
		return;
	/* as posternd does */
	(void)signal(SIGPIPE, SIG_IGN);
	snprintf(directory, sizeof(directory), "/dev/shm/postern-fuzz-XXXXXX");
	MUST(mkdtemp(directory) != NULL);
	atexit(remove_directory);
	snprintf(address, sizeof(address), "%s/redis", directory);
	memcpy(to.sun_path, address, strlen(address) + 1);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	MUST(bind(listener, (struct sockaddr *)&to, sizeof(to)) == 0 && listen(listener, 16) == 0);
	snprintf(classes, sizeof(classes), "cluster = { redis = \"unix:%s\"; node = \"a\"; "
	    "nodes = 3; prefix = \"p\"; };\nclasses = ( { name = \"c\"; match = [ \"192.0.2.0/24\" ]; "
	    "hold_at = 30; refuse_at = 20; scope = \"cluster\"; }, { name = \"rest\"; "
	    "match = [ \"*\" ]; hold_at = 9; } );\n", address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const struct cluster_setup setup = { .password = PASSWORD,
		.password_length = sizeof(PASSWORD) - 1 };
	struct diag diag;
	int fd;

	begin_once();
	own_clock_begin();
	log_is_fit = true;
	log_redirect(on_log, &log_is_fit);
	fresh_site_begin(&fresh, classes);
	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0)
		close(fd);
	peers[0].fd = peers[1].fd = -1;
	refuses = false;
	split = tokens = events = numbers = ports = 0;
	most_granted = 0;
	operations = (struct operations){ data, data + size };
	epoch = take_byte(&operations);
	(void)cluster_run(fresh.site.engine, &setup, &diag);
	if (tick != NULL)
		clean_up(event_get_callback_arg(tick));
	fresh_site_check(&fresh, false);
	return 0;
}
