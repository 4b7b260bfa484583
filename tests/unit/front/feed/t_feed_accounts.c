/* SPDX-License-Identifier: ISC */
/*
 * A month of mail of honest logins, in virtual time: each recipient is asked about, and each result
 * is a line as Postfix logs it, which the feed reads.  Nobody is held.  Then the same month, in the
 * middle of which one login is stolen.
 */
#include "tests/unit/test.h"

#include "base/clock.h"
#include "engine/account/account_health.h"
#include "engine/account/accounts.h"
#include "front/feed/feed_internal.h"
#include "segment/file/internal.h"
#include "tests/unit/random.h"
#include "tests/unit/own_site.h"
#include "tests/unit/site_account.h"

#define MINUTE	60
#define HOUR	(60 * MINUTE)
#define DAY	(24 * HOUR)
#define DAYS	30
#define PEOPLE	100
#define LIST	PEOPLE			/* login of a mailing list, */
#define LETTER	(PEOPLE + 1)		/* and of a newsletter */
#define LOGINS	(PEOPLE + 2)
#define DOMAINS	12
#define PROVIDER 3			/* number of the domain that refuses for an hour */
#define REFUSES_ON 9			/* day */
#define THEFT_ON 14
#define VICTIM	7
#define MEMBERS	2000
#define READERS	6000
#define EACH	50			/* recipients of a message of the list */
#define STOLEN	200			/* recipients of the thief */
#define MAX_EVENTS 40000		/* of a day */
#define MAX_MESSAGES 4000
#define SITE_TEXT \
	"classes = ();\n" \
	"mta = ( { name = \"postfix\"; log = \"/var/log/mail.log\"; } );\n" \
	"accounts = ( { name = \"staff\"; match = \"*\"; health = {};\n" \
	"  each = { recipients = \"100000/1h\"; networks = \"8/1h\"; }; } );\n"

enum fate {
	SENT, UNKNOWN, NO_DOMAIN,	/* a typo, or an address that is dead */
	GREY,				/* deferred once */
	FULL,				/* deferred twice, then bounced */
	POLICY,
	MESSAGE,			/* no result: it is sent to us */
};

struct message {
	unsigned login, count, left;
	uint32_t first;			/* number of its first recipient; the others follow */
	char queue_id[16];
};

struct moment {
	int64_t at;			/* seconds of the month */
	uint32_t serial, message, recipient;
	enum fate fate;
	bool is_final;
};

static struct feed feed;
static int64_t begun_ns, now_ns;
static struct random chance;
static struct message messages[MAX_MESSAGES];
static struct moment events[MAX_EVENTS];
static uint32_t message_count, event_count, id_serial;
static uint64_t results, finals, unknown, refused;	/* lines; final ones; answers to honest logins */
static unsigned trips;
static char tripped[64];
static int64_t tripped_at, fifteenth_at;
static unsigned thief_unknown, thief_taken, thief_late;
static uint32_t most_unknown[LOGINS];

/* --- what stands beside the feed ------------------------------------------------------- */

/* No sign of life is needed, and time is ours. */
void feed_beat(struct feed *unused) {
	(void)unused;
}

void front_requeue_result(struct front_requeue *front, const struct generation *generation,
    const struct requeue_result *result, int64_t at_ns) {
	(void)front, (void)generation, (void)result, (void)at_ns;
}

void front_requeue_active(struct front_requeue *front, const struct generation *generation,
    unsigned mta, struct span queue_id, struct span sender) {
	(void)front, (void)generation, (void)mta, (void)queue_id, (void)sender;
}

void front_requeue_removed(struct front_requeue *front, unsigned mta, struct span queue_id) {
	(void)front, (void)mta, (void)queue_id;
}

void feed_logs_take_up(struct feed *unused) {
	(void)unused;
}

void feed_log_tend(struct feed *unused, struct feed_log *log) {
	(void)unused, (void)log;
}

