/* SPDX-License-Identifier: ISC */
/* A build without hiredis: the configuration has refused a cluster. */
#include "front/cluster/redis.h"

int redis_new(struct redis **redis, struct event_base *base,
    const struct redis_handlers *handlers, void *context, struct diag *diag) {
	(void)base, (void)handlers, (void)context;
	*redis = NULL;
	return diag_set(diag, 0, "this build has no hiredis");
}

void redis_free(struct redis **redis) {
	*redis = NULL;
}

void redis_connect(struct redis *redis, const char *address) {
	(void)redis, (void)address;
}

void redis_drop(struct redis *redis, enum cluster_error error, const char *text) {
	(void)redis, (void)error, (void)text;
}

bool redis_command(struct redis *redis, const struct redis_word *words, size_t count,
    redis_answer_fn *answer, void *context) {
	(void)redis, (void)words, (void)count, (void)answer, (void)context;
	return false;
}

bool redis_subscribe(struct redis *redis, const char *channel) {
	(void)redis, (void)channel;
	return false;
}

unsigned redis_waiting(const struct redis *redis) {
	(void)redis;
	return 0;
}
