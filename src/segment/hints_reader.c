/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Reads the hints file, without the daemon.
 * MODEL    The file is looked for again at each question that finds none which is
 *          alive; so a writer that came back, or another file, is seen at once.
 *          Every size in it is checked against the file, every offset of a bucket
 *          when it is used.
 * ERRORS   None: each doubt means that nothing is held.  (Somebody who truncates
 *          the file, as our writer never does, ends the process by SIGBUS; Postfix
 *          starts another one, which does not believe the file.)
 * THREADS  One.
 */
#include "segment/hints_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

#define READ_TRIES	100

struct hints_reader {
	char path[PATH_MAX];
	char boot_id[CLOCK_BOOT_ID];	/* "": unknown, nothing is believed */
	const struct hints_header *header;	/* mapped, checked; or NULL */
	size_t bytes;
	dev_t device;
	ino_t inode;
};

struct hints_reader *hints_reader_open(const char *path) {
	struct hints_reader *reader = calloc(1, sizeof(*reader));

	if (reader == NULL)
		return NULL;
	if (!text_copy(reader->path, sizeof(reader->path), path, strlen(path)))
		reader->path[0] = '\0';
	if (!clock_boot_id(reader->boot_id))
		reader->boot_id[0] = '\0';
	return reader;
}

static void forget(struct hints_reader *reader) {
	if (reader->header != NULL)
		munmap((void *)(uintptr_t)reader->header, reader->bytes);
	reader->header = NULL;
}

void hints_reader_close(struct hints_reader **reader) {
	if (*reader != NULL)
		forget(*reader);
	free(*reader);
	*reader = NULL;
}

static bool lies_within(uint64_t offset, uint64_t count, uint64_t each,
    uint64_t bytes) {
	return offset >= sizeof(struct hints_header) && offset <= bytes &&
	    count <= (bytes - offset) / each;
}

static bool is_ours(const struct hints_reader *reader,
    const struct hints_header *header, uint64_t bytes) {
	return atomic_load_explicit(&header->magic, memory_order_acquire) ==
		HINTS_MAGIC &&
	    header->version == HINTS_VERSION &&
	    header->header_bytes == sizeof(*header) && header->bytes == bytes &&
	    reader->boot_id[0] != '\0' &&
	    memcmp(header->boot_id, reader->boot_id, sizeof(header->boot_id)) == 0 &&
	    header->bucket_count != 0 &&
	    (header->bucket_count & (header->bucket_count - 1)) == 0 &&
	    header->groups_offset % _Alignof(struct hints_group) == 0 &&
	    header->buckets_offset % _Alignof(struct hints_bucket) == 0 &&
	    lies_within(header->groups_offset, header->group_count,
		sizeof(struct hints_group), bytes) &&
	    lies_within(header->buckets_offset, header->bucket_count,
		sizeof(struct hints_bucket), bytes) &&
	    lies_within(header->names_offset, header->names_bytes, 1, bytes);
}

static void take(struct hints_reader *reader, int fd) {
	const struct hints_header *header;
	struct stat status;
	size_t bytes;

	if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
	    (uint64_t)status.st_size < sizeof(*header) ||
	    (uint64_t)status.st_size > SIZE_MAX / 2)
		return;
	if (reader->header != NULL && status.st_dev == reader->device &&
	    status.st_ino == reader->inode)
		return;
	bytes = (size_t)status.st_size;
	header = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (header == MAP_FAILED)
		return;
	if (!is_ours(reader, header, bytes)) {
		munmap((void *)(uintptr_t)header, bytes);
		return;
	}
	forget(reader);
	reader->header = header;
	reader->bytes = bytes;
	reader->device = status.st_dev;
	reader->inode = status.st_ino;
}

