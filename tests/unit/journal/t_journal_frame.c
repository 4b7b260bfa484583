/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "base/crc32c.h"
#include "journal/frame.h"

#define SALT	0x01020304U

static uint8_t bytes[256];

static size_t sample(uint8_t mark) {
	const struct journal_frame frame = { .mark = mark, .type = 3, .version = 1,
		.length = 5, .sequence = 0x1122334455667788, .behind = 0x0a0b0c0d,
		.payload = (const uint8_t *)"hello" };

	return journal_frame_write(bytes, &frame, SALT);
}

/* Every byte as frame.h has it. */
TEST(test_the_header_is_as_documented) {
	static const uint8_t header[] = { 0xd6, 0xff, 3, 1, 5, 0, 0, 0, 0x88, 0x77, 0x66, 0x55,
		0x44, 0x33, 0x22, 0x11, 0x0d, 0x0c, 0x0b, 0x0a };
	uint8_t summed[24];
	uint32_t sum;

	assert_int_equal(sample(JOURNAL_LIVE), 29);
	assert_memory_equal(bytes, header, sizeof(header));
	assert_memory_equal(bytes + 24, "hello", 5);
	summed[0] = 0xd6;
	memcpy(summed + 1, header + 2, 18);
	memcpy(summed + 19, "hello", 5);
	sum = crc32c(SALT, summed, sizeof(summed));
	assert_int_equal((uint32_t)bytes[20] | (uint32_t)bytes[21] << 8 | (uint32_t)bytes[22] << 16 |
	    (uint32_t)bytes[23] << 24, sum);
}

TEST(test_what_was_written_is_read) {
	struct journal_frame frame;

	sample(JOURNAL_GARBAGE);
	assert_int_equal(journal_frame_read(bytes, 29, SALT, &frame), JOURNAL_FRAME_GOOD);
	assert_int_equal(frame.type, 3);
	assert_int_equal(frame.length, 5);
	assert_int_equal(frame.sequence, 0x1122334455667788);
	assert_int_equal(journal_frame_synced(&frame), 0x1122334455667788 - 0x0a0b0c0d);
	assert_memory_equal(frame.payload, "hello", 5);
	assert_false(journal_mark_is_live(frame.mark));
	assert_int_equal(journal_frame_read(bytes, 29, SALT + 1, &frame), JOURNAL_FRAME_WRONG);
	for (size_t size = 1; size < 29; size++)
		assert_int_equal(journal_frame_read(bytes, size, SALT, &frame),
		    JOURNAL_FRAME_SHORT);
}

/* A flipped bit anywhere spoils it, but in the mark, where it changes nothing. */
TEST(test_each_flipped_bit) {
	static const uint8_t marks[] = { JOURNAL_LIVE, JOURNAL_GARBAGE };

	for (unsigned m = 0; m < 2; m++)
		for (unsigned bit = 0; bit < 29 * 8; bit++) {
			struct journal_frame frame;
			enum journal_frame_state found;

			sample(marks[m]);
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			found = journal_frame_read(bytes, 29, SALT, &frame);
			if (bit / 8 == JOURNAL_MARK_AT) {
				assert_int_equal(found, JOURNAL_FRAME_GOOD);
				assert_int_equal(journal_mark_is_live(frame.mark), m == 0);
			} else {
				assert_int_not_equal(found, JOURNAL_FRAME_GOOD);
			}
		}
}

TEST(test_a_length_field_asks_for_nothing) {
	struct journal_frame frame;

	sample(JOURNAL_LIVE);
	memset(bytes + 4, 0xff, 4);
	assert_int_equal(journal_frame_read(bytes, 29, SALT, &frame), JOURNAL_FRAME_NONE);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(journal_frame_read(bytes, sizeof(bytes), SALT, &frame),
	    JOURNAL_FRAME_NONE);
}

