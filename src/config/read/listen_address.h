/* SPDX-License-Identifier: ISC */
/* "unix:/path", "inet:host:port", "inet6:[host]:port": checked when the
 * configuration is read; host is a numeric address. */
#ifndef CONFIG_LISTEN_ADDRESS_H
#define CONFIG_LISTEN_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

struct listen_address {
	struct sockaddr_storage socket_address;
	socklen_t length;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* unix only */
};

/* False: *why is static text. */
bool listen_address_parse(const char *text, struct listen_address *out,
    const char **why);

#endif
