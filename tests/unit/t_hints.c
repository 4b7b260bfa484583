/* SPDX-License-Identifier: ISC */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "segment/hints_file.h"

#define NOW	INT64_C(1000000000000)

struct place {
	char directory[64], path[80];
	struct hints_writer *writer;
	struct hints_reader *reader;
};

static int set_up(void **state) {
	static struct place place;
	struct diag diag;

	snprintf(place.directory, sizeof(place.directory), "/dev/shm/t_hints.XXXXXX");
	assert_non_null(mkdtemp(place.directory));
	snprintf(place.path, sizeof(place.path), "%s/hints", place.directory);
	assert_int_equal(hints_writer_open(&place.writer, place.path, &diag), 0);
	place.reader = hints_reader_open(place.path);
	assert_non_null(place.reader);
	*state = &place;
	return 0;
}

static int tear_down(void **state) {
	struct place *place = *state;

	hints_writer_close(&place->writer);
	hints_reader_close(&place->reader);
	unlink(place->path);
	return rmdir(place->directory);
}

static void publish(struct place *place, const struct hint *hints, size_t count,
    const char *const *texts, uint32_t groups) {
	struct diag diag;

	if (hints_writer_publish(place->writer, hints, count, texts, groups, NOW,
		&diag) != 0)
		fail_msg("%s", diag.text);
}

static const char *ask(struct place *place, const char *mta, const char *domain,
    int64_t now_ns) {
	static char text[HINTS_TEXT_MAX + 1];

	return hints_reader_ask(place->reader, mta, domain, strlen(domain), now_ns,
	    text) ? text : NULL;
}

static const struct hint two[] = {
	{ "a.example", "out", 0 }, { "b.example", "out", 1 }, { "a.example", "other", 1 },
	{ "a.example", "out", 1 },
};
static const char *const first_held[] = { "class one", NULL };

static void holds_what_it_is_told(void **state) {
	struct place *place = *state;

	assert_null(ask(place, "out", "a.example", NOW));
	publish(place, two, 4, first_held, 2);
	assert_string_equal(ask(place, "out", "a.example", NOW), "class one");
	assert_string_equal(ask(place, "out", "A.Example", NOW), "class one");
	assert_null(ask(place, "out", "b.example", NOW));
	assert_null(ask(place, "other", "a.example", NOW));
	assert_null(ask(place, "out", "c.example", NOW));
	assert_null(ask(place, "outa", ".example", NOW));
	assert_null(ask(place, "out", "", NOW));
	hints_writer_hold(place->writer, 1, "class two");
	hints_writer_hold(place->writer, 0, NULL);
	hints_writer_hold(place->writer, 2, "no such");
	assert_null(ask(place, "out", "a.example", NOW));
	assert_string_equal(ask(place, "out", "b.example", NOW), "class two");
	assert_string_equal(ask(place, "other", "a.example", NOW), "class two");
}

static void believes_nothing_stale(void **state) {
	struct place *place = *state;

	publish(place, two, 3, first_held, 2);
	assert_non_null(ask(place, "out", "a.example", NOW + HINTS_STALE_NS));
	assert_null(ask(place, "out", "a.example", NOW + HINTS_STALE_NS + 1));
	hints_writer_beat(place->writer, NOW + HINTS_STALE_NS);
	assert_non_null(ask(place, "out", "a.example", NOW + HINTS_STALE_NS + 1));
	assert_null(ask(place, "out", "a.example", NOW));
}

static void another_file_is_seen_at_once(void **state) {
	static const struct hint other[] = { { "c.example", "out", 0 } };
	static const char *const held[] = { "again" };
	struct place *place = *state;
	struct diag diag;

	publish(place, two, 3, first_held, 2);
	assert_non_null(ask(place, "out", "a.example", NOW));
	publish(place, other, 1, held, 1);
	assert_null(ask(place, "out", "a.example", NOW));
	assert_string_equal(ask(place, "out", "c.example", NOW), "again");
	/* the next writer knows nothing of the file that is there */
	hints_writer_close(&place->writer);
	assert_int_equal(hints_writer_open(&place->writer, place->path, &diag), 0);
	assert_non_null(ask(place, "out", "c.example", NOW));
	publish(place, two, 3, first_held, 2);
	assert_null(ask(place, "out", "c.example", NOW));
	assert_non_null(ask(place, "out", "a.example", NOW));
	assert_int_equal(unlink(place->path), 0);
	publish(place, other, 1, held, 1);
	assert_non_null(ask(place, "out", "c.example", NOW));
}

