/* SPDX-License-Identifier: ISC */
/* Pure; any thread. */
#include "config/relayhost.h"

#include <string.h>

#include "base/text.h"

#define DEFAULT_PORT 25

bool mta_has_port(const struct generation_mta *mta, uint16_t port)
{
	if (mta == NULL)
		return port == DEFAULT_PORT;
	for (uint32_t i = 0; i < mta->port_count; i++)
		if (mta->ports[i] == port)
			return true;
	return false;
}

uint16_t mta_usual_port(const struct generation_mta *mta)
{
	return mta == NULL || mta->port_count == 0 || mta_has_port(mta, DEFAULT_PORT) ?
	    DEFAULT_PORT : mta->ports[0];
}

/* Where Postfix's tables name a service (getservbyname(3) reads files and more). */
static uint16_t service_port(const char *name)
{
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

uint16_t relayhost_port(const char *relayhost, const struct generation_mta *mta)
{
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
