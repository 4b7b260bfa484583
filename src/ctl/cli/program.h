/* SPDX-License-Identifier: ISC */
/* Other programs, started by an argument list, with bounded time and output. */
#ifndef CTL_PROGRAM_H
#define CTL_PROGRAM_H

#include <stddef.h>

#include "base/diag.h"

#define PROGRAM_OUTPUT_MAX	(32u << 20)
#define PROGRAM_SECONDS		30

struct program_output {
	int exit;		/* its exit code; above 128: killed by a signal */
	char *out;		/* what it wrote, NUL-terminated; program_free it */
	size_t length;
	char error[2048];	/* the start of what it complained about, or "" */
};

/* Runs argv (NULL-terminated; found in the system's own directories) in
 * `directory` (NULL: here), with `input` on its standard input.  -1 with *diag: it
 * could not be started, took too long, or wrote too much. */
int program_run(const char *const *argv, const char *directory, const char *input,
    size_t input_length, struct program_output *output, struct diag *diag);
void program_free(struct program_output *output);

#endif
