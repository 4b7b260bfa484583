/* SPDX-License-Identifier: ISC */
/*
 * Error descriptions, and the end of a process that met a bug.
 *
 * diag_set touches nothing but the caller's struct: any thread.  diag_bug takes
 * no lock of ours but the log's, which no caller can hold.
 */
#include "base/diag.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"

int diag_set(struct diag *diag, int error, const char *format, ...) {
	size_t length;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(diag->text, sizeof(diag->text), format, args);
	va_end(args);
	diag->error = error;
	if (n < 0) {
		diag->text[0] = '\0';
		n = 0;
	}
	if (error == 0)
		return -1;
	length = (size_t)n < sizeof(diag->text) ? (size_t)n :
	    sizeof(diag->text) - 1;
	/* glibc's strerror keeps its text by thread since 2.32 */
	text_append(diag->text, sizeof(diag->text), length, ": %s",
	    strerror(error));
	return -1;
}

void diag_bug(const char *file, int line, const char *text) {
	char message[512];
	size_t length;

	length = text_append(message, sizeof(message) - 1, 0, "%s:%d: %s",
	    file, line, text);
	log_event(EVENT_BUG, "place=%s:%d check=\"%s\"", file, line, text);
	message[length++] = '\n';
	if (write(STDERR_FILENO, message, length) < 0)
		abort();	/* nobody left to tell */
	abort();
}
