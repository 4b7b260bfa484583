/* SPDX-License-Identifier: ISC */
/* Paces as people write them. */
#include "tests/unit/test.h"
#include "base/pace_text.h"

#define MS INT64_C(1000000)

TEST(a_pace_is_of_a_time_that_people_name) {
	static const struct {
		int64_t ns;
		const char *text;
	} rows[] = {
		{ 0, "none" }, { -1, "none" }, { 1 * MS, "1000/1s" }, { 3 * MS, "333/1s" },
		{ 100 * MS, "10/1s" }, { 200 * MS, "5/1s" }, { 1000 * MS, "1/1s" },
		{ 2000 * MS, "30/1m" }, { 18000 * MS, "200/1h" }, { 36000 * MS, "100/1h" },
		/* 100/1h as it is stored, rounded up */
		{ 36044 * MS, "100/1h" },
		{ 7000 * MS, "514/1h" }, { 23700 * MS, "152/1h" }, { 720000 * MS, "5/1h" },
		{ 3600000 * MS, "1/1h" }, { 86400000 * MS, "1/1d" }, { 28800000 * MS, "3/1d" },
		/* one that no pace has */
		{ 900000000 * MS, "1/1d" },
	};
	char out[PACE_TEXT_MAX];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(pace_text(rows[i].ns, out), rows[i].text);
}
