/* SPDX-License-Identifier: ISC */
/* Any bytes as a datagram of netlink: nothing is read beyond them, and each
 * message is stepped over. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/link/inet_diag.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	struct inet_diag_reply reply;
	size_t offset = 0, before = 0;
	char *copy;
	int more;

	if (size > INET_DIAG_REPLY_BYTES)
		return 0;
	copy = malloc(size == 0 ? 1 : size);
	if (copy == NULL)
		return 0;
	memcpy(copy, data, size);
	while ((more = inet_diag_next(copy, size, &offset, &reply)) > 0) {
		if (offset <= before || offset > size)
			abort();
		if (reply.kind != INET_DIAG_REPLY_SOCKET && reply.alive)
			abort();
		if (reply.error < 0)
			abort();
		before = offset;
	}
	if (more == 0 && offset != size)
		abort();
	free(copy);
	return 0;
}
