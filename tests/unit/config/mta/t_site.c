/* SPDX-License-Identifier: ISC */
/* The site's file: what becomes of it, and every mistake in it. */
#include "tests/unit/test.h"
#include "base/file_stamp.h"
#include "config/generation/site_routes.h"
#include "tests/unit/config/compiled.h"
#include "tests/unit/scratch.h"

#define HEAD "postern-site 1\nmta out\n"

static int make_files(void **state) {
	char text[512];

	if (scratch_open(state) != 0)
		return -1;
	snprintf(text, sizeof(text), "version = 1; classes = ();\n"
	    "mta = ( { name = \"out\"; site = \"%s\"; } );\n", scratch_path("out.site"));
	scratch_write("conf", text);
	scratch_write("providers.conf", "version = 1;\n");
	return 0;
}

static struct generation *compile(void) {
	return compiled_well(config_compile(scratch_path("conf"), fresh_messages()));
}

/* What the file says, without complaint. */
static struct generation *good(const char *text) {
	struct generation *g;

	scratch_write("out.site", text);
	g = compile();
	if (messages.count != 1)
		print_messages();
	assert_int_equal(messages.count, 1);	/* classes is empty */
	assert_true(g->mtas[0].site_known);
	return g;
}

static bool excluded(const struct generation *g, const char *domain, const char *reason) {
	const char *said = NULL;
	bool found = generation_site_excludes(g, &g->mtas[0], domain, strlen(domain), &said);

	if (found)
		assert_string_equal(said, reason);
	return found;
}

static bool listed(const struct generation *g, const char *domain) {
	return generation_site_lists(g, &g->mtas[0], domain, strlen(domain));
}

TEST(the_facts_are_kept) {
	struct generation *g = good(HEAD "made 2026-11-21T12:00:00Z\n\n# a remark\n"
	    "clone-program postfix/out/relay\n"
	    "exclude *.a.example transport_maps names it\nexclude B.example.   \n");

	assert_string_equal(generation_text(g, g->mtas[0].clone_program), "postfix/out/relay");
	assert_int_equal(g->mtas[0].site_refusal, 0);
	assert_int_equal(g->mtas[0].site_excluded_count, 2);
	assert_true(excluded(g, "x.a.example", "transport_maps names it"));
	assert_true(excluded(g, "A.example", "transport_maps names it"));
	assert_true(excluded(g, "b.example", ""));
	assert_false(excluded(g, "x.b.example", ""));
	assert_true(listed(g, "anything.example"));
	assert_true(generation_site_excludes(g, &g->mtas[0], "b.example", 9, NULL));
}

static const char *next_hop(const struct generation *g, const char *domain) {
	return generation_site_next_hop(g, &g->mtas[0], domain, strlen(domain));
}

/* Nothing is learned there, and nobody would know why there are no hints. */
TEST(a_relayhost_on_a_port_that_is_not_named_is_told) {
	static const struct {
		const char *relayhost, *told;
	} rows[] = {
		{ "[smart.example]:587", "uses port 587, which mta.ports does not list: "
		    "deliveries there are ignored, and no destination gets a hint; set ports = "
		    "[ 25, 587 ]; in the mta" },
		{ "smart.example:submission", "uses port 587," },
		{ "[smart.example]", NULL }, { "[smart.example]:25", NULL }, { "[2001:db8::1]", NULL },
	};
	char text[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct generation *g;
		bool told = false;

		snprintf(text, sizeof(text), HEAD "relayhost %s\n", rows[i].relayhost);
		scratch_write("out.site", text);
		g = compile();
		assert_true(g->mtas[0].site_known);
		for (size_t k = 0; k < messages.count; k++)
			told |= rows[i].told != NULL &&
			    strstr(messages.list[k].text, rows[i].told) != NULL;
		if (told != (rows[i].told != NULL) || messages.count != 1U + told)
			fail_msg("%s: %zu messages", rows[i].relayhost, messages.count);
	}
}

