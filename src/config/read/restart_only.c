/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Carry what waits for a restart from the running generation into a
 *          new one.
 * MODEL    The rows of settings.def that say RESTART and where they are kept, the listeners
 *          and witness.netns.  Numbers are copied; texts are copied behind the end of the new block,
 *          which may grow as nothing in it is a pointer.
 * THREADS  Any.
 */
#include "config/read/restart_only.h"

#include <stdlib.h>
#include <string.h>

#include "config/read/setting.h"

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
		to->mta = same == NULL ? carry_text(tail, running, from->mta) :
		    carry_text(tail, wanted, same->mta);
		if (same != NULL) {
			to->proof = same->proof;
			to->line = same->line;
		}
	}
}

/* What its row in settings.def says where it is kept. */
static void carry_row(struct tail *tail, const struct generation *running,
    struct generation *to, const struct setting *row) {
	const char *from = (const char *)running + row->offset;
	char *at = (char *)to + row->offset;
	uint32_t text;

	if (row->place == PLACE_NUMBER)
		memcpy(at, from, row->bytes);
	if (row->place != PLACE_TEXT)
		return;
	memcpy(&text, from, sizeof(text));
	text = carry_text(tail, running, text);
	memcpy(at, &text, sizeof(text));
}

/* A cluster that is configured no more goes on as it was; of one that is, user, password
 * and what is done without the server may change. */
static void carry_cluster(struct tail *tail, const struct generation *running,
    struct generation *to) {
	to->cluster.user = carry_text(tail, running, running->cluster.user);
	to->cluster.password_file = carry_text(tail, running, running->cluster.password_file);
	to->cluster.when_unreachable = running->cluster.when_unreachable;
	to->cluster.line = running->cluster.line;
}

/* Measures with `to` a scratch copy and no base, writes with both the block. */
static void carry(struct tail *tail, const struct generation *running,
    const struct generation *wanted, struct generation *to) {
	struct generation_listener listeners[GENERATION_LISTENERS_MAX];
	bool has_cluster = generation_has_cluster(wanted);
	size_t count;
	const struct setting *rows = settings(&count);

	memset(listeners, 0, sizeof(listeners));
	carry_listeners(tail, running, wanted, listeners);
	memcpy(to->listeners, listeners, sizeof(listeners));
	to->listener_count = running->listener_count;
	memcpy(to->confined, running->confined, sizeof(to->confined));
	to->netns_count = running->netns_count;
	for (uint32_t i = 0; i < running->netns_count; i++)
		to->netns[i] = carry_text(tail, running, running->netns[i]);
	for (size_t i = 0; i < count; i++)
		if (rows[i].effect == EFFECT_RESTART && !rows[i].is_in_element)
			carry_row(tail, running, to, &rows[i]);
	if (!has_cluster)
		carry_cluster(tail, running, to);
}

struct generation *restart_only_keep(struct generation *wanted,
    const struct generation *running) {
	struct generation scratch = *wanted, *block;
	struct tail tail = { .base = NULL, .used = (size_t)wanted->bytes };
	size_t bytes;

	carry(&tail, running, wanted, &scratch);
	bytes = (tail.used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	if (bytes > UINT32_MAX)
		return NULL;
	block = realloc(wanted, bytes);
	if (block == NULL)
		return NULL;
	memset((char *)block + block->bytes, 0, bytes - (size_t)block->bytes);
	tail = (struct tail){ .base = (char *)block, .used = (size_t)block->bytes };
	carry(&tail, running, block, block);
	block->bytes = bytes;
	generation_share_out(block);
	return block;
}
