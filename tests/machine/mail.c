/* SPDX-License-Identifier: ISC */
/*
 * The queue manager: each message is asked about when it becomes active, waits in the queue of
 * its lane and domain, which is as wide as the lane says, and goes to its site.  A site takes so
 * many at once, refuses the others, and is not there for a while now and then.
 */
#include "tests/machine/mail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/machine/orders.h"
#include "tests/machine/world.h"

#define MAILS_MAX	400
#define LOG_BYTES	(2048 * 1024)
#define LINES_MAX	8192
#define PLAIN_WIDTH	5	/* of Postfix's own transport */
#define ASK_AGAIN_NS	(100 * NS_PER_MS)
#define TOLD_NS		NS_PER_SECOND
#define STARTED_SLACK_NS	(5 * NS_PER_MS)	/* of the figures of a line */

enum mail_state { MAIL_COMING, MAIL_ASKING, MAIL_QUEUED, MAIL_OUT, MAIL_DEFERRED, MAIL_DONE };

struct mail {
	enum mail_state state;
	unsigned domain;
	uint16_t width;			/* of its lane; 0: none */
	uint32_t question;		/* the last one */
	int64_t active_ns, started_ns, queued_ns;
	bool refused, is_aside, is_unknown;
	unsigned tries;
};

struct site {
	uint32_t limit, open;
	int64_t down_until_ns;
};

static struct {
	const struct plan *plan;
	struct draws draws;
	struct mail mails[MAILS_MAX];
	struct site sites[DOMAINS_MAX];
	struct mail_truth truth[DOMAINS_MAX];
	struct mail_line lines[LINES_MAX];
	unsigned line_count;
	char log[LOG_BYTES];
	size_t log_bytes;
	bool calm;
} all;

static void mail_ask(void *argument);
static void mail_pump(unsigned domain, uint16_t width);

const char *mail_domain(unsigned domain) {
	static const char *const names[DOMAINS_MAX] = { "d1.a", "d2.example", "d3.b", "d4.example",
		"d5.a", "d6.example", "s1.a", "s2.b", "s3.example" };

	return names[domain];
}

struct mail_truth mail_truth(unsigned domain) {
	return all.truth[domain];
}

/* --- the log ---------------------------------------------------------------------- */

bool mail_log_line(uint64_t offset, struct mail_line *line) {
	unsigned low = 0, high = all.line_count;

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (all.lines[middle].offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == all.line_count)
		return false;
	*line = all.lines[low];
	return true;
}

uint64_t mail_log_end(void) {
	return all.log_bytes;
}

uint64_t mail_log_begin(void) {
	memset(all.truth, 0, sizeof(all.truth));
	return all.log_bytes;
}

void mail_line_lost(const struct mail_line *line) {
	all.truth[line->domain].lost++;
}

static double seconds(int64_t ns) {
	return (double)ns / 1e9;
}

/* `agent`: of Postfix, behind the name of the lane. */
static void write_line(const struct mail *mail, const char *agent, const char *relay,
    const char *dsn, const char *status, const char *text) {
	int64_t now_ns = fibers_now_ns();
	int64_t sent_ns = mail->state == MAIL_OUT ? now_ns - mail->started_ns : 0;
	int64_t queued_ns = mail->state == MAIL_OUT ? mail->started_ns - mail->queued_ns : 0;
	char *at = all.log + all.log_bytes, lane[24] = "";
	int length;

	MUST(all.line_count < LINES_MAX && all.log_bytes + 1024 < LOG_BYTES);
	if (mail->width != 0)
		snprintf(lane, sizeof(lane), "lane%u/", mail->width);
	length = snprintf(at, 1024, "2026-11-28T10:00:00.123456+00:00 mx postfix/%s%s[7]: "
	    "%06X: to=<u%u@%s>, relay=%s, delay=%.3f, delays=0.01/%.3f/0/%.3f, dsn=%s, "
	    "status=%s (%s)", lane, agent, 0xA00000u + (unsigned)(mail - all.mails),
	    (unsigned)(mail - all.mails), mail_domain(mail->domain), relay,
	    seconds(sent_ns + queued_ns), seconds(queued_ns), seconds(sent_ns), dsn, status, text);
	all.log_bytes += (size_t)length + 1;
	at[length] = '\n';
	all.lines[all.line_count++] = (struct mail_line){ at, (size_t)length, all.log_bytes, now_ns,
		mail->state == MAIL_OUT ? mail->started_ns - STARTED_SLACK_NS : 0, mail->is_aside,
		mail->is_unknown, mail->domain };
	world_log("mail %u: %s%s %s (%s)", (unsigned)(mail - all.mails), lane, agent, status, text);
	feed_hear();
}

