/* SPDX-License-Identifier: ISC */
/* Orders and reports between supervisor and keeper, whose end may be anybody's. */
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "tests/unit/test.h"
#include "base/clock.h"
#include "role/link/generation_memory.h"
#include "role/run/compiler.h"
#include "role/run/keeper_duties.h"
#include "role/run/keeper_orders.h"
#include "tests/unit/site.h"

static struct keeper_orders orders;
static struct keeper_order order;
static struct keeper_report report;
static int keeper_fd, generation_fd;
static const char *why;

static int connected(void **state) {
	struct diag diag;

	keeper_orders_init(&orders);
	keeper_fd = keeper_orders_open(&orders, &diag);
	return keeper_fd >= 0 ? 0 : -1;
}

static int closed(void **state) {
	close(keeper_fd);
	keeper_orders_close(&orders);
	return 0;
}

TEST_IN(connected, closed, orders_arrive) {
	assert_int_equal(keeper_order_receive(keeper_fd, &order, &generation_fd), 0);
	assert_true(keeper_orders_send(&orders, &(struct keeper_order){
		.kind = KEEPER_ORDER_DIED, .place = 7, .pid = 4711 }, -1));
	assert_int_equal(keeper_order_receive(keeper_fd, &order, &generation_fd), 1);
	assert_int_equal(order.kind, KEEPER_ORDER_DIED);
	assert_int_equal(order.place, 7);
	assert_int_equal(order.pid, 4711);
	assert_int_equal(generation_fd, -1);
	keeper_orders_close(&orders);
	assert_int_equal(keeper_order_receive(keeper_fd, &order, &generation_fd), -1);
}

TEST_IN(connected, closed, counts_wait_for_a_keeper) {
	struct diag diag;

	keeper_orders_close(&orders);
	keeper_orders_count(&orders, COUNTER_RELOADS);
	keeper_orders_count(&orders, COUNTER_RELOADS);
	keeper_orders_turn(&orders);
	close(keeper_fd);
	keeper_fd = keeper_orders_open(&orders, &diag);
	keeper_orders_turn(&orders);
	keeper_orders_turn(&orders);
	assert_int_equal(keeper_order_receive(keeper_fd, &order, &generation_fd), 1);
	assert_int_equal(order.kind, KEEPER_ORDER_COUNT);
	assert_int_equal(order.counter, COUNTER_RELOADS);
	assert_int_equal(order.amount, 2);
	assert_int_equal(keeper_order_receive(keeper_fd, &order, &generation_fd), 0);
}

