/* SPDX-License-Identifier: ISC */
/* Further transports of one Postfix: their rows, whose mail is theirs, and that what is
 * learned of a destination by one is not another's. */
#include "tests/unit/test.h"
#include "config/generation/site_routes.h"
#include "engine/hints/hints.h"
#include "engine/destination/windows_internal.h"
#include "engine/judge/judge.h"
#include "tests/unit/engine/feed/results.h"
#include "tests/unit/config/compiled.h"
#include "tests/unit/scratch.h"
#include "view/name_pattern.h"
#include "wire/mail/mail_log.h"

#define MTAS(more) "mta = ( { name = \"out\"; log = \"\"; " more "\n" \
    "    window = { destination_concurrency_limit = 9; initial_destination_concurrency = 2; };\n" \
    "    transports = (\n" \
    "      { name = \"relay\"; window = { destination_concurrency_limit = 5; }; },\n" \
    "      { name = \"slow\"; lanes = [ 1, 2 ]; } ); },\n" \
    "  { name = \"old\"; kind = \"sendmail\"; user = \"root\"; log = \"\"; } );\n" \
    "destinations = ( { match = [ \"few.example\" ];\n" \
    "    window = { destination_concurrency_limit = 3; }; } );\n"

static const char site_text[] = "postern-site 1\nmta out\nclone-program postfix/smtp\n"
    "relayhost [smart]\nlane 5\nprobes 2\nroute via.example [h]:26\nexclude slow.example transport_maps\n"
    "exclude *.relay.example relay_domains\n"
    "transport relay\nclone-program postfix/relay/smtp\nclone-limit 30\nlane 1\nlane 5\n"
    "route hop.example [gate]:26\nown *.relay.example\nexclude odd.relay.example transport_maps\n"
    "transport slow\nclone-program postfix/smtp\nlane 2\nlane 3\nown slow.example\n"
    "own few.example\n";

static int make_files(void **state) {
	char text[1500];

	if (scratch_open(state) != 0)
		return -1;
	snprintf(text, sizeof(text), "version = 1; classes = ();\n" MTAS("site = \"%s\";"),
	    scratch_path("out.site"));
	scratch_write("conf", text);
	scratch_write("providers.conf", "version = 1;\n");
	return 0;
}

/* Its messages: `wanted` notes besides that on the classes. */
static struct generation *compile(const char *text, unsigned wanted) {
	struct generation *g;

	scratch_write("out.site", text);
	g = compiled_well(config_compile(scratch_path("conf"), fresh_messages()));
	if (messages.count != wanted + 1)
		print_messages();
	assert_int_equal(messages.count, wanted + 1);
	return g;
}

TEST(rows_stand_behind_the_mail_servers) {
	struct generation *g = compile(site_text, 0);
	static const char *const names[] = { "out", "old", "out/relay", "out/slow" };

	assert_int_equal(g->mta_count, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_string_equal(generation_text(g, g->mtas[i].name), names[i]);
	assert_int_equal(generation_parent(g, 1), 1);
	assert_int_equal(generation_parent(g, 3), 0);
	assert_int_equal(generation_mta_bits(g, 3), 1 << 0 | 1 << 2 | 1 << 3);
	assert_int_equal(generation_mta_bits(g, 1), 1 << 1);
	assert_int_equal(generation_mta_bits(g, 4), 0);
	assert_int_equal(g->mtas[0].site_lanes, 1 << 3);
	assert_int_equal(g->mtas[2].lane_count, 6);
	assert_int_equal(g->mtas[2].site_lanes, 1 << 0 | 1 << 3);
	assert_int_equal(g->mtas[2].site_origin, 30);
	assert_int_equal(g->mtas[3].lane_count, 2);
	assert_int_equal(g->mtas[3].site_lanes, 1 << 1);	/* no lane of 3 is configured */
	assert_int_equal(g->mtas[3].log, 0);			/* it is read once */
	assert_true(g->mtas[3].site_known);
	/* a file of before the transports were configured */
	g = compile("postern-site 1\nmta out\nlane 5\nprobes 2\n", 2);
	assert_true(g->mtas[0].site_known);
	assert_false(g->mtas[2].site_known);
	/* what is refused to the mail server is to them */
	g = compile("postern-site 1\nmta out\nrefuse all-mail no\n", 1);
	assert_string_equal(generation_text(g, g->mtas[3].site_refusal), "all-mail no");
	/* and one of them alone */
	g = compile("postern-site 1\nmta out\ntransport slow\nrefuse no-service none\n"
	    "transport relay\nlane 5\n", 1);
	assert_int_equal(g->mtas[0].site_refusal, 0);
	assert_int_equal(g->mtas[2].site_refusal, 0);
	assert_string_equal(generation_text(g, g->mtas[3].site_refusal), "no-service none");
}

TEST(a_mistake_in_one_part_spoils_the_file) {
	static const char *const parts[] = { "transport\n", "transport a b\n",
		"transport slow\nrelayhost x\n", "transport slow\nonly-listed\n",
		"transport slow\nown a b\n", "transport slow\nown\n", "transport slow\nlane x\n",
		"transport other\nroute a\n", "own a.example\n" };
	char text[200];

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		struct generation *g;

		snprintf(text, sizeof(text), "postern-site 1\nmta out\n%s", parts[i]);
		g = compile(text, 2);
		assert_false(g->mtas[0].site_known);
		assert_false(g->mtas[2].site_known);
		assert_false(g->mtas[3].site_known);
	}
}

