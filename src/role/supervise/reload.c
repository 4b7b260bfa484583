/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Reload: SIGHUP and posternctl both end here.
 * MODEL    Have it compiled, keep what waits for a restart, seal the block, have the keeper
 *          publish it.
 *          Until it reports that it did, nothing has changed; a keeper that dies meanwhile
 *          gives the order to its successor, which publishes the same once more.
 * ERRORS   A mistake in the file, a full disk or no keeper: the old configuration stays, and
 *          everybody who asked hears why.  A keeper that publishes after we gave up is ordered
 *          to publish the one that we have.
 * THREADS  The supervisor's.
 */
#include "role/supervise/reload.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/sd_notify.h"
#include "base/text.h"
#include "role/supervise/children.h"
#include "role/confine/confinement.h"
#include "role/link/generation_memory.h"
#include "role/run/keeper_orders.h"
#include "role/supervise/site_watch.h"

#define PUBLISH_LIMIT_NS	(10 * NS_PER_SECOND)
/* What the keeper asks for takes a tenth of the time, after six seconds at once. */
#define COMPILE_SHARE	10
#define COMPILE_BURST_NS	(COMPILE_SHARE * 6 * NS_PER_SECOND)

void reload_log_messages(const struct config_messages *messages) {
	size_t i;

	for (i = 0; i < messages->count; i++) {
		const struct config_message *message = &messages->list[i];
		char file[512], text[sizeof(message->text)];

		log_event(message->severity == MESSAGE_ERROR ? EVENT_CONFIG :
			EVENT_CONFIG_NOTE,
		    "place=%s:%d text=\"%s\"",
		    log_quote(file, sizeof(file), message->file,
			strlen(message->file)),
		    message->line,
		    log_sentence(text, sizeof(text), message->text));
	}
}

/* By posternctl.  Each is work for root, and some lines of log: a keeper that is not ours any
 * more could ask for thousands a second. */
static const struct rate_limit asked_rate = { .period_ns = NS_PER_SECOND, .count = 4,
	.burst = 10 };

bool reload_is_busy(const struct reload *reload) {
	return reload->block != NULL || reload->compiler.pid != 0;
}

void reload_end(struct reload *reload) {
	compiler_end(&reload->compiler);
	if (reload->block != NULL)
		close(reload->fd);
	generation_memory_unmap(reload->block);
	reload->block = NULL;
}

/* However it went. */
static void reload_finish(struct supervisor *supervisor) {
	struct reload *reload = &supervisor->reload;

	if (reload->is_reload) {
		reload->answer.amount = supervisor->generation->number;
		/* a keeper that does not read it now cannot be waiting for it */
		if (reload->answer.number != 0)
			(void)keeper_orders_send(&supervisor->orders, &reload->answer,
			    reload->report.fd);
		compiler_report_free(&reload->report);
		sd_notify_send("READY=1");
	}
	reload_end(reload);
}

static void reload_refuse(struct supervisor *supervisor, int code, const char *why) {
	struct keeper_order *answer = &supervisor->reload.answer;
	char reason[sizeof(answer->text)];

	log_sentence(reason, sizeof(reason), why);
	if (supervisor->reload.is_reload) {
		answer->exit_code = code;
		text_copy(answer->text, sizeof(answer->text), why, strlen(why));
		keeper_orders_count(&supervisor->orders, COUNTER_RELOADS_REFUSED);
		log_event(EVENT_CONFIG,
		    "text=\"reload failed; the old configuration stays active\" "
		    "generation=%" PRIu64 " reason=\"%s\"",
		    supervisor->generation->number, reason);
	} else {
		log_event(EVENT_SYSTEM, "text=\"%s\"", reason);
	}
	reload_finish(supervisor);
}

