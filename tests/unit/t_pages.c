/* SPDX-License-Identifier: ISC */
/* The segment's file in huge pages: what was written stays, and the address fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "segment/pages.h"

#define LARGE	(((size_t)66 << 20) + 4096)
#define SMALL	((size_t)8192)
#define HUGE	((uintptr_t)2 << 20)

static int file_of(size_t bytes) {
	char path[] = "/dev/shm/postern-test-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(posix_fallocate(fd, 0, (off_t)bytes), 0);
	return fd;
}

static void a_large_file_keeps_what_was_written(void **state) {
	int fd = file_of(LARGE);
	char *mapping = segment_map(fd, LARGE, PROT_READ | PROT_WRITE), *other;

	(void)state;
	assert_ptr_not_equal(mapping, MAP_FAILED);
	assert_int_equal((uintptr_t)mapping % HUGE, 0);
	for (size_t at = 0; at < LARGE; at += SMALL)
		memcpy(mapping + at, &at, sizeof(at));
	segment_make_huge(mapping, LARGE);
	other = segment_map(fd, LARGE, PROT_READ);
	assert_ptr_not_equal(other, MAP_FAILED);
	assert_int_equal((uintptr_t)other % HUGE, 0);
	for (size_t at = 0; at < LARGE; at += SMALL) {
		assert_memory_equal(mapping + at, &at, sizeof(at));
		assert_memory_equal(other + at, &at, sizeof(at));
		mapping[at] = (char)~mapping[at];
		assert_int_equal(mapping[at], other[at]);
	}
	assert_int_equal(munmap(other, LARGE), 0);
	assert_int_equal(munmap(mapping, LARGE), 0);
	close(fd);
}

static void a_small_file_is_mapped_as_it_is(void **state) {
	int fd = file_of(SMALL);
	char *mapping = segment_map(fd, SMALL, PROT_READ | PROT_WRITE);

	(void)state;
	assert_ptr_not_equal(mapping, MAP_FAILED);
	mapping[SMALL - 1] = 'x';
	segment_make_huge(mapping, SMALL);
	assert_int_equal(mapping[SMALL - 1], 'x');
	assert_int_equal(munmap(mapping, SMALL), 0);
	close(fd);
}

static void what_cannot_be_mapped_is_told(void **state) {
	(void)state;
	assert_ptr_equal(segment_map(-1, LARGE, PROT_READ), MAP_FAILED);
	assert_ptr_equal(segment_map(-1, SMALL, PROT_READ), MAP_FAILED);
	assert_ptr_equal(segment_map(-1, SIZE_MAX, PROT_READ), MAP_FAILED);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_file_keeps_what_was_written),
		cmocka_unit_test(a_small_file_is_mapped_as_it_is),
		cmocka_unit_test(what_cannot_be_mapped_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