TEST_IN(connected, closed, a_generation_comes_sealed_and_whole) {
	struct generation *copy;
	struct site site;
	struct diag diag;
	int fd;

	site_open(&site, 64, "classes = ( { name = \"all\"; match = \"*\"; } );");
	fd = generation_memory_make(site.generation, &diag);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 0), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	assert_true(keeper_orders_send(&orders, &(struct keeper_order){
		.kind = KEEPER_ORDER_PUBLISH, .number = 3 }, fd));
	close(fd);
	assert_int_equal(keeper_order_receive(keeper_fd, &order, &generation_fd), 1);
	assert_int_equal(order.number, 3);
	assert_true(generation_fd >= 0);
	assert_int_equal(fcntl(generation_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	copy = generation_memory_map(generation_fd, &diag);
	assert_non_null(copy);
	assert_memory_equal(copy, site.generation, (size_t)site.generation->bytes);
	generation_memory_unmap(copy);
	close(generation_fd);
	site_close(&site);
}

TEST_IN(connected, closed, what_is_not_sealed_or_no_generation_is_refused) {
	int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	static const char zeros[65536];
	struct diag diag;

	assert_int_equal(write(fd, zeros, sizeof(zeros)), (int)sizeof(zeros));
	assert_null(generation_memory_map(fd, &diag));
	assert_int_equal(fcntl(fd, F_ADD_SEALS,
	    F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	assert_null(generation_memory_map(fd, &diag));
	close(fd);
	assert_null(generation_memory_map(-1, &diag));
}

/* The same bytes, which somebody could still change under the reader. */
TEST_IN(connected, closed, a_generation_that_is_not_sealed_is_refused) {
	int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct generation *copy;
	struct site site;
	struct diag diag;

	site_open(&site, 64, "classes = ( { name = \"all\"; match = \"*\"; } );");
	assert_int_equal(write(fd, site.generation, (size_t)site.generation->bytes),
	    (int)site.generation->bytes);
	assert_null(generation_memory_map(fd, &diag));
	assert_int_equal(fcntl(fd, F_ADD_SEALS,
	    F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	copy = generation_memory_map(fd, &diag);
	assert_non_null(copy);
	generation_memory_unmap(copy);
	close(fd);
	site_close(&site);
}

/* The supervisor could do nothing else. */
TEST_IN(connected, closed, a_flood_of_reports_waits) {
	const struct keeper_report sent = { .kind = KEEPER_REPORT_STATE };
	int64_t now_ns = clock_now_ns();
	struct pollfd polled;

	for (unsigned i = 0; i < 256; i++) {
		assert_true(keeper_report_send(keeper_fd, &sent));
		keeper_orders_poll(&orders, now_ns, &polled);
		assert_int_equal(polled.fd, orders.fd);
		assert_int_equal(keeper_orders_read(&orders, now_ns, &report, &why), 1);
	}
	assert_true(keeper_report_send(keeper_fd, &sent));
	keeper_orders_poll(&orders, now_ns, &polled);
	assert_int_equal(polled.fd, -1);
	assert_int_equal(keeper_orders_read(&orders, now_ns, &report, &why), 0);
	/* 500 a second, and none is lost */
	now_ns += NS_PER_SECOND / 500;
	assert_int_equal(keeper_orders_read(&orders, now_ns, &report, &why), 1);
	assert_int_equal(keeper_orders_read(&orders, now_ns, &report, &why), 0);
}

/* Its predecessor published what the supervisor had given up by then, and died. */
TEST_IN(connected, closed, a_keeper_puts_the_configuration_in_force_back) {
	struct role_context context = { .fds = { [ROLE_FD_ORDERS] = keeper_fd } };
	struct diag diag;
	struct site site;
	int fd;

	site_open(&site, 64, "classes = ( { name = \"all\"; match = \"*\"; } );");
	context.segment = site.segment;
	context.generation_number = site.generation->number;
	assert_int_equal(keeper_duties_prepare(&context, &diag), 0);
	assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), 0);
	context.generation_number++;
	fd = generation_memory_make(site.generation, &diag);
	assert_true(keeper_orders_send(&orders, &(struct keeper_order){
		.kind = KEEPER_ORDER_PUBLISH, .number = 77 }, fd));
	close(fd);
	assert_int_equal(keeper_duties_prepare(&context, &diag), 0);
	assert_int_equal(atomic_load(&segment_header(site.segment)->generation), 77);
	assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), 1);
	assert_int_equal(report.kind, KEEPER_REPORT_MISSING);
	assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), 1);
	assert_int_equal(report.kind, KEEPER_REPORT_PUBLISHED);
	assert_int_equal(report.number, 77);
	site_close(&site);
}

/* It woke the supervisor each second, to say what it had said before. */
TEST_IN(connected, closed, a_keeper_says_what_changed) {
	struct role_context context = { .fds = { [ROLE_FD_ORDERS] = keeper_fd } };
	struct event_base *base = event_base_new();
	static struct keeper_duties *duties;	/* they are as long as the keeper is */
	struct segment_header *header;
	struct diag diag;
	struct site site;
	int fd;

	site_open(&site, 64, "classes = ( { name = \"all\"; match = \"*\"; } );");
	fd = open(segment_path(site.segment), O_RDWR | O_CLOEXEC);
	assert_int_equal(segment_attach(&context.segment, fd, segment_path(site.segment), &diag),
	    0);
	header = segment_header(context.segment);
	assert_int_equal(keeper_duties_open(&duties, &context, base, &diag), 0);
	for (uint32_t ill = 0; ill < 2; ill++) {
		atomic_store(&header->journals[0].fares, ill ? JOURNAL_FARES_ILL :
		    JOURNAL_FARES_WELL);
		keeper_duties_second(duties);
		assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), 1);
		assert_int_equal(report.kind, KEEPER_REPORT_STATE);
		assert_int_equal(report.journal_failed, ill);
		keeper_duties_second(duties);
		assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), 0);
	}
	event_base_free(base);
	segment_unmap(&context.segment);
	site_close(&site);
}

