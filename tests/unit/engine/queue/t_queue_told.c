/* SPDX-License-Identifier: ISC */
/* Who is taken out of a queue file as delivered: those that lines of the log name which are
 * whole, of this message, its age and the process that had it, where that one died; and nobody
 * else, whatever stands in the log. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/outbound/outbound.h"
#include "engine/queue/queue.h"
#include "segment/file/internal.h"
#include "segment/queue/told.h"
#include "tests/unit/own_site.h"
#include "tests/unit/engine/queue/queue_defaults.h"
#include "wire/mail/mail_log.h"
#include "wire/mail/sendmail_sent.h"
#define TEXT "classes = ( { name = \"all\"; match = \"*\"; hold_at = 1000; refuse_at = 1000; } );\n" \
	"mta = ( { name = \"s\"; kind = \"sendmail\"; log = \"/a\"; } );\n"
#define ID "6AR6eCmg000124"
#define MADE_S INT64_C(1795761612)	/* Nov 27 06:40:12 2026, UTC */
#define PID 131
#define FIELDS ", delay=00:00:02, xdelay=00:00:00, mailer=esmtp, pri=990020, relay=h2.far.example. " \
	"[198.51.100.3], dsn=2.0.0, stat=Sent (taken)"
#define LINE(to) "Nov 27 06:40:14 mx sendmail[131]: " ID ": to=" to FIELDS

static const char *const everybody[] = { "aaaa@one.example", "bbbb@one.example", "cccc@two.example",
	"dddd@three.example" };
enum { A = 1, B = 2, C = 4, D = 8, ALL = 15 };

static struct queue *queue;
static int64_t now_ns;
static unsigned tries;
static bool wants_read;

static void on_read(void *context, unsigned directory, const char *id, uint64_t place) {
	(void)context, (void)directory;
	assert_string_equal(id, ID);
	wants_read = wants_read || place == 0;
}

static void on_room(void *context) {
	(void)context;
}

static void begin(enum exactly_once once, const char *more) {
	static const struct queue_calls calls = { on_read, on_room, NULL };
	static const struct queue_directory directory = { .mta_name = "s", .path = "/q" };
	struct queue_settings settings = queue_defaults;
	char text[1024];
	struct diag diag;

	(void)snprintf(text, sizeof(text), "%s%s", TEXT, more);
	site_open(&site, 100, text);
	now_ns = clock_now_ns();
	tries = 0;
	settings.mtas[0] = (struct generation_mta){ .drive = 1, .processes = 4,
		.local_processes = 4,
		.retry_ns = NS_PER_SECOND, .retry_most_ns = NS_PER_SECOND,
		.stall_ns = 10 * NS_PER_SECOND, .exactly_once = once };
	assert_int_equal(queue_open(&queue, site.engine, &settings, &directory, 1, &calls, &diag), 0);
}

static void end(void) {
	queue_close(&queue);
	site_close(&site);
}

static void pass(int64_t ns) {
	now_ns += ns;
	engine_heartbeat(site.engine, now_ns);
	told_reached(site.segment, now_ns);
	(void)queue_turn(queue, now_ns);
}

/* Its file, as it stands there with these recipients. */
static void read_file(unsigned left) {
	struct queue_file file = { .stamp = 7 + tries, .inode = 7 + tries, .arrival_ns = now_ns -
		NS_PER_SECOND, .tries = tries, .tried_ns = tries == 0 ? 0 : now_ns,
		.recipients = (uint32_t)__builtin_popcount(left), .made_s = MADE_S,
		.sender = "s@example.com", .sender_length = 13 };

	assert_true(queue_read_begin(queue, 0, ID, &file));
	for (unsigned i = 0; i < 4; i++)
		if ((left >> i & 1) != 0)
			assert_true(queue_read_recipient(queue, strchr(everybody[i], '@') + 1,
			    strlen(strchr(everybody[i], '@') + 1)));
	queue_read_end(queue, true, 0, now_ns);
	wants_read = false;
}

static uint32_t run(pid_t pid) {
	struct queue_run next;

	for (unsigned i = 0; i < 100 && !queue_next_run(queue, now_ns, &next); i++)
		pass(100 * NS_PER_MS);
	assert_int_equal(next.count, 1);
	queue_run_started(queue, next.run, pid, now_ns);
	return next.run;
}

