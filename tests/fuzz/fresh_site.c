/* SPDX-License-Identifier: ISC */
#include "tests/fuzz/fresh_site.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "engine/feed/feed.h"
#include "segment/file/internal.h"

static struct fresh_site *the_one;

static unsigned char *state_of(const struct fresh_site *fresh) {
	return (unsigned char *)fresh->site.segment->header + SEGMENT_FIXED_BYTES;
}

static size_t bytes_of(const struct fresh_site *fresh) {
	return (size_t)fresh->site.segment->header->bytes - SEGMENT_FIXED_BYTES;
}

static void close_site(void) {
	site_close(&the_one->site);
	free(the_one->pristine);
}

static void make_site(struct fresh_site *fresh, const char *classes) {
	if (the_one == NULL)
		atexit(close_site);
	the_one = fresh;
	site_open_sized(&fresh->site, 64, 64, classes);
	fresh->first = fresh->site.generation->number;
	free(fresh->pristine);
	fresh->pristine = malloc(bytes_of(fresh));
	MUST(fresh->pristine != NULL);
	memcpy(fresh->pristine, state_of(fresh), bytes_of(fresh));
}

void fresh_site_begin(struct fresh_site *fresh, const char *classes) {
	struct site *site = &fresh->site;
	struct diag diag;

	if (site->segment == NULL) {
		make_site(fresh, classes);
		return;
	}
	if (!segment_generation_is_there(site->segment, fresh->first)) {
		site_close(site);
		make_site(fresh, classes);
		return;
	}
	engine_unpin(site->engine, site->generation);
	engine_feed_close(site->engine);
	engine_close(&site->engine);
	memcpy(state_of(fresh), fresh->pristine, bytes_of(fresh));
	MUST(engine_open(&site->engine, site->segment, site->place, &diag) == 0);
	site->generation = engine_pin(site->engine);
}

unsigned fresh_site_open(const struct fresh_site *fresh) {
	const struct segment *segment = fresh->site.segment;
	unsigned open = 0;

	for (uint32_t i = 0; i < segment->header->record_count; i++)
		if (atomic_load(&segment->records[i].in_use) != 0)
			open += atomic_load(&segment->records[i].open);
	return open;
}

void fresh_site_check(const struct fresh_site *fresh, bool limited) {
	const struct generation *generation = fresh->site.generation;

	MUST(site_is_consistent(&fresh->site));
	for (uint32_t i = 0; i < generation->class_count; i++) {
		const struct generation_class *class = generation_class(generation, i);
		const struct class_record *record = site_class(&fresh->site,
		    generation_text(generation, class->name));

		MUST(!limited || atomic_load(&record->open) <= class->limits.sessions);
	}
}

uint64_t fresh_site_counted(const struct fresh_site *fresh, enum counter counter) {
	return atomic_load(&fresh->site.segment->header->counters[counter]);
}
