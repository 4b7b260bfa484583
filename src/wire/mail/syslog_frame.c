/* SPDX-License-Identifier: ISC */
/* The head is cut off, or written anew as the readers of log lines know it. */
#include "wire/mail/syslog_frame.h"

#include <string.h>

#include "wire/mail/log_cursor.h"

#define PRIORITY_MAX	191
#define NAME_MAX_5424	48

static struct span next_field(struct cursor *c) {
	const char *start = c->at, *space = memchr(start, ' ', left(c));

	c->at = space == NULL ? c->end : space + 1;
	return span_of(start, space == NULL ? c->end : space);
}

static bool is_name(struct span field, size_t max) {
	for (size_t i = 0; i < field.length; i++)
		if (field.text[i] <= ' ' || field.text[i] > '~')
			return false;
	return field.length > 0 && field.length <= max;
}

static char *frame_put(char *to, const char *text, size_t length) {
	memcpy(to, text, length);
	return to + length;
}

static bool is_date(struct span field) {
	for (size_t i = 0; i < field.length; i++)
		if (!is_digit(field.text[i]) && memchr("-:.+TZ", field.text[i], 6) == NULL)
			return false;
	return field.length > 0 && field.length <= 64;
}

/* DATE HOST NAME PID ID DATA MESSAGE -> "DATE NAME[PID]: MESSAGE" */
static bool rewrite(struct cursor *c, char *scratch, struct span *out) {
	struct span date = next_field(c), host = next_field(c), name = next_field(c);
	struct span pid = next_field(c), id = next_field(c);
	char *to = scratch;

	if (!is_date(date) || !is_name(host, 255) || !is_name(name, NAME_MAX_5424) ||
	    !is_name(pid, 128) || !is_name(id, 32) || !take_data(c))
		return false;
	(void)TAKE(c, "\357\273\277");
	to = frame_put(to, date.text, date.length);
	*to++ = ' ';
	to = frame_put(to, name.text, name.length);
	if (!SPAN_IS(pid, "-") && pid.length <= 10) {
		*to++ = '[';
		to = frame_put(to, pid.text, pid.length);
		*to++ = ']';
	}
	*to++ = ':';
	*to++ = ' ';
	to = frame_put(to, c->at, left(c));
	*out = span_of(scratch, to);
	return true;
}

/* Cuts at the first newline or NUL; false: there is more than the frame's end behind it. */
static bool cut(struct cursor *c) {
	const char *at = c->at, *behind;

	while (at < c->end && *at != '\n' && *at != '\0')
		at++;
	for (behind = at; behind < c->end; behind++)
		if (*behind != '\n' && *behind != '\0' && *behind != '\r')
			break;
	behind = behind == c->end ? NULL : behind;
	c->end = at > c->at && at[-1] == '\r' ? at - 1 : at;
	return behind == NULL;
}

bool syslog_frame_read(const char *datagram, size_t length, char *scratch,
    struct span *out, const char **why) {
	struct cursor c = { datagram, datagram + length };
	uint32_t priority;
	bool whole;

	*out = (struct span){ datagram, 0 };
	*why = NULL;
	whole = cut(&c);
	if (TAKE(&c, "<") && (!take_number(&c, PRIORITY_MAX, &priority) || !TAKE(&c, ">"))) {
		*why = "invalid priority";
		return false;
	}
	if (left(&c) == 0) {
		*why = "it is empty";
		return false;
	}
	if (!TAKE(&c, "1 ")) {
		*out = span_of(c.at, c.end);
	} else if (!rewrite(&c, scratch, out)) {
		*why = "its header is not RFC 5424";
		return false;
	}
	if (!whole)
		*why = "it has several lines; only the first is used";
	return whole;
}
