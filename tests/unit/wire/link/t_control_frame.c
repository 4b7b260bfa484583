/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"

#include "wire/link/control_frame.h"

static struct control_frame frame;

/* In a block of exactly its size, which the frame then points into. */
static char *block;

static long parse(const char *text, size_t length, const char **why) {
	free(block);
	block = malloc(length ? length : 1);
	assert_non_null(block);
	memcpy(block, text, length);
	*why = "";
	return control_frame_parse(block, length, &frame, why);
}

TEST(what_is_written_is_read) {
	struct control_writer writer;
	const char *why;
	char out[512];
	size_t length;

	control_writer_begin(&writer, out, sizeof(out));
	control_writer_add(&writer, "protocol", "%d", CONTROL_PROTOCOL);
	control_writer_add(&writer, "build", "%s", "a=b \\ \r\n\x01\x7f\xc3\xa9");
	control_writer_add(&writer, "empty", "%s", "");
	length = control_writer_finish(&writer);
	assert_int_equal(length, 3 + 46);
	assert_memory_equal(out, "46\nprotocol=1\nbuild=a=b \\\\ \\r\\n\\x01\\x7f\xc3\xa9\n"
	    "empty=\n", length);
	for (size_t cut = 0; cut < length; cut++)
		assert_int_equal(parse(out, cut, &why), 0);
	assert_int_equal(parse(out, length, &why), length);
	assert_int_equal(frame.count, 3);
	assert_string_equal(control_frame_get(&frame, "protocol"), "1");
	assert_string_equal(control_frame_get(&frame, "build"), "a=b \\ \r\n\x01\x7f\xc3\xa9");
	assert_string_equal(control_frame_get(&frame, "empty"), "");
	assert_null(control_frame_get(&frame, "no"));
}

TEST(bytes_behind_the_frame_stay) {
	static const char text[] = "4\na=b\n5\n";
	const char *why;

	assert_int_equal(parse(text, sizeof(text) - 1, &why), 6);
	assert_memory_equal(block + 6, "5\n", 2);
	assert_string_equal(control_frame_get(&frame, "a"), "b");
}

TEST(malformed_frames_say_why) {
	static const struct { const char *text, *why; } rows[] = {
		{ "x", "the length is not a number" },
		{ "\n", "the length is out of range" },
		{ "-1\n", "the length is not a number" },
		{ " 1\n", "the length is not a number" },
		{ "0\n", "the length is out of range" },
		{ "04\na=b\n", "the length is out of range" },
		{ "65537\n", "the length is out of range" },
		{ "99999\n", "the length is out of range" },
		{ "123456", "the length is out of range" },
		{ "00000004\na=b\n", "the length is out of range" },
		{ "3\na=b\n", "the body does not end with a newline" },
		{ "1\n\n", "a line is not key=value" },
		{ "2\na\n", "a line is not key=value" },
		{ "3\n=a\n", "a line is not key=value" },
		{ "4\nA=b\n", "a line is not key=value" },
		{ "5\na =b\n", "a line is not key=value" },
		{ "5\na=\\q\n", "a value is not escaped correctly" },
		{ "4\na=\\\n", "a value is not escaped correctly" },
		{ "6\na=\\x0\n", "a value is not escaped correctly" },
		{ "7\na=\\x00\n", "a value is not escaped correctly" },
		{ "7\na=\\xg0\n", "a value is not escaped correctly" },
		{ "4\na=\r\n", "a value is not escaped correctly" },
	};
	const char *why;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(parse(rows[i].text, strlen(rows[i].text), &why), -1);
		assert_string_equal(why, rows[i].why);
	}
	assert_int_equal(parse("4\na=\0\n", 6, &why), -1);
	assert_int_equal(parse("4\n\0=b\n", 6, &why), -1);
}

TEST(bounds) {
	static char text[CONTROL_BODY_MAX + 64], body[CONTROL_BODY_MAX];
	size_t at = 0;
	const char *why;
	int n;

	/* one field of the largest body */
	memset(body, 'v', sizeof(body));
	memcpy(body, "k=", 2);
	body[sizeof(body) - 1] = '\n';
	n = snprintf(text, sizeof(text), "%d\n", CONTROL_BODY_MAX);
	memcpy(text + n, body, sizeof(body));
	assert_int_equal(parse(text, (size_t)n + sizeof(body), &why), n + CONTROL_BODY_MAX);
	assert_int_equal(strlen(control_frame_get(&frame, "k")), CONTROL_BODY_MAX - 3);

	/* as many fields as there may be, and one more */
	for (size_t i = 0; i <= CONTROL_FIELDS_MAX; i++) {
		memcpy(body + at, "k=1\n", 4);
		at += 4;
	}
	n = snprintf(text, sizeof(text), "%zu\n", at - 4);
	memcpy(text + n, body, at);
	assert_int_equal(parse(text, (size_t)n + at - 4, &why), (size_t)n + at - 4);
	assert_int_equal(frame.count, CONTROL_FIELDS_MAX);
	n = snprintf(text, sizeof(text), "%zu\n", at);
	memcpy(text + n, body, at);
	assert_int_equal(parse(text, (size_t)n + at, &why), -1);
	assert_string_equal(why, "too many fields");
}

TEST(what_does_not_fit_is_no_frame) {
	struct control_writer writer;
	char out[16];

	control_writer_begin(&writer, out, sizeof(out));
	control_writer_add(&writer, "abc", "%s", "12345");
	assert_int_equal(control_writer_finish(&writer), 3 + 10);
	control_writer_begin(&writer, out, sizeof(out));
	control_writer_add(&writer, "abc", "%s", "123456");
	assert_int_equal(control_writer_finish(&writer), 0);
	control_writer_begin(&writer, out, sizeof(out));
	assert_int_equal(control_writer_finish(&writer), 0);
	control_writer_begin(&writer, out, 4);
	control_writer_add(&writer, "a", "b");
	assert_int_equal(control_writer_finish(&writer), 0);
}

static int release(void **state) {
	free(block);
	block = NULL;
	return 0;
}

TEST_GROUP(NULL, release)
