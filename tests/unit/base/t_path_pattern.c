/* SPDX-License-Identifier: ISC */
/* Which files a log is, by their names, and which of them came later. */
#include "tests/unit/test.h"
#include "base/path_pattern.h"

TEST(plain_ones) {
	uint64_t order;

	assert_true(path_pattern_is_plain("/var/log/mail.log"));
	assert_false(path_pattern_is_plain("/var/log/mail%%.log"));
	assert_false(path_pattern_is_plain("/var/log/mail?"));
	assert_true(path_pattern_match("/a", "/a", &order));
	assert_int_equal(order, 0);
	assert_false(path_pattern_match("/a", "/ab", &order));
	assert_false(path_pattern_match("/ab", "/a", &order));
}

TEST(mistakes_are_told) {
	static const struct {
		const char *pattern, *fault;
	} rows[] = {
		{ "/var/log/mail.log", NULL },
		{ "/l/%Y%m%d", NULL }, { "/l/%F-%H", NULL }, { "/l/%G-W%V", NULL },
		{ "/l/%y%j", NULL }, { "/l/%Y/%b/%d", NULL }, { "/l/mail.%s", NULL },
		{ "/l/100%%", NULL }, { "/l/[a-c]*?", NULL }, { "/l/[]]", NULL },
		{ "/l/%m%d", "has a date without a year (%Y or %y)" },
		{ "/l/*%H", "has a date without a year (%Y or %y)" },
		{ "/l/%A", "has a % that is not followed by one of Y y m b d H M S j U V W G F "
		    "s %" },
		{ "/l/%", "has a % that is not followed by one of Y y m b d H M S j U V W G F "
		    "s %" },
		{ "/l/[ab", "has a [ without a ]" }, { "/l/[]", "has a [ without a ]" },
		{ "/l/[a/b]", "has a [ without a ]" },
		{ "/l/****", NULL }, { "/l/*****", "has more than 4 *" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *fault = path_pattern_fault(rows[i].pattern);

		if (rows[i].fault == NULL)
			assert_null(fault);
		else
			assert_string_equal(fault, rows[i].fault);
	}
}

TEST(what_glob_is_given) {
	char out[64];

	assert_true(path_pattern_glob("/l/m-%y%%*", out, sizeof(out)));
	assert_string_equal(out, "/l/m-[0-9][0-9]%*");
	assert_true(path_pattern_glob("%F", out, sizeof(out)));
	assert_string_equal(out, "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]");
	assert_true(path_pattern_glob("%b.%s", out, sizeof(out)));
	assert_string_equal(out, "???.[0-9]*");
	assert_false(path_pattern_glob("%F%F", out, sizeof(out)));
	assert_true(path_pattern_glob("/l", out, 3));
	assert_false(path_pattern_glob("/l", out, 2));
}

TEST(what_matches) {
	static const struct {
		const char *pattern, *path;
		bool matches;
	} rows[] = {
		{ "/l/m-%Y%m%d.log", "/l/m-20260921.log", true },
		{ "/l/m-%Y%m%d.log", "/l/m-20261321.log", false },
		{ "/l/m-%Y%m%d.log", "/l/m-2026092.log", false },
		{ "/l/m-%Y%m%d.log", "/l/m-20260921.log.gz", false },
		{ "/l/m-%Y%m%d.log", "/l/m-2026092", false },
		{ "/l/%d%b%y", "/l/21Sep26", true }, { "/l/%d%b%y", "/l/21Spe26", false },
		{ "/l/%d%b%y", "/l/21Se", false }, { "/l/%d%b%y", "/l/21", false },
		{ "/l/%F", "/l/2026-09-21", true }, { "/l/%F", "/l/2026-0921", false },
		{ "/l/%F", "/l/2026", false },
		{ "/l/%%%Y", "/l/%2026", true }, { "/l/m.%s", "/l/m.1790000000", true },
		{ "/l/m.%s", "/l/m.", false }, { "/l/m.%s", "/l/m.1x", false },
		{ "/l/*.log", "/l/a.log", true }, { "/l/*.log", "/l/.log", true },
		{ "/l/*.log", "/l/a.log.log", true }, { "/l/*.log", "/l/x/a.log", false },
		{ "/l/*", "/l/a.gz", false }, { "/l/*", "/l/a", true },
		{ "/l/*/m", "/l/x/m", true }, { "/l/*/m", "/l/x/y/m", false },
		{ "/l/*a*b*c", "/l/xaybzbzc", true }, { "/l/*a*b*c", "/l/xaybzbz", false },
		{ "/l/*-%Y", "/l/a-b-2026", true },
		{ "/l/?x", "/l/ax", true }, { "/l?x", "/l/x", false },
		{ "/l/[a-c]", "/l/b", true }, { "/l/[a-c]", "/l/d", false },
		{ "/l/[!a-c]", "/l/d", true }, { "/l/[^a-c]", "/l/b", false },
		{ "/l/[]x]", "/l/]", true }, { "/l/[a-]", "/l/-", true },
		{ "/l[!a]x", "/l/x", false },
		{ "/l/%m", "/l/09", false },	/* a mistake */
	};
	uint64_t order;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (path_pattern_match(rows[i].pattern, rows[i].path, &order) != rows[i].matches)
			fail_msg("%s %s", rows[i].pattern, rows[i].path);
}

/* From the oldest to the newest. */
static void check_order(const char *pattern, const char *const *paths, unsigned count) {
	for (unsigned i = 0; i < count; i++)
		for (unsigned k = 0; k < count; k++) {
			uint64_t a, b;
			int order;

			assert_true(path_pattern_match(pattern, paths[i], &a));
			assert_true(path_pattern_match(pattern, paths[k], &b));
			order = path_pattern_compare(paths[i], a, paths[k], b);
			if ((order > 0) - (order < 0) != (i > k) - (i < k))
				fail_msg("%s %s", paths[i], paths[k]);
		}
}

TEST(which_came_later) {
	static const char *const days[] = { "/010126", "/020126", "/010226" };
	static const char *const months[] = { "/30Dec2025", "/01Jan2026", "/01Apr2026",
		"/31Aug2026" };
	static const char *const hours[] = { "/2026-09-21-23", "/2026-09-22-00",
		"/2026-09-22-07" };
	static const char *const weeks[] = { "/2025W52", "/2026W01", "/2026W10" };
	static const char *const year_days[] = { "/2025.366", "/2026.001", "/2026.101" };
	static const char *const seconds[] = { "/m.999999999", "/m.1000000000" };
	static const char *const names[] = { "/m", "/m.1", "/m.2", "/m.10", "/m.010x", "/n" };
	static const char *const days99[] = { "/19991231", "/20260101" };

	check_order("/%d%m%y", days, 3);
	check_order("/%d%b%Y", months, 4);
	check_order("/%F-%H", hours, 3);
	check_order("/%GW%V", weeks, 3);
	check_order("/%Y.%j", year_days, 3);
	check_order("/m.%s", seconds, 2);
	check_order("/*", names, 6);
	check_order("/%Y%m%d", days99, 2);
}
