/* SPDX-License-Identifier: ISC */
/* Pure; any thread. */
#include "config/mta/relayhost.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"

#define DEFAULT_PORT 25

bool mta_has_port(const struct generation_mta *mta, uint16_t port) {
	if (mta == NULL)
		return port == DEFAULT_PORT;
	for (uint32_t i = 0; i < mta->port_count; i++)
		if (mta->ports[i] == port)
			return true;
	return false;
}

uint16_t mta_usual_port(const struct generation_mta *mta) {
	return mta == NULL || mta->port_count == 0 || mta_has_port(mta, DEFAULT_PORT) ?
	    DEFAULT_PORT : mta->ports[0];
}

struct span relayhost_host(const char *relayhost, bool *bracketed) {
	const char *end;

	*bracketed = *relayhost == '[';
	if (*bracketed)
		relayhost++;
	end = relayhost + strcspn(relayhost, *bracketed ? "]" : ":");
	return (struct span){ relayhost, (size_t)(end - relayhost) };
}

/* Where Postfix's tables name a service (getservbyname(3) reads files and more). */
static uint16_t service_port(const char *name) {
	static const struct {
		const char *name;
		uint16_t port;
	} services[] = {
		{ "smtp", 25 }, { "submission", 587 }, { "submissions", 465 },
		{ "smtps", 465 }, { "ssmtp", 465 }, { "urd", 465 },
	};

	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		if (strcmp(name, services[i].name) == 0)
			return services[i].port;
	return 0;
}

uint16_t relayhost_port(const char *relayhost, const struct generation_mta *mta) {
	const char *colon = *relayhost == '[' ? strstr(relayhost, "]:") :
	    strchr(relayhost, ':');
	uint32_t port;

	if (colon != NULL) {
		colon += 1 + (*colon == ']');
		if (!text_to_u32(colon, strlen(colon), UINT16_MAX, &port))
			port = service_port(colon);
		if (port != 0)
			return (uint16_t)port;
	}
	return mta_usual_port(mta);
}

bool relayhost_fault(const char *relayhost, const struct generation_mta *mta, char *text,
    size_t size) {
	char ports[GENERATION_PORTS_MAX * 8] = "", quoted[128];
	uint16_t port = relayhost_port(relayhost, mta);
	size_t length = 0;

	if (*relayhost == '\0' || mta_has_port(mta, port))
		return false;
	for (uint32_t i = 0; i < mta->port_count; i++)
		length = text_append(ports, sizeof(ports), length, "%u, ", mta->ports[i]);
	text_append(text, size, 0, "relayhost %s uses port %u, which mta.ports does not list: "
	    "deliveries there are ignored, and no destination gets a hint; set ports = [ %s%u "
	    "]; in the mta",
	    log_quote(quoted, sizeof(quoted), relayhost, strlen(relayhost)), port, ports, port);
	return true;
}