static int64_t now_s(void) {
	return (now_ns - begun_ns) / NS_PER_SECOND;
}

static void note_trip(const struct generation *generation, const struct account_trip *trip) {
	(void)generation;
	trips++;
	tripped_at = now_s();
	snprintf(tripped, sizeof(tripped), "%s", trip->login);
}

/* --- the log ---------------------------------------------------------------------------- */

/* A line of this moment, in November: "Nov  7 10:00:00 mx postfix/...". */
__attribute__((format(printf, 1, 2)))
static void log_line(const char *format, ...) {
	struct feed_origin origin = { .log = 0 };
	char line[1024];
	int64_t second = now_s() % DAY;
	int length = snprintf(line, sizeof(line), "Nov %2d %02d:%02d:%02d mx postfix/",
	    (int)(now_s() / DAY + 1), (int)(second / HOUR), (int)(second / MINUTE % 60),
	    (int)(second % 60));
	va_list arguments;

	va_start(arguments, format);
	length += vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
	va_end(arguments);
	feed.now_ns = now_ns;
	feed.wall_ms = INT64_C(1793491200000) + now_s() * 1000;	/* 2026-11-01 */
	(void)feed_text(&feed, 1, (struct span){ line, (size_t)length }, &origin, false);
}

/* What remote servers say, and smtp(8) of them: more than one way each. */
static const char *const unknown_texts[] = {
	"550 5.1.1 <you@there>: Recipient address rejected: User unknown in virtual mailbox table",
	"550-5.1.1 The email account that you tried to reach does not exist. Please try "
	    "double-checking the recipient's email address for typos or unnecessary spaces",
	"550 No such user here",
	"550 5.4.1 Recipient address rejected: Access denied. [AM7EUR03FT052.eop-EUR03.prod."
	    "protection.outlook.com 2026-11-07T10:00:00.000Z 08DE1C]",
};

static void log_result(const struct moment *event, const char *to, unsigned domain) {
	struct message *message = &messages[event->message];
	char relay[64], text[400];
	const char *dsn = "2.0.0", *status = "sent";

	snprintf(relay, sizeof(relay), "mx.d%u.example[192.0.2.%u]", domain, domain + 1);
	snprintf(text, sizeof(text), "250 2.0.0 Ok: queued as 4ZQ%X", event->serial);
	switch (event->fate) {
	case UNKNOWN:
		snprintf(text, sizeof(text), "host %s said: %s (in reply to RCPT TO command)",
		    relay, unknown_texts[event->recipient % 4]);
		dsn = event->recipient % 4 == 2 ? "5.0.0" : event->recipient % 4 == 3 ? "5.4.1" :
		    "5.1.1";
		break;
	case NO_DOMAIN:
		snprintf(text, sizeof(text), "Host or domain name not found. Name service error "
		    "for name=d%u.exmaple type=A: Host not found", domain);
		snprintf(relay, sizeof(relay), "none");
		dsn = "5.4.4";
		break;
	case GREY:
		snprintf(text, sizeof(text), "host %s said: 450 4.2.0 <%s>: Recipient address "
		    "rejected: Greylisted, see http://postgrey.example/help (in reply to RCPT TO "
		    "command)", relay, to);
		dsn = "4.2.0";
		break;
	case FULL:
		snprintf(text, sizeof(text), "host %s said: %s Mailbox full (in reply to RCPT TO "
		    "command)", relay, event->is_final ? "552 5.2.2" : "452 4.2.2");
		dsn = event->is_final ? "5.2.2" : "4.2.2";
		break;
	case POLICY:
		snprintf(text, sizeof(text), "host %s said: 550 5.7.1 Unfortunately, messages from "
		    "[192.0.2.25] weren't sent. Please contact your Internet service provider "
		    "since part of their network is on our block list (S3150). (in reply to MAIL "
		    "FROM command)", relay);
		dsn = "5.7.1";
		break;
	default:
		break;
	}
	if (event->fate != SENT)
		status = event->is_final ? "bounced" : "deferred";
	log_line("smtp[77]: %s: to=<%s>, relay=%s%s, delay=1.3, delays=0.1/0.1/0.5/0.6, dsn=%s, "
	    "status=%s (%s)", message->queue_id, to, relay, relay[0] == 'n' ? "" : ":25", dsn,
	    status, text);
}

