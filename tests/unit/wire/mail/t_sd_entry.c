/* SPDX-License-Identifier: ISC */
/* Entries of systemd's journal as lines, and places out of cursors. */
#include "tests/unit/test.h"
#include "wire/mail/mail_log.h"
#include "wire/mail/sd_entry.h"

#define SPAN(text)	{ text, sizeof(text) - 1 }
#define TIME_US		UINT64_C(1795652590899127)

TEST(lines) {
	static const struct {
		struct span identifier, pid, message;
		const char *line;
	} rows[] = {
		{ SPAN("postfix/smtp"), SPAN("123"), SPAN("AB12: x"),
		    "2026-11-26T00:23:10.899127Z postfix/smtp[123]: AB12: x" },
		{ SPAN("postfix/smtp"), SPAN(""), SPAN("x"),
		    "2026-11-26T00:23:10.899127Z postfix/smtp: x" },
		{ SPAN("sm-mta"), SPAN("1x"), SPAN(""), "2026-11-26T00:23:10.899127Z sm-mta: " },
		{ SPAN("a"), SPAN("1"), SPAN("b\npostfix/smtp[1]: forged"),
		    "2026-11-26T00:23:10.899127Z a[1]: b" },
		{ SPAN("a"), SPAN("1"), SPAN("b\0c"), "2026-11-26T00:23:10.899127Z a[1]: b" },
		{ SPAN(""), SPAN("1"), SPAN("b"), "" },
		{ SPAN("x postfix/smtp[1]:"), SPAN("1"), SPAN("b"), "" },
		{ SPAN("a\nb"), SPAN("1"), SPAN("b"), "" },
	};
	char out[SD_ENTRY_HEAD_MAX + 64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct sd_entry entry = { TIME_US, rows[i].identifier, rows[i].pid,
			rows[i].message };
		size_t length = sd_entry_line(&entry, out, sizeof(out));

		assert_int_equal(length, strlen(rows[i].line));
		assert_memory_equal(out, rows[i].line, length);
	}
}

TEST(a_line_that_is_too_long) {
	char message[65] = "", out[SD_ENTRY_HEAD_MAX + 64];
	struct sd_entry entry = { TIME_US, SPAN("a"), SPAN("1"), { message, 64 } };

	memset(message, 'x', 64);
	assert_int_not_equal(sd_entry_line(&entry, out, sizeof(out)), 0);
	assert_int_equal(sd_entry_line(&entry, out, sizeof(out) - 1), 0);
}

/* The readers of lines understand it, its date too. */
TEST(a_delivery) {
	const struct sd_entry entry = { TIME_US, SPAN("postfix/smtp"), SPAN("123"),
		SPAN("3FA2C1: to=<u@d.example>, relay=mx.d.example[192.0.2.1]:25, delay=1.2, "
		    "delays=0.1/0/0.6/0.5, dsn=2.0.0, status=sent (250 ok)") };
	struct log_line line;
	char out[1024];
	int64_t ms;

	assert_int_equal(mail_log_scan(out, sd_entry_line(&entry, out, sizeof(out)), &line),
	    LOG_LINE_DELIVERY);
	assert_true(log_date_read(line.head, 0, &ms));
	assert_int_equal(ms, TIME_US / 1000);
	assert_int_equal(line.delivery.domain.length, strlen("d.example"));
}

TEST(cursors) {
	static const char good[] = "s=330fe35247414a25a578a0a36498945e;i=162;"
	    "b=0c3ba2c5419c45238d46e93c2550d7fd;m=a4b049bb;t=66122f2d21c90;x=303531123ebe2517";
	static const char *const bad[] = { "", "s=", "i=162;s=330fe35247414a25a578a0a36498945e",
		"s=330fe35247414a25a578a0a36498945;i=162", "s=330fe35247414a25a578a0a36498945e",
		"s=330fe35247414a25a578a0a36498945e;i=", "s=330fe35247414a25a578a0a36498945e;i=x",
		"s=330fe35247414a25a578a0a36498945e;i=12345678123456781",
		"s=330fe35247414a25a578a0a36498945g;i=1", };
	uint64_t id[2], number;
	char out[SD_CURSOR_MAX];

	assert_true(sd_cursor_read(good, id, &number));
	assert_true(id[0] == UINT64_C(0x330fe35247414a25) && id[1] == UINT64_C(0xa578a0a36498945e));
	assert_int_equal(number, 0x162);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(sd_cursor_read(bad[i], id, &number));
	id[0] = 1;
	id[1] = UINT64_MAX;
	sd_cursor_write(out, id, 0x162, TIME_US);
	assert_string_equal(out, "s=0000000000000001ffffffffffffffff;i=162;t=66122f2d20fb7");
	assert_true(sd_cursor_read(out, id, &number));
	assert_true(id[0] == 1 && id[1] == UINT64_MAX && number == 0x162);
}
