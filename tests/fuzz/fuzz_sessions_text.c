/* SPDX-License-Identifier: ISC */
/*
 * The text of sessions that anybody may have written (PATH.sessions), as the unprivileged
 * process reads it that prepares the segment.  Input: its lines but for the second one, which
 * names this boot.  Whatever is made of it counts what its slots say, can be saved, and what
 * was saved is whole.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "tests/unit/site.h"

#define ALL "classes = ( { name = \"mail\"; match = [ \"*.example\" ]; " \
	"hold_at = 5; refuse_at = 5; client = { sessions = 3; }; }, " \
	"{ name = \"all\"; match = [ \"*\" ]; hold_at = 100; refuse_at = 100; } );"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct site site;

static void close_site(void) {
	site_close(&site);
}

static int64_t read_it(const uint8_t *data, size_t size) {
	const uint8_t *end = size == 0 ? NULL : memchr(data, '\n', size);
	size_t head = end == NULL ? size : (size_t)(end - data) + 1;
	char path[128];
	struct diag diag;
	FILE *file;

	snprintf(path, sizeof(path), "%s/state.sessions", site.directory);
	file = fopen(path, "w");
	if (file == NULL)
		abort();
	(void)fwrite(data, 1, head, file);
	fprintf(file, "boot %s\n", site.segment->header->boot_id);
	(void)fwrite(data + head, 1, size - head, file);
	fclose(file);
	return segment_restore_sessions(site.segment, clock_now_ns(), &diag);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static const uint8_t none[] = "";
	struct diag diag;

	if (site.segment == NULL) {
		site_open(&site, 64, ALL);
		atexit(close_site);
	}
	if (read_it(none, 0) >= 0)	/* what the last one left goes */
		abort();
	(void)read_it(data, size);
	/* heartbeats stand there, too: from then on nobody counted */
	segment_role_starting(site.segment, ROLE_POLICY, 0, clock_now_ns());
	if (!site_is_consistent(&site))
		abort();
	for (uint16_t i = 1; i <= 8; i++)
		(void)site_inbound(&site, "192.0.2.1", i, i % 2 ? "a.example" : NULL, NULL);
	if (!site_is_consistent(&site))
		abort();
	if (segment_save_sessions(site.segment, clock_now_ns(), &diag) != 0 ||
	    segment_restore_sessions(site.segment, clock_now_ns(), &diag) < 0 ||
	    !site_is_consistent(&site))
		abort();
	return 0;
}
