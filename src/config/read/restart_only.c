/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What waits for a restart: which of it differs, and carry it from the running
 *          generation into a new one.
 * MODEL    The rows of settings.def that say RESTART and where they are kept, the listeners
 *          and witness.netns.  Texts are added to the new block.
 * THREADS  Any.
 */
#include "config/read/restart_only.h"

#include <string.h>

#include "config/generation/block.h"
#include "config/read/setting.h"

static bool waits(const struct setting *row) {
	return row->effect == EFFECT_RESTART && !row->is_in_element;
}

static const char *text_at(const struct generation *g, const struct setting *row) {
	uint32_t offset;

	memcpy(&offset, (const char *)g + row->offset, sizeof(offset));
	return generation_text(g, offset);
}

static bool same_text(const struct generation *a, uint32_t a_offset,
    const struct generation *b, uint32_t b_offset) {
	return strcmp(generation_text(a, a_offset), generation_text(b, b_offset)) == 0;
}

/* Texts of a listener that only a restart changes. */
#define LISTENER_TEXTS(X) X(address) X(owner) X(group) X(read_group) X(write_group)

/* --- differences -------------------------------------------------------------------- */

/* The next listener of a kind from `at` on, or NULL. */
static const struct generation_listener *next_listener(const struct generation *g,
    size_t kind, uint32_t *at) {
	while (*at < g->listener_count)
		if (g->listeners[(*at)++].kind == kind)
			return &g->listeners[*at - 1];
	return NULL;
}

static bool same_listeners(const struct generation *a, const struct generation *b, size_t kind) {
	uint32_t a_at = 0, b_at = 0;

	for (;;) {
		const struct generation_listener *left = next_listener(a, kind, &a_at);
		const struct generation_listener *right = next_listener(b, kind, &b_at);

		if (left == NULL || right == NULL)
			return left == right;
#define X(text) || !same_text(a, left->text, b, right->text)
		if (left->mode != right->mode LISTENER_TEXTS(X))
			return false;
#undef X
	}
}

static bool same_netns(const struct generation *a, const struct generation *b) {
	if (a->netns_count != b->netns_count)
		return false;
	for (uint32_t i = 0; i < a->netns_count; i++)
		if (!same_text(a, a->netns[i], b, b->netns[i]))
			return false;
	return true;
}

static bool is_same(const struct generation *a, const struct generation *b,
    const struct setting *row) {
	if (row->place == PLACE_TEXT)
		return strcmp(text_at(a, row), text_at(b, row)) == 0;
	if (row->place == PLACE_NUMBER)
		return memcmp((const char *)a + row->offset, (const char *)b + row->offset,
		    row->bytes) == 0;
	if (row->place == PLACE_LISTENERS)
		return same_listeners(a, b, row->offset);
	return strcmp(row->path, "witness.netns") != 0 || same_netns(a, b);
}

void restart_only_differences(const struct generation *running, const struct generation *wanted,
    void (*each)(void *context, const char *setting), void *context) {
	size_t count;
	const struct setting *rows = settings(&count);

	for (size_t i = 0; i < count; i++)
		if (waits(&rows[i]) && !is_same(running, wanted, &rows[i]))
			each(context, rows[i].path);
}

/* --- carrying ----------------------------------------------------------------------- */

/* Valid until the block grows. */
static struct generation *header_of(const struct block *block) {
	return (struct generation *)(void *)block->data;
}

static uint32_t carry_text(struct block *block, const struct generation *running,
    uint32_t offset) {
	return block_text(block, generation_text(running, offset));
}

static const struct generation_listener *same_listener(
    const struct generation *wanted, const struct generation *running,
    const struct generation_listener *listener) {
	for (uint32_t i = 0; i < wanted->listener_count; i++) {
		const struct generation_listener *other = &wanted->listeners[i];

		if (other->kind == listener->kind &&
		    same_text(wanted, other->address, running, listener->address))
			return other;
	}
	return NULL;
}

static void carry_listeners(struct block *block, const struct generation *running) {
	struct generation_listener listeners[GENERATION_LISTENERS_MAX];

	memset(listeners, 0, sizeof(listeners));
	for (uint32_t i = 0; i < running->listener_count; i++) {
		struct generation_listener *to = &listeners[i];
		const struct generation_listener *same = same_listener(header_of(block), running,
		    &running->listeners[i]);

		*to = running->listeners[i];
		if (same != NULL) {
			to->proof = same->proof;
			to->line = same->line;
			to->mta = same->mta;
		} else {
			to->mta = carry_text(block, running, to->mta);
		}
#define X(text) to->text = carry_text(block, running, to->text);
		LISTENER_TEXTS(X)
#undef X
	}
	memcpy(header_of(block)->listeners, listeners, sizeof(listeners));
	header_of(block)->listener_count = running->listener_count;
}

static void carry_netns(struct block *block, const struct generation *running) {
	header_of(block)->netns_count = running->netns_count;
	for (uint32_t i = 0; i < running->netns_count; i++) {
		uint32_t text = carry_text(block, running, running->netns[i]);

		header_of(block)->netns[i] = text;
	}
}

/* What its row in settings.def says where it is kept. */
static void carry_row(struct block *block, const struct generation *running,
    const struct setting *row) {
	uint32_t text;

	if (row->place == PLACE_NUMBER) {
		memcpy(block->data + row->offset, (const char *)running + row->offset, row->bytes);
	} else if (row->place == PLACE_TEXT) {
		text = block_text(block, text_at(running, row));
		memcpy(block->data + row->offset, &text, sizeof(text));
	}
}

/* A cluster that is configured no more goes on as it was; of one that is, user, password
 * and what is done without the server may change. */
static void carry_cluster(struct block *block, const struct generation *running) {
	struct generation_cluster *to, from = running->cluster;

	from.user = carry_text(block, running, from.user);
	from.password_file = carry_text(block, running, from.password_file);
	to = &header_of(block)->cluster;
	to->user = from.user;
	to->password_file = from.password_file;
	to->when_unreachable = from.when_unreachable;
	to->line = from.line;
}

struct generation *restart_only_keep(struct generation *wanted,
    const struct generation *running) {
	struct block block = { .data = (char *)wanted, .used = (size_t)wanted->bytes,
		.room = (size_t)wanted->bytes };
	bool has_cluster = generation_has_cluster(wanted);
	struct generation *kept;
	size_t count;
	const struct setting *rows = settings(&count);

	carry_listeners(&block, running);
	carry_netns(&block, running);
	for (size_t i = 0; i < count; i++)
		if (waits(&rows[i]))
			carry_row(&block, running, &rows[i]);
	if (!has_cluster)
		carry_cluster(&block, running);
	kept = block_finish(&block);
	if (kept == NULL)
		return NULL;
	memcpy(kept->confined, running->confined, sizeof(kept->confined));
	generation_share_out(kept);
	return kept;
}
