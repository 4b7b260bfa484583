/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Finds the hints file, and whether it is to be believed.
 * MODEL    It is looked for again at each question that finds none which is alive; so a writer
 *          that came back, or another file, is seen at once.  The header is copied, the copy
 *          checked, and only that is used; of the file itself the beat is read here.
 * ERRORS   None: each doubt means that there is no file.  One that somebody cuts short, as our
 *          writer never does, is let go of 10 ms later.
 * THREADS  One.
 */
#include "segment/hints/hints_reader_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "segment/hints/hints_guard.h"

struct hints_reader *hints_reader_open(const char *path) {
	struct hints_reader *reader = calloc(1, sizeof(*reader));

	if (reader == NULL)
		return NULL;
	if (!text_copy(reader->path, sizeof(reader->path), path, strlen(path)))
		reader->path[0] = '\0';
	if (!clock_boot_id(reader->boot_id))
		reader->boot_id[0] = '\0';
	/* each process that is started for a while begins somewhere else */
	reader->turn = (uint32_t)clock_now_ns();
	return reader;
}

void hints_reader_forget(struct hints_reader *reader) {
	hints_guard(NULL, 0);
	if (reader->live != NULL) {
		munmap((void *)(uintptr_t)reader->live, reader->bytes);
		close(reader->fd);
	}
	reader->live = NULL;
	free(reader->given);
	free(reader->taken);
	given_free(&reader->given_out);
	reader->given_ns = 0;
	reader->given = NULL;
	reader->taken = NULL;
	reader->paced_length = 0;
	memset(reader->begun, 0, sizeof(reader->begun));
}

void hints_reader_close(struct hints_reader **reader) {
	if (*reader != NULL)
		hints_reader_forget(*reader);
	free(*reader);
	*reader = NULL;
}

static bool is_power_of_two(uint32_t count) {
	return count != 0 && (count & (count - 1)) == 0;
}

/* Do its tables lie where our writer puts them? */
static bool header_has_its_tables(const struct hints_header *header, uint64_t bytes) {
	struct hints_header right;

	memcpy(&right, header, sizeof(right));
	hints_geometry(&right);
	return header->mta_count <= HINTS_MTAS_MAX &&
	    header->pace_count <= HINTS_PACES_MAX &&
	    header->source_count <= HINTS_SOURCES_MAX &&
	    header->bucket_count <= HINTS_BUCKETS_MOST &&
	    is_power_of_two(header->bucket_count) &&
	    is_power_of_two(header->recipient_count) && right.bytes == bytes &&
	    memcmp(&right, header, sizeof(right)) == 0;
}

static bool header_is_ours(const struct hints_reader *reader,
    const struct hints_header *header, uint64_t bytes) {
	return atomic_load_explicit(&header->magic, memory_order_acquire) ==
		HINTS_MAGIC &&
	    header->version == HINTS_VERSION &&
	    header->header_bytes == sizeof(*header) &&
	    reader->boot_id[0] != '\0' &&
	    memcmp(header->boot_id, reader->boot_id, sizeof(header->boot_id)) == 0 &&
	    header_has_its_tables(header, bytes);
}

/* True: the file is mapped, and fd is ours. */
static bool file_take(struct hints_reader *reader, int fd, int64_t now_ns) {
	struct hints_header header;
	struct stat status;
	size_t bytes;
	void *live;

	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	    (uint64_t)status.st_size < sizeof(header) ||
	    (uint64_t)status.st_size > SIZE_MAX / 2)
		return false;
	if (reader->live != NULL && status.st_dev == reader->device &&
	    status.st_ino == reader->inode)
		return false;
	bytes = (size_t)status.st_size;
	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
	    !header_is_ours(reader, &header, bytes))
		return false;
	live = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (live == MAP_FAILED)
		return false;
	hints_reader_forget(reader);
	memcpy(&reader->header, &header, sizeof(header));
	reader->live = live;
	reader->bytes = bytes;
	reader->device = status.st_dev;
	reader->inode = status.st_ino;
	reader->fd = fd;
	reader->looked_ns = now_ns;
	reader->since = HINTS_MOMENT(now_ns);
	reader->given = calloc(header.bucket_count, sizeof(*reader->given));
	hints_guard(live, bytes);
	return true;
}

static bool file_is_whole(struct hints_reader *reader, int64_t now_ns) {
	struct stat status;

	if (now_ns >= reader->looked_ns && now_ns - reader->looked_ns < HINTS_LOOK_NS)
		return true;
	reader->looked_ns = now_ns;
	return fstat(reader->fd, &status) == 0 &&
	    (uint64_t)status.st_size >= reader->bytes;
}

static bool file_is_alive(const struct hints_reader *reader, int64_t now_ns) {
	int64_t beat_ns;

	if (reader->live == NULL ||
	    atomic_load_explicit(&reader->live->replaced, memory_order_acquire) != 0)
		return false;
	beat_ns = RELAXED(reader->live->beat_ns);
	/* a beat may be later than a clock that was read before it, but not by much */
	return beat_ns > 0 && beat_ns - NS_PER_SECOND <= now_ns &&
	    now_ns - beat_ns <= HINTS_STALE_NS;
}

bool hints_reader_find_file(struct hints_reader *reader, int64_t now_ns) {
	int fd;

	if (reader->live != NULL && !file_is_whole(reader, now_ns))
		hints_reader_forget(reader);
	if (file_is_alive(reader, now_ns))
		return true;
	fd = open(reader->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (!file_take(reader, fd, now_ns))
		close(fd);
	return file_is_alive(reader, now_ns);
}
