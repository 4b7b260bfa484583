/* SPDX-License-Identifier: ISC */
/* Queue files of Sendmail: those that a real one wrote (tests/fuzz/corpus), and bad ones. */
#define TEST_OWN_MAIN
#include "tests/unit/test.h"
#include "tests/unit/material.h"

#include "base/text.h"
#include "wire/queue/sendmail_queue_file.h"

#define FILE_MAX	(8 << 20)
#define RECIPIENTS_MAX	32

static struct sendmail_queue_reader reader;
static struct seen {
	char address[64];
	char domain[64];
	uint64_t place;
} seen[RECIPIENTS_MAX];
static unsigned seen_count;
static char *bytes;		/* of FILE_MAX */

static void note(const struct sendmail_recipient *recipient) {
	struct seen *out = &seen[seen_count % RECIPIENTS_MAX];

	(void)text_copy(out->address, sizeof(out->address), recipient->address.text,
	    recipient->address.length);
	(void)text_copy(out->domain, sizeof(out->domain), recipient->domain.text,
	    recipient->domain.length);
	out->place = recipient->place;
	seen_count++;
}

/* In pieces of `piece` bytes, each in a place of its own. */
static enum sendmail_queue_step read_rest(const char *data, size_t length, size_t piece) {
	struct sendmail_recipient recipient;
	enum sendmail_queue_step step = SENDMAIL_QUEUE_MORE;

	seen_count = 0;
	while (length > 0 && step != SENDMAIL_QUEUE_BAD) {
		size_t left = length < piece ? length : piece;
		char *copy = malloc(left);
		const char *at = copy;

		assert_non_null(copy);
		memcpy(copy, data, left);
		data += left;
		length -= left;
		while ((step = sendmail_queue_next(&reader, &at, &left, &recipient)) ==
		    SENDMAIL_QUEUE_RECIPIENT)
			note(&recipient);
		assert_true(step == SENDMAIL_QUEUE_BAD || left == 0);
		free(copy);
	}
	return step == SENDMAIL_QUEUE_BAD ? step : sendmail_queue_finish(&reader);
}

static enum sendmail_queue_step read_pieces(const char *data, size_t length, size_t piece) {
	sendmail_queue_begin(&reader);
	return read_rest(data, length, piece);
}

static enum sendmail_queue_step read_text(const char *text) {
	return read_pieces(text, strlen(text), SIZE_MAX);
}

static size_t load(const char *name) {
	char path[256];
	size_t length;
	FILE *file;

	(void)snprintf(path, sizeof(path), "tests/fuzz/corpus/sendmail_queue_file/%s", name);
	file = open_source(path);
	length = fread(bytes, 1, FILE_MAX, file);
	fclose(file);
	return length;
}

static void is_recipient(unsigned number, const char *address, const char *domain) {
	assert_true(number < seen_count);
	assert_string_equal(seen[number].address, address);
	assert_string_equal(seen[number].domain, domain);
}

static void is_bad(enum sendmail_queue_step step, const char *fault, unsigned line) {
	assert_int_equal(step, SENDMAIL_QUEUE_BAD);
	assert_string_equal(reader.fault, fault);
	assert_int_equal(reader.line, line);
}

/* --- as Sendmail 8.17 writes them -------------------------------------------------- */

TEST(a_fresh_message) {
	size_t length = load("fresh");

	for (size_t piece = 1; piece <= length; piece++) {
		assert_int_equal(read_pieces(bytes, length, piece), SENDMAIL_QUEUE_END);
		assert_int_equal(reader.message.version, 8);
		assert_int_equal(reader.message.made_s, 1795304484);
		assert_int_equal(reader.message.tried_s, 0);
		assert_int_equal(reader.message.tries, 0);
		assert_int_equal(reader.message.priority, 30030);
		assert_int_equal(reader.sender.length, strlen("a@example.com"));
		assert_memory_equal(reader.sender.text, "a@example.com", reader.sender.length);
		assert_false(reader.message.is_quarantined);
		assert_int_equal(reader.message.recipient_count, 1);
		assert_int_equal(reader.message.left_out, 0);
		assert_int_equal(seen_count, 1);
		is_recipient(0, "b@h2.example.org", "h2.example.org");
	}
}

