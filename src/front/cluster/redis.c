/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A connection to a Redis server that is not trusted.
 * MODEL    hiredis trusts its server: a length is believed, an answer that nobody asked for
 *          is an assertion that fails.  So every answer is judged while it is parsed, in
 *          the functions that make its parts: what is too large, too deep or unasked for
 *          is not made, and hiredis ends the connection.  What is still to come of a long
 *          string is bounded after each read.  A connection is ended from the loop alone,
 *          never within one of hiredis's own calls.
 * ERRORS   All end the connection, with a word for the kind and a text.
 * THREADS  One.
 */
#include "front/cluster/redis.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/text.h"

/* Whose functions convert as they like, where it is not among the system's headers. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <hiredis/hiredis.h>
#include <hiredis/async.h>
#pragma GCC diagnostic pop

#define TEXT_BYTES	256
#define WORDS_MAX	4096		/* of a command */
#define FLOOD_MESSAGES	20000		/* in a second */
#define FLOOD_BYTES	(64u * 1024 * 1024)	/* the same */
#define PART_BYTES	16		/* of each part of an answer, beside its text */
#define MESSAGE_PARTS	3		/* kind, channel, text */

/* The types of hiredis's own functions changed with version 1. */
#if HIREDIS_MAJOR >= 1
typedef size_t elements_t;
#else
typedef int elements_t;
#endif

struct waiting {
	redis_answer_fn *answer;
	void *context;
};

