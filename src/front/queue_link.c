/* SPDX-License-Identifier: ISC */
/*
 * The queue role's end of its link.
 *
 * MODEL: a datagram is an order or an answer, whole or not at all; an opened file comes as
 * a descriptor that is sent along.
 * ERRORS: whatever the supervisor says that makes no sense counts as the link's end: it is
 * trusted, and of the same build.
 * THREADS: one.
 */
#include "front/queue_link.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool queue_link_ask(struct queue_link_end *link, const struct queue_order *order)
{
	char data[QUEUE_ORDER_MAX];
	size_t length;

	if (link->fd < 0)
		return false;
	length = queue_order_write(order, data);
	return length > 0 &&
	    send(link->fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

void queue_link_end_close(struct queue_link_end *link)
{
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}

/* The descriptor that came along, or -1. */
static int descriptor_of(struct msghdr *message)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (control != NULL && control->cmsg_level == SOL_SOCKET &&
	    control->cmsg_type == SCM_RIGHTS && control->cmsg_len == CMSG_LEN(sizeof(fd)))
		memcpy(&fd, CMSG_DATA(control), sizeof(fd));
	return fd;
}

bool queue_link_next(struct queue_link_end *link, struct queue_tell *tell, int *fd,
    bool *ended)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char data[QUEUE_ORDER_MAX];
	struct iovec part = { data, sizeof(data) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1,
		.msg_control = &control, .msg_controllen = sizeof(control) };
	const char *why;
	ssize_t length;

	*fd = -1;
	*ended = link->fd < 0;
	if (*ended)
		return false;
	length = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length > 0)
		*fd = descriptor_of(&message);
	if (length > 0 && queue_tell_parse(data, (size_t)length, tell, &why) &&
	    (*fd >= 0) == (tell->news == QUEUE_OPENED && tell->error == 0))
		return true;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	*ended = true;
	return false;
}
