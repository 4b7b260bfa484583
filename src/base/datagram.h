/* SPDX-License-Identifier: ISC */
/* Datagrams between our processes, which may carry a descriptor.  Nothing here waits. */
#ifndef BASE_DATAGRAM_H
#define BASE_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/diag.h"

/* `passed_fd` (or -1) stays the caller's.  False, with errno: it was not sent. */
bool datagram_send(int fd, const void *data, size_t length, int passed_fd);

/* Two ends of a link of datagrams, close-on-exec and non-blocking; to the first one no
 * descriptor can be sent.  0, or -1 with *diag. */
int datagram_pair(int fds[2], struct diag *diag);

/* From now on no descriptor can be sent to `fd`: whoever tries gets EPERM.  One that nobody
 * takes is closed by who receives, which lasts as long as its sender likes (SO_LINGER).
 * Kernels before 6.16 cannot refuse; nothing is changed there. */
void datagram_refuse_descriptors(int fd);

/* As recvmsg(2), never waiting: the length, 0, or -1 with errno.  *passed_fd is the
 * descriptor that came along (close-on-exec, the caller's), or -1. */
ssize_t datagram_receive(int fd, void *data, size_t size, int *passed_fd);

#endif
