/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A connection to a Redis server that is not trusted.
 * MODEL    A bufferevent; answers are read whole (wire/cluster/redis_reply.h), and come in the
 *          order of their commands.  A connection is ended from the loop alone, never within
 *          a call of its owner.
 * ERRORS   All end the connection, with a word for the kind and a text.
 * THREADS  One.
 */
#include "front/cluster/redis.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "config/read/listen_address.h"
#include "wire/cluster/redis_reply.h"

#define TEXT_BYTES	256
#define FLOOD_MESSAGES	20000		/* in a second */
#define FLOOD_BYTES	(64u * 1024 * 1024)	/* the same */
#define MESSAGE_PARTS	3		/* kind, channel, text */

struct waiting {
	redis_answer_fn *answer;
	void *context;
};

struct redis {
	struct event_base *base;
	const struct redis_handlers *handlers;
	void *context;
	struct bufferevent *link;	/* NULL: none */
	struct event *later;		/* ends the connection */
	bool stands;
	bool ending;			/* later is active */
	const char *channel;		/* that is heard; NULL: none is */
	enum cluster_error error;	/* why it ends */
	char text[TEXT_BYTES];
	int64_t second_ns;		/* of the flood */
	unsigned messages;
	size_t came;			/* bytes */
	struct waiting waiting[REDIS_AT_ONCE];	/* a ring: answers come in their order */
	unsigned first, count;
	int64_t waits_ns;		/* something is waited for since then; 0: nothing */
	struct redis_value values[REDIS_VALUES_MAX];
};

/* --- the end of a connection -------------------------------------------------------- */

/* Of reasons the first counts. */
static void end_later(struct redis *redis, enum cluster_error error, const char *text) {
	if (redis->ending)
		return;
	redis->ending = true;
	redis->error = error;
	text_append(redis->text, sizeof(redis->text), 0, "%s", text);
	event_active(redis->later, EV_TIMEOUT, 0);
}

static void answer_nobody(struct redis *redis) {
	while (redis->count > 0) {
		struct waiting one = redis->waiting[redis->first];

		redis->first = (redis->first + 1) % REDIS_AT_ONCE;
		redis->count--;
		one.answer(one.context, NULL);
	}
}

static void close_link(struct redis *redis) {
	if (redis->link != NULL)
		bufferevent_free(redis->link);
	redis->link = NULL;
	redis->stands = false;
	redis->waits_ns = 0;
}

static void on_later(evutil_socket_t fd, short what, void *argument) {
	struct redis *redis = argument;
	char text[TEXT_BYTES];

	(void)fd, (void)what;
	close_link(redis);
	answer_nobody(redis);
	redis->ending = false;
	memcpy(text, redis->text, sizeof(text));
	redis->handlers->ended(redis->context, redis->error, text);
}

/* --- answers ------------------------------------------------------------------------ */

static bool is_flood(struct redis *redis, size_t length) {
	int64_t now_ns = clock_now_ns();

	if (now_ns - redis->second_ns >= NS_PER_SECOND) {
		redis->second_ns = now_ns;
		redis->messages = 0;
		redis->came = 0;
	}
	redis->messages += redis->channel != NULL;
	redis->came += length;
	return redis->came > FLOOD_BYTES || redis->messages > FLOOD_MESSAGES;
}

/* Of a channel nothing comes but lists of three. */
static void take_message(struct redis *redis, const struct redis_value *value) {
	const struct redis_value *parts = value->list;

	if (value->kind != REDIS_KIND_LIST || value->count != MESSAGE_PARTS ||
	    !redis_value_is(&parts[1], redis->channel)) {
		end_later(redis, CLUSTER_ERROR_PROTOCOL, "invalid message on a channel");
	} else if (redis_value_is(&parts[0], "message") && parts[2].kind == REDIS_KIND_TEXT) {
		if (redis->handlers->message != NULL)
			redis->handlers->message(redis->context, parts[2].text, parts[2].length);
	} else if (redis_value_is(&parts[0], "subscribe") && parts[2].kind == REDIS_KIND_NUMBER) {
		redis->waits_ns = 0;
		if (redis->handlers->subscribed != NULL)
			redis->handlers->subscribed(redis->context);
	} else {
		end_later(redis, CLUSTER_ERROR_PROTOCOL, "invalid message on a channel");
	}
}

static void take_answer(struct redis *redis, const struct redis_value *value) {
	struct waiting one;

	if (redis->count > 0) {
		one = redis->waiting[redis->first];
		redis->first = (redis->first + 1) % REDIS_AT_ONCE;
		redis->count--;
		/* each answer is a sign of life */
		redis->waits_ns = redis->count == 0 ? 0 : clock_now_ns();
		one.answer(one.context, value);
	} else if (value->kind == REDIS_KIND_ERROR) {
		/* it said so unasked: "-ERR max number of clients reached" */
		end_later(redis, CLUSTER_ERROR_SERVER, value->text);
	} else if (redis->channel != NULL) {
		take_message(redis, value);
	} else {
		end_later(redis, CLUSTER_ERROR_PROTOCOL, "an unexpected answer");
	}
}

