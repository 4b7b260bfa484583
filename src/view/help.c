/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Texts of --help, the same in all programs.
 * ERRORS   None; the caller checks the stream.
 * THREADS  No state.
 */
#include "view/help.h"

#include <string.h>

#define COLUMNS		79
#define TEXT_COLUMN	8	/* of the text below an option */

void help_fold(FILE *out, int column, const char *text, const char *end) {
	int at = 0;

	while (*text != '\0') {
		int length = (int)strcspn(text, " ");

		if (at > 0 && at + 1 + length > COLUMNS) {
			putc('\n', out);
			at = 0;
		}
		if (at == 0)
			at = fprintf(out, "%*s%.*s", column, "", length, text);
		else
			at += fprintf(out, " %.*s", length, text);
		text += length;
		text += strspn(text, " ");
	}
	fprintf(out, "%s\n", end);
}

void help_option(FILE *out, const char *name, const char *value, const char *text) {
	fprintf(out, "  %s%s%s\n", name, value[0] == '\0' ? "" : " ", value);
	help_fold(out, TEXT_COLUMN, text, "");
}

void help_example(FILE *out, const char *program, const char *words, const char *text) {
	fprintf(out, "  %s %s\n", program, words);
	help_fold(out, TEXT_COLUMN, text, "");
}
