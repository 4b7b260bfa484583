/* SPDX-License-Identifier: ISC */
/*
 * Parser and writer of control frames.
 *
 * MODEL: the frame is taken apart where it lies: values are unescaped in place,
 * which only makes them shorter.  Nothing is changed before the whole frame is
 * there.
 * ERRORS: static text; the connection is spoilt.
 * THREADS: pure.
 */
#include "wire/link/control_frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define LENGTH_DIGITS	5	/* of CONTROL_BODY_MAX */

static long frame_malformed(const char **why, const char *reason) {
	*why = reason;
	return -1;
}

/* The length line.  Bytes used, 0 or -1 as control_frame_parse. */
static long parse_length(const char *data, size_t length, size_t *body,
    const char **why) {
	size_t most = length <= LENGTH_DIGITS ? length : LENGTH_DIGITS + 1;
	const char *end = memchr(data, '\n', most);
	size_t digits = end == NULL ? most : (size_t)(end - data);
	uint32_t value = 0;

	for (size_t i = 0; i < digits; i++)
		if (data[i] < '0' || data[i] > '9')
			return frame_malformed(why, "the length is not a number");
	if (end == NULL)
		return most > LENGTH_DIGITS ?
		    frame_malformed(why, "the length is out of range") : 0;
	if (!text_to_u32(data, digits, CONTROL_BODY_MAX, &value) || value == 0 ||
	    data[0] == '0')
		return frame_malformed(why, "the length is out of range");
	*body = value;
	return (long)digits + 1;
}

/* Unescapes [from, end) in place and ends it with NUL (there is room: the LF
 * of the line).  False: not as the writer makes it. */
static bool value_unescape(char *from, const char *end) {
	char *to = from;
	int byte;

	while (from < end) {
		if ((unsigned char)*from < 0x20 || *from == 0x7f)
			return false;
		if (*from != '\\') {
			*to++ = *from++;
			continue;
		}
		if (end - from < 2)
			return false;
		switch (from[1]) {
		case '\\':
			*to++ = '\\';
			break;
		case 'n':
			*to++ = '\n';
			break;
		case 'r':
			*to++ = '\r';
			break;
		case 'x':
			byte = text_hex_byte(from + 2, end);
			if (byte <= 0)
				return false;
			*to++ = (char)byte;
			from += 2;
			break;
		default:
			return false;
		}
		from += 2;
	}
	*to = '\0';
	return true;
}

static bool is_key_char(char c) {
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* One line [line, end).  NULL, or what is wrong. */
static const char *take_field(struct control_frame *frame, char *line, char *end) {
	char *equals = line;

	while (equals < end && is_key_char(*equals))
		equals++;
	if (equals == line || equals == end || *equals != '=')
		return "a line is not key=value";
	if (frame->count == CONTROL_FIELDS_MAX)
		return "too many fields";
	*equals = '\0';
	if (!value_unescape(equals + 1, end))
		return "a value is not escaped correctly";
	frame->fields[frame->count].key = line;
	frame->fields[frame->count].value = equals + 1;
	frame->count++;
	return NULL;
}

long control_frame_parse(char *data, size_t length, struct control_frame *frame,
    const char **why) {
	size_t body = 0;
	long head = parse_length(data, length, &body, why);
	char *at, *end;

	if (head <= 0)
		return head;
	if (length - (size_t)head < body)
		return 0;
	at = data + head;
	end = at + body;
	if (end[-1] != '\n')
		return frame_malformed(why, "the body does not end with a newline");
	frame->count = 0;
	while (at < end) {
		char *line_end = memchr(at, '\n', (size_t)(end - at));
		const char *wrong = take_field(frame, at, line_end);

		if (wrong != NULL)
			return frame_malformed(why, wrong);
		at = line_end + 1;
	}
	return head + (long)body;
}

const char *control_frame_get(const struct control_frame *frame, const char *key) {
	for (size_t i = 0; i < frame->count; i++)
		if (strcmp(frame->fields[i].key, key) == 0)
			return frame->fields[i].value;
	return NULL;
}

void control_writer_begin(struct control_writer *writer, char *out, size_t size) {
	writer->out = out;
	writer->size = size;
	/* room for the length, which is known last */
	writer->length = LENGTH_DIGITS + 1;
	writer->overflow = size <= LENGTH_DIGITS + 1;
}

static void frame_put(struct control_writer *writer, char c) {
	if (writer->length >= writer->size)
		writer->overflow = true;
	else
		writer->out[writer->length++] = c;
}

static void put_escaped(struct control_writer *writer, char c) {
	static const char hex[] = "0123456789abcdef";
	unsigned char u = (unsigned char)c;

	if (u >= 0x20 && u != 0x7f && c != '\\') {
		frame_put(writer, c);
		return;
	}
	frame_put(writer, '\\');
	switch (c) {
	case '\\':
		frame_put(writer, '\\');
		break;
	case '\n':
		frame_put(writer, 'n');
		break;
	case '\r':
		frame_put(writer, 'r');
		break;
	default:
		frame_put(writer, 'x');
		frame_put(writer, hex[u >> 4]);
		frame_put(writer, hex[u & 15]);
	}
}

void control_writer_add(struct control_writer *writer, const char *key,
    const char *format, ...) {
	char value[4096];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(value, sizeof(value), format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(value)) {
		writer->overflow = true;
		return;
	}
	for (const char *p = key; *p != '\0'; p++)
		frame_put(writer, *p);
	frame_put(writer, '=');
	for (const char *p = value; *p != '\0'; p++)
		put_escaped(writer, *p);
	frame_put(writer, '\n');
}

size_t control_writer_finish(struct control_writer *writer) {
	char head[32];
	size_t body, digits;
	int n;

	if (writer->overflow || writer->length <= LENGTH_DIGITS + 1)
		return 0;
	body = writer->length - (LENGTH_DIGITS + 1);
	if (body > CONTROL_BODY_MAX)
		return 0;
	n = snprintf(head, sizeof(head), "%zu\n", body);
	digits = n > 0 ? (size_t)n : 0;
	memmove(writer->out + digits, writer->out + LENGTH_DIGITS + 1, body);
	memcpy(writer->out, head, digits);
	writer->length = digits + body;
	return writer->length;
}
