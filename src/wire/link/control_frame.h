/* SPDX-License-Identifier: ISC */
/*
 * The control protocol, sans I/O: frames of key=value lines.
 *
 *	frame	= length LF body		length: decimal, of body, 1..65536
 *	body	= *( key "=" value LF )		key: [a-z0-9_]+, values escaped:
 *						\\ \n \r and \xNN for other controls
 * Each side's first frame carries protocol=1 and build=TEXT.  A request is one
 * frame with command=WORD; the reply is any number of frames that begin with
 * row=1, then one that begins with end=1 and has exit=N (sysexits) and, for
 * N != 0, error=TEXT.  Unknown keys are ignored, unknown commands refused.
 */
#ifndef WIRE_CONTROL_FRAME_H
#define WIRE_CONTROL_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#define CONTROL_PROTOCOL	1
#define CONTROL_BODY_MAX	65536
#define CONTROL_FIELDS_MAX	256
/* of all frames of a reply; no daemon gives longer ones, no client takes them */
#define CONTROL_REPLY_MAX	(64 * 1024 * 1024)

struct control_field {
	const char *key;	/* NUL-terminated, within the frame's buffer */
	const char *value;	/* unescaped, NUL-terminated */
};

struct control_frame {
	struct control_field fields[CONTROL_FIELDS_MAX];
	size_t count;
};

/* Parses a frame at the start of data.  >0: bytes used, *frame points into
 * `data`, which was changed in place; 0: incomplete; -1: malformed, *why is
 * static text. */
long control_frame_parse(char *data, size_t length, struct control_frame *frame,
    const char **why);

/* The value of a key, or NULL. */
const char *control_frame_get(const struct control_frame *frame, const char *key);

/* Building: begin, add fields, finish; returns the whole frame's length, or 0
 * when it did not fit.  The text is then at out[0]. */
struct control_writer {
	char *out;
	size_t size;
	size_t length;
	bool overflow;
};
void control_writer_begin(struct control_writer *writer, char *out, size_t size);
void control_writer_add(struct control_writer *writer, const char *key,
    const char *format, ...) __attribute__((format(printf, 3, 4)));
size_t control_writer_finish(struct control_writer *writer);

#endif
