/* SPDX-License-Identifier: ISC */
#include <string.h>

#include "base/diag.h"
#include "tests/machine/lease_internal.h"

void reply_begin(struct lease_reply *reply) {
	reply->value = (struct redis_value){ .kind = REDIS_KIND_LIST, .list = reply->items };
	reply->last = REPLY_VALUES;
	reply->length = 0;
}

struct redis_value *reply_item(struct lease_reply *reply) {
	MUST(reply->value.count < reply->last);
	return &reply->items[reply->value.count++];
}

void reply_number(struct lease_reply *reply, int64_t number) {
	*reply_item(reply) = (struct redis_value){ .kind = REDIS_KIND_NUMBER, .number = number };
}

struct redis_value reply_text_value(struct lease_reply *reply, const char *text) {
	size_t length = strlen(text);
	char *copy = reply->text + reply->length;

	MUST(reply->length + length + 1 <= sizeof(reply->text));
	memcpy(copy, text, length + 1);
	reply->length += length + 1;
	return (struct redis_value){ .kind = REDIS_KIND_TEXT, .text = copy, .length = length };
}

void reply_text(struct lease_reply *reply, const char *text) {
	struct redis_value value = reply_text_value(reply, text);

	*reply_item(reply) = value;
}

struct redis_value *reply_list(struct lease_reply *reply, size_t count) {
	MUST(reply->value.count + count <= reply->last);
	reply->last -= count;
	return &reply->items[reply->last];
}

void reply_set_list(struct redis_value *at, const struct redis_value *items, size_t count) {
	*at = (struct redis_value){ .kind = REDIS_KIND_LIST, .list = items, .count = count };
}
