/* SPDX-License-Identifier: ISC */
/*
 * The text of destinations that anybody may have written (PATH.destinations).  Input:
 * what follows its head.  Whatever is made of it makes sense, and can be saved and read
 * again.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/destination/flights.h"
#include "segment/file/internal.h"
#include "segment/destination/recipients.h"
#include "segment/destination/states.h"
#include "tests/unit/site.h"

#define ALL "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 100; } );"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct site site;

static void close_site(void) {
	site_close(&site);
}

static void look(void *context, const struct destination_window *window) {
	unsigned *in_flight = context;

	*in_flight += window->state.in_flight;
	if (window->state.begun && !window_is_sound(&window->state.window))
		abort();
	for (const char *c = window->reason; *c != '\0'; c++) {
		if (*c < ' ' || *c >= 0x7f)
			abort();
	}
}

static bool nobody_lives(void *context, const struct flight_process *process) {
	(void)context;
	(void)process;
	return false;
}

static void read_it(const uint8_t *data, size_t size) {
	char path[128];
	struct diag diag;
	FILE *file;

	snprintf(path, sizeof(path), "%s/state.destinations", site.directory);
	file = fopen(path, "w");
	if (file == NULL)
		abort();
	fprintf(file, "postern-destinations 1\nboot %s\nsaved %lld %lld\n",
	    site.segment->header->boot_id, (long long)clock_now_ns(),
	    (long long)clock_wall_s());
	(void)fwrite(data, 1, size, file);
	fclose(file);
	if (segment_restore_destinations(site.segment, clock_now_ns(), &diag) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	unsigned in_flight = 0;
	uint32_t used, all;
	struct diag diag;

	if (site.segment == NULL) {
		site_open_sized(&site, 64, 64, ALL);
		atexit(close_site);
	}
	read_it(data, size);
	(void)states_each(site.segment, look, &in_flight);
	flights_used_in(site.segment->header, site.segment->header, &used, &all);
	if (used != in_flight)
		abort();
	/* what it saves makes sense to it, too */
	if (segment_save_destinations(site.segment, clock_now_ns(), &diag) != 0 ||
	    segment_restore_destinations(site.segment, clock_now_ns(), &diag) < 0)
		abort();
	(void)flights_sweep(site.segment, &(uint32_t){ 0 }, UINT32_MAX, nobody_lives,
	    NULL, clock_now_ns());
	return 0;
}