/* As the feed role does. */
static void hear(const char *text, size_t length) {
	struct told_line line = { .log = 1, .offset = 2 };
	struct log_line read;
	int64_t ms;

	if (mail_log_scan(text, length, &read) != LOG_LINE_DELIVERY && read.kind != LOG_LINE_BROKEN)
		return;
	if (read.delivery.source != DELIVERY_OF_SENDMAIL || read.queue_id.length == 0 ||
	    read.queue_id.length > TOLD_ID_MAX || read.delivery.list.length > TOLD_LIST_MAX)
		return;
	line.pid = read.pid;
	line.goes_on = sendmail_list_goes_on(&read);
	line.delay_s = read.delivery.delay_ms / 1000;
	if (read.kind == LOG_LINE_DELIVERY && read.delivery.status != DELIVERY_SENT)
		line.what = TOLD_NOT;
	else if (read.kind == LOG_LINE_DELIVERY && sendmail_line_is_sent(&read) &&
	    log_date_read(read.head, 2026, &ms)) {
		line.what = TOLD_SENT;
		line.written_s = ms / 1000;
	}
	line.id_length = (uint16_t)read.queue_id.length;
	memcpy(line.id, read.queue_id.text, line.id_length);
	line.list_length = (uint16_t)read.delivery.list.length;
	memcpy(line.list, read.delivery.list.text, line.list_length);
	assert_true(told_put(site.segment, &line));
}

static void say(const char *text) {
	hear(text, strlen(text));
	pass(NS_PER_MS);
}

/* Those that are taken out, by the next run's questions. */
static unsigned asked(enum verdict *of_all) {
	const struct process_identity identity = { .pid = 4194304 + 9, .start_ticks = 77 };
	struct outbound_process *process = outbound_process_open(site.engine, &identity);
	unsigned out = 0;

	for (unsigned i = 0; i < 4; i++) {
		const char *host = strchr(everybody[i], '@') + 1;
		const struct outbound_question question = { .stage = OUTBOUND_BEFORE_CONNECT,
			.destination = host, .destination_length = strlen(host),
			.recipient = everybody[i], .recipient_length = strlen(everybody[i]),
			.queue_id = ID, .queue_id_length = strlen(ID) };
		struct outbound_answer answer;

		outbound_process_ask(process, site.generation, &question, now_ns, &answer);
		if (answer.answer.decision.reason == REASON_DELIVERED) {
			assert_int_not_equal(answer.answer.id, 0);
			out |= 1u << i;
			*of_all = answer.answer.decision.verdict;
		}
	}
	outbound_process_close(&process, site.generation, now_ns);
	return out;
}

static unsigned discarded(void) {
	enum verdict verdict = VERDICT_DISCARD;
	unsigned out = asked(&verdict);

	assert_int_equal(verdict, VERDICT_DISCARD);
	return out;
}

/* The process ends; the file lists all of them still. */
static void ends(uint32_t number, enum queue_run_end how, bool touched) {
	queue_run_ended(queue, number, how, now_ns);
	assert_true(wants_read);
	tries += touched;
	read_file(ALL);
	pass(3 * NS_PER_SECOND);
}

static uint32_t first_run(void) {
	read_file(ALL);
	return run(PID);
}

TEST(who_was_delivered_by_a_process_that_was_killed_is_taken_out) {
	uint32_t number;

	begin(EXACTLY_ONCE_ENFORCE, "");
	number = first_run();
	say(LINE("<aaaa@one.example>,<bbbb@one.example>"));
	say(LINE("<cccc@two.example>"));
	ends(number, QUEUE_RUN_KILLED, false);
	number = run(200);
	assert_int_equal(discarded(), A | B | C);
	/* and again, if that one is killed, too: a line of it comes to it */
	say("Nov 27 06:40:22 mx sendmail[200]: " ID ": to=<dddd@three.example>, delay=00:00:10, "
	    "xdelay=00:00:00, mailer=esmtp, pri=990020, relay=h. [198.51.100.3], dsn=2.0.0, "
	    "stat=Sent (taken)");
	ends(number, QUEUE_RUN_KILLED, false);
	number = run(201);
	assert_int_equal(discarded(), A | B | C);
	assert_int_equal(segment_header(site.segment)->counters[COUNTER_DISCARDED], 3 + 3);
	/* a server at which a process died is tried alone, behind all others */
	queue_run_ended(queue, number, QUEUE_RUN_KILLED, now_ns);
	tries++;
	read_file(D);
	pass(60 * NS_PER_SECOND);
	(void)run(202);
	assert_int_equal(discarded(), ALL);	/* were they in the file still */
	end();
}

TEST(where_it_is_observed_he_is_delivered_again) {
	enum verdict verdict = VERDICT_DISCARD;

	for (unsigned i = 0; i < 2; i++) {
		begin(i == 0 ? EXACTLY_ONCE_OBSERVE : EXACTLY_ONCE_ENFORCE,
		    i == 0 ? "" : "outbound = { observe = true; };\n");
		uint32_t number = first_run();

		say(LINE("<aaaa@one.example>"));
		ends(number, QUEUE_RUN_KILLED, false);
		(void)run(200);
		assert_int_equal(asked(&verdict), A);
		assert_int_equal(verdict, VERDICT_ADMIT);
		assert_int_equal(segment_header(site.segment)->counters[COUNTER_DISCARDED], 0);
		assert_int_equal(segment_header(site.segment)->counters[COUNTER_DISCARDS_OBSERVED],
		    1);
		end();
	}
	begin(EXACTLY_ONCE_OFF, "");
	uint32_t number = first_run();

	say(LINE("<aaaa@one.example>"));
	ends(number, QUEUE_RUN_KILLED, false);
	(void)run(200);
	assert_int_equal(discarded(), 0);
	end();
}