/* Takes the descriptor over. */
static void reload_order(struct supervisor *supervisor, int fd) {
	struct reload *reload = &supervisor->reload;
	struct diag diag;

	reload->block = generation_memory_map(fd, &diag);
	if (reload->block == NULL) {
		close(fd);
		reload_refuse(supervisor, EX_OSERR, diag.text);
		return;
	}
	reload->fd = fd;
	reload->began_ns = clock_now_ns();
	reload->sent = false;
	reload_turn(supervisor, reload->began_ns);
}

void reload_begin(struct supervisor *supervisor, uint64_t asked) {
	struct reload *reload = &supervisor->reload;
	int64_t now_ns = clock_now_ns();
	struct diag diag;

	*reload = (struct reload){ .is_reload = true, .began_ns = now_ns, .report.fd = -1,
		.answer = { .kind = KEEPER_ORDER_RELOADED, .number = asked } };
	if (asked != 0)
		supervisor->asked_tat_ns = rate_after(&asked_rate, supervisor->asked_tat_ns,
		    now_ns);
	sd_notify_reloading();
	if (compiler_start(&reload->compiler, supervisor->config_file, supervisor->generation,
		now_ns, &diag) != 0)
		reload_refuse(supervisor, EX_OSERR, diag.text);
}

/* As the bucket of policy/limit/rate.h, with nanoseconds for events. */
static void reload_pay(struct supervisor *supervisor, int64_t taken_ns, int64_t now_ns) {
	int64_t tat_ns = supervisor->compile_tat_ns;

	supervisor->compile_tat_ns = (tat_ns > now_ns ? tat_ns : now_ns) +
	    COMPILE_SHARE * taken_ns;
}

bool reload_bury(struct supervisor *supervisor, pid_t pid, int status) {
	struct reload *reload = &supervisor->reload;
	struct compiler_report *report = &reload->report;
	int64_t now_ns = clock_now_ns();
	struct diag diag;
	char text[64];
	int fd;

	if (pid != reload->compiler.pid)
		return false;
	if (reload->answer.number != 0)
		reload_pay(supervisor, now_ns - reload->began_ns, now_ns);
	fd = compiler_result(&reload->compiler, status, report, &diag);
	reload_log_messages(&report->messages);
	for (size_t i = 0; i < report->needs_count; i++)
		log_event(EVENT_NEEDS_RESTART, "setting=%.*s",
		    (int)sizeof(report->needs_restart[i]), report->needs_restart[i]);
	if (fd >= 0) {
		reload_order(supervisor, fd);
	} else if (report->messages.errors == 0) {
		reload_refuse(supervisor, EX_OSERR, diag.text);
	} else {
		snprintf(text, sizeof(text), "%zu error%s in the configuration",
		    report->messages.errors, report->messages.errors == 1 ? "" : "s");
		reload_refuse(supervisor, EX_CONFIG, text);
	}
	return true;
}

bool reload_may_be_asked(const struct supervisor *supervisor, int64_t now_ns) {
	return !reload_is_busy(&supervisor->reload) &&
	    rate_allows(&asked_rate, supervisor->asked_tat_ns, now_ns) &&
	    supervisor->compile_tat_ns - now_ns <= COMPILE_BURST_NS;
}

void reload_site(struct supervisor *supervisor, const struct generation *block) {
	struct diag diag;
	int fd = generation_memory_make(block, &diag);

	supervisor->reload = (struct reload){ .is_reload = false };
	if (fd >= 0)
		reload_order(supervisor, fd);
	else
		reload_refuse(supervisor, EX_OSERR, diag.text);
}

static bool reload_publish(const struct supervisor *supervisor, int generation_fd) {
	const struct keeper_order order = { .kind = KEEPER_ORDER_PUBLISH,
		.number = supervisor->last_number + 1 };

	return keeper_orders_send(&supervisor->orders, &order, generation_fd);
}

