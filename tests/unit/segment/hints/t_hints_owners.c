/* SPDX-License-Identifier: ISC */
/* Hints where several windows meet in one queue of the queue manager, and where mail
 * servers reach a domain by different ways. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "config/compile/compile.h"
#include "engine/hints/hints.h"
#include "engine/requeue/requeue.h"
#include "engine/destination/windows.h"
#include "segment/hints/hints.h"
#include "segment/file/internal.h"
#include "segment/hints/lane_uses.h"
#include "tests/unit/site.h"

#define LANES	"clone-limit 20\nlane 1\nlane 2\nlane 3\nlane 5\nlane 10\nlane 20\n"
/* Two instances, the second one with a relayhost; a Sendmail, and a third instance, that
 * deliver themselves. */
enum { DIRECT, SMART, ASKS, LATE };

struct place {
	struct site site;
	char file[160], facts[2][160];
	struct engine_hints *hints;
	struct hints_reader *reader;
	struct generation *generation;
	int64_t now_ns;
};

static struct place *place;	/* of the test that runs */

static void write_file(const char *path, const char *text) {
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void publish(void) {
	const struct site *site = &place->site;
	struct config_messages messages;
	char text[2048];
	struct diag diag;

	write_file(place->facts[DIRECT], "postern-site 1\nmta direct\n"
	    "route a.example [hop.example]\nroute *.b.example [hop.example]\n" LANES);
	write_file(place->facts[SMART], "postern-site 1\nmta smart\n"
	    "relayhost [Smart.example]\nroute c.example [hop.example]\n" LANES);
	snprintf(text, sizeof(text), "version = 1; state = { path = \"%s/state\"; "
	    "sessions = \"1k\"; };\nclasses = ();\nmta = ( { name = \"direct\"; site = \"%s\"; },"
	    " { name = \"smart\"; syslog_name = \"other\"; site = \"%s\"; },"
	    " { name = \"asks\"; kind = \"sendmail\"; log = \"/a\"; },"
	    " { name = \"late\"; syslog_name = \"late\"; } );\n",
	    site->directory, place->facts[DIRECT], place->facts[SMART]);
	write_file(place->file, text);
	free(place->generation);
	place->generation = config_compile(place->file, &messages);
	if (place->generation == NULL)
		fail_msg("%s", messages.list[0].text);
	config_messages_free(&messages);
	assert_int_equal(segment_publish(site->segment, place->generation, &diag), 0);
}

static int set_up(void **state) {
	static const struct hints_calls none;
	static struct place opened;
	char path[200];
	struct diag diag;

	memset(&opened, 0, sizeof(opened));
	place = &opened;
	site_open(&opened.site, 1024, "classes = ();");
	snprintf(opened.file, sizeof(opened.file), "%s/conf", opened.site.directory);
	for (int i = 0; i < 2; i++)
		snprintf(opened.facts[i], sizeof(opened.facts[i]), "%s/facts%d",
		    opened.site.directory, i);
	snprintf(path, sizeof(path), "%s.hints", segment_path(opened.site.segment));
	opened.reader = hints_reader_open(path);
	assert_int_equal(engine_hints_open(&opened.hints, opened.site.engine, (gid_t)-1, &none,
	    &diag), 0);
	opened.now_ns = clock_now_ns();
	publish();
	return 0;
}

static int tear_down(void **state) {
	engine_hints_close(&place->hints);
	hints_reader_close(&place->reader);
	free(place->generation);
	site_close(&place->site);
	return 0;
}

static void see(unsigned mta, const char *domain, const char *relay,
    const char *address) {
	struct delivery_seen seen = { .name = domain, .name_length = strlen(domain),
		.relay_name = relay, .relay_name_length = strlen(relay),
		.mta = (uint8_t)mta, .cloned = true };

	assert_true(address_parse(address, strlen(address), &seen.relay));
	assert_true(destinations_note(place->site.segment, &seen, place->now_ns));
}

static void turn(void) {
	struct diag diag;

	place->now_ns += NS_PER_SECOND;
	assert_int_equal(engine_hints_turn(place->hints, place->now_ns, &diag), 0);
}

static void result(unsigned mta, const char *domain, uint16_t width) {
	const struct lane_use use = { .ended_ns = place->now_ns, .took_ms = 200,
		.width = width, .mta = (uint8_t)mta, .tried = true,
		.domain = lane_uses_hash(place->site.segment, domain, strlen(domain)) };

	lane_uses_note(place->site.segment, &use);
}

static void by_hand(enum manual_verb verb, const char *name,
    uint32_t window) {
	const struct by_hand request = { .verb = verb, .name = name,
		.name_length = strlen(name), .window = window, .ceiling = window,
		.for_ns = verb == MANUAL_SUSPEND ? 600 * NS_PER_SECOND : 0 };
	struct window_owner owner;

	assert_int_equal(windows_by_hand(place->site.engine, place->generation, &request,
	    place->now_ns, &owner), BY_HAND_DONE);
}

/* "held", "-" (as without us), or the widest of its lanes and the site's next hop. */
static const char *told(unsigned mta, const char *domain) {
	static char text[300];
	struct hints_answer answer;
	char address[100];
	unsigned widest = 0;

	snprintf(address, sizeof(address), "u@%s", domain);
	for (unsigned i = 0; i < 100; i++) {
		hints_reader_ask(place->reader, mta == DIRECT ? "direct" : "smart", address,
		    strlen(address), false, place->now_ns, &answer);
		if (answer.kind != HINTS_LANE)
			return answer.kind == HINTS_HELD ? "held" : "-";
		if (answer.width > widest)
			widest = answer.width;
	}
	snprintf(text, sizeof(text), "%u:%s", widest, generation_site_next_hop(place->generation,
	    &place->generation->mtas[mta], domain, strlen(domain)));
	/* as postern-lookup: mail with that next hop may have lanes of its own */
	if (answer.unknown && strchr(text, ':')[1] != '\0')
		return "-";
	return text;
}

static const char *told_next(unsigned mta, const char *domain) {
	turn();
	return told(mta, domain);
}

/* Both have mail in the queue for [hop.example], which is in use. */
static void see_both(void) {
	see(DIRECT, "a.example", "hop.example", "192.0.2.1");
	see(DIRECT, "x.b.example", "hop.example", "192.0.2.1");
	place->now_ns += 100 * NS_PER_SECOND;
	turn();
	result(DIRECT, "a.example", 5);
	result(DIRECT, "x.b.example", 5);
	assert_string_equal(told_next(DIRECT, "a.example"), "5:[hop.example]");
	assert_string_equal(told(DIRECT, "x.b.example"), "5:[hop.example]");
}

TEST_IN(set_up, tear_down, domains_of_one_next_hop_are_suspended_each_by_itself) {
	static const char *const names[] = { "a.example", "x.b.example" };

	see_both();
	for (int i = 0; i < 2; i++) {
		by_hand(MANUAL_SUSPEND, names[i], BY_HAND_UNSET);
		assert_string_equal(told_next(DIRECT, names[i]), "held");
		assert_string_equal(told(DIRECT, names[1 - i]), "5:[hop.example]");
		/* results of both change nothing */
		result(DIRECT, names[i], 5);
		result(DIRECT, names[1 - i], 5);
		assert_string_equal(told_next(DIRECT, names[i]), "held");
		assert_string_equal(told(DIRECT, names[1 - i]), "5:[hop.example]");
		by_hand(MANUAL_SUSPEND, names[1 - i], BY_HAND_UNSET);
		assert_string_equal(told_next(DIRECT, names[1 - i]), "held");
		by_hand(MANUAL_RESUME, names[i], BY_HAND_UNSET);
		assert_string_equal(told_next(DIRECT, names[i]), "5:[hop.example]");
		assert_string_equal(told(DIRECT, names[1 - i]), "held");
		by_hand(MANUAL_RESUME, names[1 - i], BY_HAND_UNSET);
		assert_string_equal(told_next(DIRECT, names[1 - i]), "5:[hop.example]");
	}
}

TEST_IN(set_up, tear_down, held_in_a_queue_that_begins_anew) {
	see_both();
	by_hand(MANUAL_SUSPEND, "a.example", BY_HAND_UNSET);
	/* nothing is heard for long: the queue is forgotten */
	place->now_ns += 400 * NS_PER_SECOND;
	turn();
	by_hand(MANUAL_SUSPEND, "a.example", BY_HAND_UNSET);
	place->now_ns += 400 * NS_PER_SECOND;
	turn();
	assert_string_equal(told_next(DIRECT, "a.example"), "held");
	result(DIRECT, "x.b.example", 5);
	assert_string_equal(told_next(DIRECT, "a.example"), "held");
	assert_string_equal(told(DIRECT, "x.b.example"), "5:[hop.example]");
	/* and a new file */
	publish();
	assert_string_equal(told_next(DIRECT, "a.example"), "held");
	assert_string_equal(told(DIRECT, "x.b.example"), "5:[hop.example]");
}

TEST_IN(set_up, tear_down, the_least_window_of_a_next_hop_counts) {
	see_both();
	by_hand(MANUAL_LIMIT, "x.b.example", 2);
	turn();
	turn();
	/* the lane of before drains first */
	place->now_ns += 60 * NS_PER_SECOND;
	assert_string_equal(told_next(DIRECT, "a.example"), "2:[hop.example]");
	assert_string_equal(told(DIRECT, "x.b.example"), "2:[hop.example]");
}

TEST_IN(set_up, tear_down, one_domain_of_a_relayhost_is_held_by_hand) {
	see(SMART, "d.example", "smart.example", "192.0.2.2");
	see(SMART, "e.example", "smart.example", "192.0.2.2");
	place->now_ns += 100 * NS_PER_SECOND;
	turn();
	result(SMART, "d.example", 5);
	result(SMART, "e.example", 5);
	turn();
	by_hand(MANUAL_HOLD, "d.example", BY_HAND_UNSET);
	assert_string_equal(told_next(SMART, "d.example"), "held");
	assert_string_equal(told(SMART, "e.example"), "5:[Smart.example]");
	publish();
	assert_string_equal(told_next(SMART, "d.example"), "held");
	assert_string_equal(told(SMART, "e.example"), "5:[Smart.example]");
	by_hand(MANUAL_RESUME, "d.example", BY_HAND_UNSET);
	assert_string_equal(told_next(SMART, "d.example"), "5:[Smart.example]");
	by_hand(MANUAL_SUSPEND, "[192.0.2.2]:25", BY_HAND_UNSET);
	assert_string_equal(told_next(SMART, "d.example"), "held");
	assert_string_equal(told(SMART, "e.example"), "held");
}

/* An entry of its own: not the relayhost's window. */
TEST_IN(set_up, tear_down, a_route_beside_a_relayhost) {
	see(SMART, "c.example", "hop.example", "192.0.2.1");
	turn();
	place->now_ns += 60 * NS_PER_SECOND;
	turn();
	by_hand(MANUAL_LIMIT, "c.example", 2);
	assert_string_equal(told_next(SMART, "c.example"), "2:[hop.example]");
	by_hand(MANUAL_SUSPEND, "c.example", BY_HAND_UNSET);
	assert_string_equal(told_next(SMART, "c.example"), "held");
}

/* Each instance keeps to the window of the hop that it tries. */
TEST_IN(set_up, tear_down, two_instances_one_with_a_relayhost) {
	see(DIRECT, "f.example", "mx.f.example", "192.0.2.3");
	see(SMART, "f.example", "smart.example", "192.0.2.2");
	see(DIRECT, "f.example", "mx.f.example", "192.0.2.3");
	turn();
	place->now_ns += 60 * NS_PER_SECOND;
	turn();
	by_hand(MANUAL_SUSPEND, "[192.0.2.2]:25", BY_HAND_UNSET);
	assert_string_equal(told_next(SMART, "f.example"), "held");
	assert_string_equal(told(DIRECT, "f.example"), "5:");
	by_hand(MANUAL_RESUME, "[192.0.2.2]:25", BY_HAND_UNSET);
	by_hand(MANUAL_LIMIT, "f.example", 2);
	assert_string_equal(told_next(SMART, "f.example"), "5:[Smart.example]");
	assert_string_equal(told(DIRECT, "f.example"), "2:");
	/* three other relays: which one is the relayhost is not known any more */
	see(DIRECT, "f.example", "mx2.f.example", "192.0.2.4");
	see(DIRECT, "f.example", "mx3.f.example", "192.0.2.5");
	see(DIRECT, "f.example", "mx4.f.example", "192.0.2.6");
	turn();
	assert_string_equal(told_next(SMART, "f.example"), "-");
	assert_string_equal(told(DIRECT, "f.example"), "2:");
}

/* Whose window mail of that mail server runs by; "": nobody's. */
static const char *owner(unsigned mta, const char *domain) {
	static struct window_owner found;

	windows_owner_of_host(place->site.engine, place->generation, domain, strlen(domain),
	    mta, &found);
	return found.kind == DESTINATION_NONE ? "" : found.name;
}

TEST_IN(set_up, tear_down, a_dead_relayhost_does_not_stop_a_direct_sendmail) {
	const struct process_identity identity = { .pid = 100, .start_ticks = 7 };
	struct windows_places *places = windows_places_open(place->site.engine, &identity);
	struct window_owner found;
	const struct window_question question = { .owner = &found, .places = places,
		.queue_id = "q1", .queue_id_length = 2, .mta = ASKS };
	struct window_asked asked;

	assert_non_null(places);
	see(SMART, "g.example", "smart.example", "192.0.2.2");
	see(ASKS, "g.example", "mx.g.example", "192.0.2.7");
	by_hand(MANUAL_SUSPEND, "[192.0.2.2]:25", BY_HAND_UNSET);
	assert_string_equal(owner(SMART, "g.example"), "[192.0.2.2]:25");
	assert_string_equal(owner(ASKS, "g.example"), "g.example");
	assert_string_equal(owner(ASKS, "[g.example]"), "g.example");
	windows_owner_of_host(place->site.engine, place->generation, "g.example", 9, ASKS,
	    &found);
	windows_ask(place->site.engine, place->generation, &question, place->now_ns, &asked);
	assert_int_equal(asked.answer, WINDOW_GO);
	/* its own window stops it */
	by_hand(MANUAL_SUSPEND, "g.example", BY_HAND_UNSET);
	windows_ask(place->site.engine, place->generation, &question, place->now_ns, &asked);
	assert_int_equal(asked.answer, WINDOW_SUSPENDED);
	windows_places_close(&places, true, place->now_ns);
}

static unsigned flushed[GENERATION_MTAS_MAX];

static bool flush(void *context, unsigned mta, const char *id) {
	flushed[mta]++;
	return true;
}

static bool list(void *context, unsigned mta) {
	return true;
}

static void returned(void *context, const char *destination, uint32_t messages) {
}

static void pass(struct requeue *requeue) {
	for (int i = 0; i < 100; i++) {
		place->now_ns += NS_PER_SECOND / 10;
		(void)requeue_turn(requeue, place->generation, place->now_ns);
	}
}

TEST_IN(set_up, tear_down, listed_mail_waits_for_the_window_of_its_own_mail_server) {
	static const char *const ids[] = { [SMART] = "AAAAAA1", [LATE] = "AAAAAA2" };
	static const unsigned mtas[] = { SMART, LATE };
	static const struct requeue_calls calls = { flush, list, returned, NULL };
	static const char reason[] = "connect to x[192.0.2.9]:25: Connection refused";
	struct requeue *requeue;
	struct diag diag;

	memset(flushed, 0, sizeof(flushed));
	see(SMART, "g.example", "smart.example", "192.0.2.2");
	see(LATE, "g.example", "mx.g.example", "192.0.2.7");
	by_hand(MANUAL_SUSPEND, "[192.0.2.2]:25", BY_HAND_UNSET);
	assert_int_equal(requeue_open(&requeue, place->site.engine, &calls, &diag), 0);
	(void)requeue_turn(requeue, place->generation, place->now_ns);
	for (int i = 0; i < 2; i++) {
		requeue_list_recipient(requeue, place->generation, mtas[i],
		    (struct span){ ids[mtas[i]], 7 }, (struct span){ "u@g.example", 11 },
		    (struct span){ reason, sizeof(reason) - 1 }, place->now_ns, place->now_ns);
		if (mtas[i] == SMART)
			by_hand(MANUAL_SUSPEND, "g.example", BY_HAND_UNSET);
	}
	pass(requeue);
	assert_int_equal(flushed[SMART] + flushed[LATE], 0);
	by_hand(MANUAL_RESUME, "g.example", BY_HAND_UNSET);
	pass(requeue);
	assert_int_equal(flushed[SMART], 0);
	assert_int_equal(flushed[LATE], 1);
	by_hand(MANUAL_RESUME, "[192.0.2.2]:25", BY_HAND_UNSET);
	pass(requeue);
	assert_int_equal(flushed[SMART], 1);
	requeue_close(&requeue);
}

TEST_IN(set_up, tear_down, a_domain_is_held_by_hand_where_its_relayhost_is_in_doubt) {
	/* four relays, none known for the relayhost, and another instance goes there, too */
	see(SMART, "h.example", "smart.example", "192.0.2.2");
	see(DIRECT, "h.example", "mx1.h.example", "192.0.2.3");
	see(DIRECT, "h.example", "mx2.h.example", "192.0.2.4");
	see(DIRECT, "h.example", "mx3.h.example", "192.0.2.5");
	see(DIRECT, "h.example", "mx4.h.example", "192.0.2.6");
	assert_string_equal(told_next(SMART, "h.example"), "-");
	assert_string_equal(owner(SMART, "h.example"), "");
	by_hand(MANUAL_HOLD, "h.example", BY_HAND_UNSET);
	assert_string_equal(told_next(SMART, "h.example"), "held");
	assert_string_equal(told(DIRECT, "h.example"), "held");
	assert_string_equal(owner(SMART, "h.example"), "h.example");
	publish();
	assert_string_equal(told_next(SMART, "h.example"), "held");
	by_hand(MANUAL_RESUME, "h.example", BY_HAND_UNSET);
	/* the next look at all of them */
	place->now_ns += 60 * NS_PER_SECOND;
	turn();
	assert_string_equal(told_next(SMART, "h.example"), "-");
	assert_string_equal(owner(SMART, "h.example"), "");
}