TEST(lanes_and_next_hops_are_kept) {
	struct generation *g = good(HEAD "clone-limit 20\nclone-cohorts 2500\n"
	    "clone-backoff 60\nlane 1\nlane 5\nlane 7\nprobes 2\n"
	    "route a.example [Relay.Example]:587\nroute *.b.example mx.b.example\n"
	    "relayhost [smart.example]\n");

	assert_int_equal(g->mtas[0].lane_count, 6);
	assert_int_equal(g->mtas[0].lanes[3], 5);
	/* 7 is not configured; 2, 3, 10 and 20 are not there */
	assert_int_equal(g->mtas[0].site_lanes, 1 << 0 | 1 << 3);
	assert_int_equal(g->mtas[0].site_origin, 20);
	assert_int_equal(g->mtas[0].site_cohorts, 2500);
	assert_int_equal(g->mtas[0].site_backoff_s, 60);
	assert_int_equal(g->mtas[0].site_probes, 2);
	assert_string_equal(next_hop(g, "A.example"), "[Relay.Example]:587");
	assert_string_equal(next_hop(g, "x.b.example"), "mx.b.example");
	assert_string_equal(next_hop(g, "x.a.example"), "[smart.example]");
	g = good(HEAD);
	assert_int_equal(g->mtas[0].site_lanes, 0);
	assert_string_equal(next_hop(g, "a.example"), "");
}

static int64_t look_ns;

/* Where postern-lookup sends it by lane 5, or "-": by no lane. */
static const char *by_lane(struct site_routes *routes, const char *domain) {
	const char *to;

	look_ns += SITE_ROUTES_LOOK_NS;
	to = site_routes_next_hop(routes, domain, strlen(domain), 5, look_ns);

	return to == NULL ? "-" : to;
}

static void write_site(const char *text) {
	scratch_write("new", text);
	assert_int_equal(chmod(scratch_path("new"), 0644), 0);
	assert_int_equal(rename(scratch_path("new"), scratch_path("out.site")), 0);
}

TEST(without_the_daemon_next_hops_are_the_same) {
	static const char *const domains[] = { "a.example", "x.a.example", "b.example",
		"x.b.example", "c.example", "y.x.b.example" };
	static const char text[] = HEAD "# made so\nclone-limit 20\nlane 5\nprobes 2\n"
	    "route a.example [Relay.Example]:587\nroute x.b.example [x]\n"
	    "route *.b.example mx.b.example  \nrelayhost [smart.example]\nby-setup\n";
	struct site_routes *routes = site_routes_open(scratch_path("out.site"), "out");
	struct generation *g = good(text);

	write_site(text);
	for (size_t i = 0; i < sizeof(domains) / sizeof(domains[0]); i++)
		assert_string_equal(by_lane(routes, domains[i]), next_hop(g, domains[i]));
	assert_null(site_routes_next_hop(routes, "a.example", 9, 4, look_ns));
	assert_null(site_routes_next_hop(routes, "a.example", 9, 666, look_ns));
	/* mail for these could be the site's own */
	assert_string_equal(by_lane(routes, "[127.0.0.1]"), "-");
	assert_string_equal(by_lane(routes, "127.0.0.1"), "-");
	assert_string_equal(by_lane(routes, "a.example."), "-");
	assert_string_equal(by_lane(routes, "a b.example"), "-");
	write_site(HEAD "lane 5\nexclude *.a.example transport_maps\n");
	assert_string_equal(by_lane(routes, "x.a.example"), "-");
	assert_string_equal(by_lane(routes, "b.example"), "");
	write_site(HEAD "lane 5\nonly-listed\nlist a.example\n");
	assert_string_equal(by_lane(routes, "a.example"), "");
	assert_string_equal(by_lane(routes, "b.example"), "-");
	site_routes_close(&routes);
}

/* Where the lane of probes leads by the site's entry, or "-": the resolver's settings tell. */
static const char *probe_to(struct site_routes *routes, const char *domain) {
	const char *to;

	look_ns += SITE_ROUTES_LOOK_NS;
	to = site_routes_probe_hop(routes, domain, strlen(domain), look_ns);
	return to == NULL ? "-" : to;
}

