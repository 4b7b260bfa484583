/* SPDX-License-Identifier: ISC */
/* The control frame parser: what it accepts must survive being written and
 * parsed again, and must lie inside the frame. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/link/control_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct control_frame frame, again;
static char out[CONTROL_BODY_MAX + 64];

static void write_and_read(void) {
	struct control_writer writer;
	const char *why = NULL;
	size_t length;

	control_writer_begin(&writer, out, sizeof(out));
	for (size_t i = 0; i < frame.count; i++)
		control_writer_add(&writer, frame.fields[i].key, "%s", frame.fields[i].value);
	length = control_writer_finish(&writer);
	if (length == 0)
		return;	/* a value beyond the writer's bounds */
	MUST(control_frame_parse(out, length, &again, &why) == (long)length);
	MUST(again.count == frame.count);
	for (size_t i = 0; i < frame.count; i++) {
		MUST(strcmp(again.fields[i].key, frame.fields[i].key) == 0);
		MUST(strcmp(again.fields[i].value, frame.fields[i].value) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	const char *why = NULL;
	char *copy = malloc(size > 0 ? size : 1), *at = copy;
	long used;

	if (copy == NULL)
		abort();
	if (size > 0)
		memcpy(copy, data, size);
	while ((used = control_frame_parse(at, size, &frame, &why)) > 0) {
		MUST((size_t)used <= size);
		for (size_t i = 0; i < frame.count; i++)
			MUST(frame.fields[i].key >= at &&
			    frame.fields[i].value + strlen(frame.fields[i].value) <
			    at + used);
		write_and_read();
		at += used;
		size -= (size_t)used;
	}
	MUST(used == 0 || why != NULL);
	free(copy);
	return 0;
}
