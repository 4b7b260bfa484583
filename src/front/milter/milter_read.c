/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which socket a callback of libmilter's is about.
 * MODEL    libmilter does not say.  But the thread that calls us has just read the packet
 *          from it, by the C library's read: a program's own function of that name goes
 *          before it, for libmilter too.  Linked with posternd alone, not into the library.
 * THREADS  Any.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "front/milter/milter_gate.h"

/* In place of the C library's, whatever headers make of that name. */
ssize_t milter_read(int fd, void *data, size_t size) __asm__("read");
ssize_t milter_read(int fd, void *data, size_t size) {
	milter_gate_read(fd);
	return syscall(SYS_read, fd, data, size);
}
