/* SPDX-License-Identifier: ISC */
/* The queue role's control server over a real socket, with a queue of the test's own. */
#include "tests/unit/test.h"

#include <event2/event.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/queue/queue.h"
#include "engine/queue/queue_journal.h"
#include "front/queue/queue_control.h"
#include "tests/unit/own_site.h"
#include "wire/link/control_frame.h"

#define CONFIGURATION "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 1; } );\n" \
	"mta = ( { name = \"out\"; kind = \"sendmail\"; user = \"root\"; } );\n"
#define MANY	600000u

/* --- the queue ------------------------------------------------------------------------ */

struct queue {
	uint32_t parts;
	struct queue_row row;
	uint32_t asked_most, told;
	bool unheard;		/* its run was not heard of yet */
	uint64_t more;		/* in the journal */
	bool unreadable, slow;	/* it is */
	unsigned lists;		/* that are open */
};

static struct queue queue;

const char *queue_wait_word(enum queue_wait wait) {
	static const char *const words[] = {
#define WAIT(symbol, word, text) word,
#include "defs/waits.def"
#undef WAIT
	};

	assert_int_equal(sizeof(words) / sizeof(words[0]), QUEUE_WAIT_COUNT);
	return words[wait];
}

const char *queue_why_word(enum queue_why why) {
	static const char *const words[] = {
#define WHY(symbol, word, text) word,
#include "defs/whys.def"
#undef WHY
	};

	assert_int_equal(sizeof(words) / sizeof(words[0]), QUEUE_WHY_COUNT);
	return words[why];
}

void queue_each(struct queue *q,
    bool (*each)(void *context, const struct queue_row *row), void *context) {
	for (q->told = 0; q->told < q->parts && each(context, &q->row); q->told++)
		;
}

uint64_t queue_journal_waiting(const struct queue *q) {
	return q->more;
}

void queue_each_next(struct queue *q, int64_t now_ns, uint32_t most,
    bool (*each)(void *context, const struct queue_row *row), void *context) {
	struct queue_row next = q->row;

	next.why = QUEUE_WHY_PREEMPTS;
	q->asked_most = most;
	for (uint32_t i = 0; i < q->parts && i < most && each(context, &next); i++)
		;
}

void queue_each_run(struct queue *q,
    bool (*each)(void *context, const struct queue_run_row *row), void *context) {
	int64_t now_ns = clock_now_ns() - NS_PER_SECOND / 2;
	struct queue_run_row row = { .run = 9, .pid = 0, .mta = 7, .messages = 2,
		.recipients = 30, .destination = "d\n.example", .started_ns = now_ns -
		90 * NS_PER_SECOND, .progress_ns = now_ns - NS_PER_SECOND, .stalls = true };

	if (q->unheard)
		row.progress_ns = 0;
	(void)each(context, &row);
}

/* Rows of the journal, in pieces of one. */
struct queue_journal_list {
	uint32_t told;
	bool sums_up, cut;
};

struct queue_journal_list *queue_journal_list_open(struct queue *q, bool sums_up) {
	struct queue_journal_list *list = q->more == 0 || q->unreadable ? NULL :
	    calloc(1, sizeof(*list));

	q->lists += list != NULL;
	if (list != NULL)
		list->sums_up = sums_up;
	return list;
}

bool queue_journal_list_step(struct queue_journal_list *list, int64_t now_ns,
    bool (*each)(void *context, const struct queue_row *row), void *context) {
	struct queue_row row = queue.row;

	row.id = "7AL9";
	if (queue.slow)
		usleep(1000);
	if (!list->sums_up)
		(void)each(context, &row);
	return ++list->told < queue.more;
}

bool queue_journal_list_is_cut(const struct queue_journal_list *list) {
	return list->cut;
}

void queue_journal_list_close(struct queue_journal_list **list) {
	queue.lists -= *list != NULL;
	free(*list);
	*list = NULL;
}

void queue_each_destination(struct queue *q, const struct queue_journal_list *list, int64_t now_ns,
    bool (*each)(void *context, const struct queue_destination_row *row), void *context) {
	struct queue_destination_row row = { .destination = "d.example", .messages = 3,
		.recipients = 40, .running = 1, .window = 0, .wait = QUEUE_WAITS_SUSPENDED,
		.doubtful = true, .oldest_ns = now_ns - 60 * NS_PER_SECOND,
		.due_ns = now_ns + 5 * NS_PER_SECOND };

	row.messages += list != NULL ? list->told : 0;
	(void)each(context, &row);
}

/* --- a client --------------------------------------------------------------------------- */

static struct event_base *base;
static struct queue_control *control;
static struct sockaddr_un place;
static socklen_t place_length;
static char *answer;
static size_t answer_length, answer_read;