static void many_names_of_all_lengths(void **state) {
	enum { COUNT = 20000 };
	struct place *place = *state;
	struct hint *hints = calloc(COUNT + 2, sizeof(*hints));
	char (*names)[32] = calloc(COUNT, sizeof(*names));
	static char longest[HINTS_NAME_MAX + 1], too_long[HINTS_NAME_MAX + 2];
	struct stat status;

	memset(longest, 'l', HINTS_NAME_MAX);
	memset(too_long, 'l', HINTS_NAME_MAX + 1);
	for (unsigned i = 0; i < COUNT; i++) {
		snprintf(names[i], sizeof(names[i]), "d%u.example", i);
		hints[i] = (struct hint){ names[i], "out", i % 2 };
	}
	hints[COUNT] = (struct hint){ longest, "out", 0 };
	hints[COUNT + 1] = (struct hint){ too_long, "out", 0 };
	publish(place, hints, COUNT + 2, first_held, 2);
	for (unsigned i = 0; i < COUNT; i++)
		assert_true((ask(place, "out", names[i], NOW) != NULL) == (i % 2 == 0));
	assert_non_null(ask(place, "out", longest, NOW));
	assert_null(ask(place, "out", too_long, NOW));
	assert_int_equal(stat(place->path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0644);
	free(hints);
	free(names);
}

static void a_long_text_is_cut(void **state) {
	struct place *place = *state;
	char text[400];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	publish(place, two, 3, (const char *const[]){ text, NULL }, 2);
	assert_int_equal(strlen(ask(place, "out", "a.example", NOW)), HINTS_TEXT_MAX);
	publish(place, NULL, 0, NULL, 0);
	assert_null(ask(place, "out", "a.example", NOW));
}

static struct hints_header *map_file(const struct place *place, size_t *bytes) {
	int fd = open(place->path, O_RDWR);
	struct stat status;
	void *at;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &status), 0);
	*bytes = (size_t)status.st_size;
	at = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(at != MAP_FAILED);
	close(fd);
	return at;
}

/* A reader that opens the file anew. */
static bool fresh_reader_believes(struct place *place) {
	hints_reader_close(&place->reader);
	place->reader = hints_reader_open(place->path);
	return ask(place, "out", "a.example", NOW) != NULL;
}

static void believes_nothing_foreign_or_torn(void **state) {
	struct place *place = *state;
	struct hints_header *header;
	struct hints_group *groups;
	size_t bytes;

	publish(place, two, 3, first_held, 2);
	header = map_file(place, &bytes);
	groups = (void *)((char *)header + header->groups_offset);
	assert_true(fresh_reader_believes(place));
/* the comma makes a plain value of an atomic one */
#define WITH(lvalue, bad) do { \
	__typeof__(((void)0, (lvalue))) good = (lvalue); \
	(lvalue) = (__typeof__(good))(bad); \
	assert_false(fresh_reader_believes(place)); \
	(lvalue) = good; \
	assert_true(fresh_reader_believes(place)); \
	} while (0)
	WITH(header->magic, 0);
	WITH(header->version, HINTS_VERSION + 1);
	WITH(header->header_bytes, 8);
	WITH(header->bytes, header->bytes + 1);
	WITH(header->boot_id[0], 'x');
	WITH(header->bucket_count, header->bucket_count - 1);
	WITH(header->bucket_count, UINT32_C(1) << 31);
	WITH(header->group_count, UINT32_MAX);
	WITH(header->names_bytes, UINT32_MAX);
	WITH(header->names_offset, UINT64_MAX);
	WITH(header->groups_offset, header->bytes);
	WITH(header->buckets_offset, 4);
	WITH(header->replaced, 1);
	WITH(groups[0].seq, groups[0].seq + 1);
	munmap(header, bytes);
}

static void a_short_file_is_no_file(void **state) {
	struct place *place = *state;
	struct hints_header *header;
	size_t bytes;

	publish(place, two, 3, first_held, 2);
	header = map_file(place, &bytes);
	munmap(header, bytes);
	hints_reader_close(&place->reader);
	for (size_t cut = bytes; cut-- > 0;) {
		assert_int_equal(truncate(place->path, (off_t)cut), 0);
		place->reader = hints_reader_open(place->path);
		assert_null(ask(place, "out", "a.example", NOW));
		hints_reader_close(&place->reader);
	}
	place->reader = hints_reader_open("/dev/null");
	assert_null(ask(place, "out", "a.example", NOW));
	hints_reader_close(&place->reader);
	place->reader = hints_reader_open(place->directory);
	assert_null(ask(place, "out", "a.example", NOW));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(holds_what_it_is_told),
		TEST(believes_nothing_stale),
		TEST(another_file_is_seen_at_once),
		TEST(many_names_of_all_lengths),
		TEST(a_long_text_is_cut),
		TEST(believes_nothing_foreign_or_torn),
		TEST(a_short_file_is_no_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