/* Sendmail has written what is left, and its file is right, whatever the log says. */
TEST(after_an_orderly_end_the_file_is_right) {
	uint32_t number;

	begin(EXACTLY_ONCE_ENFORCE, "");
	number = first_run();
	say(LINE("<aaaa@one.example>"));
	ends(number, QUEUE_RUN_OVER, true);
	say(LINE("<bbbb@one.example>"));	/* late */
	(void)run(200);
	assert_int_equal(discarded(), 0);
	end();
	/* it could not write it */
	begin(EXACTLY_ONCE_ENFORCE, "");
	number = first_run();
	say(LINE("<aaaa@one.example>"));
	ends(number, QUEUE_RUN_NOT_WRITTEN, false);
	(void)run(200);
	assert_int_equal(discarded(), A);
	end();
}

/* A line that is read only after the process was killed counts. */
TEST(the_next_run_waits_for_the_log) {
	struct queue_run next;
	uint32_t number;

	begin(EXACTLY_ONCE_ENFORCE, "");
	number = first_run();
	queue_run_ended(queue, number, QUEUE_RUN_KILLED, now_ns);
	read_file(ALL);
	now_ns += NS_PER_SECOND;
	engine_heartbeat(site.engine, now_ns);
	(void)queue_turn(queue, now_ns);
	assert_false(queue_next_run(queue, now_ns, &next));
	hear(LINE("<aaaa@one.example>"), strlen(LINE("<aaaa@one.example>")));
	pass(NS_PER_MS);
	number = run(200);
	assert_int_equal(discarded(), A);
	/* but not for ever: the feed may be away */
	queue_run_ended(queue, number, QUEUE_RUN_KILLED, now_ns);
	read_file(ALL);
	now_ns += 4 * NS_PER_SECOND;
	engine_heartbeat(site.engine, now_ns);
	(void)queue_turn(queue, now_ns);
	(void)run(201);
	assert_int_equal(discarded(), A);
	end();
}

TEST(lines_that_disagree_say_nothing) {
	uint32_t number;

	begin(EXACTLY_ONCE_ENFORCE, "");
	number = first_run();
	say(LINE("<aaaa@one.example>"));
	say(LINE("<cccc@two.example>"));
	say("Nov 27 06:40:15 mx sendmail[131]: " ID ": to=<aaaa@one.example>, delay=00:00:03, "
	    "xdelay=00:00:00, mailer=esmtp, pri=990020, relay=h2.far.example. [198.51.100.3], "
	    "dsn=4.0.0, stat=Deferred: 451 not now");
	say(LINE("<bbbb@one.example>"));
	ends(number, QUEUE_RUN_KILLED, false);
	(void)run(200);
	assert_int_equal(discarded(), 0);
	end();
}

/* A list that Sendmail cut may have been cut within quotes: only all of it together says who
 * was in it. */
TEST(a_list_in_pieces_counts_as_a_whole) {
	static const struct {
		const char *lines[4];
		unsigned known;
	} cases[] = {
		{ { LINE("<aaaa@one.example>, [more]"), LINE("<bbbb@one.example>") }, A | B },
		{ { LINE("<aaaa@one.example>, [more]") }, 0 },
		{ { LINE("<\"x, [more]"), LINE("<aaaa@one.example>, [more]"),
		    LINE("y\"@one.example>,<bbbb@one.example>"), LINE("<cccc@two.example>") }, C },
		{ { LINE("<aaaa@one.example>, [more]"), LINE("y\"@one.example>"),
		    LINE("<cccc@two.example>") }, C },
		{ { LINE("<aaaa@one.example>, [more]"), LINE("y\"@one.example>, [more]"),
		    LINE("<bbbb@one.example>"), LINE("<cccc@two.example>") }, C },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin(EXACTLY_ONCE_ENFORCE, "");
		uint32_t number = first_run();

		for (unsigned k = 0; k < 4 && cases[i].lines[k] != NULL; k++)
			say(cases[i].lines[k]);
		ends(number, QUEUE_RUN_KILLED, false);
		(void)run(200);
		if (discarded() != cases[i].known)
			fail_msg("case %zu", i);
		end();
	}
}

