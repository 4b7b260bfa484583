/* SPDX-License-Identifier: ISC */
#ifndef CONFIG_MASK_INDEX_H
#define CONFIG_MASK_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "policy/limit/class.h"

struct block;

/* The index of these masks, allocated and `*bytes` long; NULL: no memory. */
void *mask_index_make(const struct class_rule *masks, uint32_t count, size_t *bytes);

/* Their index in the block; 0: there are none (that are not left out). */
uint32_t mask_index_store(struct block *block, const struct class_rule *masks, uint32_t count);

/* A uint32_t[count] in the block: of masks that are one name that, in lower case, if it
 * is no longer than that; else 0. */
uint32_t mask_names_store(struct block *block, const struct class_rule *masks, uint32_t count,
    size_t longest);

#endif
