/* SPDX-License-Identifier: ISC */
/* What a server sends, whatever it is, over a real socket: each question is answered once, or
 * told that it never will be; the connection ends once; nothing lies outside of an answer.
 * The first byte: how many questions there are (0..7), and whether a channel is heard (8). */
#include <errno.h>
#include <event2/event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "front/cluster/redis.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct event_base *base;
static struct redis *redis;
static int listener = -1;
static char address[128];	/* "unix:" and all of a sun_path */
static unsigned opened, ended, told;

static void on_opened(void *context) {
	(void)context;
	opened++;
}

static void on_ended(void *context, enum cluster_error error, const char *text) {
	(void)context;
	MUST(error < CLUSTER_ERRORS && text != NULL);
	ended++;
}

static void on_message(void *context, const char *text, size_t length) {
	(void)context;
	MUST(text[length] == '\0');
}

static size_t walk(const struct redis_value *value, unsigned depth) {
	size_t values = 1;

	MUST(depth <= REDIS_DEPTH_MAX + 1);
	if (value->kind == REDIS_KIND_TEXT || value->kind == REDIS_KIND_ERROR)
		MUST(value->text[value->length] == '\0');
	for (size_t i = 0; value->kind == REDIS_KIND_LIST && i < value->count; i++)
		values += walk(&value->list[i], depth + 1);
	return values;
}

static void on_answer(void *context, const struct redis_value *value) {
	(void)context;
	told++;
	if (value != NULL)
		MUST(walk(value, 0) <= REDIS_VALUES_MAX + 1);
}

static void open_all(void) {
	static const struct redis_handlers handlers = { .opened = on_opened, .ended = on_ended,
		.message = on_message };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	struct diag diag;

	snprintf(to.sun_path, sizeof(to.sun_path), "/tmp/fuzz_redis.%d", (int)getpid());
	snprintf(address, sizeof(address), "unix:%s", to.sun_path);
	(void)unlink(to.sun_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	base = event_base_new();
	if (listener < 0 || base == NULL ||
	    bind(listener, (struct sockaddr *)&to, sizeof(to)) != 0 || listen(listener, 8) != 0)
		abort();
	if (redis_new(&redis, base, &handlers, NULL, &diag) != 0)
		abort();
}

static void close_all(void) {
	redis_free(&redis);
	event_base_free(base);
	base = NULL;
	close(listener);
	(void)unlink(address + strlen("unix:"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const struct span question = { "PING", 4 };
	unsigned questions = size > 0 ? data[0] & 7 : 0, asked = 0;
	int peer;

	if (size == 0 || size > 65536)
		return 0;
	if (base == NULL) {
		open_all();
		atexit(close_all);
	}
	opened = ended = told = 0;
	redis_connect(redis, address);
	peer = accept(listener, NULL, NULL);
	while (opened == 0 && ended == 0)
		(void)event_base_loop(base, EVLOOP_ONCE);
	while (asked < questions && redis_command(redis, &question, 1, on_answer, NULL))
		asked++;
	if ((data[0] & 8) != 0)
		(void)redis_subscribe(redis, "c");
	(void)!write(peer, data + 1, size - 1);
	(void)shutdown(peer, SHUT_WR);
	while (ended == 0)
		(void)event_base_loop(base, EVLOOP_ONCE);
	close(peer);
	MUST(ended == 1 && told == asked);
	return 0;
}
