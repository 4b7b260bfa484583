/* SPDX-License-Identifier: ISC */
/*
 * The key of an outbound question: every text lies inside, without blanks around
 * it, and what stands behind a whole key changes none of its fields but the recipient,
 * which goes to the end.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/ask/outbound_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(struct span text, const char *key, size_t size) {
	if (text.length == 0)
		return;
	MUST(text.text > key && text.text + text.length <= key + size);
	MUST(text.text[0] != ' ' && text.text[text.length - 1] != ' ');
}

static void check_field(struct span text, const char *key, size_t size) {
	check(text, key, size);
	MUST(text.length == 0 || memchr(text.text, ';', text.length) == NULL);
}

static void same(struct span a, const char *a_key, struct span b,
    const char *b_key) {
	if (a.text == NULL)
		return;
	MUST(a.length == b.length && a.text - a_key == b.text - b_key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const char tail[] = ";h=x;i=x;sn=x;sa=192.0.2.1";
	char *copy = malloc(size + 1), *longer = malloc(size + sizeof(tail));
	struct outbound_key key, more;

	if (copy == NULL || longer == NULL)
		abort();
	memcpy(copy, data, size);
	memcpy(longer, data, size);
	memcpy(longer + size, tail, sizeof(tail) - 1);
	if (outbound_key_parse(copy, size, &key)) {
		check_field(key.host, copy, size);
		check_field(key.queue_id, copy, size);
		check_field(key.server_name, copy, size);
		check(key.recipient, copy, size);
		MUST(outbound_key_parse(longer, size + sizeof(tail) - 1, &more));
		MUST(more.kind == key.kind);
		same(key.host, copy, more.host, longer);
		same(key.queue_id, copy, more.queue_id, longer);
		same(key.server_name, copy, more.server_name, longer);
	}
	free(copy);
	free(longer);
	return 0;
}
