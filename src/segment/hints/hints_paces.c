/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Writes the paces of a hints file.
 * MODEL    Each word in one piece: a reader that sees one of before and one of now errs by a
 *          message at most.
 * ERRORS   What is not in the file is not written.
 * THREADS  One.
 */
#include "segment/hints/hints_internal.h"

static struct hints_pace *pace_at(struct hints_writer *writer, uint32_t pace) {
	const struct hints_file *file = hints_file_of(writer);

	return file->reason_of == NULL || pace >= file->header->pace_count ? NULL :
	    (struct hints_pace *)(void *)((char *)file->header + file->header->paces_offset) + pace;
}

uint32_t hints_writer_pace_count(const struct hints_writer *writer) {
	const struct hints_file *file = hints_file_of((struct hints_writer *)(uintptr_t)writer);

	return file->reason_of == NULL ? 0 : file->header->pace_count;
}

void hints_writer_begin_pace(struct hints_writer *writer, uint32_t pace) {
	struct hints_pace *at = pace_at(writer, pace);

	if (at == NULL)
		return;
	STORE(at->interval_ns, 0);
	STORE(at->row, 0);
	for (uint32_t i = 0; i < HINTS_PASSES; i++)
		STORE(at->passes[i].issued_ns, 0);
	/* the lowest bit means nothing */
	atomic_fetch_add_explicit(&at->text.stamp, 2, memory_order_release);
}

void hints_writer_set_pace(struct hints_writer *writer, uint32_t pace,
    const struct hint_pace *say) {
	struct hints_pace *at = pace_at(writer, pace);

	if (at == NULL)
		return;
	if (say->text[0] != '\0')
		hints_text_store(&at->text, say->text);
	STORE(at->burst, say->burst);
	STORE(at->taken_ns, say->taken_ns);
	STORE(at->counted_ns, say->counted_ns);
	STORE(at->waits, say->waits ? 1 : 0);
	STORE(at->row, say->row);
	atomic_store_explicit(&at->interval_ns, say->interval_ns, memory_order_release);
}

void hints_writer_follow_pace(struct hints_writer *writer, uint32_t place, uint32_t pace) {
	struct hints_file *file = hints_file_of(writer);
	struct hints_bucket *bucket;

	if (file->reason_of == NULL || place >= file->header->bucket_count ||
	    (pace != HINTS_NO_PACE && pace >= file->header->pace_count))
		return;
	bucket = hints_bucket_at(file, place);
	STORE(bucket->group, (RELAXED(bucket->group) & HINTS_GROUP_MASK) |
	    (pace == HINTS_NO_PACE ? 0 : pace + 1) << HINTS_GROUP_BITS);
}

void hints_writer_pass(struct hints_writer *writer, uint32_t pace, uint32_t number,
    int64_t issued_ns, uint64_t word) {
	struct hints_pace *at = pace_at(writer, pace);

	if (at == NULL || number >= HINTS_PASSES)
		return;
	STORE(at->passes[number].issued_ns, 0);
	atomic_thread_fence(memory_order_release);
	STORE(at->passes[number].word, word);
	atomic_store_explicit(&at->passes[number].issued_ns, issued_ns, memory_order_release);
}
