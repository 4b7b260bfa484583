/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Carry what waits for a restart from the running generation into a
 *          new one.
 * MODEL    Numbers are copied; texts are copied behind the end of the new block,
 *          which may grow as nothing in it is a pointer.
 * THREADS  Any.
 */
#include "role/restart_only.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 8

/* The end of a block that grows; without a base it only measures. */
struct tail {
	char *base;
	size_t used;
};

static uint32_t carry_text(struct tail *tail, const struct generation *running,
    uint32_t offset) {
	const char *text = generation_text(running, offset);
	size_t bytes = strlen(text) + 1, at = tail->used;

	if (offset == 0)
		return 0;
	if (tail->base != NULL)
		memcpy(tail->base + at, text, bytes);
	tail->used += bytes;
	return (uint32_t)at;
}

static const struct generation_listener *same_listener(
    const struct generation *wanted, const struct generation *running,
    const struct generation_listener *listener) {
	const char *address = generation_text(running, listener->address);
	uint32_t i;

	for (i = 0; i < wanted->listener_count; i++) {
		const struct generation_listener *other = &wanted->listeners[i];

		if (other->kind == listener->kind &&
		    strcmp(generation_text(wanted, other->address), address) == 0)
			return other;
	}
	return NULL;
}

static void carry_listeners(struct tail *tail, const struct generation *running,
    const struct generation *wanted, struct generation_listener *listeners) {
	uint32_t i;

	for (i = 0; i < running->listener_count; i++) {
		const struct generation_listener *from = &running->listeners[i];
		const struct generation_listener *same =
		    same_listener(wanted, running, from);
		struct generation_listener *to = &listeners[i];

		*to = *from;
		to->address = carry_text(tail, running, from->address);
		to->owner = carry_text(tail, running, from->owner);
		to->group = carry_text(tail, running, from->group);
		to->read_group = carry_text(tail, running, from->read_group);
		to->write_group = carry_text(tail, running, from->write_group);
		if (same != NULL) {
			to->proof = same->proof;
			to->line = same->line;
		}
	}
}

/* User and password may change, and what is done without the server. */
static void carry_cluster(struct tail *tail, const struct generation *running,
    const struct generation *wanted, struct generation *to) {
	const struct generation_cluster *from = &wanted->cluster;
	uint32_t user = from->user, password_file = from->password_file;
	uint32_t without = from->without, line = from->line;
	bool has = generation_has_cluster(wanted);

	to->cluster = running->cluster;
	to->cluster.redis = carry_text(tail, running, running->cluster.redis);
	to->cluster.node = carry_text(tail, running, running->cluster.node);
	to->cluster.prefix = carry_text(tail, running, running->cluster.prefix);
	to->cluster.user = has ? user : carry_text(tail, running, running->cluster.user);
	to->cluster.password_file = has ? password_file :
	    carry_text(tail, running, running->cluster.password_file);
	if (has) {
		to->cluster.without = without;
		to->cluster.line = line;
	}
}

/* Measures with `to` a scratch copy and no base, writes with both the block. */
static void carry(struct tail *tail, const struct generation *running,
    const struct generation *wanted, struct generation *to) {
	struct generation_listener listeners[GENERATION_LISTENERS_MAX];
	uint32_t i;

	memset(listeners, 0, sizeof(listeners));
	carry_listeners(tail, running, wanted, listeners);
	memcpy(to->listeners, listeners, sizeof(listeners));
	to->listener_count = running->listener_count;
	to->state_path = carry_text(tail, running, running->state_path);
	to->user = carry_text(tail, running, running->user);
	to->group = carry_text(tail, running, running->group);
	to->netns_count = running->netns_count;
	for (i = 0; i < running->netns_count; i++)
		to->netns[i] = carry_text(tail, running, running->netns[i]);
	to->policy_processes = running->policy_processes;
	to->log_facility = running->log_facility;
	to->record_count = running->record_count;
	to->session_count = running->session_count;
	to->destination_count = running->destination_count;
	to->journal = running->journal;
	to->journal.path = carry_text(tail, running, running->journal.path);
	carry_cluster(tail, running, wanted, to);
}

struct generation *restart_only_keep(struct generation *wanted,
    const struct generation *running) {
	struct generation scratch = *wanted, *block;
	struct tail tail = { .base = NULL, .used = wanted->bytes };
	size_t bytes;

	carry(&tail, running, wanted, &scratch);
	bytes = (tail.used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if (bytes > UINT32_MAX)
		return NULL;
	block = realloc(wanted, bytes);
	if (block == NULL)
		return NULL;
	memset((char *)block + block->bytes, 0, bytes - block->bytes);
	tail = (struct tail){ .base = (char *)block, .used = block->bytes };
	carry(&tail, running, block, block);
	block->bytes = bytes;
	generation_share_out(block);
	return block;
}
