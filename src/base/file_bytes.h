/* SPDX-License-Identifier: ISC */
/* All bytes at a place of a file, however many calls that takes.  Any thread. */
#ifndef BASE_FILE_BYTES_H
#define BASE_FILE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How many there were, fewer only where the file ends; or -errno. */
ssize_t file_read_at(int fd, void *to, size_t bytes, uint64_t at);

/* 0, or -errno. */
int file_write_at(int fd, const void *from, size_t bytes, uint64_t at);

#endif
