/* SPDX-License-Identifier: ISC */
/* Has a file changed since?  By what stat(2) tells, without reading it. */
#ifndef BASE_FILE_STAMP_H
#define BASE_FILE_STAMP_H

#include <stdint.h>

/* Of its inode, size and time of change of the content; 0: it is not there, or cannot be
 * seen.  Any thread. */
uint64_t file_stamp(const char *path);

/* Of inode and time of any change: one that was written anew is another, even where its inode
 * was used before.  Never 0. */
struct stat;
uint64_t file_stamp_of(const struct stat *status);

#endif
