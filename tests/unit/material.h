/* SPDX-License-Identifier: ISC */
/* Files that tests read: of the sources, and of the material beside them. */
#ifndef TESTS_MATERIAL_H
#define TESTS_MATERIAL_H

#include "tests/unit/check.h"

static inline const char *top_of_sources(void) {
	const char *top = getenv("top_srcdir");

	return top == NULL ? "." : top;
}

static inline FILE *open_source(const char *name) {
	char path[1024];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", top_of_sources(), name);
	file = fopen(path, "r");
	if (file == NULL)
		fail_msg("%s: %s", path, strerror(errno));
	return file;
}

/* Of $POSTERN_SHARED, or of ../shared beside the sources; NULL: it is not at hand. */
static inline FILE *open_shared(const char *name) {
	const char *shared = getenv("POSTERN_SHARED");
	char path[1024];

	if (shared != NULL)
		snprintf(path, sizeof(path), "%s/%s", shared, name);
	else
		snprintf(path, sizeof(path), "%s/../shared/%s", top_of_sources(), name);
	return fopen(path, "r");
}

/* A table of the corpus, past the names of its columns; NULL: it is not at hand. */
static inline FILE *open_corpus(const char *name) {
	char path[256], row[4096];
	FILE *file;

	snprintf(path, sizeof(path), "corpus/%s", name);
	file = open_shared(path);
	if (file != NULL)
		assert_non_null(fgets(row, sizeof(row), file));
	return file;
}

/* The whole text, allocated; the file is closed. */
static inline char *read_and_close(FILE *file) {
	char *text = NULL;
	size_t room = 0;

	assert_true(getdelim(&text, &room, '\0', file) > 0);
	fclose(file);
	return text;
}

/* The next line that is neither empty nor a comment, cut into `count` fields, the last of which
 * has the rest. */
static inline bool next_row(FILE *file, const char *separator, char **fields, int count) {
	static char row[65536];

	while (fgets(row, sizeof(row), file) != NULL) {
		char *next = row;

		row[strcspn(row, "\n")] = '\0';
		if (row[0] == '#' || row[0] == '\0')
			continue;
		for (int i = 0; i < count - 1; i++) {
			fields[i] = strsep(&next, separator);
			assert_non_null(next);
		}
		fields[count - 1] = next;
		return true;
	}
	return false;
}

/* Is `word` among those of the list? */
static inline bool is_listed(const char *word, const char *list, const char *separator) {
	size_t length = strlen(word);

	for (const char *at = list; *at != '\0'; at += strcspn(at, separator), at += *at != '\0')
		if (strcspn(at, separator) == length && memcmp(at, word, length) == 0)
			return true;
	return false;
}

#endif
