/* SPDX-License-Identifier: ISC */
/*
 * Patterns that an administrator wrote (PCRE2), against text that strangers wrote:
 * ASCII without case, bytes, never UTF.  No pattern can hang: a match gives up
 * beyond a fixed amount of work.  The only file that names PCRE2.
 */
#ifndef BASE_PATTERN_H
#define BASE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#define PATTERN_TEXT_MAX	500	/* characters of a pattern */
#define PATTERN_SUBJECT_MAX	512	/* of a text; the rest is not looked at */

struct pattern;
struct pattern_room;	/* working memory of one thread */

enum pattern_result {
	PATTERN_NO_MATCH,
	PATTERN_MATCH,
	PATTERN_GAVE_UP,	/* it would take too long, or too much memory */
};

/* Compiles `text`.  -1: it is none; *why is what is wrong ("missing closing
 * parenthesis"), *at the place in the text, from 0.  With `fast` it is compiled to
 * machine code where the system allows that. */
int pattern_compile(struct pattern **pattern, const char *text, bool fast,
    char *why, size_t why_size, size_t *at);
void pattern_free(struct pattern **pattern);

/* NULL: no memory. */
struct pattern_room *pattern_room_open(void);
void pattern_room_close(struct pattern_room **room);

/* Does it match anywhere in the text?  One thread uses one room; patterns may be
 * shared. */
enum pattern_result pattern_match(const struct pattern *pattern, struct pattern_room *room,
    const char *text, size_t length);

#endif
