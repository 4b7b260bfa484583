/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Read a growing file by lines.
 * MODEL    Each read begins FOLLOWED_TAIL_BYTES before the place; these are to be
 *          what they were.
 * ERRORS   A file that cannot be read has nothing to read.
 * THREADS  One.
 */
#include "front/feed/followed_file.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Four at a time: a chain of multiplications would be half of what a line costs. */
uint32_t followed_tail(const char *bytes, size_t length) {
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t hash[4] = { 0 }, all = 0, word;

	for (; length >= sizeof(hash); length -= sizeof(hash))
		for (unsigned i = 0; i < 4; i++, bytes += sizeof(word)) {
			memcpy(&word, bytes, sizeof(word));
			hash[i] = (hash[i] ^ word) * factor;
			hash[i] ^= hash[i] >> 29;
		}
	for (unsigned i = 0; i < 4; i++)
		all = (all ^ hash[i]) * factor;
	for (; length > 0; bytes++, length--)
		all = (all ^ (unsigned char)*bytes) * UINT64_C(0x100000001b3);
	all *= factor;
	return (uint32_t)(all >> (64 - FEED_TAIL_BITS));
}

static size_t tail_length(uint64_t offset) {
	return offset < FOLLOWED_TAIL_BYTES ? (size_t)offset : FOLLOWED_TAIL_BYTES;
}

/* The tail before `offset`, out of the file; false: it is shorter. */
static bool read_tail(int fd, uint64_t offset, char *last, uint32_t *tail) {
	char bytes[FOLLOWED_TAIL_BYTES];
	size_t length = tail_length(offset);

	if (pread(fd, bytes, length, (off_t)(offset - length)) != (ssize_t)length)
		return false;
	*tail = followed_tail(bytes, length);
	*last = length == 0 ? '\n' : bytes[length - 1];
	return true;
}

bool followed_file_to_end(struct followed_file *file) {
	struct feed_spot *spot = &file->position.spot;
	struct stat status;
	char last;

	if (fstat(file->fd, &status) != 0)
		return false;
	spot->offset = status.st_size < 0 ? 0 : (uint64_t)status.st_size;
	if (!read_tail(file->fd, spot->offset, &last, &spot->tail))
		return false;
	spot->skipping = last != '\n';	/* what is cut in two is no line */
	return true;
}

bool followed_file_continues(int fd, const struct feed_spot *spot, const char *head) {
	char bytes[FOLLOWED_HEAD_BYTES], last;
	uint32_t tail;

	return spot->offset >= FOLLOWED_HEAD_BYTES &&
	    pread(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) &&
	    memcmp(bytes, head, sizeof(bytes)) == 0 &&
	    read_tail(fd, spot->offset, &last, &tail) && tail == spot->tail;
}

void followed_file_read_head(struct followed_file *file) {
	if (pread(file->fd, file->head, sizeof(file->head), 0) < 0)
		memset(file->head, 0, sizeof(file->head));
}

/* Begins again: a writer that does not append leaves a hole before what it writes. */
static void cut(struct followed_file *file, const struct followed_reader *reader) {
	off_t data = lseek(file->fd, 0, SEEK_DATA);
	struct feed_spot spot = { 0 };
	char last;

	reader->counts->truncated++;
	file->before_cut = file->position.spot;
	memcpy(file->head_before, file->head, sizeof(file->head));
	reader->keeper->cut(reader->keeper->segment, file->record);
	file->position.epoch++;
	file->origin = feed_origin_id(&file->position);
	if (data > 0 && read_tail(file->fd, (uint64_t)data, &last, &spot.tail))
		spot.offset = (uint64_t)data;
	file->position.spot = spot;
	if (spot.offset > 0)
		reader->keeper->move(reader->keeper->segment, file->record, &spot);
}

/* Puts the place before `at`, whose offset is known. */
static void put_place(struct followed_file *file, const struct followed_reader *reader,
    const char *at, uint64_t offset) {
	struct feed_spot *spot = &file->position.spot;
	size_t length = tail_length(offset);

	spot->offset = offset;
	spot->tail = followed_tail(at - length, length);
	reader->keeper->move(reader->keeper->segment, file->record, spot);
}

/* One line, `line` to `end` without its newline.  False: it is passed over. */
static bool is_line(struct followed_file *file, const struct followed_reader *reader,
    const char *line, const char *end, struct followed_line *out) {
	if (file->position.spot.skipping) {
		file->position.spot.skipping = false;
		return false;
	}
	while (line < end && *line == '\0')
		line++;
	if (end - line > FOLLOWED_LINE_MAX) {
		reader->counts->long_lines++;
		return false;
	}
	*out = (struct followed_line){ line, (size_t)(end - line), end + 1,
		reader->offset + (uint64_t)(end + 1 - reader->start) };
	return true;
}

void followed_file_keep(struct followed_file *file, const struct followed_reader *reader,
    const struct followed_line *line) {
	put_place(file, reader, line->behind, line->offset);
}

unsigned followed_file_lines(struct followed_file *file, struct followed_reader *reader,
    int64_t now_ns, struct followed_line lines[FOLLOWED_LINES]) {
	struct feed_spot *spot = &file->position.spot;
	size_t before = tail_length(spot->offset);
	const char *newline;
	unsigned count = 0;

	if (reader->at == NULL) {
		ssize_t n = pread(file->fd, reader->buffer, reader->buffer_size,
		    (off_t)(spot->offset - before));

		reader->more = n >= 0 && ((size_t)n < before ||
		    followed_tail(reader->buffer, before) != spot->tail);
		if (reader->more)
			cut(file, reader);
		if (n < 0 || reader->more || (size_t)n == before)
			return 0;
		file->grew_ns = now_ns;
		if (spot->offset < FOLLOWED_HEAD_BYTES)
			followed_file_read_head(file);
		reader->at = reader->start = reader->buffer + before;
		reader->end = reader->buffer + n;
		reader->offset = spot->offset;
		reader->more = (size_t)n == reader->buffer_size;
	}
	while (count < FOLLOWED_LINES && (newline = memchr(reader->at, '\n',
	    (size_t)(reader->end - reader->at))) != NULL) {
		count += is_line(file, reader, reader->at, newline, &lines[count]);
		reader->at = newline + 1;
	}
	if (count > 0)
		return count;
	if (reader->end - reader->at > FOLLOWED_LINE_MAX || spot->skipping) {
		reader->counts->long_lines += !spot->skipping;
		spot->skipping = true;
		reader->at = reader->end;
	}
	if (reader->at > reader->start)
		put_place(file, reader, reader->at, reader->offset +
		    (uint64_t)(reader->at - reader->start));
	reader->at = NULL;
	return 0;
}
