/* SPDX-License-Identifier: ISC */
/*
 * What a node says of a destination: whatever is read is within its bounds, printable, and
 * when it is written and read again it is the same.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/cluster/knowledge_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW	INT64_C(1000000000000)

static void check_reason(const char *reason) {
	MUST(strlen(reason) <= KNOWLEDGE_REASON_MAX);
	for (; *reason != '\0'; reason++)
		MUST(*reason >= ' ' && *reason <= '~');
}

static void check_again(const struct knowledge_told *told) {
	char text[KNOWLEDGE_TEXT_MAX];
	size_t length = knowledge_text_write(told, NOW, text);
	struct knowledge_told again;

	MUST(length < KNOWLEDGE_TEXT_MAX);
	if (length == 0)
		return;
	MUST(knowledge_text_read(text, length, 0, NOW, &again));
	MUST(knowledge_stamp(&told->record) == knowledge_stamp(&again.record));
	MUST(told->record.ceiling.level == again.record.ceiling.level);
	MUST(told->record.learned.until_ns == again.record.learned.until_ns);
	MUST(told->record.manual.stamp == 0 || told->manual_id == again.manual_id);
	MUST(told->record.learned.stamp == 0 || (told->learned_id == again.learned_id &&
	    told->learned_by == again.learned_by));
	MUST(strcmp(told->manual_reason, again.manual_reason) == 0);
	MUST(strcmp(told->learned_reason, again.learned_reason) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	char *copy = malloc(size + 1);
	struct knowledge_told told;
	struct knowledge_news news;
	struct span record;
	int64_t ms;

	if (copy == NULL)
		abort();
	memcpy(copy, data, size);
	if (knowledge_text_read(copy, size, 0, NOW, &told)) {
		MUST(knowledge_stamp(&told.record) <= KNOWLEDGE_STAMP_MAX);
		check_reason(told.manual_reason);
		check_reason(told.learned_reason);
		check_again(&told);
	}
	if (knowledge_news_read(copy, size, &news))
		MUST(news.record.text + news.record.length == copy + size);
	if (knowledge_stored_read(copy, size, &ms, &record))
		MUST(ms >= 0 && record.text + record.length == copy + size);
	free(copy);
	return 0;
}