/* A keeper that asks for it all the time gets it once a second. */
static void reload_repeat(struct supervisor *supervisor, int64_t now_ns) {
	if (!supervisor->is_to_repeat || now_ns - supervisor->repeated_ns < NS_PER_SECOND ||
	    !reload_publish(supervisor, supervisor->generation_fd))
		return;
	supervisor->again_number = ++supervisor->last_number;
	supervisor->is_to_repeat = false;
	supervisor->repeated_ns = now_ns;
	log_event(EVENT_SYSTEM, "text=\"published again, because generation %" PRIu64 " was "
	    "missing, damaged or replaced\"", supervisor->generation->number);
}

void reload_turn(struct supervisor *supervisor, int64_t now_ns) {
	struct reload *reload = &supervisor->reload;

	if (!reload_is_busy(reload)) {
		reload_repeat(supervisor, now_ns);
		return;
	}
	if (reload->compiler.pid != 0) {
		compiler_turn(&reload->compiler, now_ns);
		return;
	}
	if (!reload->sent && reload_publish(supervisor, reload->fd)) {
		reload->number = ++supervisor->last_number;
		reload->sent = true;
	}
	if (now_ns - reload->began_ns > PUBLISH_LIMIT_NS)
		reload_refuse(supervisor, EX_TEMPFAIL, reload->sent ?
		    "the keeper did not publish it in time" : "there is no keeper to publish it");
}

static void reload_published(struct supervisor *supervisor) {
	struct reload *reload = &supervisor->reload;
	struct generation *before = supervisor->generation, *block = reload->block;

	/* those that rest take it up now */
	children_nudge(supervisor);
	block->number = reload->number;
	/* no number goes back: orders of the later one would be refused */
	supervisor->again_number = 0;
	supervisor->is_to_repeat = false;
	close(supervisor->generation_fd);
	supervisor->generation = block;
	supervisor->generation_fd = reload->fd;
	reload->block = NULL;
	if (supervisor->link != NULL)
		supervisor->link->reloaded(supervisor);
	if (reload->is_reload) {
		children_replan(supervisor);
		keeper_orders_count(&supervisor->orders, COUNTER_RELOADS);
		log_event(EVENT_RELOADED, "generation=%" PRIu64 " classes=%u rules=%u",
		    block->number, block->class_count, block->rule_count);
		confinement_note(block);
	} else {
		site_watch_published(before, block);
	}
	generation_memory_unmap(before);
	reload_finish(supervisor);
}

/* As which the one in force was ordered again. */
static void reload_repeated(struct supervisor *supervisor, const struct keeper_report *report) {
	char text[sizeof(report->text)];

	supervisor->again_number = 0;
	if (report->kind == KEEPER_REPORT_PUBLISHED) {
		supervisor->generation->number = report->number;
		children_nudge(supervisor);
	} else {
		log_event(EVENT_BAD_REQUEST, "from=keeper text=\"%s\"",
		    log_sentence(text, sizeof(text), report->text));
	}
}

bool reload_hear(struct supervisor *supervisor, const struct keeper_report *report) {
	struct reload *reload = &supervisor->reload;
	bool is_awaited = reload_is_busy(reload) && reload->sent &&
	    report->number == reload->number;

	if (report->kind != KEEPER_REPORT_MISSING &&
	    (report->number == 0 || report->number > supervisor->last_number))
		return false;
	if (report->kind == KEEPER_REPORT_PUBLISHED && is_awaited)
		reload_published(supervisor);
	else if (report->kind == KEEPER_REPORT_REFUSED && is_awaited)
		reload_refuse(supervisor, EX_TEMPFAIL, report->text);
	else if (report->kind != KEEPER_REPORT_MISSING &&
	    report->number == supervisor->again_number)
		reload_repeated(supervisor, report);
	else if (report->kind != KEEPER_REPORT_REFUSED && !reload_is_busy(reload))
		supervisor->is_to_repeat = true;
	return true;
}

void reload_send_again(struct supervisor *supervisor) {
	supervisor->reload.sent = false;
	/* it was the keeper before that asked */
	supervisor->reload.answer.number = supervisor->reload_asked = 0;
}
