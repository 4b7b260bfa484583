/* SPDX-License-Identifier: ISC */
/* A reload on its way to the keeper, which may die or be late. */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <sysexits.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "base/log.h"
#include "role/link/generation_memory.h"
#include "role/queue/queue_link.h"
#include "role/supervise/reload.h"
#include "role/supervise/supervisor.h"

static struct supervisor supervisor;
static char directory[] = "/tmp/postern-t-reload-XXXXXX";
static char path[64];		/* alone in it: a providers.conf beside it would be read */
static char last_line[1024];
static int orders_fd;		/* the keeper's end */
static struct keeper_order answer;	/* number 0: none came */
static struct compiler_report answer_report;

static void on_line(void *context, const char *line) {
	snprintf(last_line, sizeof(last_line), "%s", line);
}

static void configure(void) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs("version = 1;\nclasses = ( { name = \"all\"; match = \"*\"; } );\n",
	    file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void begin_keeper(void) {
	struct diag diag;

	orders_fd = keeper_orders_open(&supervisor.orders, &diag);
	assert_true(orders_fd >= 0);
}

static void end_keeper(void) {
	close(orders_fd);
	keeper_orders_close(&supervisor.orders);
}

static int begin(void **state) {
	struct config_messages messages;
	struct generation *given;
	struct diag diag;

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/conf", directory);
	log_redirect(on_line, NULL);
	last_line[0] = '\0';
	answer.number = 0;
	answer_report.fd = -1;
	configure();
	given = config_compile(path, &messages);
	for (size_t i = 0; i < messages.count; i++)
		print_message("%s:%d: %s\n", messages.list[i].file, messages.list[i].line,
		    messages.list[i].text);
	assert_non_null(given);
	supervisor = (struct supervisor){ .config_file = path,
		.generation_fd = generation_memory_make(given, &diag) };
	free(given);
	config_messages_free(&messages);
	keeper_orders_init(&supervisor.orders);
	supervisor.generation = generation_memory_map(supervisor.generation_fd, &diag);
	begin_keeper();
	return supervisor.generation != NULL ? 0 : -1;
}

static int end(void **state) {
	compiler_report_free(&answer_report);
	end_keeper();
	reload_end(&supervisor.reload);
	close(supervisor.generation_fd);
	generation_memory_unmap(supervisor.generation);
	unlink(path);
	rmdir(directory);
	snprintf(directory, sizeof(directory), "/tmp/postern-t-reload-XXXXXX");
	return 0;
}

static void take_answer(const struct keeper_order *order, int report_fd) {
	answer = *order;
	compiler_report_free(&answer_report);
	answer_report = (struct compiler_report){ .fd = report_fd };
	if (report_fd >= 0)
		assert_true(compiler_report_read(report_fd, &answer_report));
}

/* The number of the next order to publish; -1: there is none. */
static int64_t ordered(void) {
	struct keeper_order order;
	int fd;

	while (keeper_order_receive(orders_fd, &order, &fd) > 0) {
		if (order.kind == KEEPER_ORDER_RELOADED)
			take_answer(&order, fd);
		if (order.kind != KEEPER_ORDER_PUBLISH)
			continue;
		assert_true(fd >= 0);
		close(fd);
		return (int64_t)order.number;
	}
	return -1;
}

static void published(int64_t number) {
	const struct keeper_report report = { .kind = KEEPER_REPORT_PUBLISHED,
		.number = (uint64_t)number };

	assert_true(reload_hear(&supervisor, &report));
}

static void reports_nonsense(enum keeper_report_kind kind, uint64_t number) {
	const struct keeper_report report = { .kind = kind, .number = number };

	assert_false(reload_hear(&supervisor, &report));
}

/* As the supervisor does, which waits for any of its processes. */
static void compiled(void) {
	pid_t pid = supervisor.reload.compiler.pid;
	int status;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(reload_bury(&supervisor, pid, status));
}

static void begin_and_compile(uint64_t asked) {
	reload_begin(&supervisor, asked);
	compiled();
}

static bool is_answered(uint64_t asked) {
	assert_int_equal(ordered(), -1);
	return answer.number == asked;
}

TEST_IN(begin, end, who_asked_is_answered_when_it_is_published) {
	int64_t number;

	supervisor.last_number = 6;
	begin_and_compile(31);
	number = ordered();
	assert_int_equal(number, 7);
	assert_true(reload_is_busy(&supervisor.reload));
	assert_false(is_answered(31));
	published(number);
	assert_false(reload_is_busy(&supervisor.reload));
	assert_int_equal(supervisor.generation->number, 7);
	assert_true(is_answered(31));
}

/* The next keeper would take it for the answer to what it asks itself, or end. */
TEST_IN(begin, end, a_keeper_that_did_not_ask_gets_no_answer) {
	int64_t first, second;

	begin_and_compile(31);
	first = ordered();
	end_keeper();
	begin_keeper();
	reload_send_again(&supervisor);
	reload_turn(&supervisor, clock_now_ns());
	second = ordered();
	assert_true(second > first);
	published(second);
	assert_int_equal(supervisor.generation->number, second);
	assert_false(is_answered(31));
}

/* It is ordered, given up as its time is over, and published after all. */
static void give_up_and_publish(void) {
	int64_t number;

	begin_and_compile(0);
	number = ordered();
	assert_true(number > 0);
	reload_turn(&supervisor, clock_now_ns() + 11 * NS_PER_SECOND);
	assert_false(reload_is_busy(&supervisor.reload));
	published(number);
}

TEST_IN(begin, end, a_configuration_that_was_given_up_does_not_stay_in_force) {
	int64_t now_ns = clock_now_ns(), again;

	give_up_and_publish();
	reload_turn(&supervisor, now_ns);
	again = ordered();
	assert_int_equal(again, supervisor.last_number);
	published(again);
	assert_int_equal(supervisor.generation->number, again);
	/* once a second at most, but never forgotten */
	give_up_and_publish();
	reload_turn(&supervisor, now_ns + NS_PER_SECOND / 2);
	assert_int_equal(ordered(), -1);
	reload_turn(&supervisor, now_ns + NS_PER_SECOND);
	assert_true(ordered() > again);
	reload_turn(&supervisor, now_ns + 3 * NS_PER_SECOND);
	assert_int_equal(ordered(), -1);
}

/* A compromised keeper says another number than it was told. */
TEST_IN(begin, end, a_number_of_the_keepers_own_is_not_believed) {
	supervisor.last_number = supervisor.generation->number = supervisor.again_number = 7;
#ifdef WITH_QUEUE
	supervisor.link = role_row_of(ROLE_QUEUE)->link;
	supervisor.link->init(&supervisor);
	supervisor.queue->runs.known = true;
	supervisor.queue->runs.generation = 7;
#endif
	begin_and_compile(0);
	assert_int_equal(ordered(), 8);
	reports_nonsense(KEEPER_REPORT_PUBLISHED, 9);
	assert_true(reload_is_busy(&supervisor.reload));
	assert_int_equal(supervisor.generation->number, 7);
	published(8);
	assert_int_equal(supervisor.generation->number, 8);
#ifdef WITH_QUEUE
	assert_false(supervisor.queue->runs.known);
#endif
	reports_nonsense(KEEPER_REPORT_PUBLISHED, UINT64_MAX);
	assert_int_equal(supervisor.generation->number, 8);
}

/* Orders of queue and mail servers name the later number: they would be refused. */
TEST_IN(begin, end, a_number_never_goes_back) {
	const struct keeper_report missing = { .kind = KEEPER_REPORT_MISSING };
	int64_t again;

	supervisor.last_number = supervisor.generation->number = 6;
	assert_true(reload_hear(&supervisor, &missing));
	reload_turn(&supervisor, clock_now_ns());
	again = ordered();
	assert_int_equal(again, 7);
	begin_and_compile(0);
	assert_int_equal(ordered(), 8);
	published(8);
	assert_int_equal(supervisor.generation->number, 8);
	published(again);
	assert_int_equal(supervisor.generation->number, 8);
}

/* Each would be a line of log in root's name. */
TEST_IN(begin, end, what_was_never_ordered_is_no_report) {
	const struct keeper_report given_up = { .kind = KEEPER_REPORT_REFUSED, .number = 5,
		.text = "x" };

	supervisor.last_number = supervisor.generation->number = 6;
	reports_nonsense(KEEPER_REPORT_REFUSED, 0);
	reports_nonsense(KEEPER_REPORT_REFUSED, 7);
	reports_nonsense(KEEPER_REPORT_PUBLISHED, 0);
	assert_false(supervisor.is_to_repeat);
	/* one that was given up meanwhile is nobody's fault, and no news */
	assert_true(reload_hear(&supervisor, &given_up));
	assert_string_equal(last_line, "");
}

/* A configuration that takes long to compile would take all of our time: six seconds at once
 * (60 s of debt, at a tenth), then a tenth. */
TEST_IN(begin, end, reloads_of_the_keepers_take_a_tenth_of_the_time) {
	int64_t before_ns = clock_now_ns(), debt_ns;

	begin_and_compile(31);
	debt_ns = supervisor.compile_tat_ns - before_ns;
	published(ordered());
	assert_true(debt_ns > 0 && debt_ns <= 11 * (clock_now_ns() - before_ns));
	/* an administrator who reloads twice waits for nothing */
	assert_true(reload_may_be_asked(&supervisor, clock_now_ns()));
	supervisor.asked_tat_ns = 0;
	supervisor.compile_tat_ns = before_ns + 61 * NS_PER_SECOND;
	assert_false(reload_may_be_asked(&supervisor, before_ns + NS_PER_SECOND - 1));
	assert_true(reload_may_be_asked(&supervisor, before_ns + NS_PER_SECOND));
	/* root may at any time, and takes none from the keeper */
	begin_and_compile(0);
	assert_true(supervisor.compile_tat_ns == before_ns + 61 * NS_PER_SECOND);
	published(ordered());
}

/* The supervisor compiled itself, and started no role for a second. */
TEST_IN(begin, end, while_it_is_compiled_the_supervisor_goes_on) {
	reload_begin(&supervisor, 0);
	assert_true(reload_is_busy(&supervisor.reload));
	reload_turn(&supervisor, clock_now_ns());
	assert_int_equal(ordered(), -1);
	assert_false(reload_bury(&supervisor, getpid(), 0));
	compiled();
	assert_int_equal(ordered(), 1);
	published(1);
}

/* As long as that it is not compiled before it is stopped. */
static void configure_much(void) {
	FILE *file = fopen(path, "w");

	assert_true(file != NULL && fputs("version = 1;\nclasses = ( ", file) >= 0);
	for (unsigned i = 0; i < 20000; i++)
		assert_true(fprintf(file, "%s{ name = \"c%u\"; match = \"h%u.example\"; }\n",
		    i == 0 ? "" : ", ", i, i) > 0);
	assert_true(fputs(");\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
}

TEST_IN(begin, end, a_compilation_that_takes_too_long_is_given_up) {
	configure_much();
	reload_begin(&supervisor, 31);
	assert_int_equal(kill(supervisor.reload.compiler.pid, SIGSTOP), 0);
	reload_turn(&supervisor, clock_now_ns() + 61 * NS_PER_SECOND);
	compiled();
	assert_false(reload_is_busy(&supervisor.reload));
	assert_non_null(strstr(last_line, "the compiler process was killed"));
	assert_true(is_answered(31));
	configure();
	begin_and_compile(0);
	assert_int_equal(ordered(), 1);
	published(1);
}

TEST_IN(begin, end, mistakes_come_back_from_who_compiled) {
	FILE *file = fopen(path, "w");

	assert_true(file != NULL && fputs("version = 1;\nno = 1;\nneither = 1;\n"
	    "classes = ( { name = \"all\"; match = \"*\"; } );\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
	begin_and_compile(31);
	assert_non_null(strstr(last_line, "2 errors in the configuration"));
	assert_true(is_answered(31));
	assert_int_equal(answer.exit_code, EX_CONFIG);
	assert_string_equal(answer.text, "2 errors in the configuration");
	assert_int_equal(answer_report.messages.errors, 2);
	assert_string_equal(answer_report.messages.list[0].file, path);
	assert_int_equal(answer_report.messages.list[0].line, 2);
}

/* As many as are kept: they are in memory that is passed on, and fill no socket. */
TEST_IN(begin, end, a_long_report_comes_whole) {
	FILE *file = fopen(path, "w");

	assert_true(file != NULL && fputs("version = 1;\n", file) >= 0);
	for (unsigned i = 0; i < 1200; i++)
		assert_true(fprintf(file, "no%u = 1;\n", i) > 0);
	assert_true(fputs("classes = ( { name = \"all\"; match = \"*\"; } );\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
	begin_and_compile(31);
	assert_true(is_answered(31));
	assert_int_equal(answer_report.messages.errors, 1200);
	assert_int_equal(answer_report.messages.count, REPORT_KEPT);
	assert_int_equal(answer_report.messages.list[REPORT_KEPT - 1].line, REPORT_KEPT + 1);
}

TEST_IN(begin, end, what_a_keeper_says_stays_within_its_quotes) {
	const struct keeper_report report = { .kind = KEEPER_REPORT_REFUSED, .number = 7,
		.text = "x\" event=started pid=1 text=\"y" };

	supervisor.last_number = supervisor.again_number = 7;
	assert_true(reload_hear(&supervisor, &report));
	assert_string_equal(last_line,
	    "event=bad-request from=keeper text=\"x' event=started pid=1 text='y\"");
}
