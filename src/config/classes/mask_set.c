/* SPDX-License-Identifier: ISC */
/* Masks of several owners (mask_set.h): arrays that double, and the index of a
 * class list over them. */
#include "config/classes/mask_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/classes/classes.h"

void mask_complain(struct compilation *c, const config_setting_t *place, const char *what,
    const char *text, const char *why) {
	char quoted[128], domain[MASK_NAME_MAX + 2] = "*";
	const char *ignored;
	struct mask mask;

	log_quote(quoted, sizeof(quoted), text, strlen(text));
	if (text[0] == '\0')
		quoted[0] = '\0';
	/* as Postfix writes a domain and all below it */
	if (text[0] == '.' && text_copy(domain + 1, sizeof(domain) - 1, text, strlen(text)) &&
	    mask_parse(domain, strlen(domain), &mask, &ignored))
		complain(c, place, "%s: bad mask \"%s\": %s: did you mean \"%s\"?", what, quoted,
		    why, domain);
	else
		complain(c, place, "%s: bad mask \"%s\": %s", what, quoted, why);
}

static bool make_room(struct mask_set *set) {
	uint32_t room = set->room == 0 ? 64 : set->room * 2;
	const config_setting_t **places;
	struct class_rule *masks;
	uint32_t *owners;

	if (set->count < set->room)
		return true;
	masks = reallocarray(set->masks, room, sizeof(*masks));
	if (masks != NULL)
		set->masks = masks;
	owners = reallocarray(set->owners, room, sizeof(*owners));
	if (owners != NULL)
		set->owners = owners;
	places = reallocarray(set->places, room, sizeof(*places));
	if (places != NULL)
		set->places = places;
	if (masks == NULL || owners == NULL || places == NULL)
		return false;
	set->room = room;
	return true;
}

void mask_set_add(struct compilation *c, struct mask_set *set, const struct mask *mask,
    uint32_t owner, const config_setting_t *place) {
	if (!make_room(set)) {
		c->block.failed = true;
		return;
	}
	set->masks[set->count] = (struct class_rule){ .mask = *mask };
	set->owners[set->count] = owner;
	set->places[set->count++] = place;
}

void mask_set_keep(struct compilation *c, const struct mask_set *set, uint32_t *index,
    uint32_t *owners) {
	struct class_work work = { .c = c, .masks = set->masks, .rule_count = set->count };

	*index = 0;
	*owners = 0;
	if (set->count == 0 || c->block.failed)
		return;
	*index = build_index(&work);
	*owners = block_reserve(&c->block, set->count * sizeof(*set->owners));
	if (!c->block.failed)
		memcpy(block_at(&c->block, *owners), set->owners,
		    set->count * sizeof(*set->owners));
}

uint32_t mask_set_taken(const struct compilation *c, const struct mask_set *set,
    uint32_t index, uint32_t i) {
	uint32_t first = class_index_cover(block_at(&c->block, index), &set->masks[i].mask);

	return first < i ? first : CLASS_NO_RULE;
}

void mask_set_free(struct mask_set *set) {
	free(set->masks);
	free(set->owners);
	free(set->places);
	memset(set, 0, sizeof(*set));
}