TEST(probes_go_by_their_lane_where_the_site_names_a_next_hop) {
	struct site_routes *routes = site_routes_open(scratch_path("out.site"), "out");

	write_site(HEAD "lane 5\nprobes 2\nroute a.example [a]:26\nroute *.b.example mx.b.example\n"
	    "exclude x.b.example transport_maps\nrelayhost [smart.example]\n");
	assert_string_equal(probe_to(routes, "a.example"), "[a]:26");
	assert_string_equal(probe_to(routes, "y.b.example"), "mx.b.example");
	assert_string_equal(probe_to(routes, "x.b.example"), "-");
	/* by the relayhost that the resolver has for probes */
	assert_string_equal(probe_to(routes, "c.example"), "-");
	assert_string_equal(probe_to(routes, "[192.0.2.1]"), "-");
	write_site(HEAD "probes 2\nonly-listed\nlist a.example\nroute a.example [a]\n"
	    "route d.example [d]\n");
	assert_string_equal(probe_to(routes, "a.example"), "[a]");
	assert_string_equal(probe_to(routes, "d.example"), "-");
	/* the lane is not there */
	write_site(HEAD "lane 5\nroute a.example [a]:26\n");
	assert_string_equal(probe_to(routes, "a.example"), "-");
	site_routes_close(&routes);
}

TEST(probes_without_a_lane_are_noted) {
	static const struct {
		const char *text, *note;
	} cases[] = {
		{ HEAD "lane 5\n", "address verification probes have no lane in master.cf: they "
		    "come on top of windows, and suspended destinations are probed; run "
		    "posternctl postfix-lanes" },
		{ HEAD "by-setup\n", "address verification probes have no lane in master.cf: they "
		    "come on top of windows, and suspended destinations are probed; run "
		    "postern-postfix-setup make" },
		{ HEAD "lane 5\nno-probes its program is not smtp\n", "address verification probes "
		    "have no lane in master.cf: they come on top of windows, and suspended "
		    "destinations are probed: its program is not smtp" },
		{ HEAD "lane 5\nprobes 2\n", NULL },
		{ HEAD, NULL },		/* no lines of ours are there */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		scratch_write("out.site", cases[i].text);
		(void)compile();
		assert_int_equal(messages.count, cases[i].note == NULL ? 1 : 2);
		if (cases[i].note != NULL)
			assert_string_equal(messages.list[1].text, cases[i].note);
	}
}

TEST(a_site_file_in_doubt_has_no_lanes) {
	static const char *const bad[] = { "", "lane 5\n", "postern-site 2\nmta out\nlane 5\n",
		"postern-site 1\nlane 5\n", "postern-site 1\nmta other\nlane 5\n",
		HEAD "lane 5\nrefuse all-mail it goes elsewhere\n", HEAD "lane x\n",
		HEAD "lane 5\nroute a.example\n", HEAD "lane 5\nroute a.example x y\n",
		HEAD "lane 5\nrelayhost x y\n", HEAD "lane 5\nexclude a@b\n", HEAD };
	static const char well[] = HEAD "lane 5\n";
	struct site_routes *routes = site_routes_open(scratch_path("out.site"), "out");

	unlink(scratch_path("out.site"));
	assert_string_equal(by_lane(routes, "a.example"), "-");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_site(well);
		assert_string_equal(by_lane(routes, "a.example"), "");
		write_site(bad[i]);
		assert_string_equal(by_lane(routes, "a.example"), "-");
	}
	write_site(well);
	assert_string_equal(by_lane(routes, "a.example"), "");
	/* another's could be anything */
	assert_int_equal(chmod(scratch_path("out.site"), 0664), 0);
	assert_string_equal(by_lane(routes, "a.example"), "-");
	assert_int_equal(chmod(scratch_path("out.site"), 0644), 0);
	assert_string_equal(by_lane(routes, "a.example"), "");
	if (geteuid() == 0 && chown(scratch_path("out.site"), 12345, (gid_t)-1) == 0)
		assert_string_equal(by_lane(routes, "a.example"), "-");
	unlink(scratch_path("out.site"));
	assert_int_equal(symlink(scratch_path("conf"), scratch_path("out.site")), 0);
	assert_string_equal(by_lane(routes, "a.example"), "-");
	site_routes_close(&routes);
	unlink(scratch_path("out.site"));
}