struct redis {
	struct event_base *base;
	const struct redis_handlers *handlers;
	void *context;
	redisAsyncContext *link;	/* NULL: none */
	struct event *later;		/* ends the connection */
	bool stands;
	bool ending;			/* later is active */
	const char *channel;		/* that is heard; NULL: none is */
	enum cluster_error error;	/* why it ends */
	char text[TEXT_BYTES];
	redisReplyObjectFunctions judged;	/* hiredis's, behind ours */
	const redisReplyObjectFunctions *makes;
	size_t parts, bytes;		/* of the answer that is being made */
	const char *refused;		/* why no more of it is made */
	int64_t second_ns;		/* of the flood */
	unsigned messages;
	size_t came;			/* bytes */
	struct waiting waiting[REDIS_AT_ONCE];	/* a ring: answers come in their order */
	unsigned first, count;
	struct redis_value values[REDIS_VALUES_MAX];
	size_t value_count;
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

static void on_later(evutil_socket_t fd, short what, void *argument) {
	struct redis *redis = argument;
	redisAsyncContext *link = redis->link;
	char text[TEXT_BYTES];

	(void)fd, (void)what;
	redis->link = NULL;
	redis->stands = false;
	if (link != NULL) {
		link->data = NULL;
		redisAsyncFree(link);
	}
	answer_nobody(redis);
	redis->ending = false;
	memcpy(text, redis->text, sizeof(text));
	redis->handlers->ended(redis->context, redis->error, text);
}

/* hiredis has ended it, and frees it when we return. */
static void lost(struct redis *redis, const redisAsyncContext *link, enum cluster_error error) {
	char text[TEXT_BYTES];

	redis->link = NULL;
	redis->stands = false;
	if (redis->refused != NULL)
		end_later(redis, CLUSTER_ERROR_PROTOCOL, redis->refused);
	else if (link->c.err == REDIS_ERR_PROTOCOL || link->c.err == REDIS_ERR_OOM)
		end_later(redis, CLUSTER_ERROR_PROTOCOL, link->c.errstr);
	else if (link->c.err == REDIS_ERR_EOF)
		end_later(redis, error, "the server closed the connection");
	else if (link->c.err == REDIS_ERR_OTHER)
		/* it said so unasked: "-ERR max number of clients reached" */
		end_later(redis, CLUSTER_ERROR_SERVER, link->c.errstr);
	else {
		text_append(text, sizeof(text), 0, "%s", strerror(errno));
		end_later(redis, error, text);
	}
}

/* --- what an answer may be made of --------------------------------------------------- */

static struct redis *redis_of(const redisReadTask *task) {
	return task->privdata;
}

static bool refuse(struct redis *redis, const char *why) {
	if (redis->refused == NULL)
		redis->refused = why;
	return false;
}

static unsigned depth_of(const redisReadTask *task) {
	unsigned depth = 0;

	for (; task->parent != NULL; task = task->parent)
		depth++;
	return depth;
}

static bool is_message_kind(const char *text, size_t length) {
	return (length == 7 && memcmp(text, "message", 7) == 0) ||
	    (length == 9 && memcmp(text, "subscribe", 9) == 0);
}

/* hiredis fails by an assertion where the channel is not the one that was asked for. */
static bool is_own_channel(const struct redis *redis, const char *text, size_t length) {
	return text != NULL && length == strlen(redis->channel) &&
	    memcmp(text, redis->channel, length) == 0;
}

/* Of a channel nothing comes but lists of three: two strings, and a string or a number. */
static bool fits_message(struct redis *redis, const redisReadTask *task, const char *text,
    size_t length, elements_t elements) {
	bool is_text = task->type == REDIS_REPLY_STRING;

	if (task->parent == NULL)
		return task->type == REDIS_REPLY_ERROR ||
		    (task->type == REDIS_REPLY_ARRAY && elements == MESSAGE_PARTS) ||
		    refuse(redis, "invalid message on a channel");
	if (task->parent->parent != NULL ||
	    (task->idx == 0 && (!is_text || text == NULL || !is_message_kind(text, length))) ||
	    (task->idx == 1 && (!is_text || !is_own_channel(redis, text, length))) ||
	    (task->idx == 2 && !is_text && task->type != REDIS_REPLY_INTEGER) ||
	    (task->idx == 2 && is_text && text == NULL))
		return refuse(redis, "invalid message on a channel");
	return true;
}

/* hiredis knows version 3 from its version 1 on, and hands on what comes of it to functions
 * and handlers that are not there, or fails by an assertion.  A nil of version 2 is a string
 * or a list of length -1. */
static bool is_version_2(int type) {
	return type == REDIS_REPLY_STRING || type == REDIS_REPLY_ARRAY ||
	    type == REDIS_REPLY_INTEGER || type == REDIS_REPLY_STATUS ||
	    type == REDIS_REPLY_ERROR;
}

/* May this part be made?  `text` is NULL but for strings. */
static bool judge(const redisReadTask *task, const char *text, size_t length,
    elements_t elements) {
	struct redis *redis = redis_of(task);

	/* what is behind an answer that ended it is of no interest */
	if (redis->ending || redis->link == NULL)
		return false;
	if (!is_version_2(task->type))
		return refuse(redis, "an unexpected answer of protocol version 3");
	if (task->parent == NULL) {
		redis->parts = redis->bytes = 0;
		/* hiredis's own list is what it would fail by */
		if (redis->link->replies.head == NULL && redis->channel == NULL &&
		    task->type != REDIS_REPLY_ERROR)
			return refuse(redis, "an unexpected answer");
	}
	redis->parts += 1 + (size_t)(elements > 0 ? elements : 0);
	redis->bytes += length;
	redis->came += length + PART_BYTES;
	if ((size_t)(elements > 0 ? elements : 0) >= REDIS_VALUES_MAX ||
	    redis->parts > 2 * REDIS_VALUES_MAX || redis->bytes > REDIS_BYTES_MAX)
		return refuse(redis, "an answer is too large");
	if (depth_of(task) > REDIS_DEPTH_MAX)
		return refuse(redis, "lists in an answer are nested too deeply");
	return redis->channel == NULL || redis->count > 0 ||
	    fits_message(redis, task, text, length, elements);
}

static void *make_string(const redisReadTask *task, char *text, size_t length) {
	return judge(task, text, length, 0) ?
	    redis_of(task)->makes->createString(task, text, length) : NULL;
}

static void *make_array(const redisReadTask *task, elements_t elements) {
	return judge(task, NULL, 0, elements) ?
	    redis_of(task)->makes->createArray(task, elements) : NULL;
}

static void *make_integer(const redisReadTask *task, long long number) {
	return judge(task, NULL, 0, 0) ? redis_of(task)->makes->createInteger(task, number) :
	    NULL;
}

static void *make_nil(const redisReadTask *task) {
	return judge(task, NULL, 0, 0) ? redis_of(task)->makes->createNil(task) : NULL;
}

#if HIREDIS_MAJOR >= 1
/* Of version 3 alone: none is made. */
static void *make_double(const redisReadTask *task, double number, char *text, size_t length) {
	(void)number, (void)text;
	(void)judge(task, NULL, length, 0);
	return NULL;
}

static void *make_bool(const redisReadTask *task, int is) {
	(void)is;
	(void)judge(task, NULL, 0, 0);
	return NULL;
}
#endif

/* --- reading -------------------------------------------------------------------------- */

/* Bytes are counted as they are made; what is not made yet is bounded. */
static bool is_flood(struct redis *redis, unsigned messages) {
	int64_t now_ns = clock_now_ns();

	if (now_ns - redis->second_ns >= NS_PER_SECOND) {
		redis->second_ns = now_ns;
		redis->messages = 0;
		redis->came = 0;
	}
	redis->messages += messages;
	return redis->came > FLOOD_BYTES || redis->messages > FLOOD_MESSAGES;
}

/* The adapter's read handler calls this in the place of redisAsyncHandleRead. */
static void read_bounded(redisAsyncContext *link) {
	struct redis *redis = link->data;

	if (redis == NULL || redis->ending)
		return;
	redisAsyncHandleRead(link);
	if (redis->link != link || redis->ending)
		return;		/* it is gone */
	if (link->c.reader->len - link->c.reader->pos > REDIS_BYTES_MAX)
		end_later(redis, CLUSTER_ERROR_PROTOCOL, "an answer is too large");
	else if (is_flood(redis, 0))
		end_later(redis, CLUSTER_ERROR_PROTOCOL, "the server sends too much");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#define redisAsyncHandleRead read_bounded
#include <hiredis/adapters/libevent.h>
#undef redisAsyncHandleRead
#pragma GCC diagnostic pop

/* --- answers as plain data --------------------------------------------------------------- */

static bool convert(struct redis *redis, const redisReply *reply, struct redis_value *out) {
	*out = (struct redis_value){ .kind = REDIS_KIND_NOTHING };
	switch (reply->type) {
	case REDIS_REPLY_INTEGER:
		out->kind = REDIS_KIND_NUMBER;
		out->number = reply->integer;
		return true;
	case REDIS_REPLY_STRING:
	case REDIS_REPLY_STATUS:
	case REDIS_REPLY_ERROR:
		out->kind = reply->type == REDIS_REPLY_ERROR ? REDIS_KIND_ERROR : REDIS_KIND_TEXT;
		out->text = reply->str;
		out->length = (size_t)reply->len;
		return true;
	case REDIS_REPLY_ARRAY:
		break;
	default:
		return true;
	}
	out->kind = REDIS_KIND_LIST;
	if (reply->elements > REDIS_VALUES_MAX - redis->value_count)
		return false;
	out->list = redis->values + redis->value_count;
	out->count = reply->elements;
	redis->value_count += reply->elements;
	for (size_t i = 0; i < out->count; i++)
		if (!convert(redis, reply->element[i], (struct redis_value *)(uintptr_t)
			&out->list[i]))
			return false;
	return true;
}

static void on_answer(redisAsyncContext *link, void *answer, void *context) {
	struct redis *redis = link->data;
	struct redis_value value;
	struct waiting one;

	(void)context;
	/* without an answer all are told that none will come, when it has ended */
	if (redis == NULL || answer == NULL || redis->ending || redis->count == 0)
		return;
	redis->value_count = 0;
	if (!convert(redis, answer, &value)) {
		end_later(redis, CLUSTER_ERROR_PROTOCOL, "an answer is too large");
		return;
	}
	one = redis->waiting[redis->first];
	redis->first = (redis->first + 1) % REDIS_AT_ONCE;
	redis->count--;
	one.answer(one.context, &value);
}

static void on_message(redisAsyncContext *link, void *answer, void *context) {
	struct redis *redis = link->data;
	const redisReply *reply = answer;

	(void)context;
	if (redis == NULL || redis->ending || reply == NULL ||
	    reply->type != REDIS_REPLY_ARRAY || reply->elements != MESSAGE_PARTS)
		return;
	if (is_flood(redis, 1))
		end_later(redis, CLUSTER_ERROR_PROTOCOL, "the server sends too much");
	else if (reply->element[0]->len != 7 && redis->handlers->subscribed != NULL)
		redis->handlers->subscribed(redis->context);
	else if (reply->element[0]->len == 7 && reply->element[2]->type == REDIS_REPLY_STRING &&
	    redis->handlers->message != NULL)
		redis->handlers->message(redis->context, reply->element[2]->str,
		    (size_t)reply->element[2]->len);
}

/* --- connecting ---------------------------------------------------------------------------- */

/* Within a call of hiredis: nothing is sent yet. */
static void on_connect(const redisAsyncContext *link, int status) {
	struct redis *redis = link->data;

	if (redis == NULL)
		return;
	if (status != REDIS_OK)
		lost(redis, link, CLUSTER_ERROR_CONNECT);
	else
		event_active(redis->later, EV_READ, 0);
}

static void on_disconnect(const redisAsyncContext *link, int status) {
	struct redis *redis = link->data;

	(void)status;
	if (redis != NULL && redis->link == link)
		lost(redis, link, CLUSTER_ERROR_CLOSED);
}

static void on_loop(evutil_socket_t fd, short what, void *argument) {
	struct redis *redis = argument;

	if (redis->ending) {
		on_later(fd, what, argument);
		return;
	}
	if (redis->link == NULL || redis->stands)
		return;
	redis->stands = true;
	redis->handlers->opened(redis->context);
}

/* A server that is gone without a word is noticed where nothing is asked, too. */
static void keep_alive(int fd) {
	const int on = 1, idle_s = 10, between_s = 5, probes = 3;

	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
}

static redisAsyncContext *begin(const char *address) {
	const char *colon = strchr(address, ':'), *host = colon == NULL ? "" : colon + 1;
	const char *last = strrchr(host, ':');
	char name[INET6_ADDRSTRLEN + 1];
	size_t length;
	uint32_t port;

	if (strncmp(address, "unix:", 5) == 0)
		return redisAsyncConnectUnix(host);
	if (last == NULL || !text_to_u32(last + 1, strlen(last + 1), UINT16_MAX, &port))
		return NULL;
	length = (size_t)(last - host);
	if (length >= 2 && host[0] == '[' && host[length - 1] == ']') {
		host++;
		length -= 2;
	}
	if (!text_copy(name, sizeof(name), host, length))
		return NULL;
	return redisAsyncConnect(name, (int)port);
}

void redis_connect(struct redis *redis, const char *address) {
	redisAsyncContext *link;

	if (redis->link != NULL || redis->ending)
		return;
	redis->refused = NULL;
	redis->channel = NULL;
	redis->stands = false;
	redis->second_ns = 0;
	errno = 0;
	link = begin(address);
	if (link == NULL || link->err != 0) {
		end_later(redis, CLUSTER_ERROR_CONNECT, link == NULL ? "no memory, or no address" :
		    link->errstr != NULL && link->errstr[0] != '\0' ? link->errstr :
		    strerror(errno));
		if (link != NULL)
			redisAsyncFree(link);
		return;
	}
	link->data = redis;
	redis->link = link;
	redis->makes = link->c.reader->fn;
	redis->judged = *redis->makes;
	redis->judged.createString = make_string;
	redis->judged.createArray = make_array;
	redis->judged.createInteger = make_integer;
	redis->judged.createNil = make_nil;
#if HIREDIS_MAJOR >= 1
	redis->judged.createDouble = make_double;
	redis->judged.createBool = make_bool;
#endif
	link->c.reader->fn = &redis->judged;
	link->c.reader->privdata = redis;
	if (strncmp(address, "unix:", 5) != 0)
		keep_alive(link->c.fd);
	if (redisLibeventAttach(link, redis->base) != REDIS_OK ||
	    redisAsyncSetConnectCallback(link, on_connect) != REDIS_OK ||
	    redisAsyncSetDisconnectCallback(link, on_disconnect) != REDIS_OK)
		end_later(redis, CLUSTER_ERROR_CONNECT, "no memory");
}

void redis_drop(struct redis *redis, enum cluster_error error, const char *text) {
	if (redis->link != NULL)
		end_later(redis, error, text);
}

/* --- commands ------------------------------------------------------------------------------- */

bool redis_command(struct redis *redis, const struct redis_word *words, size_t count,
    redis_answer_fn *answer, void *context) {
	const char *texts[WORDS_MAX];
	size_t lengths[WORDS_MAX];

	if (!redis->stands || redis->ending || redis->channel != NULL || count == 0 ||
	    count > WORDS_MAX || redis->count == REDIS_AT_ONCE)
		return false;
	for (size_t i = 0; i < count; i++) {
		texts[i] = words[i].text;
		lengths[i] = words[i].length;
	}
	if (redisAsyncCommandArgv(redis->link, on_answer, NULL, (int)count, texts, lengths) !=
	    REDIS_OK)
		return false;
	redis->waiting[(redis->first + redis->count) % REDIS_AT_ONCE] =
	    (struct waiting){ answer, context };
	redis->count++;
	return true;
}

bool redis_subscribe(struct redis *redis, const char *channel) {
	const char *texts[] = { "SUBSCRIBE", channel };
	const size_t lengths[] = { 9, strlen(channel) };

	if (!redis->stands || redis->ending || redis->channel != NULL || redis->count > 0)
		return false;
	redis->channel = channel;
	return redisAsyncCommandArgv(redis->link, on_message, NULL, 2, texts, lengths) ==
	    REDIS_OK;
}

unsigned redis_waiting(const struct redis *redis) {
	return redis->count;
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
	redis->later = event_new(base, -1, 0, on_loop, redis);
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
	if (redis->link != NULL) {
		redis->link->data = NULL;
		redisAsyncFree(redis->link);
	}
	answer_nobody(redis);
	event_free(redis->later);
	free(redis);
}
