/* SPDX-License-Identifier: ISC */
/* First match and cover over masks as the manual words them: one mask after the
 * other, no index.  What the index must agree with. */
#ifndef TESTS_UNIT_NAIVE_CLASS_H
#define TESTS_UNIT_NAIVE_CLASS_H

#include <strings.h>

#include "policy/limit/class.h"

static inline bool naive_ends(const char *name, size_t length, const char *end,
    size_t end_length) {
	return length >= end_length &&
	    strncasecmp(name + length - end_length, end, end_length) == 0;
}

static inline bool naive_begins(const char *name, size_t length,
    const char *begin, size_t begin_length) {
	return length >= begin_length && strncasecmp(name, begin, begin_length) == 0;
}

static inline bool naive_in_prefix(const struct prefix *prefix,
    const struct address *address) {
	static const struct address unknown;
	bool v4 = true;

	for (int i = 0; i < 12; i++)
		v4 = v4 && address->bytes[i] == (i < 10 ? 0 : 0xff);
	if (address_equal(address, &unknown) || (v4 && prefix->bits < 96))
		return false;
	for (unsigned bit = 0; bit < prefix->bits; bit++)
		if (((address->bytes[bit / 8] ^ prefix->base.bytes[bit / 8]) >>
		    (7 - bit % 8) & 1) != 0)
			return false;
	return true;
}

static inline bool naive_mask_matches(const struct mask *mask,
    const struct address *address, const char *name, size_t length) {
	if (mask->kind == MASK_ALL)
		return true;
	if (mask->kind == MASK_ADDRESS)
		return address != NULL && naive_in_prefix(&mask->prefix, address);
	if (name != NULL && length > 0 && name[length - 1] == '.')
		length--;
	if (name == NULL || length == 0 || length > MASK_NAME_MAX)
		return false;
	switch (mask->kind) {
	case MASK_NAME:
		return length == mask->name_length &&
		    strncasecmp(name, mask->name, length) == 0;
	case MASK_DOMAIN:
		return naive_ends(name, length, mask->name, mask->name_length) &&
		    (length == mask->name_length ||
		    name[length - mask->name_length - 1] == '.');
	case MASK_NAME_PREFIX:
		return naive_begins(name, length, mask->name, mask->name_length) &&
		    length > mask->name_length && name[mask->name_length] == '.';
	default:
		return false;
	}
}

static inline uint32_t naive_match(const struct class_rule *rules,
    uint32_t count, const struct address *address, const char *name,
    size_t length) {
	for (uint32_t i = 0; i < count; i++)
		if (!rules[i].left_out &&
		    naive_mask_matches(&rules[i].mask, address, name, length))
			return i;
	return CLASS_NO_RULE;
}

static inline bool naive_is_v4_prefix(const struct prefix *prefix) {
	return prefix->bits >= 96 && address_is_v4(&prefix->base);
}

/* Does `wide` alone take every host that `mask` takes? */
static inline bool naive_covers(const struct mask *wide, const struct mask *mask) {
	if (wide->kind == MASK_ALL)
		return true;
	switch (mask->kind) {
	case MASK_NAME:
		return naive_mask_matches(wide, NULL, mask->name, mask->name_length);
	case MASK_DOMAIN:
		return wide->kind == MASK_DOMAIN && naive_mask_matches(wide, NULL,
		    mask->name, mask->name_length);
	case MASK_NAME_PREFIX:
		return wide->kind == MASK_NAME_PREFIX &&
		    (naive_mask_matches(wide, NULL, mask->name, mask->name_length) ||
		    (wide->name_length == mask->name_length &&
		    strncasecmp(wide->name, mask->name, mask->name_length) == 0));
	case MASK_ADDRESS:
		if (wide->kind != MASK_ADDRESS ||
		    wide->prefix.bits > mask->prefix.bits ||
		    naive_is_v4_prefix(&wide->prefix) != naive_is_v4_prefix(&mask->prefix))
			return false;
		for (unsigned bit = 0; bit < wide->prefix.bits; bit++)
			if (((mask->prefix.base.bytes[bit / 8] ^
			    wide->prefix.base.bytes[bit / 8]) >> (7 - bit % 8) & 1) != 0)
				return false;
		return true;
	default:
		return false;
	}
}

static inline uint32_t naive_cover(const struct class_rule *rules,
    uint32_t count, const struct mask *mask) {
	for (uint32_t i = 0; i < count; i++)
		if (!rules[i].left_out && naive_covers(&rules[i].mask, mask))
			return i;
	return CLASS_NO_RULE;
}

#endif