TEST(a_list_leaves_out_the_rest) {
	struct generation *g = good(HEAD "only-listed\nlist a.example\nlist b.example\n"
	    "clone-program postfix/x/smtp");

	assert_true(listed(g, "a.example"));
	assert_false(listed(g, "c.example"));
	g = good(HEAD "only-listed\n");
	assert_false(listed(g, "a.example"));
	g = good(HEAD);
	assert_true(listed(g, "a.example"));
	assert_false(excluded(g, "a.example", ""));
	assert_string_equal(generation_text(g, g->mtas[0].clone_program), "postfix/smtp");
}

TEST(deliveries_that_are_logged_under_another_name_are_noted) {
	static const char *const programs[] = { "other/smtp", "postfix-x/smtp", "postfix" };

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		char text[256];

		snprintf(text, sizeof(text), HEAD "clone-program %s\n", programs[i]);
		scratch_write("out.site", text);
		(void)compile();
		assert_int_equal(messages.errors, 0);
		assert_int_equal(messages.count, 2);
		assert_string_equal(messages.list[1].file, scratch_path("conf"));
		assert_non_null(strstr(messages.list[1].text, "mta.syslog_name is postfix, "));
		assert_non_null(strstr(messages.list[1].text, programs[i]));
	}
}

TEST(the_first_refusal_counts) {
	static const char text[] = HEAD "refuse relayhost depends on the sender\nrefuse other\n";
	struct generation *g;

	scratch_write("out.site", text);
	g = compile();
	assert_string_equal(generation_text(g, g->mtas[0].site_refusal),
	    "relayhost depends on the sender");
	/* and check tells it */
	assert_int_equal(messages.errors, 0);
	assert_int_equal(messages.count, 2);
	assert_string_equal(messages.list[1].file, scratch_path("out.site"));
	assert_int_equal(messages.list[1].line, 3);
	assert_non_null(strstr(messages.list[1].text, "no lanes: depends on the sender"));
}

TEST(a_site_that_has_changed_is_noted) {
	char watched[64];
	struct generation *g;
	char text[1024];
	uint64_t stamp;

	snprintf(watched, sizeof(watched), "%s/providers.conf", scratch);
	snprintf(text, sizeof(text), HEAD "watch %016llx %s\nwatch 0000000000000000 /not/there\n",
	    (unsigned long long)file_stamp(watched), watched);
	g = good(text);
	assert_int_equal(g->mtas[0].site_watch_count, 2);
	assert_int_equal(g->mtas[0].site_changed, 0);
	assert_string_equal(generation_site_watch(g, &g->mtas[0], 0, &stamp), watched);
	assert_int_equal(stamp, file_stamp(watched));
	assert_string_equal(generation_site_watch(g, &g->mtas[0], 1, &stamp), "/not/there");
	assert_int_equal(stamp, 0);
	scratch_write("providers.conf", "version = 1; \n");
	assert_int_equal(generation_site_changed(g, &g->mtas[0]), 1);
	g = compile();
	assert_int_equal(messages.errors, 0);
	assert_int_equal(messages.count, 2);
	assert_non_null(strstr(messages.list[1].text, "providers.conf has changed"));
	assert_true(g->mtas[0].site_known);
	assert_int_equal(g->mtas[0].site_changed, 1);
}

