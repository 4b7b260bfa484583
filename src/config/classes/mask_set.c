/* SPDX-License-Identifier: ISC */
/* Masks of several owners, in arrays that grow, and what becomes of them in the block. */
#include "config/classes/mask_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/log.h"
#include "base/text.h"
#include "config/generation/mask_index.h"

bool mask_read(struct compilation *c, const config_setting_t *place, const char *what,
    const char *text, struct mask *out) {
	char quoted[128], domain[MASK_NAME_MAX + 2] = "*";
	const char *why, *ignored;
	struct mask meant;

	if (mask_parse(text, strlen(text), out, &why))
		return true;
	log_quote(quoted, sizeof(quoted), text, strlen(text));
	if (text[0] == '\0')
		quoted[0] = '\0';
	/* as Postfix writes a domain and all below it */
	if (text[0] == '.' && text_copy(domain + 1, sizeof(domain) - 1, text, strlen(text)) &&
	    mask_parse(domain, strlen(domain), &meant, &ignored))
		complain(c, place, "%s: bad mask \"%s\": %s: did you mean \"%s\"?", what, quoted,
		    why, domain);
	else
		complain(c, place, "%s: bad mask \"%s\": %s", what, quoted, why);
	return false;
}

static bool mask_set_grow(struct mask_set *set) {
	return array_grow(&set->masks, &set->mask_room, set->count, sizeof(*set->masks)) &&
	    array_grow(&set->owners, &set->owner_room, set->count, sizeof(*set->owners)) &&
	    array_grow(&set->places, &set->place_room, set->count, sizeof(*set->places));
}

void mask_set_read(struct compilation *c, struct mask_set *set, const config_setting_t *masks,
    const char *what, uint32_t owner, mask_reader *read) {
	for (unsigned i = 0; i < setting_element_count(masks); i++) {
		const config_setting_t *place = setting_element(masks, i);
		struct mask mask;

		/* check.c has said what is no text */
		if (config_setting_type(place) != CONFIG_TYPE_STRING ||
		    !read(c, place, what, config_setting_get_string(place), &mask))
			continue;
		if (!mask_set_grow(set)) {
			c->block.failed = true;
			return;
		}
		set->masks[set->count] = (struct class_rule){ .mask = mask };
		set->owners[set->count] = owner;
		set->places[set->count++] = place;
	}
}

void mask_set_keep(struct compilation *c, const struct mask_set *set, uint32_t *index,
    uint32_t *owners) {
	*index = mask_index_store(&c->block, set->masks, set->count);
	*owners = block_store(&c->block, set->owners, set->count * sizeof(*set->owners));
}

void mask_set_note_taken(struct compilation *c, const struct mask_set *set, uint32_t index,
    const char *what) {
	for (uint32_t i = 0; index != 0 && i < set->count; i++) {
		uint32_t line, first = class_index_cover(block_at(&c->block, index),
		    &set->masks[i].mask);

		if (first < i && set->owners[first] != set->owners[i]) {
			(void)compilation_place(c, set->places[first], &line);
			note(c, set->places[i], "%s: this mask can never match: the one in line %u "
			    "matches first", what, line);
		}
	}
}

void mask_set_free(struct mask_set *set) {
	free(set->masks);
	free(set->owners);
	free(set->places);
	memset(set, 0, sizeof(*set));
}
