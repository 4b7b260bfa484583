/* SPDX-License-Identifier: ISC */
#ifndef CONFIG_MASK_INDEX_H
#define CONFIG_MASK_INDEX_H

#include <stddef.h>
#include <stdint.h>

#include "policy/limit/class.h"

/* The index of these masks, allocated and `*bytes` long; NULL: no memory. */
void *mask_index_make(const struct class_rule *masks, uint32_t count, size_t *bytes);

#endif