TEST(nothing_is_taken_of_a_bad_file) {
	static const struct {
		const char *text;
		int line;
		const char *words;
	} mistakes[] = {
		{ "", 0, "the file is empty" },
		{ "postern-site 1\n", 0, "the mta line is missing" },
		{ "postern-site 2\nmta out\n", 1, "must be \"postern-site 1\": postern-site" },
		{ "\n" HEAD, 1, "must be \"postern-site 1\"" },
		{ HEAD "watch 123 /etc/passwd\n", 3, "16 digits and a path" },
		{ HEAD "watch 0123456789abcdef etc\n", 3, "16 digits and a path" },
		{ HEAD "watch 0123456789abcdeg /etc\n", 3, "16 digits and a path" },
		{ HEAD "watch 0123456789abcdef\n", 3, "16 digits and a path" },
		{ "postern-site 1\nmta in\n", 2, "this file belongs to another mta: in" },
		{ HEAD "mta\n", 3, "one word must follow: mta" },
		{ HEAD "made a b\n", 3, "one word must follow: made" },
		{ HEAD "exclude a..b\n", 3, ": a..b" },
		{ HEAD "exclude\n", 3, ": -" },
		{ HEAD "lane x\n", 3, "not a number, or too large: x" },
		{ HEAD "lane 10001\n", 3, "not a number, or too large: 10001" },
		{ HEAD "clone-limit 1 2\n", 3, "one word must follow: clone-limit" },
		{ HEAD "route a.example\n", 3, "a next hop must follow the mask: a.example" },
		{ HEAD "route a.example b c\n", 3, "a next hop must follow the mask" },
		{ HEAD "route a..b c\n", 3, ": a..b" },
		{ HEAD "list a.example b\n", 3, "one word must follow: list" },
		{ HEAD "only-listed x\n", 3, "nothing may follow: only-listed" },
		{ HEAD "refuse\n", 3, "a reason must follow: refuse" },
		{ HEAD "exclde a.example\n", 3, "unknown word: exclde" },
		{ HEAD "exclude a.example \033[2J\n", 3, "not printable ASCII: exclude" },
		{ HEAD "list a.example\r\n", 3, "not printable ASCII" },
	};

	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		struct generation *g;

		scratch_write("out.site", mistakes[i].text);
		g = compile();
		assert_false(g->mtas[0].site_known);
		assert_int_equal(g->mtas[0].site_excluded_index, 0);
		assert_int_equal(messages.errors, 0);
		assert_true(messages.count >= 3);
		assert_string_equal(messages.list[1].file, scratch_path("out.site"));
		assert_int_equal(messages.list[1].line, mistakes[i].line);
		if (strstr(messages.list[1].text, mistakes[i].words) == NULL)
			fail_msg("%s", messages.list[1].text);
		assert_non_null(strstr(messages.list[messages.count - 1].text,
		    "no destination of the mta gets a hint"));
	}
}

TEST(a_flood_of_mistakes_is_cut) {
	size_t room = 40000;
	char *text = malloc(room);

	assert_non_null(text);
	memset(text, '\n', room);
	memcpy(text, HEAD, strlen(HEAD));
	for (size_t i = 100; i < room; i += 3)
		text[i] = 'x';
	scratch_write_bytes("out.site", text, room);
	(void)compile();
	assert_int_equal(messages.count, 1 + 20 + 1);
	free(text);
}

TEST(no_file_is_a_note) {
	struct generation *g;

	unlink(scratch_path("out.site"));
	g = compile();
	assert_false(g->mtas[0].site_known);
	assert_int_equal(messages.count, 2);
	assert_string_equal(messages.list[1].file, scratch_path("conf"));
	assert_int_equal(messages.list[1].line, 2);
	assert_non_null(strstr(messages.list[1].text, "cannot be read: No such file"));
}

TEST(what_points_outside_is_refused) {
	struct generation *g = good(HEAD "exclude a.example x\nlist b.example\n"
	    "route c.example d\n");
	struct diag diag;
	uint32_t *const fields[] = { &g->mtas[0].site_reasons, &g->mtas[0].site_excluded_index,
	    &g->mtas[0].site_listed_index, &g->mtas[0].site_route_index,
	    &g->mtas[0].site_routes, &g->mtas[0].site_route_count, &g->mtas[0].lane_count, &g->mtas[0].port_count,
	    &g->mta_count, &g->remote_port_count, &g->mtas[0].site_excluded_count };

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint32_t before = *fields[i];

		*fields[i] = (uint32_t)g->bytes;
		assert_int_equal(generation_verify(g, (size_t)g->bytes, &diag), -1);
		*fields[i] = before;
	}
	assert_int_equal(generation_verify(g, (size_t)g->bytes, &diag), 0);
}

TEST_GROUP(make_files, scratch_close)