/* --- whatever stands in the log ------------------------------------------------------------ */

static uint64_t seed = 20261127;

static unsigned draw(unsigned below) {
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % below;
}

/* True ones, and those of other messages, processes and times; they name A, B or nobody of
 * ours. */
static const struct {
	const char *text;
	unsigned names;		/* that are delivered, if it is whole */
} pool[] = {
	{ LINE("<aaaa@one.example>"), A }, { LINE("<aaaa@one.example>,<bbbb@one.example>"), A | B },
	{ LINE("bbbb@one.example"), B },
	{ "Nov 27 06:40:14 mx sendmail[977]: " ID ": to=<cccc@two.example>" FIELDS, 0 },
	{ "Nov 27 06:40:14 mx sendmail[131]: 6AR6eCmg000999: to=<cccc@two.example>" FIELDS, 0 },
	{ "Nov 27 06:43:54 mx sendmail[131]: " ID ": to=<cccc@two.example>" FIELDS, 0 },
	{ "Nov 16 06:40:14 mx sendmail[131]: " ID ": to=<cccc@two.example>" FIELDS, 0 },
	{ "Nov 27 06:40:14 mx logger[131]: " ID ": to=<cccc@two.example>" FIELDS, 0 },
	{ "Nov 27 06:40:14 mx sendmail[131]: " ID ": to=<cccc@two.example>, delay=00:00:02, "
	    "xdelay=00:00:00, mailer=esmtp, pri=1, relay=h. [192.0.2.1], dsn=4.0.0, "
	    "reply=451 4.0.0 no, stat=Deferred: 451 4.0.0 stat=Sent (taken)", 0 },
	{ "Nov 27 06:40:14 mx sendmail[131]: " ID ": to=<cccc@two.example>, delay=00:00:02, "
	    "mailer=esmtp, pri=1, stat=queued", 0 },
	{ LINE("<\"cccc@two.example\"@one.example>"), 0 },
};
#define POOL (sizeof(pool) / sizeof(pool[0]))

static const char *of_pool(unsigned *names, bool *ours) {
	unsigned which = draw(POOL);

	*names = pool[which].names;
	*ours = which < 3;
	return pool[which].text;
}

/* Half of one, perhaps with another behind it; a byte that is another; all as it is. */
static unsigned mutated(char *out, size_t size) {
	unsigned names, others;
	bool ours, theirs;
	const char *text = of_pool(&names, &ours);
	size_t length = strlen(text), cut = draw((unsigned)length);

	switch (draw(5)) {
	case 0:
		(void)snprintf(out, size, "%.*s", (int)cut, text);
		return 0;
	case 1:
		(void)snprintf(out, size, "%.*s%s", (int)cut, text, of_pool(&others, &theirs));
		/* cut behind what it says of them, or before it says whose it is */
		return names | others;
	case 2:
		(void)snprintf(out, size, "%s", text);
		out[cut] = (char)(1 + draw(255));
		return names;
	case 3:
		(void)snprintf(out, size, "%.*s%c%s", (int)cut, text, 1 + (int)draw(255), text + cut);
		return names;
	default:
		(void)snprintf(out, size, "%.*s%s", (int)cut, text, text + cut + 1);
		return names;
	}
}

TEST(no_line_takes_out_whom_it_did_not_name) {
	unsigned ever = 0;

	for (unsigned round = 0; round < 300; round++) {
		unsigned may = 0, got;

		begin(EXACTLY_ONCE_ENFORCE, "");
		uint32_t number = first_run();

		for (unsigned i = 0; i < 40; i++) {
			char text[1024];

			may |= mutated(text, sizeof(text));
			say(text);
		}
		ends(number, QUEUE_RUN_KILLED, false);
		(void)run(200);
		got = discarded();
		if ((got & ~may) != 0 || (got & (C | D)) != 0)
			fail_msg("round %u: %x of %x", round, got, may);
		ever |= got;
		end();
	}
	assert_int_equal(ever, A | B);	/* it can happen at all */
}

/* Cut anywhere, a line names nobody; nor does it as another process's, or of another time. */
TEST(half_a_line_takes_out_nobody) {
	static const char text[] = LINE("<aaaa@one.example>,<bbbb@one.example>");

	begin(EXACTLY_ONCE_ENFORCE, "");
	uint32_t number = first_run();

	for (size_t length = 0; length + 1 < sizeof(text); length++)
		hear(text, length);
	for (unsigned i = 3; i < POOL; i++)
		hear(pool[i].text, strlen(pool[i].text));
	pass(NS_PER_MS);
	ends(number, QUEUE_RUN_KILLED, false);
	(void)run(200);
	assert_int_equal(discarded(), 0);
	/* those of the process that is over count no more */
	say(text);
	assert_int_equal(discarded(), 0);
	end();
}