void mail_queue_id(uint32_t pid, char *out, size_t size) {
	snprintf(out, size, "6AL5rqXz%06u", pid);
}

void mail_told(uint32_t pid, unsigned letter, unsigned domain, bool sent) {
	bool down = fibers_now_ns() < all.sites[domain].down_until_ns;
	char *at = all.log + all.log_bytes, id[24];
	int length;

	MUST(all.line_count < LINES_MAX && all.log_bytes + 1024 < LOG_BYTES);
	mail_queue_id(pid, id, sizeof(id));
	*(sent ? &all.truth[domain].ok : &all.truth[domain].failed) += 1;
	length = snprintf(at, 1024, "2026-11-28T10:00:00.123456+00:00 mx sm-mta[%u]: %s: to=<u%u@%s>, "
	    "delay=00:00:01, xdelay=00:00:01, mailer=esmtp, pri=120017, relay=mx.%s. "
	    "[198.51.100.%u], dsn=%s, stat=%s", 7u, id, letter, mail_domain(domain),
	    mail_domain(domain), 10 + domain, sent ? "2.0.0" : down ? "4.4.1" : "4.7.0",
	    sent ? "Sent (ok)" : down ? "Deferred: Connection refused by mx" :
	    "Deferred: 421 4.7.0 too many connections");
	all.log_bytes += (size_t)length + 1;
	at[length] = '\n';
	all.lines[all.line_count++] = (struct mail_line){ at, (size_t)length, all.log_bytes,
		fibers_now_ns(), 0, false, false, domain };
	world_log("letter %u: %s", letter, sent ? "sent" : "deferred");
	feed_hear();
}

bool site_enter(unsigned domain) {
	struct site *site = &all.sites[domain];

	if (fibers_now_ns() < site->down_until_ns || site->open >= site->limit)
		return false;
	site->open++;
	return true;
}

void site_leave(unsigned domain) {
	all.sites[domain].open--;
}

/* --- messages --------------------------------------------------------------------- */

static void mail_later(struct mail *mail, int64_t least_ns, int64_t most_ns) {
	timer_at(fibers_now_ns() + draw_scale(&all.draws, least_ns, most_ns), mail_ask, mail);
}

/* Each time later, as a queue manager does. */
static void mail_is_deferred(struct mail *mail) {
	mail->state = MAIL_DEFERRED;
	mail_later(mail, 200 * NS_PER_MS, NS_PER_SECOND << (mail->tries < 2 ? mail->tries++ : 2));
}

static void mail_ask(void *argument) {
	struct mail *mail = argument;
	char address[64];

	mail->state = MAIL_ASKING;
	mail->active_ns = fibers_now_ns();
	snprintf(address, sizeof(address), "u%u@%s", (unsigned)(mail - all.mails),
	    mail_domain(mail->domain));
	if (!lookup_ask((unsigned)(mail - all.mails), ++mail->question, address)) {
		mail->state = MAIL_DEFERRED;
		mail_later(mail, ASK_AGAIN_NS, 2 * ASK_AGAIN_NS);
	}
}

void mail_lookup_lost(void) {
	for (unsigned i = 0; i < all.plan->mails; i++) {
		if (all.mails[i].state != MAIL_ASKING)
			continue;
		all.mails[i].state = MAIL_DEFERRED;
		mail_later(&all.mails[i], ASK_AGAIN_NS, 2 * ASK_AGAIN_NS);
	}
}

