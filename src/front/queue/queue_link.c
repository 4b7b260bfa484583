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
#include "front/queue/queue_link.h"

#include <errno.h>
#include <unistd.h>

#include "base/datagram.h"

bool queue_link_ask(int link_fd, const struct queue_order *order) {
	return datagram_send(link_fd, order, queue_order_length(order), -1);
}

bool queue_link_next(int link_fd, struct queue_tell *tell, int *fd,
    bool *ended) {
	struct queue_tell data;
	const char *why;
	ssize_t length;

	*fd = -1;
	*ended = false;
	length = datagram_receive(link_fd, &data, sizeof(data), fd);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length > 0 && queue_tell_read(&data, (size_t)length, tell, &why) &&
	    (*fd >= 0) == (tell->news == QUEUE_OPENED && tell->error == 0))
		return true;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	*ended = true;
	return false;
}