static struct keeper_report alert_report(void) {
	struct keeper_report alert = { .kind = KEEPER_REPORT_ALERT };

	alert_begin(&alert.alert, ALERT_GATE, "gate");
	return alert;
}

TEST_IN(connected, closed, reports_arrive) {
	struct keeper_report sent = alert_report();

	assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), 0);
	assert_true(keeper_report_send(keeper_fd, &sent));
	assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), 1);
	assert_string_equal(report.alert.subject, "gate");
	close(keeper_fd);
	keeper_fd = -1;
	assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), 0);
	assert_int_equal(orders.fd, -1);
}

static void is_refused(const struct keeper_report *sent) {
	assert_true(keeper_report_send(keeper_fd, sent));
	why = NULL;
	assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), -1);
	assert_non_null(why);
}

TEST_IN(connected, closed, a_report_that_makes_no_sense_is_refused) {
	struct keeper_report sent = alert_report();

	sent.kind = 99;
	is_refused(&sent);
	sent = alert_report();
	/* the death of another role is not for it to report */
	sent.alert.kind = ALERT_ROLE;
	assert_false(keeper_report_is_sound(&sent, &why));
	sent.alert.kind = (enum alert_kind)ALERT_KINDS;
	is_refused(&sent);
	sent = alert_report();
	memset(sent.alert.text, 'x', sizeof(sent.alert.text));
	is_refused(&sent);
	sent = alert_report();
	memcpy(sent.alert.subject, "--help\n", sizeof("--help\n"));
	is_refused(&sent);
	sent = alert_report();
	memset(&sent.alert.observed, 2, sizeof(sent.alert.observed));
	is_refused(&sent);
	sent = (struct keeper_report){ .kind = KEEPER_REPORT_REFUSED, .text = "\x1b[2J" };
	is_refused(&sent);
	assert_int_equal(send(keeper_fd, "short", 5, 0), 5);
	assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), -1);
}

/* As the keeper passes it on for posternctl: by its number, with what was compiled. */
TEST_IN(connected, closed, what_came_of_a_reload_arrives_with_its_report) {
	const struct keeper_order reloaded = { .kind = KEEPER_ORDER_RELOADED,
		.number = 5, .exit_code = 78, .text = "no" };
	const struct compiler_report written = { .needs_count = 1,
		.needs_restart = { "state.sessions" } };
	struct compiler_report read;
	int fd = memfd_create("report", MFD_CLOEXEC);

	assert_int_equal(write(fd, &written, sizeof(written)), (int)sizeof(written));
	assert_true(keeper_orders_send(&orders, &reloaded, fd));
	assert_true(keeper_orders_send(&orders, &reloaded, -1));
	close(fd);
	assert_int_equal(keeper_order_receive(keeper_fd, &order, &generation_fd), 1);
	assert_int_equal(order.kind, KEEPER_ORDER_RELOADED);
	assert_int_equal(order.number, 5);
	assert_int_equal(order.exit_code, 78);
	assert_string_equal(order.text, "no");
	assert_true(compiler_report_read(generation_fd, &read));
	assert_string_equal(read.needs_restart[0], "state.sessions");
	compiler_report_free(&read);
	assert_int_equal(keeper_order_receive(keeper_fd, &order, &generation_fd), 1);
	assert_int_equal(generation_fd, -1);
}

TEST_IN(connected, closed, requests_arrive_in_their_order) {
	static const enum keeper_report_kind kinds[] = { KEEPER_REPORT_GATE_SHUT,
		KEEPER_REPORT_GATE_OPEN, KEEPER_REPORT_RELOAD };
	struct keeper_report sent = { .number = 3 };

	for (unsigned i = 0; i < 3; i++) {
		sent.kind = kinds[i];
		assert_true(keeper_report_send(keeper_fd, &sent));
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(keeper_orders_read(&orders, clock_now_ns(), &report, &why), 1);
		assert_int_equal(report.kind, kinds[i]);
	}
	assert_int_equal(report.number, 3);
	/* it is how the answer finds who asked */
	sent.number = 0;
	is_refused(&sent);
}
