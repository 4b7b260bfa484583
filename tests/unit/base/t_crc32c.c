/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"
#include "base/crc32c.h"
#include "tests/unit/random.h"

/* RFC 3720, appendix B.4 */
TEST(test_known_sums) {
	uint8_t bytes[32];

	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c_portable(0, "123456789", 9), 0xe3069283);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aa);
	assert_int_equal(crc32c_portable(0, bytes, 32), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43);
	for (unsigned i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(crc32c(0, bytes, 32), 0x46dd794e);
	assert_int_equal(crc32c_portable(0, bytes, 32), 0x46dd794e);
	assert_int_equal(crc32c(7, NULL, 0), 7);
	assert_int_equal(crc32c_portable(7, NULL, 0), 7);
}

/* Both ways give the same, at every alignment, length and cut. */
TEST(test_both_ways) {
	uint8_t bytes[300];
	struct random seed = { 1 };

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random_below(&seed, 256);
	for (unsigned from = 0; from < 9; from++)
		for (unsigned length = 0; length < 280; length++) {
			uint32_t whole = crc32c(0, bytes + from, length);
			unsigned cut = length / 3;

			assert_int_equal(whole, crc32c_portable(0, bytes + from, length));
			assert_int_equal(whole, crc32c(crc32c(0, bytes + from, cut),
			    bytes + from + cut, length - cut));
		}
}
