/* SPDX-License-Identifier: ISC */
/* Masks of several owners while they are gathered, and their index: the first that
 * matches tells the owner. */
#ifndef CONFIG_MASK_SET_H
#define CONFIG_MASK_SET_H

#include "config/read/compilation.h"
#include "policy/limit/class.h"

/* An error: `text` of the setting `what` is no mask, and `why` not. */
void mask_complain(struct compilation *c, const config_setting_t *place, const char *what,
    const char *text, const char *why);

struct mask_set {
	struct class_rule *masks;
	uint32_t *owners;
	const config_setting_t **places;
	uint32_t count;
	uint32_t room;
};

/* The mask's name must live until the set is kept. */
void mask_set_add(struct compilation *c, struct mask_set *set, const struct mask *mask,
    uint32_t owner, const config_setting_t *place);

/* Puts an index and the owners by mask (uint32_t[count]) into the block; 0, 0 for an
 * empty set. */
void mask_set_keep(struct compilation *c, const struct mask_set *set, uint32_t *index,
    uint32_t *owners);

/* The mask before mask `i` that takes all it would, or CLASS_NO_RULE. */
uint32_t mask_set_taken(const struct compilation *c, const struct mask_set *set,
    uint32_t index, uint32_t i);

void mask_set_free(struct mask_set *set);

#endif
