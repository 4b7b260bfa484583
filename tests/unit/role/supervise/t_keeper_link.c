/* SPDX-License-Identifier: ISC */
/* The supervisor's end of the stream to the keeper: requests in any pieces,
 * answers of any length, and garbage. */
#include <sys/socket.h>

#include "tests/unit/test.h"
#include "role/supervise/keeper_link.h"
#include "role/supervise/reload.h"
#include "wire/link/control_frame.h"

#define ANSWER_MAX (4 * 1024 * 1024)

static struct keeper_link link_here;
static int keeper_fd;
static const char *why;

static int connected(void **state) {
	struct diag diag;

	keeper_link_init(&link_here);
	keeper_fd = keeper_link_open(&link_here, &diag);
	return keeper_fd >= 0 ? 0 : -1;
}

static int closed(void **state) {
	close(keeper_fd);
	keeper_link_close(&link_here);
	return 0;
}

static size_t request(char *out, size_t size, const char *command) {
	struct control_writer writer;

	control_writer_begin(&writer, out, size);
	control_writer_add(&writer, "protocol", "1");
	control_writer_add(&writer, "command", "%s", command);
	return control_writer_finish(&writer);
}

static void from_keeper(const char *data, size_t length) {
	assert_int_equal(write(keeper_fd, data, length), length);
}

/* Reads what the supervisor has to say until its end frame; returns the rows. */
static size_t answer(int *code, char *error, size_t size) {
	char *data = malloc(ANSWER_MAX);
	size_t length = 0, at = 0, rows = 0;

	assert_non_null(data);
	for (;;) {
		struct control_frame frame;
		ssize_t got;
		long used;

		keeper_link_write(&link_here);
		got = read(keeper_fd, data + length, ANSWER_MAX - length);
		if (got > 0)
			length += (size_t)got;
		while ((used = control_frame_parse(data + at, length - at, &frame,
			    &why)) > 0) {
			if (at == 0)
				assert_string_equal(
				    control_frame_get(&frame, "protocol"), "1");
			at += (size_t)used;
			if (control_frame_get(&frame, "end") == NULL) {
				rows++;
				continue;
			}
			*code = (int)strtol(
			    control_frame_get(&frame, "exit"), NULL, 10);
			snprintf(error, size, "%s",
			    *code == 0 ? "" : control_frame_get(&frame, "error"));
			free(data);
			return rows;
		}
		assert_int_equal(used, 0);
		assert_true(got > 0);
	}
}

TEST_IN(connected, closed, a_request_in_pieces) {
	char frame[256];
	size_t length = request(frame, sizeof(frame), "reload"), i;

	for (i = 0; i < length; i++) {
		from_keeper(frame + i, 1);
		assert_int_equal(keeper_link_next(&link_here, &why),
		    i + 1 < length ? KEEPER_NOTHING : KEEPER_RELOAD);
	}
}

TEST_IN(connected, closed, an_unknown_command) {
	char frame[256], error[256];
	int code;

	from_keeper(frame, request(frame, sizeof(frame), "dance"));
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_REFUSED);
	assert_int_equal(answer(&code, error, sizeof(error)), 0);
	assert_int_equal(code, 64);
	from_keeper(frame, request(frame, sizeof(frame), "reload"));
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_RELOAD);
}

/* Two clients of the keeper at once. */
TEST_IN(connected, closed, two_requests_in_one_piece) {
	struct reload_outcome outcome = { .exit_code = 0 };
	char frames[512], error[256];
	size_t length = request(frames, sizeof(frames), "reload");
	int code;

	memcpy(frames + length, frames, length);
	from_keeper(frames, 2 * length);
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_RELOAD);
	keeper_link_answer(&link_here, &outcome);
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_NOTHING);
	assert_int_equal(answer(&code, error, sizeof(error)), 0);
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_RELOAD);
}

static size_t gate_request(char *out, size_t size, const char *word) {
	struct control_writer writer;

	control_writer_begin(&writer, out, size);
	control_writer_add(&writer, "command", "gate");
	if (word != NULL)
		control_writer_add(&writer, "gate", "%s", word);
	return control_writer_finish(&writer);
}

/* They are not answered, and a reload behind them is. */
TEST_IN(connected, closed, the_gate) {
	static const char *const bad[] = { "ajar", "", "shut it", NULL };
	struct reload_outcome outcome = { .exit_code = 0 };
	char frame[256], error[256];
	int code;

	from_keeper(frame, gate_request(frame, sizeof(frame), "shut"));
	from_keeper(frame, gate_request(frame, sizeof(frame), "open"));
	from_keeper(frame, request(frame, sizeof(frame), "reload"));
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_GATE_SHUT);
	assert_null(link_here.out);
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_GATE_OPEN);
	assert_null(link_here.out);
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_RELOAD);
	keeper_link_answer(&link_here, &outcome);
	assert_int_equal(answer(&code, error, sizeof(error)), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		from_keeper(frame, gate_request(frame, sizeof(frame), bad[i]));
		assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_BROKEN);
	}
}

TEST_IN(connected, closed, garbage) {
	from_keeper("GET / HTTP/1.0\r\n", 16);
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_BROKEN);
}

TEST_IN(connected, closed, a_request_without_an_end) {
	char body[KEEPER_LINK_REQUEST_MAX];
	enum keeper_request got = KEEPER_NOTHING;
	size_t written = 0;

	memset(body, 'a', sizeof(body));
	from_keeper("60000\n", 6);
	while (written < 60000 && got == KEEPER_NOTHING) {
		from_keeper(body, sizeof(body));
		written += sizeof(body);
		got = keeper_link_next(&link_here, &why);
	}
	assert_int_equal(got, KEEPER_BROKEN);
}

TEST_IN(connected, closed, a_keeper_that_is_gone) {
	struct reload_outcome outcome = { .exit_code = 0 };

	close(keeper_fd);
	assert_int_equal(keeper_link_next(&link_here, &why), KEEPER_NOTHING);
	assert_int_equal(link_here.fd, -1);
	keeper_link_answer(&link_here, &outcome);
	keeper_link_write(&link_here);
	keeper_fd = dup(STDIN_FILENO);
}

/* As many messages as a compilation keeps, each as long as it can be. */
TEST_IN(connected, closed, a_long_answer) {
	static struct reload_outcome outcome;
	char error[sizeof(outcome.error)];
	const size_t count = 1000;
	int code;
	size_t i;

	outcome = (struct reload_outcome){ .exit_code = 78, .report.needs_count = 2 };
	outcome.report.messages.list = calloc(count, sizeof(*outcome.report.messages.list));
	outcome.report.messages.count = count;
	assert_non_null(outcome.report.messages.list);
	for (i = 0; i < count; i++) {
		struct config_message *message = &outcome.report.messages.list[i];

		memset(message->file, '\\', sizeof(message->file) - 1);
		memset(message->text, '\1', sizeof(message->text) - 1);
	}
	snprintf(outcome.error, sizeof(outcome.error), "1000 mistakes");
	keeper_link_answer(&link_here, &outcome);
	assert_int_equal(answer(&code, error, sizeof(error)), count + 2);
	assert_int_equal(code, 78);
	assert_string_equal(error, "1000 mistakes");
	assert_null(link_here.out);
	free(outcome.report.messages.list);
}