TEST(whose_mail_a_domain_is) {
	static const struct {
		const char *domain;
		unsigned row;
		const char *next_hop, *transport;
	} cases[] = {
		{ "slow.example", 3, "", "slow" }, { "sub.slow.example", 0, "[smart]", "" },
		{ "relay.example", 2, "", "relay" }, { "x.relay.example", 2, "", "relay" },
		{ "odd.relay.example", 0, NULL, "" }, { "hop.example", 2, "[gate]:26", "relay" },
		{ "via.example", 0, "[h]:26", "" }, { "any.example", 0, "[smart]", "" },
	};
	struct generation *g = compile(site_text, 0);
	struct site_routes *routes = site_routes_open(scratch_path("out.site"), "out");

	assert_int_equal(chmod(scratch_path("out.site"), 0644), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *domain = cases[i].domain, *hop;
		size_t length = strlen(domain);
		unsigned row = generation_site_transport(g, 0, domain, length);

		assert_int_equal(row, cases[i].row);
		assert_int_equal(generation_site_transport(g, 3, domain, length), row);
		assert_int_equal(generation_site_transport(g, 1, domain, length), 1);
		assert_int_equal(generation_site_excludes(g, &g->mtas[row], domain, length, NULL),
		    cases[i].next_hop == NULL);
		assert_string_equal(site_routes_transport(routes, domain, length, 1),
		    cases[i].transport);
		/* a lane of 5 has each but slow */
		hop = site_routes_next_hop(routes, domain, length, row == 3 ? 2 : 5, 1);
		if (cases[i].next_hop == NULL) {
			assert_null(hop);
			continue;
		}
		assert_string_equal(generation_site_next_hop(g, &g->mtas[row], domain, length),
		    cases[i].next_hop);
		assert_string_equal(hop, cases[i].next_hop);
	}
	assert_null(site_routes_next_hop(routes, "slow.example", 12, 5, 1));
	/* of those with a next hop the names are known before any mail */
	assert_int_equal(g->mtas[2].site_route_count, 2);
	assert_string_equal(generation_site_listed(g, 2, 0), "hop.example");
	assert_string_equal(generation_site_listed(g, 2, 1), "");
	assert_string_equal(generation_site_listed(g, 3, 0), "");
	assert_string_equal(generation_site_listed(g, 0, 0), "");
	assert_true(generation_site_excludes(g, &g->mtas[3], "any.example", 11, NULL));
	site_routes_close(&routes);
}

static uint32_t limit_of(const struct generation *g, unsigned mta, const char *name) {
	struct window_settings settings;

	(void)generation_window_settings(g, mta, name, strlen(name), GENERATION_NO_PROVIDER,
	    &settings);
	assert_int_equal(settings.initial, mta == 1 ? 5 : 2);
	return settings.limit;
}

TEST(parameters_of_a_transport) {
	struct generation_window_source sources[GENERATION_WINDOW_SOURCES];
	struct generation *g = compile(site_text, 0);

	assert_int_equal(limit_of(g, 1, "a.example"), 20);
	assert_int_equal(limit_of(g, 0, "a.example"), 9);
	assert_int_equal(limit_of(g, 2, "relay:a.example"), 5);
	assert_int_equal(limit_of(g, 3, "slow:a.example"), 9);
	assert_int_equal(limit_of(g, 3, "slow:few.example"), 3);
	assert_int_equal(limit_of(g, 2, "relay:few.example"), 3);
	assert_int_equal(generation_window_sources(g, 2, "relay:few.example", 17,
	    GENERATION_NO_PROVIDER, sources), 4);
	assert_string_equal(sources[0].what, "destinations");
	assert_string_equal(sources[1].what, "transport");
	assert_string_equal(sources[2].what, "mta");
	assert_string_equal(sources[3].what, "window");
	/* whose settings count for a window */
	assert_int_equal(generation_window_mta(g, "slow:a.example", 14, 0), 3);
	assert_int_equal(generation_window_mta(g, "a.example", 9, 0), GENERATION_MTAS_MAX);
	assert_int_equal(generation_window_mta(g, "a.example", 9, 1 << 3 | 1 << 1), 1);
	assert_int_equal(generation_window_mta(g, "gone:a.example", 14, 15), GENERATION_MTAS_MAX);
}