TEST(one_that_was_tried) {
	size_t length = load("tried");

	assert_int_equal(read_pieces(bytes, length, 7), SENDMAIL_QUEUE_END);
	assert_int_equal(reader.message.tried_s, 1795304484);
	assert_int_equal(reader.message.tries, 1);
	assert_int_equal(reader.message.priority, 120030);
}

TEST(forms_of_addresses) {
	size_t length = load("addresses");

	assert_int_equal(read_pieces(bytes, length, 100), SENDMAIL_QUEUE_END);
	assert_int_equal(seen_count, 9);
	is_recipient(0, "u@[127.0.0.2]", "[127.0.0.2]");
	is_recipient(1, "b@h2.example.org", "h2.example.org");
	is_recipient(3, "\"a b@c\"@h4.example.org", "h4.example.org");
	is_recipient(4, "@r.example,@s.example:u@h5.example.org", "h5.example.org");
	is_recipient(5, "u%v@h6.example.org", "h6.example.org");
	is_recipient(6, "h!u@h7.example.org", "h7.example.org");
	is_recipient(7, "UPPER@H8.Example.ORG", "H8.Example.ORG");
	is_recipient(8, "u@h9.example.org.", "h9.example.org.");
}

TEST(a_bounce_and_a_local_recipient) {
	size_t length = load("bounce");

	assert_int_equal(read_pieces(bytes, length, 1), SENDMAIL_QUEUE_END);
	assert_int_equal(reader.sender.length, 0);
	is_recipient(0, "root", "");
	is_recipient(1, "b@h2.example.org", "h2.example.org");
}

TEST(an_alias_that_was_expanded) {
	size_t length = load("alias");

	assert_int_equal(read_pieces(bytes, length, 1000), SENDMAIL_QUEUE_END);
	assert_int_equal(seen_count, 1);
	is_recipient(0, "a@x.example", "x.example");
}

TEST(a_quarantined_one) {
	size_t length = load("quarantined");

	assert_int_equal(read_pieces(bytes, length, 64), SENDMAIL_QUEUE_END);
	assert_true(reader.message.is_quarantined);
	assert_int_equal(reader.message.recipient_count, 20);
}

/* The place behind each recipient leads to the next one, and on to the end. */
TEST(a_place_to_go_on_from) {
	size_t length = load("many");
	struct seen all[RECIPIENTS_MAX];

	assert_int_equal(read_pieces(bytes, length, 33), SENDMAIL_QUEUE_END);
	assert_int_equal(seen_count, 20);
	memcpy(all, seen, sizeof(all));
	for (unsigned i = 0; i < 20; i++) {
		sendmail_queue_resume(&reader, all[i].place);
		assert_int_equal(read_rest(bytes + all[i].place, length - (size_t)all[i].place, 10),
		    SENDMAIL_QUEUE_END);
		assert_int_equal(seen_count, 19 - i);
		assert_int_equal(reader.message.recipient_count, 19 - i);
		for (unsigned k = 0; k < seen_count; k++) {
			assert_string_equal(seen[k].address, all[i + 1 + k].address);
			assert_int_equal(seen[k].place, all[i + 1 + k].place);
		}
	}
}

/* Wherever it is cut, it is cut: no half of it counts as whole. */
TEST(a_truncated_file) {
	size_t length = load("addresses");

	for (size_t cut = 0; cut < length; cut++) {
		assert_int_equal(read_pieces(bytes, cut, 50), SENDMAIL_QUEUE_BAD);
		assert_true(reader.cut);
		assert_string_equal(reader.fault, "it ends too early");
	}
}

/* --- bad ones ---------------------------------------------------------------------- */

