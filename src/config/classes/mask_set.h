/* SPDX-License-Identifier: ISC */
/* Masks of a list of groups (classes, destinations, providers), or of one setting, while they are
 * compiled: one index over all of them, in which the first match wins. */
#ifndef CONFIG_MASK_SET_H
#define CONFIG_MASK_SET_H

#include "config/generation/mask_index.h"
#include "config/read/compilation.h"

struct mask_set {
	struct class_rule *masks;
	uint32_t *owners;		/* the group of each */
	const config_setting_t **places;
	uint32_t count;
	size_t mask_room, owner_room, place_room;
};

/* Reads a mask; false: it is none, and was complained about as `what`. */
bool mask_read(struct compilation *c, const config_setting_t *place, const char *what,
    const char *text, struct mask *out);

/* Adds the elements of a setting, each as `read` (mask_read, or more than it) has it. */
typedef bool mask_reader(struct compilation *c, const config_setting_t *place, const char *what,
    const char *text, struct mask *out);
void mask_set_read(struct compilation *c, struct mask_set *set, const config_setting_t *masks,
    const char *what, uint32_t owner, mask_reader *read);

/* Their index in the block, or 0, and a uint32_t[count] of their owners. */
void mask_set_keep(struct compilation *c, const struct mask_set *set, uint32_t *index,
    uint32_t *owners);

/* Notes of `what` the masks of which an earlier one of another owner takes all. */
void mask_set_note_taken(struct compilation *c, const struct mask_set *set, uint32_t index,
    const char *what);

void mask_set_free(struct mask_set *set);

#endif
