/* SPDX-License-Identifier: ISC */
/* Addresses to listen on, the way milters write them.  Never asks a resolver:
 * a daemon must start without one.  Pure. */
#include "config/read/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text.h"

static bool parse_unix(const char *path, struct listen_address *out, const char **why) {
	struct sockaddr_un *address = (struct sockaddr_un *)(void *)&out->socket_address;
	size_t length = strlen(path);

	if (path[0] != '/') {
		*why = "the path must begin with /";
		return false;
	}
	if (path[length - 1] == '/') {
		*why = "the path is a directory";
		return false;
	}
	for (size_t i = 0; i < length; i++)
		if (path[i] <= ' ' || path[i] > '~') {
			*why = "the path may only have printable ASCII characters without "
			    "spaces";
			return false;
		}
	if (length >= sizeof(address->sun_path)) {
		*why = "the path is longer than 107 bytes";
		return false;
	}
	address->sun_family = AF_UNIX;
	memcpy(address->sun_path, path, length + 1);
	memcpy(out->path, path, length + 1);
	out->length = sizeof(*address);
	return true;
}

static bool parse_port(const char *text, in_port_t *out, const char **why) {
	uint32_t port;

	if (!text_to_u32(text, strlen(text), 65535, &port) || port == 0) {
		*why = "the port must be a number from 1 to 65535";
		return false;
	}
	*out = htons((uint16_t)port);
	return true;
}

static bool parse_inet(const char *text, struct listen_address *out, const char **why) {
	struct sockaddr_in *address = (struct sockaddr_in *)(void *)&out->socket_address;
	const char *colon = strrchr(text, ':');
	char host[INET_ADDRSTRLEN];

	if (colon == NULL) {
		*why = "the form is inet:host:port";
		return false;
	}
	if (!text_copy(host, sizeof(host), text, (size_t)(colon - text)) ||
	    inet_pton(AF_INET, host, &address->sin_addr) != 1) {
		*why = "the host must be a numeric IPv4 address";
		return false;
	}
	address->sin_family = AF_INET;
	out->length = sizeof(*address);
	return parse_port(colon + 1, &address->sin_port, why);
}

static bool parse_inet6(const char *text, struct listen_address *out, const char **why) {
	struct sockaddr_in6 *address = (struct sockaddr_in6 *)(void *)&out->socket_address;
	const char *end = strrchr(text, ']');
	char host[INET6_ADDRSTRLEN];

	if (text[0] != '[' || end == NULL || end[1] != ':') {
		*why = "the form is inet6:[host]:port";
		return false;
	}
	if (!text_copy(host, sizeof(host), text + 1, (size_t)(end - text) - 1) ||
	    inet_pton(AF_INET6, host, &address->sin6_addr) != 1) {
		*why = "the host must be a numeric IPv6 address";
		return false;
	}
	address->sin6_family = AF_INET6;
	out->length = sizeof(*address);
	return parse_port(end + 2, &address->sin6_port, why);
}

bool listen_address_parse(const char *text, struct listen_address *out, const char **why) {
	struct listen_address parsed;
	bool good;

	memset(&parsed, 0, sizeof(parsed));
	if (strncmp(text, "unix:", 5) == 0) {
		good = parse_unix(text + 5, &parsed, why);
	} else if (strncmp(text, "inet:", 5) == 0) {
		good = parse_inet(text + 5, &parsed, why);
	} else if (strncmp(text, "inet6:", 6) == 0) {
		good = parse_inet6(text + 6, &parsed, why);
	} else {
		*why = "it must start with unix:, inet: or inet6:";
		good = false;
	}
	if (good)
		*out = parsed;
	return good;
}