TEST(a_name_tells_its_transport) {
	static const struct {
		const char *name;
		size_t prefix;
	} cases[] = {
		{ "slow:a.example", 5 }, { "slow:provider:big", 5 }, { "slow:[192.0.2.1]:25", 5 },
		{ "slow:[2001:db8::1]:25", 5 }, { "provider:big", 0 }, { "class:a:b", 0 },
		{ "[192.0.2.1]:25", 0 }, { "[2001:db8::1]:25", 0 }, { "a.example", 0 },
		{ ":a.example", 0 }, { "slow:", 0 }, { "", 0 }, { "Provider:x", 0 },
	};
	struct mask pattern;
	const char *why;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(generation_transport_prefix(cases[i].name,
		    strlen(cases[i].name)), cases[i].prefix);
	/* who lists a destination gets its windows of all transports */
	assert_true(name_pattern("*.a.example", &pattern, &why));
	assert_true(name_fits("slow:a.example", &pattern));
	assert_true(name_fits("slow:b.a.example", &pattern));
	assert_false(name_fits("slow:b.example", &pattern));
	assert_false(name_fits("slow:u@a.example:", &pattern));
	assert_true(name_pattern("slow:a.example", &pattern, &why));
	assert_true(name_fits("slow:a.example", &pattern));
	assert_false(name_fits("a.example", &pattern));
}

static struct judgement judge_line(struct judge *judge, const char *program, const char *domain) {
	struct judgement judgement;
	struct log_line out;
	char line[300];

	snprintf(line, sizeof(line), "Jul  1 12:00:00 host %s[1]: 4ABCDEF123: to=<u@%s>, "
	    "relay=m.%s[192.0.2.1]:25, delay=1, delays=0/0/1/0, dsn=2.0.0, status=sent (250 ok)",
	    program, domain, domain);
	assert_int_equal(mail_log_scan(line, strlen(line), &out), LOG_LINE_DELIVERY);
	judge_delivery(judge, 1, &out.delivery, &judgement);
	return judgement;
}

TEST(the_log_tells_the_transport) {
	static const struct {
		const char *program, *domain;
		unsigned mta;
		bool cloned;
		uint32_t lane;
		const char *destination;
	} cases[] = {
		{ "postfix/smtp", "a.example", 0, true, 0, "a.example" },
		{ "postfix/lane5/smtp", "a.example", 0, true, 5, "a.example" },
		{ "postfix/relay/smtp", "x.relay.example", 2, true, 0, "relay:x.relay.example" },
		/* by a FILTER: the site sends it otherwise */
		{ "postfix/relay/smtp", "a.example", 2, true, 0, "relay:a.example" },
		{ "postfix/lane5-relay/smtp", "hop.example", 2, true, 5, "relay:hop.example" },
		{ "postfix/lane2-slow/smtp", "slow.example", 3, true, 2, "slow:slow.example" },
		/* two log the same: the domain tells */
		{ "postfix/smtp", "slow.example", 3, true, 0, "slow:slow.example" },
		{ "postfix/smtp", "Slow.Example", 3, true, 0, "slow:slow.example" },
		{ "postfix/lane5-other/smtp", "a.example", 0, false, 0, "a.example" },
		{ "postfix/lane5-/smtp", "a.example", 0, true, 5, "a.example" },
		{ "postfix/odd/smtp", "slow.example", 0, false, 0, "slow.example" },
		{ "postfix/probe/smtp", "a.example", 0, true, 0, "a.example" },
		{ "postfix/probe-relay/smtp", "x.relay.example", 2, true, 0, "relay:x.relay.example" },
		{ "postfix/probe-relay/smtp", "a.example", 0, false, 0, "a.example" },
	};
	struct generation *g = compile(site_text, 0);
	struct judge *judge;
	struct diag diag;

	assert_int_equal(judge_open(&judge, g, &diag), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct judgement j = judge_line(judge, cases[i].program, cases[i].domain);

		if (strcmp(j.owner.name, cases[i].destination) != 0 || j.mta != cases[i].mta)
			fail_msg("%s %s: mta %u, %s", cases[i].program, cases[i].domain, j.mta,
			    j.owner.name);
		assert_int_equal(j.owner.kind, DESTINATION_DOMAIN);
		assert_int_equal(j.cloned, cases[i].cloned);
		assert_int_equal(j.lane, cases[i].lane);
	}
	judge_close(&judge);
}

