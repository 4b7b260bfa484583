/* SPDX-License-Identifier: ISC */
/*
 * Transports of a Postfix that have lanes and windows of their own (mta[].transports[]): their
 * rows stand behind those of the mail servers.  Nothing here allocates, locks or changes
 * anything: any thread.
 */
#include <string.h>

#include "config/generation/generation.h"

static bool is_word(const char *name, size_t length, const char *word) {
	return strlen(word) == length && strncasecmp(name, word, length) == 0;
}

size_t generation_transport_prefix(const char *name, size_t length) {
	const char *colon = length == 0 || *name == '[' ? NULL : memchr(name, ':', length);
	size_t prefix = colon == NULL ? 0 : (size_t)(colon - name);

	if (prefix == 0 || prefix + 1 == length || is_word(name, prefix, "provider") ||
	    is_word(name, prefix, "class"))
		return 0;
	return prefix + 1;
}

unsigned generation_find_transport(const struct generation *g, unsigned parent,
    const char *name, size_t length) {
	for (unsigned i = 0; i < g->mta_count; i++)
		if (g->mtas[i].transport != 0 &&
		    (parent == GENERATION_MTAS_MAX || g->mtas[i].parent == parent) &&
		    is_word(name, length, generation_text(g, g->mtas[i].transport)))
			return i;
	return GENERATION_MTAS_MAX;
}

unsigned generation_site_transport(const struct generation *g, unsigned mta, const char *domain,
    size_t length) {
	if (mta >= g->mta_count)
		return mta;
	mta = generation_parent(g, mta);
	for (unsigned i = 0; i < g->mta_count; i++)
		if (g->mtas[i].transport != 0 && g->mtas[i].parent == mta &&
		    !generation_site_excludes(g, &g->mtas[i], domain, length, NULL))
			return i;
	return mta;
}

/* Do results of this row count for a window whose transport is `name`, or of none? */
static bool counts_for(const struct generation *g, unsigned mta, const char *name,
    size_t prefix) {
	const struct generation_mta *row = &g->mtas[mta];

	if (prefix == 0)
		return row->transport == 0;
	return row->transport != 0 &&
	    is_word(name, prefix - 1, generation_text(g, row->transport));
}

unsigned generation_window_mta(const struct generation *g, const char *name, size_t length,
    unsigned bits) {
	size_t prefix = generation_transport_prefix(name, length);
	unsigned found = GENERATION_MTAS_MAX, count = 0;

	for (unsigned i = 0; i < g->mta_count; i++) {
		if (!counts_for(g, i, name, prefix))
			continue;
		if ((bits >> i & 1) != 0)
			return i;
		if (count++ == 0)
			found = i;
	}
	return count == 1 ? found : GENERATION_MTAS_MAX;
}

unsigned generation_mta_bits(const struct generation *g, unsigned mta) {
	unsigned bits = 0;

	if (mta >= g->mta_count)
		return 0;
	for (unsigned i = 0; i < g->mta_count; i++)
		if (generation_parent(g, i) == generation_parent(g, mta))
			bits |= 1U << i;
	return bits;
}