/* Where nothing fails, and no look takes long, what was ordered is told soon. */
static void check_order(unsigned domain, const struct hints_answer *answer) {
	int64_t held_ns = orders_held_ns(domain), open_ns = orders_open_ns(domain);
	int64_t soon_ns = fibers_now_ns() - TOLD_NS;

	if (all.plan->kills + all.plan->stops + all.plan->restarts > 0 || all.plan->pace < PACE_BRISK)
		return;
	if (held_ns != 0 && held_ns < soon_ns && orders_bind_mail(domain) && answer->kind != HINTS_HELD)
		world_fail("orders", "%s is held, and its mail may go", mail_domain(domain));
	if (open_ns != 0 && open_ns < soon_ns && answer->kind == HINTS_HELD &&
	    strstr(answer->text, "administrator") != NULL)
		world_fail("orders", "%s was resumed: %s", mail_domain(domain), answer->text);
}

void mail_answered(unsigned number, uint32_t question, const struct hints_answer *answer) {
	struct mail *mail = &all.mails[number];

	if (mail->state != MAIL_ASKING || mail->question != question)
		return;
	check_order(mail->domain, answer);
	mail->width = answer->kind == HINTS_LANE ? answer->width : 0;
	if (answer->kind == HINTS_HELD) {
		check_hold(answer->text);
		write_line(mail, "error", "none", "4.7.1", "deferred", answer->text);
		mail_is_deferred(mail);
		return;
	}
	mail->state = MAIL_QUEUED;
	mail->queued_ns = fibers_now_ns();
	mail_pump(mail->domain, mail->width);
}

/* A content filter of this host does not take it: that is no matter of the domain's. */
static void mail_meets_filter(struct mail *mail) {
	mail->is_aside = true;
	write_line(mail, "smtp", "127.0.0.1[127.0.0.1]:25", "4.3.0", "deferred",
	    "host 127.0.0.1[127.0.0.1] refused to talk to me: 421 4.3.0 no filter");
	mail->is_aside = false;
	mail_is_deferred(mail);
}

/* A host that the DNS does not know: nobody asked the site. */
static void mail_meets_nobody(struct mail *mail) {
	bool again = draw_below(&all.draws, 2) == 0;
	char text[160];

	snprintf(text, sizeof(text), "Host or domain name not found. Name service error for "
	    "name=mx.%s type=A: Host not found%s", mail_domain(mail->domain),
	    again ? ", try again" : "");
	mail->is_aside = again;
	mail->is_unknown = !again;
	write_line(mail, "smtp", "none", again ? "4.4.3" : "5.4.4", again ? "deferred" :
	    "bounced", text);
	mail->is_aside = mail->is_unknown = false;
	if (again) {
		mail_is_deferred(mail);
	} else {
		all.truth[mail->domain].failed++;
		mail->state = MAIL_DONE;
	}
}

static void mail_ends(void *argument) {
	struct mail *mail = argument;
	struct site *site = &all.sites[mail->domain];
	char relay[64], text[160];

	if (mail->refused && draw_below(&all.draws, 1000) < all.plan->filters) {
		mail_meets_filter(mail);
		mail_pump(mail->domain, mail->width);
		return;
	}
	if (mail->refused && draw_below(&all.draws, 1000) < all.plan->typos) {
		mail_meets_nobody(mail);
		mail_pump(mail->domain, mail->width);
		return;
	}
	snprintf(relay, sizeof(relay), "mx.%s[198.51.100.%u]:25", mail_domain(mail->domain),
	    10 + mail->domain);
	if (!mail->refused) {
		site->open--;
		all.truth[mail->domain].ok++;
		write_line(mail, "smtp", relay, "2.0.0", "sent", "250 2.0.0 Ok: queued as 4ZQ");
		mail->state = MAIL_DONE;
	} else {
		bool down = mail->started_ns < site->down_until_ns;

		snprintf(text, sizeof(text), down ? "connect to mx.%s[198.51.100.%u]:25: Connection "
		    "refused" : "host mx.%s[198.51.100.%u] refused to talk to me: 421 4.7.0 %s",
		    mail_domain(mail->domain), 10 + mail->domain,
		    draw_below(&all.draws, 1000) < all.plan->rules ? "come back later" :
		    "too many connections");
		all.truth[mail->domain].failed++;
		write_line(mail, "smtp", down ? "none" : relay, down ? "4.4.1" : "4.7.0",
		    "deferred", text);
		mail_is_deferred(mail);
	}
	mail_pump(mail->domain, mail->width);
}

