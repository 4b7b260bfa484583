/* SPDX-License-Identifier: ISC */
/*
 * What roles say to the supervisor, through its own readers: the first byte chooses reports of
 * the keeper (datagrams) or a lifeline (a pipe).  What is believed is within its bounds.  Orders for mail servers and queues have targets of their own.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/lifeline.h"
#include "role/run/keeper_orders.h"
#include "role/supervise/alerts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void is_text(const char *text, size_t size) {
	if (memchr(text, '\0', size) == NULL)
		abort();
	for (; *text != '\0'; text++)
		if (*text < ' ' || *text > '~')
			abort();
}

/* An alert is told by a command; the configuration here has one, for all kinds. */
static void told(const struct alert *alert) {
	static _Atomic uint64_t counters[COUNTER_COUNT];
	static struct alerts alerts;
	static struct generation generation;

	alerts_init(&alerts, counters);
	generation.alert.word_count = 1;
	generation.alert.on = UINT32_MAX;
	alerts_tell(&alerts, &generation, alert, 1);
	if (alerts.count != 1)
		abort();
}

static void hear_report(const uint8_t *data, size_t size) {
	struct keeper_report sent, report;
	struct keeper_orders orders;
	struct diag diag;
	const char *why = NULL;
	int fd, got;

	memset(&sent, 0, sizeof(sent));
	memcpy(&sent, data, size < sizeof(sent) ? size : sizeof(sent));
	keeper_orders_init(&orders);
	fd = keeper_orders_open(&orders, &diag);
	/* short ones are made whole: their size is all that is wrong with them */
	if (fd < 0 || !keeper_report_send(fd, &sent))
		abort();
	got = keeper_orders_read(&orders, 1, &report, &why);
	if (got == 0 || (got < 0 && why == NULL))
		abort();
	if (got > 0) {
		is_text(report.text, sizeof(report.text));
		if (report.kind == KEEPER_REPORT_ALERT) {
			is_text(report.alert.subject, sizeof(report.alert.subject));
			is_text(report.alert.text, sizeof(report.alert.text));
			is_text(report.alert.rule, sizeof(report.alert.rule));
			is_text(report.alert.id, sizeof(report.alert.id));
			told(&report.alert);
		}
	}
	if (size != 0 && size != sizeof(report)) {
		(void)!send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (keeper_orders_read(&orders, 1, &report, &why) > 0)
			abort();
	}
	close(fd);
	keeper_orders_close(&orders);
}

static void hear_lifeline(const uint8_t *data, size_t size) {
	struct lifeline_news news;
	struct diag diag;
	int fds[2];

	if (lifeline_open(fds, &diag) != 0)
		abort();
	(void)!write(fds[1], data, size);
	close(fds[1]);
	news = lifeline_read(fds[0]);
	if (news.stopped_call < -1 || (size < sizeof(uint32_t) && news.beat))
		abort();
	close(fds[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	static void (*const hear[])(const uint8_t *, size_t) = { hear_report, hear_lifeline };

	if (size > 0)
		hear[data[0] % 2](data + 1, size - 1);
	return 0;
}
