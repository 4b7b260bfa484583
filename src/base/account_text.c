/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Texts for clients whose account is at a limit.
 * MODEL    As base/reply_text.c: checked when the configuration is read; a brace that begins
 *          no placeholder stands for itself.
 * ERRORS   What does not fit is cut.
 * THREADS  No state.
 */
#include "base/account_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

enum placeholder { PLACE_USED, PLACE_LIMIT, PLACE_WHAT, PLACE_WINDOW, PLACE_RETRY,
	PLACE_ACCOUNT, PLACE_ID, PLACES };

static const char *const words[PLACES] = { "{used}", "{limit}", "{what}", "{window}", "{retry}",
	"{account}", "{id}" };

static enum placeholder placeholder_at(const char *text) {
	unsigned which = 0;

	while (which < PLACES && strncmp(text, words[which], strlen(words[which])) != 0)
		which++;
	return (enum placeholder)which;
}

bool account_text_check(const char *text, char *why, size_t why_size) {
	char quoted[64];

	for (const char *at = strchr(text, '{'); at != NULL; at = strchr(at + 1, '{')) {
		const char *end = strchr(at, '}');

		if (placeholder_at(at) != PLACES)
			continue;
		snprintf(why, why_size, "unknown placeholder %s; use {used}, {limit}, {what}, "
		    "{window}, {retry}, {account} or {id}", log_quote(quoted, sizeof(quoted),
			at, end == NULL ? strlen(at) : (size_t)(end - at) + 1));
		return false;
	}
	return true;
}

const char *account_window_text(uint32_t window_s, char out[ACCOUNT_WINDOW_TEXT]) {
	static const struct { uint32_t seconds; char letter; } units[] = {
		{ 86400, 'd' }, { 3600, 'h' }, { 60, 'm' }, { 1, 's' } };
	unsigned i = 0;

	if (window_s == 0) {
		snprintf(out, ACCOUNT_WINDOW_TEXT, "message");
		return out;
	}
	while (window_s % units[i].seconds != 0)
		i++;
	snprintf(out, ACCOUNT_WINDOW_TEXT, "%" PRIu32 "%c", window_s / units[i].seconds,
	    units[i].letter);
	return out;
}

static const char *value_of(enum placeholder which, const struct account_values *values,
    char out[32]) {
	switch (which) {
	case PLACE_USED:
		snprintf(out, 32, "%" PRIu64, values->used);
		return out;
	case PLACE_LIMIT:
		snprintf(out, 32, "%" PRIu64, values->limit);
		return out;
	case PLACE_RETRY:
		if (values->retry_s == UINT64_MAX)
			return "-";
		snprintf(out, 32, "%" PRIu64, values->retry_s);
		return out;
	case PLACE_WINDOW:
		return account_window_text(values->window_s, out);
	case PLACE_WHAT:
		return values->what;
	case PLACE_ACCOUNT:
		return values->account;
	default:
		return values->id;
	}
}

static void make_printable(char *text) {
	for (; *text != '\0'; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

const char *account_text_expand(char out[ACCOUNT_TEXT_SIZE], const char *text,
    const struct account_values *values) {
	bool has_id = strstr(text, words[PLACE_ID]) != NULL;
	size_t length = 0;
	char value[32];

	out[0] = '\0';
	while (*text != '\0') {
		enum placeholder which = placeholder_at(text);

		if (which == PLACES)
			length = text_append(out, ACCOUNT_TEXT_SIZE, length, "%c", *text++);
		else
			length = text_append(out, ACCOUNT_TEXT_SIZE, length, "%s",
			    value_of(which, values, value));
		if (which != PLACES)
			text += strlen(words[which]);
	}
	if (!has_id)
		length = text_append(out, ACCOUNT_TEXT_SIZE, length, " (id=%s)", values->id);
	make_printable(out);
	return out;
}
