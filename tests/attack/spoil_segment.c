/* SPDX-License-Identifier: ISC */
/*
 * What a role taken over by somebody else can do to the segment, with the rights of its user.
 *
 *     spoil_segment STATE locks            every lock names an owner that does not hold it
 *     spoil_segment STATE cut              the file is cut to a page
 *     spoil_segment STATE sandbox NUMBER   the published configuration NUMBER says: no sandbox
 *     spoil_segment STATE words SECONDS SEED
 *                                          words all over the file get other values, at random
 *
 * The caller changes the user before.  Ends with 0 when it has done so.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "config/generation/generation.h"
#include "segment/file/internal.h"

static int spoil_locks(const char *path) {
	struct segment *segment;
	struct shard *clients;
	struct diag diag;
	int fd = segment_open_file(path, geteuid(), &diag);

	if (fd < 0 || segment_attach(&segment, fd, path, &diag) != 0) {
		fprintf(stderr, "%s\n", diag.text);
		return 1;
	}
	for (uint32_t i = 0; i < segment->header->record_count; i++)
		atomic_store(&segment->records[i].lock.word, 1);
	for (uint32_t i = 0; i < segment->header->shard_count; i++)
		atomic_store(&segment->session_shards[i].lock.word, 1);
	clients = (void *)((char *)segment->header + segment->header->clients.shards_offset);
	for (uint32_t i = 0; i < segment->header->clients.shards; i++)
		atomic_store(&clients[i].lock.word, 1);
	return 0;
}

static int cut(const char *path) {
	if (truncate(path, 4096) == 0)
		return 0;
	perror(path);
	return 1;
}

static int switch_off_sandbox(const char *path, const char *number) {
	const uint8_t off = SANDBOX_OFF;
	char file[4096];
	int fd;

	snprintf(file, sizeof(file), "%s.config.%s", path, number);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && pwrite(fd, &off, 1, offsetof(struct generation, sandbox)) == 1)
		return 0;
	perror(file);
	return 1;
}

static uint64_t next_random(uint64_t *state) {
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Most of the file was never used: rather a word that is. */
static uint64_t used_word(const uint64_t *words, uint64_t first, uint64_t count,
    uint64_t *state) {
	uint64_t at = first + next_random(state) % (count - first);

	for (unsigned i = 0; i < 64 && words[at] == 0; i++)
		at = first + (i % 8 == 7 ? next_random(state) : at + 1 - first) %
		    (count - first);
	return at;
}

/* One word in a hundred microseconds or so; half of them in the header and what follows it.
 * Sizes and places only now and then: nobody could begin with the segment any more. */
static int spoil_words(const char *path, long seconds, uint64_t seed) {
	int64_t end_ns = clock_now_ns() + seconds * NS_PER_SECOND;
	const struct timespec pause = { .tv_nsec = 100000 };
	uint64_t state = seed | 1, count = 0;

	for (uint64_t pass = 1; clock_now_ns() < end_ns; pass++) {
		int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
		struct stat status;
		uint64_t *words;

		if (fd < 0 || fstat(fd, &status) != 0 || status.st_size < 4096) {
			if (fd >= 0)
				close(fd);
			(void)nanosleep(&pause, NULL);
			continue;	/* it is just being built again */
		}
		words = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		    fd, 0);
		close(fd);
		if (words == MAP_FAILED)
			return 1;
		for (unsigned i = 0; i < 200 && clock_now_ns() < end_ns; i++) {
			uint64_t all = (uint64_t)status.st_size / sizeof(*words);
			uint64_t near = all < 65536 ? all : 65536;
			uint64_t first = pass % 8 == 0 ? 0 : SEGMENT_FIXED_BYTES / 8;
			uint64_t at = used_word(words, first, i % 2 == 0 ? near : all, &state);
			uint64_t value = next_random(&state);

			words[at] = i % 3 == 0 ? value : i % 3 == 1 ? value & 0xffff : UINT64_MAX;
			count++;
			(void)nanosleep(&pause, NULL);
		}
		munmap(words, (size_t)status.st_size);
	}
	printf("%" PRIu64 " words\n", count);
	return 0;
}

int main(int argc, char **argv) {
	if (argc == 3 && strcmp(argv[2], "locks") == 0)
		return spoil_locks(argv[1]);
	if (argc == 3 && strcmp(argv[2], "cut") == 0)
		return cut(argv[1]);
	if (argc == 4 && strcmp(argv[2], "sandbox") == 0)
		return switch_off_sandbox(argv[1], argv[3]);
	if (argc == 5 && strcmp(argv[2], "words") == 0)
		return spoil_words(argv[1], strtol(argv[3], NULL, 10),
		    strtoull(argv[4], NULL, 10));
	fputs("usage: spoil_segment STATE locks | cut | sandbox NUMBER | words SECONDS SEED\n", stderr);
	return 64;
}
