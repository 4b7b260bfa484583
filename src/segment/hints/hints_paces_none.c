/* SPDX-License-Identifier: ISC */
/* Paces of a hints file in a build without paces (configure --disable-pace): none is written, and
 * none holds mail. */
#include "segment/hints/hints_reader_internal.h"
#include "segment/hints/paced.h"

void hints_writer_follow_pace(struct hints_writer *writer, uint32_t place, uint32_t pace) {
	(void)writer, (void)place, (void)pace;
}

bool hints_reader_may_go(struct hints_reader *reader, uint32_t number, const char *address,
    size_t length, struct pace_token *token, char text[HINTS_TEXT_MAX + 1]) {
	(void)reader, (void)number, (void)address, (void)length, (void)text;
	*token = (struct pace_token){ .from = NULL };
	return true;
}

void hints_reader_take(struct hints_reader *reader, const struct pace_token *token) {
	(void)reader, (void)token;
}

struct siphash_key paced_key(const struct segment *segment) {
	(void)segment;
	return (struct siphash_key){ 0, 0 };
}
