/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Notices that a Postfix site has changed since its settings were read.
 * MODEL    Roles follow the generation alone, so a change is a new generation that differs
 *          in nothing else: the configuration file is not read, as nobody asked for that.
 * ERRORS   A generation that cannot be published is tried again the next second.
 * THREADS  The supervisor's.
 */
#include "role/supervise/site_watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static void site_tell(const struct generation *generation, const struct generation_mta *mta) {
	const char *name = generation_text(generation, mta->name), *path;
	char quoted[256];
	uint64_t stamp;

	if (mta->site_changed == 0) {
		log_event(EVENT_SITE_CHANGED, "mta=%s text=\"its files are again as they were "
		    "read\"",
		    name);
		return;
	}
	path = generation_site_watch(generation, mta, mta->site_changed - 1, &stamp);
	log_event(EVENT_SITE_CHANGED, "mta=%s file=%s text=\"no hints until %s has read the "
	    "change\"",
	    name, log_quote(quoted, sizeof(quoted), path, strlen(path)),
	    generation_site_reader(mta));
}

void site_watch_published(const struct generation *before, const struct generation *now) {
	for (uint32_t i = 0; i < now->mta_count; i++)
		if (now->mtas[i].transport == 0 &&
		    (before->mtas[i].site_changed != 0) != (now->mtas[i].site_changed != 0))
			site_tell(now, &now->mtas[i]);
}

struct generation *site_watch_look(const struct generation *generation) {
	uint32_t changed[GENERATION_MTAS_MAX] = { 0 };
	struct generation *copy;
	bool differs = false;

	for (uint32_t i = 0; i < generation->mta_count; i++) {
		changed[i] = generation_site_changed(generation, &generation->mtas[i]);
		differs |= (changed[i] != 0) != (generation->mtas[i].site_changed != 0);
	}
	copy = differs ? malloc((size_t)generation->bytes) : NULL;
	if (copy == NULL)
		return NULL;
	memcpy(copy, generation, (size_t)generation->bytes);
	for (uint32_t i = 0; i < copy->mta_count; i++)
		copy->mtas[i].site_changed = changed[i];
	return copy;
}
