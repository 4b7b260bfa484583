/* SPDX-License-Identifier: ISC */
#include "tests/unit/test.h"

#include "wire/ask/socketmap.h"

/* In a block of exactly its size. */
static long parse(const char *text, size_t length, struct socketmap_request *request,
    struct socketmap_error *error, char **copy) {
	*copy = malloc(length ? length : 1);
	assert_non_null(*copy);
	memcpy(*copy, text, length);
	return socketmap_parse(*copy, length, request, error);
}

static void spans_are(const char *text, size_t length, const char *map, const char *key) {
	struct socketmap_request r;
	struct socketmap_error error;
	char *copy;

	assert_int_equal(parse(text, length, &r, &error, &copy), length);
	assert_int_equal(r.map_length, strlen(map));
	assert_memory_equal(r.map, map, strlen(map));
	assert_int_equal(r.key_length, strlen(key));
	assert_memory_equal(r.key, key, strlen(key));
	free(copy);
}

#define IS(text, map, key) spans_are(text, sizeof(text) - 1, map, key)

TEST(requests) {
	IS("26:mailertable h2.example.org,", "mailertable", "h2.example.org");
	IS("11:postern a,b,", "postern", "a,b");
	IS("8:postern ,", "postern", "");
	IS("4:m  k,", "m", " k");
	IS("2:m ,", "m", "");
	IS("7:m k: 1\n,", "m", "k: 1\n");
}

TEST(every_cut_waits) {
	static const char text[] = "37:postern compat;i= 6AL5;h= a.example.;,";
	struct socketmap_request r;
	struct socketmap_error error;
	char *copy;

	for (size_t cut = 0; cut < sizeof(text) - 1; cut++) {
		assert_int_equal(parse(text, cut, &r, &error, &copy), 0);
		free(copy);
	}
	IS(text, "postern", "compat;i= 6AL5;h= a.example.;");
}

TEST(pipelined_requests_come_one_by_one) {
	static const char text[] = "3:m a,3:m b,3:m";
	struct socketmap_request r;
	struct socketmap_error error;

	assert_int_equal(socketmap_parse(text, sizeof(text) - 1, &r, &error), 6);
	assert_int_equal(r.key[0], 'a');
	assert_int_equal(socketmap_parse(text + 6, sizeof(text) - 7, &r, &error), 6);
	assert_int_equal(r.key[0], 'b');
	assert_int_equal(socketmap_parse(text + 12, sizeof(text) - 13, &r, &error), 0);
}

TEST(mistakes) {
	static const struct { const char *text; size_t length; const char *reason; size_t offset; } rows[] = {
#define ROW(text, reason, offset) { text, sizeof(text) - 1, reason, offset }
		ROW("x", "the request does not start with its length", 0),
		ROW(":", "the request does not start with its length", 0),
		ROW("-3:m a,", "the request does not start with its length", 0),
		ROW(" 3:m a,", "the request does not start with its length", 0),
		ROW("\n", "the request does not start with its length", 0),
		ROW("\0", "the request does not start with its length", 0),
		ROW("03:m a,", "leading zeros", 0),
		ROW("00", "leading zeros", 0),
		ROW("3 :m a,", "no colon", 1),
		ROW("3,", "no colon", 1),
		ROW("3m", "no colon", 1),
		ROW("8193", "too long", 0),
		ROW("99999", "too long", 0),
		ROW("18446744073709551619:m a,", "too long", 0),
		ROW("3:m ab,", "no comma", 5),
		ROW("4:m ab;", "no comma", 6),
		ROW("4:m a\0", "a NUL", 5),
		ROW("900:m a\0", "a NUL", 7),
		ROW("0:,", "no map name", 2),
		ROW("1: ,", "no map name", 2),
		ROW("3:map,", "no map name", 2),
		ROW("2: k,", "no map name", 2),
#undef ROW
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct socketmap_request r;
		struct socketmap_error error = { "", 99 };
		char *copy;

		if (parse(rows[i].text, rows[i].length, &r, &error, &copy) != -1 ||
		    strstr(error.reason, rows[i].reason) == NULL ||
		    error.offset != rows[i].offset)
			fail_msg("row %zu: \"%s\" at %zu", i, error.reason, error.offset);
		free(copy);
	}
}

TEST(the_longest) {
	char text[SOCKETMAP_REQUEST_MAX + 10];
	struct socketmap_request r;
	struct socketmap_error error;
	int head = snprintf(text, sizeof(text), "%d:m ", SOCKETMAP_REQUEST_MAX);
	size_t whole = (size_t)head - 2 + SOCKETMAP_REQUEST_MAX + 1;

	memset(text + head, 'k', sizeof(text) - (size_t)head);
	text[whole - 1] = ',';
	assert_int_equal(socketmap_parse(text, whole - 1, &r, &error), 0);
	assert_int_equal(socketmap_parse(text, whole, &r, &error), whole);
	assert_int_equal(r.key_length, SOCKETMAP_REQUEST_MAX - 2);
}

static void reply_is(enum socketmap_status status, const char *text, const char *wanted) {
	char out[SOCKETMAP_REPLY_MAX];

	assert_int_equal(socketmap_reply(out, status, text), strlen(wanted));
	assert_memory_equal(out, wanted, strlen(wanted));
}

TEST(replies) {
	reply_is(SOCKETMAP_OK, "OK", "5:OK OK,");
	reply_is(SOCKETMAP_OK, "DEFER class a is full", "24:OK DEFER class a is full,");
	reply_is(SOCKETMAP_NOTFOUND, "", "9:NOTFOUND ,");
	reply_is(SOCKETMAP_OK, "a\nb\tc\x7f\xc3\xa9~", "12:OK a?b?c???~,");
}

TEST(a_long_reply_is_cut) {
	char text[2 * SOCKETMAP_REPLY_MAX], out[SOCKETMAP_REPLY_MAX];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	for (size_t keep = SOCKETMAP_REPLY_MAX - 20; keep < sizeof(text) - 1; keep++) {
		const char *start = text + sizeof(text) - 1 - keep;
		size_t length = socketmap_reply(out, SOCKETMAP_OK, start);

		assert_true(length <= SOCKETMAP_REPLY_MAX);
		assert_int_equal(out[length - 1], ',');
		assert_int_equal(strtoul(out, NULL, 10), (size_t)(out + length - 1 -
		    ((char *)memchr(out, ':', length) + 1)));
	}
}
