/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Names by pattern.
 * THREADS  Any; nothing is kept.
 */
#include "view/name_pattern.h"

#include <string.h>

#include "segment/file/layout.h"

static bool ends_with(const char *name, const struct mask *mask) {
	size_t length = strlen(name);
	const char *end = name + length - mask->name_length;

	return length >= mask->name_length &&
	    strncasecmp(end, mask->name, mask->name_length) == 0 &&
	    (end == name || end[-1] == '.' || end[-1] == '@');
}

static bool fits(const char *name, const struct mask *mask) {
	size_t length = strlen(name);
	struct address address;

	switch (mask->kind) {
	case MASK_ALL:
		return true;
	case MASK_NAME:
		return length == mask->name_length &&
		    strncasecmp(name, mask->name, length) == 0;
	case MASK_DOMAIN:
		return ends_with(name, mask);
	case MASK_NAME_PREFIX:
		return length > mask->name_length &&
		    strncasecmp(name, mask->name, mask->name_length) == 0 &&
		    name[mask->name_length] == '.';
	case MASK_ADDRESS:
		return address_parse(name, length, &address) &&
		    prefix_contains(&mask->prefix, &address);
	}
	return false;
}

bool name_fits(const char *name, const struct mask *mask) {
	size_t prefix = generation_transport_prefix(name, strlen(name));

	return fits(name, mask) ||
	    (prefix != 0 && strchr(name, '@') == NULL && fits(name + prefix, mask));
}

bool name_pattern(const char *text, struct mask *pattern, const char **why) {
	size_t length = strlen(text);

	if (mask_parse(text, length, pattern, why))
		return true;
	if (strpbrk(text, ":@") == NULL || length > SEGMENT_NAME_MAX || strchr(text, '*') != NULL)
		return false;
	*pattern = (struct mask){ .kind = MASK_NAME, .name = text, .name_length = length };
	return true;
}