TEST(unknown_versions) {
	assert_int_equal(read_text("V1\nT1\nRP:<a@b>\n.\n"), SENDMAIL_QUEUE_END);
	is_bad(read_text("V9\nT1\nRP:<a@b>\n.\n"), "unknown version", 1);
	is_bad(read_text("V0\nT1\nR<a@b>\n.\n"), "unknown version", 1);
	is_bad(read_text("V99999999999999999999\nT1\n.\n"), "the version is not a number", 1);
	is_bad(read_text("V\nT1\n.\n"), "the version is not a number", 1);
	is_bad(read_text("T1\nR<a@b>\n.\n"), "it does not start with its version", 1);
	is_bad(read_text("\nV8\nT1\n.\n"), "it does not start with its version", 1);
	assert_false(reader.cut);
}

TEST(bad_lines) {
	is_bad(read_text("V8\nT\n.\n"), "the time in line T is invalid", 2);
	is_bad(read_text("V8\nT-1\n.\n"), "the time in line T is invalid", 2);
	is_bad(read_text("V8\nT1x\n.\n"), "the time in line T is invalid", 2);
	is_bad(read_text("V8\nT1\nK\n.\n"), "the time in line K is invalid", 3);
	is_bad(read_text("V8\nT1\nN-1\n.\n"), "line N is not a number", 3);
	is_bad(read_text("V8\nT1\nP1e9\n.\n"), "line P is not a number", 3);
	is_bad(read_text("V8\nRP:<a@b>\n.\n"), "line T (creation time) is missing", 3);
	is_bad(read_text("V8\nT1\n.x\n"), "data follows the point", 3);
	assert_int_equal(read_text("V8\nT1\nP-5\n.\n"), SENDMAIL_QUEUE_END);
	assert_int_equal(reader.message.priority, -5);
}

TEST(something_behind_the_end) {
	is_bad(read_text("V8\nT1\n.\nRP:<evil@example.org>\n.\n"),
	    "data follows the end", 3);
	is_bad(read_text("V8\nT1\n.\n\n"), "data follows the end", 3);
	is_bad(read_text("V8\nT1\n.\n x\n.\n"), "data follows the point", 4);
}

/* What cannot be used does no harm to the others. */
TEST(recipients_that_cannot_be_used) {
	assert_int_equal(read_text("V8\nT1\nR\nRP\nRP:\nRP:<>\nRP:<a\x01@b>\nRP:<a@b>\n.\n"),
	    SENDMAIL_QUEUE_END);
	assert_int_equal(reader.message.recipient_count, 6);
	assert_int_equal(reader.message.left_out, 5);
	assert_int_equal(seen_count, 1);
	is_recipient(0, "a@b", "b");
}

TEST(programs_and_files) {
	assert_int_equal(read_text("V8\nT1\nCroot:0:0:<list>\nRFDA:\"|/bin/prog -f a@b\"\n"
	    "RFDA:/var/spool/file\nRFDA::include:/etc/list@x\nC\nRP:<a@b>\n.\n"),
	    SENDMAIL_QUEUE_END);
	assert_int_equal(seen_count, 4);
	is_recipient(0, "\"|/bin/prog -f a@b\"", "");
	is_recipient(1, "/var/spool/file", "");
	is_recipient(3, "a@b", "b");
}

TEST(lines_that_go_on) {
	assert_int_equal(read_text("V8\nT1\nH??Received: x\n\tRP:<no@example.org>\n"
	    " RP:<no@example.org>\nRP:<a@b>\n \nMtext\n\tRP:<no@c>\nRP:<d@e>\n.\n"),
	    SENDMAIL_QUEUE_END);
	assert_int_equal(seen_count, 2);
	is_recipient(0, "a@b", "b");
	is_recipient(1, "d@e", "e");
}

