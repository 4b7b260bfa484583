/* SPDX-License-Identifier: ISC */
/*
 * Keys of questions about queue groups.
 *
 * MODEL: one pass over the fields between semicolons.
 * ERRORS: a field that makes no sense is as one that is not there.
 * THREADS: pure.
 */
#include "wire/queue/group_key.h"

#include <string.h>

static uint32_t number_of(struct span text) {
	uint32_t number = 0;

	for (size_t i = 0; i < text.length; i++) {
		if (text.text[i] < '0' || text.text[i] > '9')
			return 0;
		number = number * 10 + (uint32_t)(text.text[i] - '0');
		if (number > GROUP_KEY_GROUPS_MAX)
			number = GROUP_KEY_GROUPS_MAX;
	}
	return number;
}

bool group_key_parse(const char *key, size_t length, struct group_key *out) {
	struct span rest = { key, length }, groups = { NULL, 0 };
	struct map_field field;

	memset(out, 0, sizeof(*out));
	if (!span_is(map_word_next(&rest), "group"))
		return false;
	while (map_field_next(&rest, &field)) {
		if (span_is(field.name, "h")) {
			map_text_take_first(&out->domain, field.to_end);
			break;
		}
		if (span_is(field.name, "n"))
			map_text_take_first(&groups, field.value);
		else if (span_is(field.name, "i"))
			map_text_take_first(&out->queue_id, field.value);
	}
	out->groups = number_of(groups);
	if (out->domain.length > 0 && out->domain.text[out->domain.length - 1] == '.')
		out->domain.length--;
	return true;
}