static int begin(void **state) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	struct diag diag;

	site_open(&site, 100, CONFIGURATION);
	base = event_base_new();
	assert_int_equal(queue_control_open(&control, base, site.engine, &queue, &diag), 0);
	place = (struct sockaddr_un){ .sun_family = AF_UNIX };
	place_length = sizeof(place);
	assert_int_equal(bind(fd, (struct sockaddr *)&place, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 10), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&place, &place_length), 0);
	assert_int_equal(queue_control_listen(control, fd, NULL, &diag), 0);
	queue = (struct queue){ .parts = 1, .row = { .mta = 0, .id = "7AL1", .sender = "a@b",
		.destination = "d.example", .domains = 1, .recipients = 3, .unread = 4,
		.wait = QUEUE_WAITS_RETRY, .run = 0 } };
	return 0;
}

static int end(void **state) {
	queue_control_second(control, clock_now_ns());
	queue_control_close(&control);
	assert_null(control);
	event_base_free(base);
	site_close(&site);
	free(answer);
	answer = NULL;
	return 0;
}

/* The whole answer to a request; the greeting is stepped over. */
static void ask(const char *key1, const char *value1, const char *key2, const char *value2) {
	char request[1024];
	struct control_writer writer;
	struct control_frame frame;
	const char *why;
	ssize_t n;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&place, place_length), 0);
	control_writer_begin(&writer, request, sizeof(request));
	control_writer_add(&writer, "protocol", "1");
	control_writer_add(&writer, key1, "%s", value1);
	if (key2 != NULL)
		control_writer_add(&writer, key2, "%s", value2);
	n = (ssize_t)control_writer_finish(&writer);
	assert_int_equal(send(fd, request, (size_t)n, 0), n);
	shutdown(fd, SHUT_WR);
	free(answer);
	answer = malloc(80u << 20);
	assert_non_null(answer);
	answer_length = 0;
	for (;;) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		n = read(fd, answer + answer_length, (80u << 20) - answer_length);
		if (n == 0)
			break;
		answer_length += n > 0 ? (size_t)n : 0;
	}
	close(fd);
	n = control_frame_parse(answer, answer_length, &frame, &why);
	assert_true(n > 0);
	assert_string_equal(control_frame_get(&frame, "protocol"), "1");
	answer_read = (size_t)n;
}

static struct control_frame frame;	/* of the answer: the one that is looked at */

static void next_frame(void) {
	const char *why;
	long n = control_frame_parse(answer + answer_read, answer_length - answer_read, &frame,
	    &why);

	assert_true(n > 0);
	answer_read += (size_t)n;
}

static void must_be(const char *key, const char *value) {
	const char *is = control_frame_get(&frame, key);

	if (value == NULL)
		assert_null(is);
	else
		assert_string_equal(is != NULL ? is : "missing", value);
}

static void must_end(const char *exit_code, const char *error) {
	next_frame();
	must_be("end", "1");
	must_be("exit", exit_code);
	must_be("error", error);
	assert_int_equal(answer_read, answer_length);
}

/* --- tests --------------------------------------------------------------------------------- */

TEST_IN(begin, end, a_part_tells_all) {
	const char *since;
	uint32_t since_ms;

	queue.row.sender = "x\x1b[2J\n@b";
	queue.row.arrival_ns = clock_now_ns() - 90 * NS_PER_SECOND;
	queue.row.due_ns = clock_now_ns() + 100 * NS_PER_SECOND;
	queue.row.tries = 2;
	queue.row.tried_ns = clock_now_ns() - 30 * NS_PER_SECOND;
	ask("command", "queue", NULL, NULL);
	next_frame();
	must_be("row", "1");
	must_be("destination", "d.example");
	must_be("id", "7AL1");
	must_be("mta", "out");
	must_be("sender", "x\x1b[2J\n@b");
	must_be("recipients", "3");
	must_be("unread", "4");
	must_be("age", "90");
	since = control_frame_get(&frame, "since_ms");
	assert_true(text_to_u32(since, strlen(since), UINT32_MAX, &since_ms));
	assert_in_range(since_ms, 90000, 150000);
	must_be("tried", "30");
	must_be("tries", "2");
	must_be("wait", "retry");
	must_be("until", "100");
	must_be("run", "0");
	must_end("0", NULL);
}

TEST_IN(begin, end, what_is_not_known_is_left_out) {
	/* before the clock's start; until somebody resumes it; an mta of an old generation */
	queue.row.arrival_ns = clock_now_ns() - INT64_C(1) * 1000000 * NS_PER_SECOND;
	queue.row.due_ns = INT64_MAX;
	queue.row.mta = 200;
	ask("command", "queue", "pattern", "*.example");
	next_frame();
	must_be("age", "1000000");
	must_be("until", NULL);
	must_be("tried", NULL);
	must_be("mta", "");
	must_end("0", NULL);
}

