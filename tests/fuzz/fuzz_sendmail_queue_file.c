/* SPDX-License-Identifier: ISC */
/*
 * Queue files of Sendmail: read at once, in pieces of any size, and from the place behind
 * any recipient, a file is the same.  A byte of it chooses the size of the pieces.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/queue/sendmail_queue_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	enum sendmail_queue_step end;
	struct sendmail_message message;
	uint32_t recipients;
	uint64_t hash, last_place;
};

static void add(struct sum *sum, const struct sendmail_recipient *recipient) {
	const char *end = recipient->address.text + recipient->address.length;

	MUST(recipient->address.length > 0 && recipient->address.length < SENDMAIL_QUEUE_LINE_MAX);
	MUST(recipient->domain.text + recipient->domain.length == end);
	MUST(memchr(recipient->address.text, '\n', recipient->address.length) == NULL);
	for (size_t i = 0; i < recipient->address.length; i++)
		sum->hash = sum->hash * 31 + (unsigned char)recipient->address.text[i];
	sum->hash = sum->hash * 31 + recipient->domain.length;
	sum->recipients++;
	sum->last_place = recipient->place;
}

static void read_on(struct sendmail_queue_reader *reader, const uint8_t *data, size_t size,
    size_t piece, struct sum *sum) {
	enum sendmail_queue_step step = SENDMAIL_QUEUE_MORE;
	struct sendmail_recipient recipient;

	memset(sum, 0, sizeof(*sum));
	while (size > 0 && step != SENDMAIL_QUEUE_BAD) {
		size_t left = size < piece ? size : piece;
		char *copy = malloc(left);
		const char *at = copy;

		if (copy == NULL)
			abort();
		memcpy(copy, data, left);
		data += left;
		size -= left;
		while ((step = sendmail_queue_next(reader, &at, &left, &recipient)) ==
		    SENDMAIL_QUEUE_RECIPIENT)
			add(sum, &recipient);
		MUST(step == SENDMAIL_QUEUE_MORE || step == SENDMAIL_QUEUE_BAD);
		free(copy);
	}
	sum->end = sendmail_queue_finish(reader);
	MUST(sum->end == SENDMAIL_QUEUE_END || reader->fault != NULL);
	MUST(reader->message.recipient_count >= sum->recipients);
	sum->message = reader->message;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static struct sendmail_queue_reader reader;
	struct sum whole, pieces, rest;

	sendmail_queue_begin(&reader);
	read_on(&reader, data, size, SIZE_MAX, &whole);
	sendmail_queue_begin(&reader);
	read_on(&reader, data, size, size > 0 ? data[size / 2] % 64 + 1u : 1, &pieces);
	MUST(whole.end == pieces.end && whole.recipients == pieces.recipients &&
	    whole.hash == pieces.hash && whole.last_place == pieces.last_place);
	if (whole.end != SENDMAIL_QUEUE_END)
		return 0;
	MUST(memcmp(&whole.message, &pieces.message, sizeof(whole.message)) == 0);
	MUST(whole.message.recipient_count == whole.recipients + whole.message.left_out);
	if (whole.recipients == 0)
		return 0;
	MUST(whole.last_place <= size);
	sendmail_queue_resume(&reader, whole.last_place);
	read_on(&reader, data + whole.last_place, size - (size_t)whole.last_place, SIZE_MAX, &rest);
	MUST(rest.end == SENDMAIL_QUEUE_END && rest.recipients == 0);
	return 0;
}
