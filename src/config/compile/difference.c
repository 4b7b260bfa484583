/* SPDX-License-Identifier: ISC */
/* Which settings that wait for a restart differ: the rows of settings.def that
 * say RESTART and where they are kept, and witness.netns. */
#include <string.h>

#include "config/compile/compile.h"
#include "config/read/setting.h"

static uint64_t number_at(const struct generation *g, const struct setting *row) {
	const char *at = (const char *)g + row->offset;
	uint64_t eight;
	uint32_t four;

	if (row->bytes == sizeof(eight)) {
		memcpy(&eight, at, sizeof(eight));
		return eight;
	}
	if (row->bytes == sizeof(four)) {
		memcpy(&four, at, sizeof(four));
		return four;
	}
	return (unsigned char)*at;
}

static bool same_text(const struct generation *a, uint64_t a_offset,
    const struct generation *b, uint64_t b_offset) {
	return strcmp(generation_text(a, (uint32_t)a_offset),
	    generation_text(b, (uint32_t)b_offset)) == 0;
}

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
		if (left->mode != right->mode ||
		    !same_text(a, left->address, b, right->address) ||
		    !same_text(a, left->owner, b, right->owner) ||
		    !same_text(a, left->group, b, right->group) ||
		    !same_text(a, left->read_group, b, right->read_group) ||
		    !same_text(a, left->write_group, b, right->write_group))
			return false;
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

void config_restart_differences(const struct generation *running,
    const struct generation *wanted,
    void (*each)(void *context, const char *setting), void *context) {
	size_t count;
	const struct setting *rows = settings(&count);

	for (size_t i = 0; i < count; i++) {
		bool same = true;

		if (rows[i].effect != EFFECT_RESTART || rows[i].is_in_element)
			continue;
		if (rows[i].place == PLACE_TEXT)
			same = same_text(running, number_at(running, &rows[i]),
			    wanted, number_at(wanted, &rows[i]));
		else if (rows[i].place == PLACE_NUMBER)
			same = number_at(running, &rows[i]) == number_at(wanted, &rows[i]);
		else if (rows[i].place == PLACE_LISTENERS)
			same = same_listeners(running, wanted, rows[i].offset);
		else if (strcmp(rows[i].path, "witness.netns") == 0)
			same = same_netns(running, wanted);
		if (!same)
			each(context, rows[i].path);
	}
}
