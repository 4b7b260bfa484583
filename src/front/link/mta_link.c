/* SPDX-License-Identifier: ISC */
/*
 * A role's end of its link to the supervisor.
 *
 * MODEL: a datagram is an order or an outcome, whole or not at all; what the list
 * says comes as a descriptor that is sent along.
 * ERRORS: whatever the supervisor says that makes no sense is counted as nothing: it
 * is trusted, and of the same build.
 * THREADS: one.
 */
#include "front/link/mta_link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/datagram.h"
#include "base/text.h"

bool mta_link_ask(struct mta_link *link, enum mta_verb verb, unsigned mta,
    uint64_t generation, const char *queue_id) {
	struct mta_order order = { .verb = verb, .mta = mta, .generation = generation };

	if (link->fd < 0 || (queue_id != NULL && !text_copy(order.queue_id,
	    sizeof(order.queue_id), queue_id, strlen(queue_id))))
		return false;
	return datagram_send(link->fd, &order, sizeof(order), -1);
}

void mta_link_close(struct mta_link *link) {
	if (link->fd >= 0)
		close(link->fd);
	link->fd = -1;
}

static void output_drop(int fd) {
	if (fd >= 0)
		close(fd);
}

enum mta_news mta_link_next(struct mta_link *link, struct mta_outcome *outcome,
    int *output_fd) {
	char data[sizeof(*outcome) + 1];
	const char *why;
	ssize_t length;

	*output_fd = -1;
	if (link->fd < 0)
		return MTA_NO_NEWS;
	length = datagram_receive(link->fd, data, sizeof(data), output_fd);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return MTA_NO_NEWS;
	if (length <= 0)
		return MTA_LINK_ENDED;
	if (!mta_outcome_read(data, (size_t)length, outcome, &why) ||
	    (outcome->is_output == 1) != (*output_fd >= 0)) {
		output_drop(*output_fd);
		*output_fd = -1;
		return MTA_NO_NEWS;
	}
	return outcome->is_output == 1 ? MTA_OUTPUT : MTA_OUTCOME;
}
