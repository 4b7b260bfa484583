/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Pass datagrams, and descriptors with them.
 * MODEL    One datagram a call, with one descriptor at most.
 * ERRORS   As the system calls'; whoever reads judges what came.
 * THREADS  Pure.
 */
#include "base/datagram.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#if !defined(SO_PASSRIGHTS) && !defined(__hppa__) && !defined(__sparc__)
#define SO_PASSRIGHTS	83	/* Linux 6.16; those two number their options otherwise */
#endif

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

void datagram_refuse_descriptors(int fd) {
#ifdef SO_PASSRIGHTS
	static const int no = 0;

	(void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
#else
	(void)fd;
#endif
}

int datagram_pair(int fds[2], struct diag *diag) {
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
		return diag_set(diag, errno, "cannot create a socket pair");
	datagram_refuse_descriptors(fds[0]);
	return 0;
}

bool datagram_send(int fd, const void *data, size_t length, int passed_fd) {
	union control control = { .room = { 0 } };
	struct iovec part = { (void *)(uintptr_t)data, length };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	/* roles may not call sendmsg */
	if (passed_fd < 0)
		return send(fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
	message.msg_control = &control;
	message.msg_controllen = sizeof(control);
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &passed_fd, sizeof(int));
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

ssize_t datagram_receive(int fd, void *data, size_t size, int *passed_fd) {
	union control control;
	struct iovec part = { data, size };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control) };
	ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *header = length < 0 ? NULL : CMSG_FIRSTHDR(&message);

	*passed_fd = -1;
	if (header != NULL && header->cmsg_level == SOL_SOCKET &&
	    header->cmsg_type == SCM_RIGHTS && header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(passed_fd, CMSG_DATA(header), sizeof(int));
	return length;
}
