/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Texts for clients whose account is at a limit.
 * MODEL    As base/reply_text.c, with other placeholders.
 * THREADS  No state.
 */
#include "base/account_text.h"

#include <inttypes.h>
#include <stdio.h>

enum placeholder { PLACE_USED, PLACE_LIMIT, PLACE_WHAT, PLACE_WINDOW, PLACE_RETRY,
	PLACE_ACCOUNT, PLACE_ID, PLACES };

static const struct reply_word words[PLACES + 1] = { REPLY_WORD("used"), REPLY_WORD("limit"),
	REPLY_WORD("what"), REPLY_WORD("window"), REPLY_WORD("retry"), REPLY_WORD("account"),
	REPLY_WORD("id"), { NULL, 0 } };

bool account_text_check(const char *text, char *why, size_t why_size) {
	return reply_text_check_words(text, words, why, why_size);
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

const char *account_text_expand(char out[REPLY_TEXT_SIZE], const char *text,
    const struct account_values *values) {
	char used[24], limit[24], retry[24], window[ACCOUNT_WINDOW_TEXT];
	const char *const list[PLACES] = { [PLACE_USED] = used, [PLACE_LIMIT] = limit,
		[PLACE_WHAT] = values->what,
		[PLACE_WINDOW] = account_window_text(values->window_s, window),
		[PLACE_RETRY] = values->retry_s == UINT64_MAX ? NULL : retry,
		[PLACE_ACCOUNT] = values->account, [PLACE_ID] = values->id };

	snprintf(used, sizeof(used), "%" PRIu64, values->used);
	snprintf(limit, sizeof(limit), "%" PRIu64, values->limit);
	snprintf(retry, sizeof(retry), "%" PRIu64, values->retry_s);
	(void)reply_text_expand_words(out, text, words, list, values->id);
	return out;
}
