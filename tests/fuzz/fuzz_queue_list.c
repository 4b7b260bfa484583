/* SPDX-License-Identifier: ISC */
/* Lists of queues: every text lies inside the line, and each line comes to an end. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/mail/queue_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct span span, const char *line, size_t size) {
	MUST(span.length == 0 ||
	    (span.text >= line && span.text + span.length <= line + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	char *line = malloc(size + 1);
	struct queue_listed listed;
	struct span address, reason;
	size_t count = 0;

	if (line == NULL)
		abort();
	if (size > 0)
		memcpy(line, data, size);
	if (queue_list_scan(line, size, &listed)) {
		MUST(listed.queue_id.length > 0);
		check(listed.queue_id, line, size);
		while (queue_list_recipient(&listed, &address, &reason)) {
			MUST(address.length > 0 && ++count <= size);
			check(address, line, size);
			check(reason, line, size);
		}
	}
	free(line);
	return 0;
}
