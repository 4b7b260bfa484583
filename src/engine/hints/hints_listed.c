/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Domains that the site lists for a transport with a next hop, before mail for them was
 *          seen.
 * MODEL    Mail with one next hop shares its lanes, so that a domain has to be a key to have
 *          any.  The site's file names these: with keys of their own even their first mail keeps
 *          to the window of the transport.  They are never held.
 * ERRORS   Of very many, some have no lanes before their first delivery.
 * THREADS  One.
 */
#include <string.h>

#include "engine/hints/hints_internal.h"
#include "engine/destination/windows_internal.h"

#define LISTED_MAX	8192		/* of one transport */

void hint_each_listed(const struct engine_hints *hints, void (*each)(void *context, uint8_t mta,
    const struct destination_seen *), void *context) {
	for (unsigned mta = 0; mta < hints->generation->mta_count; mta++) {
		const struct generation_mta *row = &hints->generation->mtas[mta];
		uint32_t count = row->transport == 0 || hints->generation->outbound_observe ? 0 :
		    row->site_route_count;

		for (uint32_t i = 0; i < count && i < LISTED_MAX; i++) {
			const char *name = generation_site_listed(hints->generation, mta, i),
			    *detail;
			struct destination_seen seen;
			size_t length = strlen(name);

			if (length == 0 || length > SEGMENT_NAME_MAX ||
			    hint_destination_doubt(hints->generation, (uint8_t)mta, name, length,
			    NULL,
				&detail) != HINT_DOUBT_NEVER_SEEN ||
			    (destinations_find(hints->engine->segment, name, length, &seen) &&
				(seen.cloned_by | seen.other_by) != 0))
				continue;
			seen = (struct destination_seen){ .relay_count = 0 };
			memcpy(seen.name, name, length + 1);
			each(context, (uint8_t)mta, &seen);
		}
	}
}
