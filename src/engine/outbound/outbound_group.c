/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Which queue group a recipient goes to when a Sendmail accepts it.
 * MODEL    Recipients whose mail runs by one window belong to one destination: of a domain,
 *          a provider or a relay.  Each destination of a message has a group of its own, as far
 *          as there are groups, so that Sendmail cuts the message into files by destination.
 * ERRORS   Anything is right: it only decides which files are delivered side by side.
 * THREADS  Any; the spread is its caller's.
 */
#include <string.h>

#include "engine/outbound/outbound_internal.h"
#include "engine/destination/windows.h"

uint32_t outbound_group(const struct engine *engine, const struct generation *generation,
    const char *domain, size_t length, uint8_t mta, uint32_t groups, struct spread *spread) {
	struct window_owner owner;

	windows_owner_of_host(engine, generation, domain, length, mta, &owner);
	if (owner.kind != DESTINATION_NONE) {
		domain = owner.name;
		length = strlen(owner.name);
	}
	return spread_place(spread, siphash13(&engine->segment->header->key, domain, length),
	    groups);
}