static void write_head(uint8_t version, uint32_t length) {
	const struct journal_head head = { .salt = SALT, .kind = JOURNAL_FEED, .journal = 77,
		.created_ns = 1700000000123456789, .number = 12, .previous = 10,
		.previous_end = 4000 };
	struct journal_frame frame = { .mark = JOURNAL_LIVE, .type = 1, .version = version,
		.length = length, .sequence = 500, .behind = 3 };
	uint8_t payload[100] = { 0 };

	journal_head_write(bytes, &head, 500, 3);
	if (version == 1)
		return;
	memcpy(payload, bytes + JOURNAL_HEADER, JOURNAL_HEAD_PAYLOAD);
	frame.payload = payload;
	journal_frame_write(bytes, &frame, 0);
}

TEST(test_heads) {
	struct journal_frame frame;
	struct journal_head head;

	write_head(1, JOURNAL_HEAD_PAYLOAD);
	assert_int_equal(journal_head_read(bytes, 83, &head, &frame), JOURNAL_HEAD_NONE);
	assert_int_equal(journal_head_read(bytes, 84, &head, &frame), JOURNAL_HEAD_GOOD);
	assert_int_equal(head.salt, SALT);
	assert_int_equal(head.kind, JOURNAL_FEED);
	assert_int_equal(head.journal, 77);
	assert_int_equal(head.created_ns, 1700000000123456789);
	assert_int_equal(head.number, 12);
	assert_int_equal(head.previous, 10);
	assert_int_equal(head.previous_end, 4000);
	assert_int_equal(frame.sequence, 500);
	assert_int_equal(journal_frame_synced(&frame), 497);
	/* a head of the next version, longer than ours, of which 84 bytes are given */
	write_head(2, 100);
	assert_int_equal(journal_head_read(bytes, 84, &head, &frame), JOURNAL_HEAD_LATER);
	assert_int_equal(head.salt, SALT);
	assert_int_equal(head.number, 12);
	assert_int_equal(frame.sequence, 500);
	assert_int_equal(journal_head_read(bytes, 124, &head, &frame), JOURNAL_HEAD_LATER);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(journal_head_read(bytes, 84, &head, &frame), JOURNAL_HEAD_NONE);
}

/* Whatever bit of a head is flipped, its file's salt is still known. */
TEST(test_a_damaged_head_keeps_the_salt) {
	for (unsigned bit = 0; bit < JOURNAL_HEAD_SIZE * 8; bit++) {
		enum journal_head_state found;
		struct journal_frame frame;
		struct journal_head head;

		write_head(1, JOURNAL_HEAD_PAYLOAD);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		found = journal_head_read(bytes, 84, &head, &frame);
		assert_int_equal(found, bit / 8 == JOURNAL_MARK_AT ? JOURNAL_HEAD_GOOD :
		    JOURNAL_HEAD_DAMAGED);
		assert_int_equal(head.salt, SALT);
	}
}

TEST(test_names) {
	char name[JOURNAL_NAME_MAX + 1];

	journal_file_name(1, name);
	assert_string_equal(name, "0000000001.log");
	assert_int_equal(journal_file_number(name), 1);
	journal_file_name(2147483648U, name);
	assert_int_equal(journal_file_number(name), 2147483648U);
	assert_int_equal(journal_file_number("2147483649.log"), 0);
	assert_int_equal(journal_file_number("4294967297.log"), 0);
	assert_int_equal(journal_file_number("9999999999.log"), 0);
	assert_int_equal(journal_file_number("0000000000.log"), 0);
	assert_int_equal(journal_file_number("000000001.log"), 0);
	assert_int_equal(journal_file_number("0000000001.log~"), 0);
	assert_int_equal(journal_file_number("0000000001"), 0);
	assert_int_equal(journal_file_number("-000000001.log"), 0);
	assert_int_equal(journal_file_number(""), 0);
	assert_int_equal(journal_file_number("positions"), 0);
}