static bool is_alive(const struct hints_reader *reader, int64_t now_ns) {
	int64_t beat_ns;

	if (reader->header == NULL ||
	    atomic_load_explicit(&reader->header->replaced, memory_order_acquire) != 0)
		return false;
	beat_ns = atomic_load_explicit(&reader->header->beat_ns, memory_order_relaxed);
	/* a beat may be later than a clock that was read before it, but not by much */
	return beat_ns > 0 && beat_ns - NS_PER_SECOND <= now_ns &&
	    now_ns - beat_ns <= HINTS_STALE_NS;
}

static bool find_file(struct hints_reader *reader, int64_t now_ns) {
	int fd;

	if (is_alive(reader, now_ns))
		return true;
	fd = open(reader->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	take(reader, fd);
	close(fd);
	return is_alive(reader, now_ns);
}

/* Does the name at this place, if it is one, equal the one that is asked for? */
static bool name_equals(const struct hints_header *header, uint32_t place,
    const char *mta, size_t mta_length, const char *domain, size_t domain_length) {
	const char *name = (const char *)header + header->names_offset + place;
	uint64_t room = header->names_bytes;

	return place < room && room - place >= 2 + mta_length + domain_length &&
	    (uint8_t)name[0] == mta_length && (uint8_t)name[1] == domain_length &&
	    memcmp(name + 2, mta, mta_length) == 0 &&
	    memcmp(name + 2 + mta_length, domain, domain_length) == 0;
}

static const struct hints_group *find_group(const struct hints_header *header,
    const char *mta, size_t mta_length, const char *domain, size_t domain_length) {
	const struct hints_bucket *buckets =
	    (const void *)((const char *)header + header->buckets_offset);
	const struct hints_group *groups =
	    (const void *)((const char *)header + header->groups_offset);
	char name[2 * HINTS_NAME_MAX + 2];
	uint64_t hash;

	memcpy(name, mta, mta_length + 1);
	memcpy(name + mta_length + 1, domain, domain_length);
	hash = hints_hash(&header->key, name, mta_length + 1 + domain_length);
	for (uint32_t probe = 0; probe < HINTS_PROBES; probe++) {
		const struct hints_bucket *bucket =
		    &buckets[(hash + probe) & (header->bucket_count - 1)];

		if (bucket->name == 0)
			return NULL;
		if (name_equals(header, bucket->name - 1, mta, mta_length, domain,
			domain_length))
			return bucket->group < header->group_count ?
			    &groups[bucket->group] : NULL;
	}
	return NULL;
}

/* False: free, or it changes all the time. */
static bool load_text(const struct hints_group *group, char text[HINTS_TEXT_MAX + 1]) {
	uint64_t words[HINTS_TEXT_WORDS];

	for (unsigned tries = 0; tries < READ_TRIES; tries++) {
		uint32_t before = atomic_load_explicit(&group->seq,
		    memory_order_acquire);

		for (size_t i = 0; i < HINTS_TEXT_WORDS; i++)
			words[i] = atomic_load_explicit(&group->text[i],
			    memory_order_relaxed);
		atomic_thread_fence(memory_order_acquire);
		if (before % 2 == 0 && before == atomic_load_explicit(&group->seq,
		    memory_order_relaxed)) {
			memcpy(text, words, HINTS_TEXT_MAX);
			text[HINTS_TEXT_MAX] = '\0';
			return text[0] != '\0';
		}
	}
	return false;
}

bool hints_reader_ask(struct hints_reader *reader, const char *mta,
    const char *domain, size_t domain_length, int64_t now_ns,
    char text[HINTS_TEXT_MAX + 1]) {
	size_t mta_length = strlen(mta);
	const struct hints_group *group;
	char lower[HINTS_NAME_MAX];

	text[0] = '\0';
	if (domain_length == 0 || domain_length > sizeof(lower) ||
	    mta_length > HINTS_NAME_MAX || !find_file(reader, now_ns))
		return false;
	for (size_t i = 0; i < domain_length; i++)
		lower[i] = domain[i] >= 'A' && domain[i] <= 'Z' ?
		    (char)(domain[i] | 0x20) : domain[i];
	group = find_group(reader->header, mta, mta_length, lower, domain_length);
	return group != NULL && load_text(group, text);
}