/* --- windows ------------------------------------------------------------------------------ */

static const char providers[] = "version = 1;\n"
    "providers = ( { name = \"big\"; relays = [ \"*.big.example\" ]; } );\n";
static const char engine_text[] = "classes = ( { name = \"c\"; match = \"*\"; } );\n" MTAS("");

static void deliver(const char *domain, const char *program, enum delivery_status status) {
	static const char text[] = "connect to mx.big.example[192.0.2.1]:25: Connection refused";
	bool taken = status == DELIVERY_SENT;

	(void)feed_line(&(struct line){ .domain = domain,
		.relay_name = taken ? "mx.big.example" : NULL, .relay = taken ? "192.0.2.1" : NULL,
		.status = status, .text = taken ? accepted : text, .program = program,
		.took_ms = 50 });
}

static struct window_view view_named(const char *name) {
	struct window_owner owner;
	struct window_view view;

	assert_true(windows_owner_named(site.generation, name, strlen(name), &owner));
	(void)windows_view(site.engine, site.generation, &owner, now_ns, &view);
	return view;
}

TEST(windows_are_not_mixed) {
	site_providers = providers;
	site_open(&site, 64, engine_text);
	now_ns = clock_now_ns();
	deliver("a.example", "postfix/smtp", DELIVERY_SENT);
	deliver("b.example", "postfix/relay/smtp", DELIVERY_SENT);
	deliver("c.example", "postfix/lane2-slow/smtp", DELIVERY_SENT);
	pass(1);
	assert_int_equal(view_named("provider:big").ok, 1);
	assert_int_equal(view_named("relay:provider:big").ok, 1);
	assert_int_equal(view_named("slow:provider:big").ok, 1);
	/* the first that was seen of the name has settings of its own transport */
	assert_int_equal(view_named("relay:provider:big").mta, 2);
	assert_int_equal(view_named("slow:provider:big").mta, 3);
	assert_int_equal(view_named("provider:big").mta, 0);
	/* one that has failed is not another's */
	for (unsigned i = 0; i < 20; i++) {
		deliver("c.example", "postfix/lane2-slow/smtp", DELIVERY_DEFERRED);
		pass(3);
	}
	assert_int_equal(view_named("slow:provider:big").state, WINDOW_DEAD);
	assert_int_equal(view_named("relay:provider:big").state, WINDOW_OPEN);
	assert_int_equal(view_named("provider:big").state, WINDOW_OPEN);
	assert_int_equal(view_named("provider:big").failed, 0);
	site_close(&site);
	site_providers = NULL;
}

static enum by_hand_error do_by_hand(enum manual_verb verb, const char *name) {
	const struct by_hand request = { .verb = verb, .name = name, .name_length = strlen(name),
		.window = BY_HAND_UNSET, .ceiling = BY_HAND_UNSET,
		.for_ns = verb == MANUAL_RESUME ? 0 : 3600 * NS_PER_SECOND };
	struct window_owner owner;

	return windows_by_hand(site.engine, site.generation, &request, now_ns, &owner);
}

static const char *owner_by(const char *domain, unsigned mta) {
	static struct window_owner owner;
	struct destination_seen seen;

	assert_true(destinations_find(site.segment, domain, strlen(domain), &seen));
	assert_true(windows_owner_of_mta(site.engine, site.generation, &seen, mta, &owner));
	return owner.name;
}