/* --- questions ----------------------------------------------------------------------------- */

static const char *login_name(unsigned login) {
	static char name[32];

	snprintf(name, sizeof(name), login == LIST ? "list@example.org" : login == LETTER ?
	    "letter@example.org" : "person%u@example.org", login);
	return name;
}

/* Typos have domains of their own. */
static const char *address_of(uint32_t recipient, enum fate fate) {
	static char address[64];

	snprintf(address, sizeof(address), "u%u@d%u.%s", recipient, recipient % DOMAINS,
	    fate == NO_DOMAIN ? "exmaple" : "example");
	return address;
}

static enum verdict ask(const struct message *message, const char *to, uint32_t number) {
	const char *name = login_name(message->login);
	char instance[32];
	struct account_question q = { .login = name, .login_length = strlen(name), .sender = "a@b",
		.sender_length = 3, .instance = instance, .recipient = to,
		.recipient_length = to == NULL ? 0 : strlen(to), .at_end = to == NULL,
		.recipient_count = to == NULL ? number : 0, .size = 4000,
		.queue_id = message->queue_id, .queue_id_length = strlen(message->queue_id),
		.listener = site.auto_listener,
		/* at home, in the office, on the way */
		.client.bytes = { [10] = 0xff, [11] = 0xff, 10, (uint8_t)message->login,
		    (uint8_t)(now_s() / HOUR % 3), 7 } };
	struct account_answer answer;

	snprintf(instance, sizeof(instance), "%x.%s.1.0", message->login + 1, message->queue_id);
	q.instance_length = strlen(instance);
	engine_account_ask(site.engine, site.generation, &q, now_ns, &answer);
	return answer.verdict;
}

static void submit(const struct moment *event) {
	struct message *message = &messages[event->message];
	bool is_thief = message->login == VICTIM && event->fate == MESSAGE &&
	    event->recipient == 1;

	for (uint32_t i = 0; i < message->count; i++)
		if (ask(message, address_of(message->first + i, SENT), 0) != VERDICT_ADMIT) {
			if (is_thief || (trips > 0 && message->login == VICTIM))
				thief_late++;
			else
				refused++;
			message->left = 0;
			return;
		}
	(void)ask(message, NULL, message->count);
	thief_taken += is_thief;
	log_line("submission/smtpd[70]: %s: client=pc.example.net[198.51.100.7], sasl_method=PLAIN, "
	    "sasl_username=%s", message->queue_id, login_name(message->login));
	log_line("qmgr[71]: %s: from=<a@example.org>, size=4000, nrcpt=%u (queue active)",
	    message->queue_id, message->count);
}

/* --- a day ----------------------------------------------------------------------------------- */

static void add_event(int64_t at, uint32_t message, uint32_t recipient, enum fate fate,
    bool is_final) {
	assert_true(event_count < MAX_EVENTS);
	events[event_count] = (struct moment){ at, event_count, message, recipient, fate,
		is_final };
	event_count++;
}

/* Returns its number.  `mark`: recipient of the event. */
static uint32_t add_message(int64_t at, unsigned login, uint32_t first, unsigned count,
    uint32_t mark) {
	uint32_t number = message_count++;
	struct message *message = &messages[number];

	assert_true(number < MAX_MESSAGES);
	*message = (struct message){ .login = login, .count = count, .left = count, .first = first };
	snprintf(message->queue_id, sizeof(message->queue_id), "4%09X", ++id_serial);
	add_event(at, number, mark, MESSAGE, false);
	return number;
}