/* A line of 1 MB: of a header no matter, of a recipient he alone is left out. */
TEST(lines_of_a_megabyte) {
	static const char start[] = "V8\nT1\nRP:<a@b>\n", behind[] = "\nRP:<c@d>\n.\n";
	static const char *const kinds[] = { "H??X: ", "$", "RP:<", "M" };

	for (unsigned i = 0; i < 4; i++) {
		size_t length = 0;

		length = text_append(bytes, FILE_MAX, length, "%s%s", start, kinds[i]);
		memset(bytes + length, 'x', 1 << 20);
		length += 1 << 20;
		length = text_append(bytes, FILE_MAX, length, "%s", behind);
		assert_int_equal(read_pieces(bytes, length, 65536), SENDMAIL_QUEUE_END);
		assert_int_equal(reader.message.recipient_count, i == 2 ? 3 : 2);
		assert_int_equal(reader.message.left_out, i == 2 ? 1 : 0);
		assert_int_equal(seen_count, 2);
		is_recipient(1, "c@d", "d");
	}
}

TEST(a_hundred_thousand_recipients) {
	size_t length = text_append(bytes, FILE_MAX, 0, "V8\nT1\n");

	for (unsigned i = 0; i < 100000; i++)
		length = text_append(bytes, FILE_MAX, length,
		    "rRFC822; u%u@d%u.example.net\nRPFD:<u%u@d%u.example.net>\n", i, i % 50, i,
		    i % 50);
	length = text_append(bytes, FILE_MAX, length, ".\n");
	assert_int_equal(read_pieces(bytes, length, 65536), SENDMAIL_QUEUE_END);
	assert_int_equal(reader.message.recipient_count, 100000);
	assert_int_equal(reader.message.left_out, 0);
	assert_int_equal(seen_count, 100000);
}

TEST(names) {
	assert_true(sendmail_queue_is_name("qf6ALNfOCn000037"));
	assert_true(sendmail_queue_is_name("qfAA12345"));
	assert_false(sendmail_queue_is_name("qf"));
	assert_false(sendmail_queue_is_name("df6ALNfOCn000037"));
	assert_false(sendmail_queue_is_name("Qf6ALNfOCn000037"));
	assert_false(sendmail_queue_is_name("hf6ALNfOCn000037"));
	assert_false(sendmail_queue_is_name("qf../x"));
	assert_false(sendmail_queue_is_name("qf6ALNfOCn00003700000000000000000000"));
}

/* The id that stands in the first Received header, wherever a line is folded. */
TEST(the_id_before_it_was_cut_up) {
	static const struct {
		const char *headers, *id;
	} rows[] = {
		{ "H?P?Return-Path: <\201g>\nH??Received: from c.example.org (localhost [127.0.0.1])\n"
		  "\tby mta.example.com (8.17.1.9/8.17.1.9) with ESMTP id 6AR1RQPP000151;\n"
		  "\tFri, 27 Nov 2026 01:27:26 GMT\n", "6AR1RQPP000151" },
		{ "H??Received: (from a@localhost)\n\tby mta (8.17/Submit) id 6AR1RQPP000152\n"
		  "\tfor b@example.org; Fri\n", "6AR1RQPP000152" },
		{ "HReceived: by x id\n\t7;\n", "7" },
		/* the sender's own stand behind Sendmail's */
		{ "H??Received: by x with SMTP; Fri\nH??Received: by y id 6AR1RQPP000153; Fri\n", "" },
		{ "H??Received: from x id a-b; Fri\n", "" },
		{ "H??Received: by x id\n", "" },
		{ "H??Received:\nH??X: id 1\n", "" },
		{ "H??X-Received: id 1\nH?\n", "" },
		{ "H??Received: id 12345678901234567890123456789012; x\n", "" },
		{ "", "" },
	};
	char text[1024];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(text, sizeof(text), "V8\nT1\nS<a@example.org>\nRP:<b@example.org>\n%s.\n",
		    rows[i].headers);
		for (size_t piece = 1; piece < 40; piece += 3) {
			assert_int_equal(read_pieces(text, strlen(text), piece), SENDMAIL_QUEUE_END);
			assert_string_equal(reader.origin, rows[i].id);
			assert_int_equal(seen_count, 1);
		}
	}
}

int main(void) {
	int failed;

	bytes = malloc(FILE_MAX);
	if (bytes == NULL)
		return 1;
	failed = test_run();
	free(bytes);
	return failed;
}