TEST(by_hand_for_one_transport_or_for_all) {
	site_providers = providers;
	site_open(&site, 64, engine_text);
	now_ns = clock_now_ns();
	deliver("b.example", "postfix/relay/smtp", DELIVERY_SENT);
	pass(1);
	assert_string_equal(owner_by("b.example", 2), "relay:provider:big");
	assert_string_equal(owner_by("b.example", 3), "slow:provider:big");
	assert_int_equal(do_by_hand(MANUAL_SUSPEND, "gone:b.example"), BY_HAND_BAD_NAME);
	assert_int_equal(do_by_hand(MANUAL_SUSPEND, "relay:b@d"), BY_HAND_DONE);	/* a recipient */
	assert_int_equal(do_by_hand(MANUAL_SUSPEND, "relay:b,c"), BY_HAND_BAD_NAME);
	assert_int_equal(do_by_hand(MANUAL_SUSPEND, "relay:provider:none"), BY_HAND_BAD_NAME);
	assert_int_equal(do_by_hand(MANUAL_SUSPEND, "Relay:B.example"), BY_HAND_DONE);
	assert_string_equal(owner_by("b.example", 2), "relay:b.example");
	assert_string_equal(owner_by("b.example", 3), "slow:provider:big");
	assert_int_equal(do_by_hand(MANUAL_RESUME, "relay:b.example"), BY_HAND_DONE);
	assert_string_equal(owner_by("b.example", 2), "relay:provider:big");
	assert_int_equal(do_by_hand(MANUAL_SUSPEND, "b.example"), BY_HAND_DONE);
	assert_string_equal(owner_by("b.example", 2), "b.example");
	assert_string_equal(owner_by("b.example", 3), "b.example");
	assert_int_equal(do_by_hand(MANUAL_RESUME, "b.example"), BY_HAND_DONE);
	assert_int_equal(do_by_hand(MANUAL_SUSPEND, "provider:big"), BY_HAND_DONE);
	assert_string_equal(owner_by("b.example", 3), "provider:big");
	site_close(&site);
	site_providers = NULL;
}

static enum hint_doubt doubt_of(const struct generation *g, uint8_t mta, const char *domain,
    uint8_t cloned_by, uint8_t other_by) {
	struct destination_seen seen = { .cloned_by = cloned_by, .other_by = other_by };
	const char *detail;

	return hint_destination_doubt(g, mta, domain, strlen(domain), &seen, &detail);
}

TEST(who_else_delivered_leaves_doubt) {
	enum { OUT = 1 << 0, RELAY = 1 << 2, SLOW = 1 << 3 };
	struct generation *g = compile(site_text, 0);

	assert_int_equal(doubt_of(g, 0, "a.example", OUT, 0), HINT_DOUBT_NONE);
	/* by a FILTER, or the site named the transport before */
	assert_int_equal(doubt_of(g, 0, "a.example", OUT | SLOW, 0), HINT_DOUBT_OTHER_TRANSPORT);
	assert_int_equal(doubt_of(g, 0, "a.example", OUT, OUT), HINT_DOUBT_OTHER_TRANSPORT);
	assert_int_equal(doubt_of(g, 0, "slow.example", OUT, 0), HINT_DOUBT_EXCLUDED);
	assert_int_equal(doubt_of(g, 3, "slow.example", OUT, 0), HINT_DOUBT_NEVER_SEEN);
	assert_int_equal(doubt_of(g, 3, "slow.example", OUT | SLOW | RELAY, 0), HINT_DOUBT_NONE);
	/* by one that is in no list */
	assert_int_equal(doubt_of(g, 3, "slow.example", SLOW, OUT), HINT_DOUBT_OTHER_TRANSPORT);
	assert_int_equal(doubt_of(g, 2, "slow.example", RELAY, 0), HINT_DOUBT_EXCLUDED);
	/* of another mail server that means nothing */
	assert_int_equal(doubt_of(g, 3, "slow.example", SLOW, 1 << 1), HINT_DOUBT_NONE);
}

TEST(bad_configurations) {
	static const struct {
		const char *transports, *error;
	} cases[] = {
		{ "{ lanes = [ 1 ]; }", "must have a name" },
		{ "{ name = \"smtp\"; }", "is the clone of the mta" },
		{ "{ name = \"a\"; }, { name = \"A\"; }", "listed twice" },
		{ "{ name = \"provider\"; }", "cannot have the name" },
		{ "{ name = \"a:b\"; }", "may only have letters" },
		{ "{ name = \"-a\"; }", "cannot start with hyphen" },
		{ "{ name = \"a\"; odd = 1; }", "unknown setting" },
		{ "{ name = \"a\"; }, { name = \"b\"; }, { name = \"c\"; }, { name = \"d\"; },"
		    "{ name = \"e\"; }, { name = \"f\"; }, { name = \"g\"; }, { name = \"h\"; }",
		    "more than 8 mail servers and transports" },
		{ "{ name = \"a\"; window = { law = \"odd\"; }; }", "law" },
	};
	char text[700];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool found = false;

		snprintf(text, sizeof(text), "version = 1; classes = ();\n"
		    "mta = ( { name = \"out\"; transports = ( %s ); } );\n", cases[i].transports);
		assert_null(config_compile_texts(text, "main", "version = 1;", "providers",
		    fresh_messages()));
		for (size_t k = 0; k < messages.count; k++)
			found = found || strstr(messages.list[k].text, cases[i].error) != NULL;
		if (!found)
			fail_msg("%s: %s", cases[i].transports, messages.list[0].text);
	}
}

TEST_GROUP(make_files, scratch_close)