static void on_read(struct bufferevent *link, void *context) {
	struct redis *redis = context;
	struct evbuffer *input = bufferevent_get_input(link);
	size_t length = evbuffer_get_length(input), used = 0;
	char *text = (char *)evbuffer_pullup(input, -1);
	struct redis_value value;
	const char *why;
	long step = 0;

	while (!redis->ending && used < length && (step = redis_reply_read(text + used,
	    length - used, &value, redis->values, &why)) > 0) {
		used += (size_t)step;
		if (is_flood(redis, (size_t)step))
			end_later(redis, CLUSTER_ERROR_PROTOCOL, "the server sends too much");
		else
			take_answer(redis, &value);
	}
	if (step < 0)
		end_later(redis, CLUSTER_ERROR_PROTOCOL, why);
	else if (length - used > REDIS_BYTES_MAX)
		end_later(redis, CLUSTER_ERROR_PROTOCOL, "an answer is too large");
	(void)evbuffer_drain(input, used);
}

/* --- connecting ---------------------------------------------------------------------------- */

static void on_event(struct bufferevent *link, short what, void *context) {
	struct redis *redis = context;
	enum cluster_error error = redis->stands ? CLUSTER_ERROR_CLOSED : CLUSTER_ERROR_CONNECT;

	(void)link;
	if (redis->ending)
		return;
	if ((what & BEV_EVENT_CONNECTED) == 0) {
		end_later(redis, error, (what & BEV_EVENT_EOF) != 0 ?
		    "the server closed the connection" : strerror(EVUTIL_SOCKET_ERROR()));
		return;
	}
	redis->stands = true;
	redis->waits_ns = 0;
	redis->handlers->opened(redis->context);
}

/* Commands are short.  A server that is gone without a word is noticed where nothing is asked,
 * too. */
static void set_tcp(int fd) {
	const int on = 1, idle_s = 10, between_s = 5, probes = 3;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

void redis_connect(struct redis *redis, const char *address) {
	struct listen_address to;
	const char *why;
	int fd;

	if (redis->link != NULL || redis->ending)
		return;
	redis->channel = NULL;
	redis->second_ns = 0;
	redis->waits_ns = clock_now_ns();
	if (!listen_address_parse(address, &to, &why)) {
		end_later(redis, CLUSTER_ERROR_CONNECT, why);
		return;
	}
	fd = socket(to.socket_address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && to.socket_address.ss_family != AF_UNIX)
		set_tcp(fd);
	if (fd >= 0)
		redis->link = bufferevent_socket_new(redis->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (redis->link == NULL) {
		end_later(redis, CLUSTER_ERROR_CONNECT, strerror(errno));
		if (fd >= 0)
			close(fd);
		return;
	}
	bufferevent_setcb(redis->link, on_read, NULL, on_event, redis);
	if (bufferevent_enable(redis->link, EV_READ) != 0 || bufferevent_socket_connect(
		redis->link, (struct sockaddr *)&to.socket_address, (int)to.length) != 0)
		end_later(redis, CLUSTER_ERROR_CONNECT, strerror(errno));
}

void redis_drop(struct redis *redis, enum cluster_error error, const char *text) {
	if (redis->link != NULL)
		end_later(redis, error, text);
}

/* --- commands ------------------------------------------------------------------------------- */

static bool send_words(struct redis *redis, const struct span *words, size_t count) {
	struct evbuffer *output = bufferevent_get_output(redis->link);
	bool fits = evbuffer_add_printf(output, "*%zu\r\n", count) > 0;

	for (size_t i = 0; fits && i < count; i++)
		fits = evbuffer_add_printf(output, "$%zu\r\n", words[i].length) > 0 &&
		    evbuffer_add(output, words[i].text, words[i].length) == 0 &&
		    evbuffer_add(output, "\r\n", 2) == 0;
	if (!fits)
		end_later(redis, CLUSTER_ERROR_CLOSED, "no memory for a command");
	if (redis->waits_ns == 0)
		redis->waits_ns = clock_now_ns();
	return fits;
}

bool redis_command(struct redis *redis, const struct span *words, size_t count,
    redis_answer_fn *answer, void *context) {
	if (!redis->stands || redis->ending || redis->channel != NULL || count == 0 ||
	    redis->count == REDIS_AT_ONCE || !send_words(redis, words, count))
		return false;
	redis->waiting[(redis->first + redis->count) % REDIS_AT_ONCE] =
	    (struct waiting){ answer, context };
	redis->count++;
	return true;
}

bool redis_subscribe(struct redis *redis, const char *channel) {
	const struct span words[] = { { "SUBSCRIBE", 9 }, { channel, strlen(channel) } };

	if (!redis->stands || redis->ending || redis->channel != NULL || redis->count > 0 ||
	    !send_words(redis, words, 2))
		return false;
	redis->channel = channel;
	return true;
}

bool redis_is_silent(const struct redis *redis, int64_t patience_ns, int64_t now_ns) {
	return redis->waits_ns != 0 && now_ns - redis->waits_ns > patience_ns;
}

/* --- life ------------------------------------------------------------------------------------- */

int redis_new(struct redis **result, struct event_base *base,
    const struct redis_handlers *handlers, void *context, struct diag *diag) {
	struct redis *redis = calloc(1, sizeof(*redis));

	*result = NULL;
	if (redis == NULL)
		return diag_set(diag, 0, "no memory for a connection to Redis");
	redis->base = base;
	redis->handlers = handlers;
	redis->context = context;
	redis->later = event_new(base, -1, 0, on_later, redis);
	if (redis->later == NULL) {
		free(redis);
		return diag_set(diag, 0, "no memory for an event");
	}
	*result = redis;
	return 0;
}

void redis_free(struct redis **result) {
	struct redis *redis = *result;

	if (redis == NULL)
		return;
	*result = NULL;
	close_link(redis);
	answer_nobody(redis);
	event_free(redis->later);
	free(redis);
}
