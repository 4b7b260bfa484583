/* SPDX-License-Identifier: ISC */
/* What went wrong, in words: filled by whoever meets an environment error,
 * logged once by whoever handles it. */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

struct diag {
	int error;		/* errno, or 0 */
	char text[512];
};

/* Formats the text (printf); `error` is kept, and its strerror is appended
 * when not 0.  Returns -1, so that "return diag_set(...)" reads well. */
int diag_set(struct diag *diag, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A bug: writes `file:line: text` to stderr and the log, and aborts.  The
 * supervisor restarts the role.  Never for input or environment. */
void diag_bug(const char *file, int line, const char *text)
    __attribute__((noreturn));

/* Cannot happen, whatever anybody sends: always on. */
#define MUST(condition) \
	((condition) ? (void)0 : diag_bug(__FILE__, __LINE__, #condition))

#endif
