/* SPDX-License-Identifier: ISC */
/*
 * Patterns by PCRE2 (pattern.h).
 *
 * Model: brackets do not capture, so that there are no back references; each
 * start of a match has a number of steps, after which the whole match is given
 * up.  What machine code cannot finish on its small stack is tried once more by
 * the interpreter, under the same limits.  Measured: the worst that a pattern and a
 * text of the longest could do together takes some milliseconds.
 */
#include "base/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX	2000	/* from each start of a match */
#define DEPTH_MAX	500	/* of backtracking, where it is interpreted */
#define HEAP_KIB_MAX	1024

struct pattern {
	pcre2_code *code;
};

struct pattern_room {
	pcre2_match_context *context;
	pcre2_match_data *data;
};

static int pattern_refuse(const char *what, char *why, size_t why_size) {
	snprintf(why, why_size, "%s", what);
	return -1;
}

int pattern_compile(struct pattern **pattern, const char *text, bool fast,
    char *why, size_t why_size, size_t *at) {
	size_t length = strlen(text);
	PCRE2_UCHAR message[160];
	int error;

	*pattern = NULL;
	*at = 0;
	if (length == 0)
		return pattern_refuse("it is empty", why, why_size);
	if (length > PATTERN_TEXT_MAX)
		return pattern_refuse("it is too long", why, why_size);
	*pattern = malloc(sizeof(**pattern));
	if (*pattern == NULL)
		return pattern_refuse("no memory", why, why_size);
	(*pattern)->code = pcre2_compile((PCRE2_SPTR)text, length, PCRE2_CASELESS |
	    PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C,
	    &error, at, NULL);
	if ((*pattern)->code == NULL) {
		free(*pattern);
		*pattern = NULL;
		if (pcre2_get_error_message(error, message, sizeof(message)) < 0)
			memcpy(message, "unknown error", 14);
		return pattern_refuse((const char *)message, why, why_size);
	}
	if (fast)	/* without it the interpreter does the same, slower */
		(void)pcre2_jit_compile((*pattern)->code, PCRE2_JIT_COMPLETE);
	return 0;
}

void pattern_free(struct pattern **pattern) {
	if (*pattern != NULL)
		pcre2_code_free((*pattern)->code);
	free(*pattern);
	*pattern = NULL;
}

struct pattern_room *pattern_room_open(void) {
	struct pattern_room *room = calloc(1, sizeof(*room));

	if (room == NULL)
		return NULL;
	room->context = pcre2_match_context_create(NULL);
	room->data = pcre2_match_data_create(1, NULL);
	if (room->context == NULL || room->data == NULL) {
		pattern_room_close(&room);
		return NULL;
	}
	pcre2_set_match_limit(room->context, STEPS_MAX);
	pcre2_set_depth_limit(room->context, DEPTH_MAX);
	pcre2_set_heap_limit(room->context, HEAP_KIB_MAX);
	return room;
}

void pattern_room_close(struct pattern_room **room) {
	if (*room != NULL) {
		pcre2_match_data_free((*room)->data);
		pcre2_match_context_free((*room)->context);
	}
	free(*room);
	*room = NULL;
}

enum pattern_result pattern_match(const struct pattern *pattern, struct pattern_room *room,
    const char *text, size_t length) {
	PCRE2_SPTR subject = (PCRE2_SPTR)(length > 0 ? text : "");
	int result;

	if (length > PATTERN_SUBJECT_MAX)
		length = PATTERN_SUBJECT_MAX;
	result = pcre2_match(pattern->code, subject, length, 0, 0, room->data, room->context);
	if (result == PCRE2_ERROR_JIT_STACKLIMIT)
		result = pcre2_match(pattern->code, subject, length, 0, PCRE2_NO_JIT,
		    room->data, room->context);
	if (result >= 0)
		return PATTERN_MATCH;
	return result == PCRE2_ERROR_NOMATCH ? PATTERN_NO_MATCH : PATTERN_GAVE_UP;
}
