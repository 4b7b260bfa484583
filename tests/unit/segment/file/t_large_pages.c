/* SPDX-License-Identifier: ISC */
/* Tables that come into large pages under the hands of those who use them. */
#include "tests/unit/test.h"
#include <sys/mman.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "tests/unit/own_site.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define MANY "classes = ( { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 100000; refuse_at = 100000; client = { sessions = 50; }; } );"
#define SESSIONS 100000
#define OPEN 2000

/* Can this kernel do it at all?  Asked with a file of the test's own. */
static bool kernel_can(void) {
	const size_t bytes = SEGMENT_LARGE_PAGE;
	char *room = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *at = room + -(uintptr_t)room % bytes;
	int fd = memfd_create("probe", MFD_CLOEXEC);
	bool can;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_true(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at);
	memset(at, 1, bytes);
	can = madvise(at, bytes, MADV_COLLAPSE) == 0;
	munmap(room, 2 * bytes);
	close(fd);
	return can;
}

/* Of the mapping that `within` lies in: bytes in large pages. */
static size_t large_bytes(const void *within) {
	FILE *maps = fopen("/proc/self/smaps", "r");
	unsigned long first, end, kilobytes = 0;
	bool found = false;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps) != NULL) {
		if (sscanf(line, "%lx-%lx ", &first, &end) == 2)
			found = (uintptr_t)within >= first && (uintptr_t)within < end;
		else if (found && sscanf(line, "ShmemPmdMapped: %lu kB", &kilobytes) == 1)
			break;
	}
	fclose(maps);
	return (size_t)kilobytes * 1024;
}

static struct segment *attach(void) {
	struct segment *segment;

	assert_true(site_attach(&segment));
	return segment;
}

static void open_some(struct session_ref *refs, unsigned from) {
	char client[32];

	for (unsigned i = 0; i < OPEN; i++) {
		snprintf(client, sizeof(client), "16.%u.%u.7", from, i / 40);
		assert_int_equal(site_inbound(&site, client, (uint16_t)(1000 + i), NULL,
		    &refs[i]), VERDICT_ADMIT);
	}
}

TEST_IN(NULL, site_end, tables_stay_as_they_are_in_large_pages) {
	static struct session_ref before[OPEN], later[OPEN];
	struct segment *keeper, *other;
	const struct segment_header *header;
	size_t from, bytes;
	uint64_t done = 0;
	char *copy;

	site_open(&site, SESSIONS, MANY);
	keeper = attach();
	other = attach();
	open_some(before, 1);
	header = keeper->header;
	from = (size_t)header->shards_offset;
	bytes = (size_t)header->bytes - from;
	copy = malloc(bytes);
	assert_non_null(copy);
	memcpy(copy, (const char *)other->header + from, bytes);
	while (segment_enlarge_pages(keeper, &done))
		;
	assert_memory_equal((const char *)other->header + from, copy, bytes);
	assert_memory_equal((const char *)site.segment->header + from, copy, bytes);
	open_some(later, 2);
	assert_int_equal(atomic_load(&other->records[0].open), 2 * OPEN);
	for (unsigned i = 0; i < OPEN; i++)
		engine_session_ended(site.engine, site.generation, &before[i], OWNER_MILTER,
		    clock_now_ns());
	assert_int_equal(atomic_load(&other->records[0].open), OPEN);
	free(copy);
	segment_unmap(&other);
	segment_unmap(&keeper);
}

TEST_IN(NULL, site_end, whoever_attached_the_segment_maps_large_pages) {
	struct segment *keeper, *other;
	uint64_t done = 0;
	const volatile char *table;

	if (!kernel_can())
		skip();
	site_open(&site, SESSIONS, MANY);
	other = attach();
	keeper = attach();
	while (segment_enlarge_pages(keeper, &done))
		;
	assert_true(done >= 3 * (uint64_t)SEGMENT_LARGE_PAGE);
	table = (const volatile char *)other->header;
	for (uint64_t at = SEGMENT_LARGE_PAGE; at < done; at += SEGMENT_LARGE_PAGE)
		(void)table[at];
	assert_true(large_bytes((const char *)keeper->header + done - 1) >= SEGMENT_LARGE_PAGE);
	assert_true(large_bytes((const char *)other->header + done - 1) >= SEGMENT_LARGE_PAGE);
	segment_unmap(&other);
	segment_unmap(&keeper);
}

TEST_IN(NULL, site_end, small_tables_are_left_alone) {
	struct segment *keeper;
	uint64_t done = 0;

	site_open(&site, 1000, MANY);
	keeper = attach();
	assert_false(segment_enlarge_pages(keeper, &done));
	assert_int_equal(done, 0);
	segment_unmap(&keeper);
}