/* A recipient's results, from its first one on. */
static void add_result(int64_t at, uint32_t message, uint32_t recipient, enum fate fate) {
	if (recipient % DOMAINS == PROVIDER && fate != NO_DOMAIN && at / DAY == REFUSES_ON &&
	    at % DAY / HOUR == 14)
		fate = POLICY;
	if (fate == GREY) {
		add_event(at, message, recipient, GREY, false);
		add_event(at + 5 * MINUTE + random_below(&chance, 600), message, recipient, SENT, true);
	} else if (fate == FULL) {
		add_event(at, message, recipient, FULL, false);
		add_event(at + HOUR / 2, message, recipient, FULL, false);
		add_event(at + 2 * HOUR, message, recipient, FULL, true);
	} else {
		add_event(at, message, recipient, fate, true);
	}
}

/* 1.5 % of what people type is wrong, 1 % of mailboxes are full, and a tenth of all is greylisted. */
static enum fate fate_of_typed(void) {
	uint32_t chosen = random_below(&chance, 1000);

	return chosen < 12 ? UNKNOWN : chosen < 15 ? NO_DOMAIN : chosen < 25 ? FULL :
	    chosen < 125 ? GREY : SENT;
}

static void add_people(int64_t day) {
	for (unsigned login = 0; login < PEOPLE; login++)
		for (unsigned left = 1 + random_below(&chance, 12); left > 0; left--) {
			int64_t at = day * DAY + 8 * HOUR + random_below(&chance, 9 * HOUR);
			unsigned count = 1 + random_below(&chance, 3);
			uint32_t first = random_below(&chance, 1000000);
			uint32_t message = add_message(at, login, first, count, 0);

			for (unsigned i = 0; i < count; i++)
				add_result(at + 1 + random_below(&chance, 5), message, first + i,
				    fate_of_typed());
		}
}

/* To many: what is refused is told sooner than what is taken. */
static void add_mass_mail(int64_t at, unsigned login, uint32_t members, unsigned dead_permille) {
	for (uint32_t first = 0; first < members; first += EACH) {
		uint32_t base = login * 1000000 + first;
		uint32_t message = add_message(at, login, base, EACH, 0);

		for (uint32_t i = 0; i < EACH; i++) {
			bool is_dead = ((base + i) * 2654435761U >> 7) % 1000 < dead_permille;

			add_result(at + (is_dead ? 1 : 2 + random_below(&chance, 5)), message,
			    base + i, is_dead ? UNKNOWN : random_below(&chance, 10) == 0 ? GREY :
			    random_below(&chance, 100) == 0 ? FULL : SENT);
		}
		at += login == LETTER ? 3 : 0;	/* the list's all at once */
	}
}

/* A recipient each two seconds, 3 of 10 of them unknown. */
static void add_theft(int64_t at) {
	for (uint32_t i = 0; i < STOLEN; i++) {
		uint32_t recipient = 50000000 + i;
		uint32_t message = add_message(at + 2 * i, VICTIM, recipient, 1, 1);

		add_result(at + 2 * i + 2, message, recipient, i % 10 == 1 || i % 10 == 4 ||
		    i % 10 == 8 ? UNKNOWN : SENT);
	}
}

static int by_time(const void *left, const void *right) {
	const struct moment *a = left, *b = right;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return (a->serial > b->serial) - (a->serial < b->serial);
}

static void note_unknown(unsigned login, uint32_t recipient) {
	const char *name = login_name(login);
	struct login_key key = login_key(name, strlen(name));
	struct account_health health;
	struct site_account view;
	uint32_t count;

	unknown++;
	if (login == VICTIM && recipient >= 50000000 && ++thief_unknown == 15)
		fifteenth_at = now_s();
	if (!account_health_find(site.segment, &key, &health) || !site_account(&site, name, &view))
		return;
	count = health_count(&health.health, &view.rules.account->health, now_ns).unknown;
	if (count > most_unknown[login])
		most_unknown[login] = count;
}