static void mail_starts(struct mail *mail) {
	struct site *site = &all.sites[mail->domain];
	int64_t now_ns = fibers_now_ns();

	mail->state = MAIL_OUT;
	mail->started_ns = now_ns;
	mail->refused = now_ns < site->down_until_ns || site->open >= site->limit;
	if (!mail->refused)
		site->open++;
	timer_at(now_ns + draw_scale(&all.draws, 2 * NS_PER_MS, (mail->refused ? 10 : 300) *
	    NS_PER_MS), mail_ends, mail);
}

static void mail_pump(unsigned domain, uint16_t width) {
	uint32_t out = 0, most = width == 0 ? PLAIN_WIDTH : width;

	for (unsigned i = 0; i < all.plan->mails; i++)
		out += all.mails[i].state == MAIL_OUT && all.mails[i].domain == domain &&
		    all.mails[i].width == width;
	for (unsigned i = 0; i < all.plan->mails && out < most; i++) {
		struct mail *mail = &all.mails[i];

		if (mail->state != MAIL_QUEUED || mail->domain != domain || mail->width != width)
			continue;
		if (draw_below(&all.draws, 1000) < all.plan->deletions) {
			world_log("mail %u is deleted", i);
			mail->state = MAIL_DONE;
			continue;
		}
		mail_starts(mail);
		out++;
	}
}

bool mail_is_done(void) {
	for (unsigned i = 0; i < all.plan->mails; i++)
		if (all.mails[i].state != MAIL_DONE)
			return false;
	return true;
}

void mail_stuck(const char *what) {
	static const char *const words[] = { "coming", "asking", "queued", "out", "deferred" };

	for (unsigned i = 0; i < all.plan->mails; i++)
		if (all.mails[i].state != MAIL_DONE)
			world_fail("mail", "%s: message %u for %s is not delivered (%s, lane %u)", what,
			    i, mail_domain(all.mails[i].domain), words[all.mails[i].state],
			    all.mails[i].width);
	world_fail("mail", "%s", what);
}

/* --- the sites -------------------------------------------------------------------- */

static void site_goes(void *argument) {
	struct site *site = &all.sites[draw_below(&all.draws, all.plan->domains)];

	(void)argument;
	if (all.calm)
		return;
	site->down_until_ns = fibers_now_ns() +
	    draw_scale(&all.draws, 20 * NS_PER_MS, 5 * NS_PER_SECOND);
	world_log("site %s is away", mail_domain((unsigned)(site - all.sites)));
}

void mail_begin(const struct plan *plan) {
	static const uint32_t limits[] = { 1, 2, 3, 6, 100 };
	int64_t now_ns = fibers_now_ns() + NS_PER_MS;

	all.plan = plan;
	all.draws.state = plan->seed ^ UINT64_C(0x3a11);
	for (unsigned i = 0; i < DOMAINS_MAX; i++)
		all.sites[i].limit = limits[draw_below(&all.draws, 5)];
	for (uint32_t i = 0; i < plan->mails; i++) {
		all.mails[i].domain = draw_below(&all.draws, plan->domains);
		timer_at(now_ns + (int64_t)draw_below(&all.draws, plan->spread * 1000) * 1000,
		    mail_ask, &all.mails[i]);
	}
	for (uint32_t i = 0; i < plan->outages; i++)
		timer_at(now_ns + (int64_t)draw_below(&all.draws, plan->spread * 1000) * 1000,
		    site_goes, NULL);
}

void mail_calm(void) {
	all.calm = true;
	for (unsigned i = 0; i < DOMAINS_MAX; i++)
		all.sites[i].down_until_ns = 0;
}
