/* SPDX-License-Identifier: ISC */
/* How mta[].log names systemd's journal. */
#include "tests/unit/test.h"
#include "base/sd_log.h"

TEST(what_is_a_journal) {
	assert_true(sd_log_is("journal:"));
	assert_true(sd_log_is("journal:unit=a"));
	assert_false(sd_log_is("journal"));
	assert_false(sd_log_is("/var/log/journal:"));
	assert_false(sd_log_is(""));
}

TEST(parts) {
	struct sd_log log;
	const char *why;

	assert_true(sd_log_parse("journal:", &log, &why));
	assert_string_equal(log.unit, "");
	assert_string_equal(log.directory, "");
	assert_true(sd_log_parse("journal:unit=postfix@-.service,user=mailer", &log, &why));
	assert_string_equal(log.unit, "postfix@-.service");
	assert_string_equal(log.user, "mailer");
	assert_string_equal(log.identifier, "");
	assert_true(sd_log_parse("journal:identifier=sm-mta,directory=/srv/a=b", &log, &why));
	assert_string_equal(log.identifier, "sm-mta");
	assert_string_equal(log.directory, "/srv/a=b");
}

TEST(mistakes) {
	static const char *const rows[][2] = {
		{ "journal:postfix", "must be \"journal:\", or that and unit=, identifier=, user= or "
		    "directory=, with commas between" },
		{ "journal: unit=a", "must be \"journal:\", or that and unit=, identifier=, user= or "
		    "directory=, with commas between" },
		{ "journal:,", "must be \"journal:\", or that and unit=, identifier=, user= or "
		    "directory=, with commas between" },
		{ "journal:unit=", "has a key without a value" },
		{ "journal:unit=a,", "ends with a comma" },
		{ "journal:unit=a,unit=b", "names the same thing twice" },
		{ "journal:directory=log", "has a directory that is no absolute path" },
	};
	char text[400];
	struct sd_log log;
	const char *why;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_false(sd_log_parse(rows[i][0], &log, &why));
		assert_string_equal(why, rows[i][1]);
	}
	snprintf(text, sizeof(text), "journal:unit=%0300d", 1);
	assert_false(sd_log_parse(text, &log, &why));
	assert_string_equal(why, "has a value that is too long");
}
