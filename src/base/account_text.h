/* SPDX-License-Identifier: ISC */
/*
 * The text for a client whose account is at a limit, with placeholders in it:
 *	{used}		so many are counted
 *	{limit}		so many may be
 *	{what}		"recipients", "messages", "KiB"
 *	{window}	in which time: "1h"
 *	{retry}		seconds until there is room again; "-": never for such a message
 *	{account}	name of the entry of the configuration
 *	{id}		of the decision
 * Any thread.
 */
#ifndef BASE_ACCOUNT_TEXT_H
#define BASE_ACCOUNT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reply_text.h"

struct account_values {
	uint64_t used;
	uint64_t limit;
	const char *what;
	uint32_t window_s;	/* 0: of one message */
	uint64_t retry_s;	/* UINT64_MAX: never */
	const char *account;
	const char *id;
};

/* False: `why` (of `why_size`) says what is wrong. */
bool account_text_check(const char *text, char *why, size_t why_size);

/* Expands into `out`, cut to fit; what is not printable ASCII becomes '?'.  Without {id} the id
 * is put behind.  Returns `out`. */
const char *account_text_expand(char out[REPLY_TEXT_SIZE], const char *text,
    const struct account_values *values);

/* "90s", "1h", "7d": returns `out`; 0: "message". */
#define ACCOUNT_WINDOW_TEXT	16
const char *account_window_text(uint32_t window_s, char out[ACCOUNT_WINDOW_TEXT]);

#endif