TEST_IN(begin, end, destinations_and_runs) {
	ask("command", "queue", "view", "destinations");
	next_frame();
	must_be("destination", "d.example");
	must_be("messages", "3");
	must_be("recipients", "40");
	must_be("window", "0");
	must_be("wait", "suspended");
	must_be("doubtful", "1");
	must_be("proven", "0");
	must_be("age", "60");
	must_be("until", "5");
	must_end("0", NULL);
	ask("command", "queue", "view", "runs");
	next_frame();
	must_be("run", "9");
	must_be("pid", NULL);
	must_be("mta", "");
	must_be("destination", "d\n.example");
	must_be("age", "90");
	must_be("progress", "1");
	must_be("stalls", "1");
	must_be("adopted", "0");
	must_end("0", NULL);
}

TEST_IN(begin, end, next_tells_why) {
	queue.parts = 5;
	ask("command", "next", "most", "3");
	assert_int_equal(queue.asked_most, 3);
	for (int i = 0; i < 3; i++) {
		next_frame();
		must_be("why", "preempts");
		must_be("id", "7AL1");
	}
	must_end("0", NULL);
}

TEST_IN(begin, end, bad_requests_are_told) {
	ask("command", "next", "most", "0");
	must_end("64", "most: 1 to 10000");
	ask("command", "queue", "view", "all");
	must_end("64", "view: must be parts, destinations or runs");
	ask("command", "reload", NULL, NULL);
	must_end("64", "unknown command");
	ask("command", "", NULL, NULL);
	must_end("64", "unknown command");
}

/* 64 MB of rows, and an end that says so. */
TEST_IN(begin, end, an_answer_is_bounded) {
	uint32_t rows = 0;

	queue.parts = MANY;
	ask("command", "queue", NULL, NULL);
	assert_in_range(queue.told, 100000, MANY - 1);
	for (;; rows++) {
		next_frame();
		if (control_frame_get(&frame, "row") == NULL)
			break;
	}
	assert_int_equal(rows, queue.told);
	must_be("exit", "0");
	must_be("error", "the list is incomplete: too many entries");
}

/* Not the machine's uptime. */
TEST_IN(begin, end, a_run_that_was_not_heard_of_has_no_progress) {
	queue.unheard = true;
	ask("command", "queue", "view", "runs");
	next_frame();
	must_be("age", "90");
	assert_null(control_frame_get(&frame, "progress"));
}

/* Right after the role began: an empty queue is not taken for one. */
TEST_IN(begin, end, a_queue_that_is_being_read_says_so) {
	queue.parts = 0;
	queue_control_reading(control, true);
	ask("command", "queue", NULL, NULL);
	must_end("0", "the list is incomplete: the queue is being read for the first time");
	queue_control_reading(control, false);
	ask("command", "queue", NULL, NULL);
	must_end("0", NULL);
}

TEST_IN(begin, end, what_cannot_be_read_of_the_journal_is_counted) {
	queue.parts = 0;
	queue.more = 7;
	queue.unreadable = true;
	ask("command", "queue", NULL, NULL);
	next_frame();
	must_be("more", "7");
	must_be("error", "the list is incomplete: 7 more messages are in the journal");
	ask("command", "queue", "view", "runs");
	next_frame();
	assert_null(control_frame_get(&frame, "more"));
}

static void must_be_rows(const char *id, unsigned count) {
	for (unsigned i = 0; i < count; i++) {
		next_frame();
		must_be("id", id);
	}
}

/* At once, and where it is much in pieces. */
TEST_IN(begin, end, what_is_in_the_journal_alone_is_listed) {
	queue.more = 7;
	ask("command", "queue", NULL, NULL);
	must_be_rows("7AL9", 7);
	must_be_rows("7AL1", 1);
	must_end("0", NULL);
	ask("command", "queue", "view", "destinations");
	next_frame();
	must_be("messages", "10");
	must_end("0", NULL);
	queue.slow = true;
	queue.more = 200;
	ask("command", "queue", NULL, NULL);
	must_be_rows("7AL9", 200);
	must_be_rows("7AL1", 1);
	must_end("0", NULL);
	assert_int_equal(queue.lists, 0);
}

TEST_IN(begin, end, a_pattern_counts_for_both) {
	queue.more = 2;
	ask("command", "queue", "pattern", "D.example");
	must_be_rows("7AL9", 2);
	must_be_rows("7AL1", 1);
	must_end("0", NULL);
	ask("command", "queue", "pattern", "other.example");
	must_end("0", NULL);
	ask("command", "queue", "pattern", "a..b");
	must_end("64", "pattern: must be a mask or a name");
}

/* Nothing is left of its list. */
TEST_IN(begin, end, a_client_that_leaves_is_forgotten) {
	static const char request[] = "25\nprotocol=1\ncommand=queue\n";
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	queue.more = 100000;
	queue.slow = true;
	assert_int_equal(connect(fd, (struct sockaddr *)&place, place_length), 0);
	assert_int_equal(send(fd, request, sizeof(request) - 1, 0), sizeof(request) - 1);
	while (queue.lists == 0)
		event_base_loop(base, EVLOOP_NONBLOCK);
	close(fd);
	for (unsigned i = 0; i < 100000 && queue.lists > 0; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
	assert_int_equal(queue.lists, 0);
}
