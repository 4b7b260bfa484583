/* SPDX-License-Identifier: ISC */
/*
 * The notification protocol of systemd: one datagram to a unix socket whose name
 * is in the environment ("@" begins an abstract one).  An outcome would change
 * nothing that we do, so errors are ignored.
 */
#include "base/sd_notify.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

void sd_notify_send(const char *state) {
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t length = path == NULL ? 0 : strlen(path);
	int fd;

	if (length < 2 || length >= sizeof(to.sun_path) ||
	    (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(to.sun_path, path, length);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	(void)sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
	    (const struct sockaddr *)&to,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
	close(fd);
}

void sd_notify_reloading(void) {
	struct timespec ts;
	char state[64];

	if (clock_gettime(CLOCK_MONOTONIC, &ts) != 0)
		return;
	snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
	    (int64_t)ts.tv_sec * 1000000 + (int64_t)ts.tv_nsec / 1000);
	sd_notify_send(state);
}

int64_t sd_notify_watchdog_ns(void) {
	const char *usec = getenv("WATCHDOG_USEC");
	const char *pid = getenv("WATCHDOG_PID");
	uint64_t value;

	if (usec == NULL || !text_to_size(usec, &value) || value > INT64_MAX / 500)
		return 0;
	if (pid != NULL) {
		char own[32];

		snprintf(own, sizeof(own), "%ld", (long)getpid());
		if (strcmp(pid, own) != 0)
			return 0;
	}
	return (int64_t)value * 500;
}
