/* SPDX-License-Identifier: ISC */
/* What the readers of log lines have in common: a cursor that goes over a line once,
 * and never beyond its end.  For wire/ alone. */
#ifndef WIRE_LOG_CURSOR_H
#define WIRE_LOG_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "policy/reply/delivery.h"

struct cursor {
	const char *at;
	const char *end;
};

static inline size_t left(const struct cursor *c) {
	return (size_t)(c->end - c->at);
}

static inline bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

static inline bool is_letter(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool is_control(char c) {
	return (unsigned char)c < ' ' || c == 0x7f;
}

static inline bool begins(const struct cursor *c, const char *text, size_t length) {
	return left(c) >= length && memcmp(c->at, text, length) == 0;
}
#define BEGINS(c, text)	begins(c, text, sizeof(text) - 1)

/* Passes over `text`, if it is next. */
static inline bool take(struct cursor *c, const char *text, size_t length) {
	if (!begins(c, text, length))
		return false;
	c->at += length;
	return true;
}
#define TAKE(c, text)	take(c, text, sizeof(text) - 1)

/* Digits up to a number of at most `max`; false: none, or more. */
static inline bool take_number(struct cursor *c, uint32_t max, uint32_t *out) {
	uint64_t number = 0;
	const char *start = c->at;

	while (c->at < c->end && is_digit(*c->at)) {
		number = number * 10 + (uint64_t)(*c->at++ - '0');
		if (number > max)
			return false;
	}
	*out = (uint32_t)number;
	return c->at > start;
}

/* Seconds, "12" or "0.02", in milliseconds. */
static inline bool take_ms(struct cursor *c, uint32_t max_s, int64_t *ms) {
	uint32_t seconds;
	int64_t scale = 100;

	if (!take_number(c, max_s, &seconds))
		return false;
	*ms = (int64_t)seconds * 1000;
	if (!TAKE(c, "."))
		return true;
	for (; c->at < c->end && is_digit(*c->at); c->at++, scale /= 10)
		*ms += (*c->at - '0') * scale;
	return true;
}

/* "2.0.0" */
static inline bool take_dsn(struct cursor *c, uint16_t dsn[3]) {
	for (int i = 0; i < 3; i++) {
		uint32_t number;

		if ((i > 0 && !TAKE(c, ".")) || !take_number(c, 999, &number))
			return false;
		dsn[i] = (uint16_t)number;
	}
	return true;
}

static inline struct span span_of(const char *start, const char *end) {
	return (struct span){ start, (size_t)(end - start) };
}

#define SPAN_IS(span, literal) \
	((span).length == sizeof(literal) - 1 && \
	memcmp((span).text, literal, sizeof(literal) - 1) == 0)

/* RFC 5424's data, "-" or "[ID NAME="VALUE" ...]" once or more, in whose values \ takes the next
 * byte out of its meaning; and the blank behind it, if that is not the end. */
static inline bool take_data(struct cursor *c) {
	if (TAKE(c, "- "))
		return true;
	if (!BEGINS(c, "["))
		return false;
	while (TAKE(c, "[")) {
		bool quoted = false;

		for (; c->at < c->end && (quoted || *c->at != ']'); c->at++)
			if (quoted && *c->at == '\\' && left(c) > 1)
				c->at++;
			else if (*c->at == '"')
				quoted = !quoted;
		if (!TAKE(c, "]"))
			return false;
	}
	return TAKE(c, " ") || c->at == c->end;
}

/* Every span of *d empty, but none without a place to point to. */
static inline void begin_delivery(struct delivery *d, const char *nowhere) {
	memset(d, 0, sizeof(*d));
	d->program.text = d->mailer.text = d->queue_id.text = d->recipient.text = d->list.text =
	    d->domain.text = d->relay.text = d->relay_name.text = d->text.text = d->reply.text =
	    nowhere;
	d->status = DELIVERY_STATUS_OTHER;
	d->conn_use = 1;
	d->delay_ms = DELIVERY_MS_UNKNOWN;
	for (int i = 0; i < 4; i++)
		d->delays_ms[i] = DELIVERY_MS_UNKNOWN;
}

/* NULL: it is not in there. */
static inline const char *find(const struct cursor *c, const char *text, size_t length) {
	return left(c) < length ? NULL : memmem(c->at, left(c), text, length);
}
#define FIND(c, text)	find(c, text, sizeof(text) - 1)

/* Behind the last @ that is not quoted; empty, where there is none or what follows
 * could be no domain. */
static inline struct span domain_of(struct span address) {
	size_t at = address.length;

	while (at > 0 && address.text[at - 1] != '@') {
		char c = address.text[--at];

		if (c == '"' || c == ' ' || c == '<' || c == '>' || c == ',' || is_control(c))
			return (struct span){ address.text + address.length, 0 };
	}
	if (at == 0)
		return (struct span){ address.text + address.length, 0 };
	return (struct span){ address.text + at, address.length - at };
}

#endif
