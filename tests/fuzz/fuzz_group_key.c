/* SPDX-License-Identifier: ISC */
/*
 * The key of a question about a queue group: what is found lies inside, and what a stranger
 * puts behind the domain changes neither the number of groups nor the message.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/queue/group_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_inside(struct span text, const char *key, size_t size) {
	MUST(text.length == 0 || (text.text > key && text.text + text.length <= key + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char tail[] = ";n=7;i=other;h=x";
	char *copy = malloc(size + 1), *longer = malloc(size + sizeof(tail));
	struct group_key key, more;

	if (copy == NULL || longer == NULL)
		abort();
	memcpy(copy, data, size);
	memcpy(longer, data, size);
	memcpy(longer + size, tail, sizeof(tail) - 1);
	if (group_key_parse(copy, size, &key)) {
		MUST(key.groups <= GROUP_KEY_GROUPS_MAX);
		check_inside(key.queue_id, copy, size);
		check_inside(key.domain, copy, size);
		MUST(group_key_parse(longer, size + sizeof(tail) - 1, &more));
		if (key.domain.length > 0)
			MUST(more.groups == key.groups &&
			    more.queue_id.length == key.queue_id.length);
	}
	free(copy);
	free(longer);
	return 0;
}
