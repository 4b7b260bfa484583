/* SPDX-License-Identifier: ISC */
/*
 * Questions about queue groups.
 *
 * MODEL: what was answered for a message is kept for its other recipients, with the
 * connection; another queue id is another message.
 * ERRORS: none; a key without a domain or groups is answered with the usual group.
 * THREADS: one for each map_group.
 */
#include "front/outbound/map_group.h"

#include <string.h>

#include "base/text.h"
#include "wire/queue/group_key.h"

static bool is_another(const struct map_group *group, struct span queue_id) {
	return strlen(group->queue_id) != queue_id.length ||
	    memcmp(group->queue_id, queue_id.text, queue_id.length) != 0;
}

size_t map_group_answer(struct map_group *group, const struct engine *engine,
    const struct generation *generation, uint8_t mta, const struct socketmap_request *request,
    char out[SOCKETMAP_REPLY_MAX]) {
	char name[32] = "mqueue";
	struct group_key key;
	uint32_t place;

	if (!group_key_parse(request->key, request->key_length, &key))
		return 0;
	if (key.queue_id.length == 0 || key.queue_id.length > MAP_GROUP_ID_MAX ||
	    key.domain.length == 0 || key.groups == 0)
		return socketmap_reply(out, SOCKETMAP_OK, name);
	if (is_another(group, key.queue_id)) {
		memset(group, 0, sizeof(*group));
		(void)text_copy(group->queue_id, sizeof(group->queue_id), key.queue_id.text,
		    key.queue_id.length);
	}
	place = outbound_group(engine, generation, key.domain.text, key.domain.length, mta,
	    key.groups, &group->spread);
	if (place != 0) {
		name[0] = '\0';
		text_append(name, sizeof(name), 0, "postern%u", place);
	}
	return socketmap_reply(out, SOCKETMAP_OK, name);
}
