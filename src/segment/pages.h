/* SPDX-License-Identifier: ISC */
/*
 * The segment's file in huge pages.  Of a million destinations each look-up reads memory at
 * random: in small pages it waits for their addresses, too.  Any thread.
 */
#ifndef SEGMENT_PAGES_H
#define SEGMENT_PAGES_H

#include <stddef.h>

/* Maps a file, shared, at an address where its huge pages fit.  access: PROT_*.  MAP_FAILED
 * with errno, as mmap(2). */
void *segment_map(int fd, size_t bytes, int access);

/* Has a new file, which nobody uses yet, stand in huge pages as far as the kernel finds some soon.
 * All of the file has its room already; `mapping` is of segment_map.  With a small file, an older
 * kernel, or another file system than tmpfs nothing happens. */
void segment_make_huge(void *mapping, size_t bytes);

#endif