static void play_event(const struct moment *event) {
	struct message *message = &messages[event->message];

	now_ns = begun_ns + event->at * NS_PER_SECOND;
	engine_account_suspects_turn(site.engine, site.generation, now_ns);
	if (event->fate == MESSAGE) {
		submit(event);
		return;
	}
	if (message->left == 0)
		return;		/* it was refused */
	log_result(event, address_of(event->recipient, event->fate),
	    event->recipient % DOMAINS);
	results++;
	finals += event->is_final;
	if (event->fate == UNKNOWN || event->fate == NO_DOMAIN)
		note_unknown(message->login, event->recipient);
	if (event->is_final && --message->left == 0)
		log_line("qmgr[71]: %s: removed", message->queue_id);
}

static void play_month(bool is_stolen) {
	for (int64_t day = 0; day < DAYS; day++) {
		message_count = event_count = 0;
		add_people(day);
		add_mass_mail(day * DAY + 6 * HOUR, LIST, MEMBERS, 30);
		/* whoever bounces is taken off before the next issue */
		if (day % 7 == 1)
			add_mass_mail(day * DAY + 10 * HOUR, LETTER, READERS, day == 1 ? 80 : 5);
		if (is_stolen && day == THEFT_ON)
			add_theft(day * DAY + 11 * HOUR);
		qsort(events, event_count, sizeof(events[0]), by_time);
		for (uint32_t i = 0; i < event_count; i++)
			play_event(&events[i]);
		engine_feed_turn(site.engine, site.generation, now_ns);
		engine_accounts_turn(site.engine, site.generation, now_ns);
	}
}

/* --- the tests ---------------------------------------------------------------------------------- */

static int begin(void **state) {
	site_accounts = "1k";
	site_open(&site, 64, SITE_TEXT);
	engine_account_listen(site.engine, note_trip);
	feed = (struct feed){ .engine = site.engine, .generation = site.generation, .year = 2026 };
	begun_ns = now_ns = clock_now_ns();
	chance = random_seeded("a month of mail");
	results = finals = unknown = refused = trips = 0;
	thief_unknown = thief_taken = thief_late = 0;
	fifteenth_at = 0;
	memset(most_unknown, 0, sizeof(most_unknown));
	return 0;
}

static int end(void **state) {
	feed_count(&feed);
	site_close(&site);
	return 0;
}

static uint64_t counter(enum counter which) {
	return atomic_load(&site.segment->header->counters[which]);
}

TEST_IN(begin, end, honest_mail_is_left_alone) {
	play_month(false);
	printf("# %llu results, %llu of unknown recipients\n", (unsigned long long)results,
	    (unsigned long long)unknown);
	assert_int_equal(trips, 0);
	assert_int_equal(refused, 0);
	/* each line was read, and counted for its login */
	assert_int_equal(feed.tally.deliveries, results);
	assert_int_equal(feed.tally.broken, 0);
	assert_int_equal(feed.tally.wrong_clocks, 0);
	assert_int_equal(counter(COUNTER_ACCOUNT_RESULTS), finals);
	/* the number alone would have held both */
	assert_true(most_unknown[LIST] >= 45 && most_unknown[LETTER] >= 300);
	assert_true(unknown > 30 * 50);
}

TEST_IN(begin, end, a_stolen_login_is_held_among_them) {
	play_month(true);
	printf("# held after %u recipients, %u of them unknown\n", thief_taken, thief_unknown);
	assert_int_equal(trips, 1);
	assert_string_equal(tripped, login_name(VICTIM));
	/* a typo of its own may have been the first of the 15 */
	assert_in_range(thief_unknown, 13, 17);
	assert_true(fifteenth_at == 0 || tripped_at <= fifteenth_at + 30);
	/* and no more of it came in, nor anything else of the login; others had no harm */
	assert_in_range(thief_taken, 15, 60);
	assert_true(thief_late > STOLEN - 60);
	assert_int_equal(refused, 0);
}
