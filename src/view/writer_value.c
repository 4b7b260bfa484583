/* SPDX-License-Identifier: ISC */
/* One value: as people see it, and as JSON. */
#include "view/writer.h"


static bool is_continuation(unsigned char byte) {
	return (byte & 0xc0) == 0x80;
}

size_t writer_utf8_length(const char *sequence) {
	const unsigned char *text = (const unsigned char *)sequence;
	unsigned char low = 0x80, high = 0xbf;
	size_t length;

	if (text[0] < 0x80)
		return 1;
	if (text[0] < 0xc2 || text[0] > 0xf4)
		return 0;
	length = text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
	if (text[0] == 0xe0)
		low = 0xa0;	/* shorter forms exist */
	else if (text[0] == 0xed)
		high = 0x9f;	/* surrogates */
	else if (text[0] == 0xf0)
		low = 0x90;
	else if (text[0] == 0xf4)
		high = 0x8f;	/* beyond U+10FFFF */
	if (text[1] < low || text[1] > high)
		return 0;
	for (size_t i = 2; i < length; i++)
		if (!is_continuation(text[i]))
			return 0;
	return length;
}

static void json_character(FILE *out, unsigned char c) {
	static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";

	for (size_t i = 0; i + 1 < sizeof(letters); i += 2)
		if (c == (unsigned char)letters[i]) {
			putc('\\', out);
			putc(letters[i + 1], out);
			return;
		}
	if (c < 0x20 || c == 0x7f)
		fprintf(out, "\\u%04x", (unsigned)c);
	else
		putc(c, out);
}

void writer_json_string(FILE *out, const char *text) {
	const unsigned char *at = (const unsigned char *)text;

	putc('"', out);
	while (*at != '\0') {
		size_t length = writer_utf8_length((const char *)at);

		if (length == 1) {
			json_character(out, *at);
		} else if (length == 0) {
			fprintf(out, "\\\\x%02x", (unsigned)*at);
			length = 1;
		} else if (at[0] == 0xc2 && at[1] < 0xa0) {
			/* control characters of the upper half: terminals obey */
			fprintf(out, "\\u%04x", (unsigned)at[1]);
		} else {
			fwrite(at, 1, length, out);
		}
		at += length;
	}
	putc('"', out);
}

void writer_seconds_text(char *out, size_t size, uint64_t s) {
	unsigned long long days = s / 86400, hours = s / 3600 % 24;
	unsigned long long minutes = s / 60 % 60, seconds = s % 60;

	if (s < 60)
		snprintf(out, size, "%llus", seconds);
	else if (s < 3600)
		snprintf(out, size, "%llum%02llus", minutes, seconds);
	else if (s < 86400)
		snprintf(out, size, "%lluh%02llum", hours, minutes);
	else
		snprintf(out, size, "%llud%02lluh", days, hours);
}

static void decimal_text(char out[WRITER_NUMBER_MAX], int64_t thousandths) {
	uint64_t size = thousandths < 0 ? -(uint64_t)thousandths : (uint64_t)thousandths;

	snprintf(out, WRITER_NUMBER_MAX, "%s%llu.%03llu", thousandths < 0 ? "-" : "",
	    (unsigned long long)(size / 1000), (unsigned long long)(size % 1000));
}

static void bytes_text(char out[WRITER_NUMBER_MAX], uint64_t bytes) {
	static const char units[] = "kMGTPE";
	uint64_t tenths = bytes;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(out, WRITER_NUMBER_MAX, "%llu", (unsigned long long)bytes);
		return;
	}
	while (tenths >= 1024 * 1024) {
		tenths /= 1024;
		unit++;
	}
	tenths = tenths * 10 / 1024;
	snprintf(out, WRITER_NUMBER_MAX, "%llu.%llu%c", (unsigned long long)(tenths / 10),
	    (unsigned long long)(tenths % 10), units[unit]);
}

const char *writer_value_text(enum column_kind kind, const struct value *value,
    char space[WRITER_NUMBER_MAX]) {
	if (!value->known)
		return "-";
	switch (kind) {
	case COLUMN_TEXT:
		return value->text[0] == '\0' ? "-" : value->text;
	case COLUMN_TRUTH:
		return value->number != 0 ? "true" : "false";
	case COLUMN_SECONDS:
		writer_seconds_text(space, WRITER_NUMBER_MAX, value->number);
		return space;
	case COLUMN_BYTES:
		bytes_text(space, value->number);
		return space;
	case COLUMN_DECIMAL:
		decimal_text(space, (int64_t)value->number);
		return space;
	case COLUMN_NUMBER:
		break;
	}
	snprintf(space, WRITER_NUMBER_MAX, "%llu", (unsigned long long)value->number);
	return space;
}

void writer_json_value(FILE *out, enum column_kind kind, const struct value *value) {
	char space[WRITER_NUMBER_MAX];

	if (!value->known)
		fputs("null", out);
	else if (kind == COLUMN_TEXT)
		writer_json_string(out, value->text);
	else if (kind == COLUMN_TRUTH)
		fputs(value->number != 0 ? "true" : "false", out);
	else if (kind == COLUMN_DECIMAL)
		fputs(writer_value_text(kind, value, space), out);
	else
		fprintf(out, "%llu", (unsigned long long)value->number);
}
