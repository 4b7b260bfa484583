/* SPDX-License-Identifier: ISC */
/* A whole regular file into memory. */
#ifndef CONFIG_READ_FILE_H
#define CONFIG_READ_FILE_H

#include <stddef.h>

/* The file's bytes (free()) with a NUL behind them, `*length` of them: of a file
 * with more than `most` bytes, most + 1.  NULL with errno when it cannot be read, and with errno 0
 * when it is no regular file. */
char *read_file(const char *path, size_t most, size_t *length);

/* What errno says after that. */
const char *read_file_error(void);

#endif
