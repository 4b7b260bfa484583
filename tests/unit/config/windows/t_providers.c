/* SPDX-License-Identifier: ISC */
/* The file of providers and the settings of windows: what becomes of them, and the
 * mistakes in them. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "tests/unit/config/compiled.h"
#include "tests/unit/material.h"
#include "tests/unit/scratch.h"

#define MAIN "version = 1; classes = ();\n"
#define V "version = 1;\n"

static struct generation *compile(const char *text, const char *providers) {
	return compiled(config_compile_texts(text, "main", providers, "providers",
	    fresh_messages()));
}

static struct generation *compile_good(const char *text, const char *providers) {
	return compiled_well(config_compile_texts(text, "main", providers, "providers",
	    fresh_messages()));
}

static uint32_t provider_of(const struct generation *g, const char *name, const char *address) {
	struct address relay;

	if (address != NULL)
		assert_true(address_parse(address, strlen(address), &relay));
	return generation_match_provider(g, name, name ? strlen(name) : 0,
	    address ? &relay : NULL);
}

TEST(relays_are_of_the_first_provider_that_matches) {
	struct generation *g = compile_good(MAIN, V
	    "providers = (\n"
	    " { name = \"olc\"; relays = \"*.olc.outlook.com\"; },\n"
	    " { name = \"365\"; relays = [ \"*.outlook.com\", \"192.0.2.0/24\", \"2001:db8::/32\" ]; } );\n");

	assert_int_equal(provider_of(g, "x.olc.outlook.com", NULL), 0);
	assert_int_equal(provider_of(g, "x.mail.Outlook.com", NULL), 1);
	assert_int_equal(provider_of(g, "x.example", "192.0.2.7"), 1);
	assert_int_equal(provider_of(g, "x.olc.outlook.com", "192.0.2.7"), 0);
	assert_int_equal(provider_of(g, NULL, "2001:db8::1"), 1);
	assert_int_equal(provider_of(g, "outlook.com.example", "192.0.3.7"),
	    GENERATION_NO_PROVIDER);
	assert_int_equal(provider_of(g, "", NULL), GENERATION_NO_PROVIDER);
	assert_int_equal(generation_find_provider(g, "365", 3), 1);
	assert_int_equal(generation_find_provider(g, "36", 2), GENERATION_NO_PROVIDER);
	g = compile_good(MAIN, NULL);
	assert_int_equal(provider_of(g, "x.olc.outlook.com", NULL), GENERATION_NO_PROVIDER);
	assert_string_equal(generation_text(g, g->providers_file), "");
}

TEST(a_rule_is_kept_as_it_is_written) {
	struct generation *g = compile_good(MAIN, V
	    "replies = (\n { match = \"grey\"; class = \"rcpt-temporary\"; } );\n"
	    "providers = (\n"
	    " { name = \"a\"; relays = \"a.example\";\n"
	    "   replies = (\n"
	    "    { name = \"slow\"; match = \"^4\\.7\"; class = \"remote-throttle\"; note = \"why\";\n"
	    "      action = \"suspend\"; for = \"10m\"; threshold = \"3/1h\"; },\n"
	    "    { match = \"many\"; action = \"ceiling\"; ceiling = 3; } ); },\n"
	    " { name = \"b\"; relays = \"b.example\";\n"
	    "   replies = ( { match = \"many\"; action = \"alert\"; threshold = \"1/1h\"; } ); } );\n");
	const struct generation_reply_rule *rule;

	assert_int_equal(g->reply_rule_count, 4);
	assert_int_equal(g->common_rules, 3);
	assert_int_equal(generation_provider(g, 0)->rules, 0);
	assert_int_equal(generation_provider(g, 0)->rule_count, 2);
	assert_int_equal(generation_provider(g, 1)->rules, 2);
	rule = generation_reply_rule(g, 0);
	assert_int_equal(rule->provider, 0);
	assert_string_equal(generation_text(g, rule->pattern), "^4\\.7");
	assert_string_equal(generation_text(g, rule->name), "slow");
	assert_string_equal(generation_text(g, rule->note), "why");
	assert_string_equal(generation_text(g, rule->file), "providers");
	assert_int_equal(rule->line, 7);
	assert_true(rule->has_class);
	assert_int_equal(rule->class, RESULT_REMOTE_THROTTLE);
	assert_int_equal(rule->action, REPLY_ACTION_SUSPEND);
	assert_int_equal(rule->for_ns, 600 * NS_PER_SECOND);
	assert_int_equal(rule->count, 3);
	assert_int_equal(rule->period_ns, 3600 * NS_PER_SECOND);
	rule = generation_reply_rule(g, 1);
	assert_false(rule->has_class);
	assert_int_equal(rule->action, REPLY_ACTION_CEILING);
	assert_int_equal(rule->ceiling, 3);
	assert_int_equal(rule->count, 1);
	assert_int_equal(rule->for_ns, 0);
	assert_int_equal(generation_reply_rule(g, 2)->action, REPLY_ACTION_ALERT);
	assert_int_equal(generation_reply_rule(g, 2)->count, 1);
	assert_int_equal(generation_reply_rule(g, 2)->period_ns, 0);
	assert_true(generation_reply_rule(g, 2)->identity != rule->identity);
	assert_int_equal(generation_reply_rule(g, 3)->provider, GENERATION_NO_PROVIDER);
	assert_int_equal(generation_reply_rule(g, 3)->class, RESULT_RCPT_TEMPORARY);
}

/* --- windows --------------------------------------------------------------------- */

static struct window_settings settings_of(const struct generation *g, unsigned mta,
    const char *destination, const char *provider) {
	struct window_settings out;

	memset(&out, 0xff, sizeof(out));
	generation_window_settings(g, mta, destination, strlen(destination),
	    provider ? generation_find_provider(g, provider, strlen(provider)) :
	    GENERATION_NO_PROVIDER, &out);
	return out;
}

TEST(without_settings_they_are_the_defaults) {
	struct generation *g = compile_good(MAIN, NULL);
	struct window_settings s = settings_of(g, GENERATION_MTAS_MAX, "a.example", NULL);

	assert_int_equal(s.law, window_defaults.law);
	assert_int_equal(s.initial, window_defaults.initial);
	assert_int_equal(s.limit, window_defaults.limit);
	assert_int_equal(s.positive.form, window_defaults.positive.form);
	assert_true(s.positive.amount == window_defaults.positive.amount);
	assert_int_equal(s.negative.form, window_defaults.negative.form);
	assert_true(s.negative.amount == window_defaults.negative.amount);
	assert_true(s.failed_cohort_limit == window_defaults.failed_cohort_limit);
	assert_int_equal(s.suspend_ns, window_defaults.suspend_ns);
	assert_int_equal(s.canary_least_ns, window_defaults.canary_least_ns);
	assert_int_equal(s.canary_most_ns, window_defaults.canary_most_ns);
	assert_int_equal(s.believe_ns, window_defaults.believe_ns);
	assert_int_equal(s.believe_refusals, window_defaults.believe_refusals);
}

static const char window_text[] = MAIN
    "window = { initial_destination_concurrency = 1; destination_concurrency_limit = 11;\n"
    "           suspend = \"1m\"; believe_refusals = 9; };\n"
    "mta = ( { name = \"plain\"; site = \"/none\"; },\n"
    "        { name = \"slow\"; site = \"/none\"; syslog_name = \"slow\";\n"
    "          window = { initial_destination_concurrency = 2; destination_concurrency_limit = 12;\n"
    "                     suspend = \"2m\"; }; } );\n"
    "destinations = (\n"
    "  { match = [ \"a.example\", \"*.b.example\", \"provider:big\", \"[192.0.2.1]:25\" ];\n"
    "    window = { initial_destination_concurrency = 4; }; },\n"
    "  { match = [ \"198.51.100.0/24\", \"provider:told\" ];\n"
    "    window = { destination_concurrency_limit = 14; destination_concurrency_feedback_debug = true; }; } );\n";
static const char window_providers[] = V
    "providers = (\n"
    "  { name = \"big\"; relays = \"*.big.example\";\n"
    "    window = { initial_destination_concurrency = 3; destination_concurrency_limit = 13; }; },\n"
    "  { name = \"told\"; relays = \"*.told.example\"; ceiling = 6; },\n"
    "  { name = \"few\"; relays = \"*.few.example\"; ceiling = 7; } );\n";

/* each parameter from the innermost group that gives it */
TEST(the_innermost_group_gives_a_parameter) {
	static const struct {
		unsigned mta;
		const char *destination, *provider;
		uint32_t initial, limit, suspend_s;
	} cases[] = {
		{ GENERATION_MTAS_MAX, "x.example", NULL, 1, 11, 60 },
		{ 0, "x.example", NULL, 1, 11, 60 },
		{ 1, "x.example", NULL, 2, 12, 120 },
		{ 0, "provider:big", "big", 4, 13, 60 },
		{ 1, "provider:big", "big", 4, 13, 120 },
		{ 1, "x.example", "big", 3, 13, 120 },
		{ 1, "a.example", NULL, 4, 12, 120 },
		{ 1, "A.Example", NULL, 4, 12, 120 },
		{ 0, "x.b.example", NULL, 4, 11, 60 },
		{ 0, "b.example", NULL, 4, 11, 60 },
		{ 0, "[192.0.2.1]:25", NULL, 4, 11, 60 },
		{ 0, "[192.0.2.1]:26", NULL, 1, 11, 60 },
		{ 0, "[198.51.100.9]:10024", NULL, 1, 14, 60 },
		/* the provider's own word cuts, but for what is told of it here */
		{ 0, "provider:few", "few", 1, 7, 60 },
		{ 0, "provider:told", "told", 1, 14, 60 },
	};
	struct generation *g = compile_good(window_text, window_providers);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct window_settings s = settings_of(g, cases[i].mta, cases[i].destination,
		    cases[i].provider);

		assert_int_equal(s.initial, cases[i].initial);
		assert_int_equal(s.limit, cases[i].limit);
		assert_int_equal(s.suspend_ns, cases[i].suspend_s * NS_PER_SECOND);
		assert_int_equal(s.believe_refusals, 9);
		assert_int_equal(s.law, WINDOW_LAW_PROBE);
	}
}

TEST(the_groups_that_give_them_are_told) {
	struct generation *g = compile_good(window_text, window_providers);
	struct generation_window_source from[GENERATION_WINDOW_SOURCES];
	struct window_settings s;

	assert_int_equal(generation_window_sources(g, 1, "provider:big", 12, 0, from), 4);
	assert_string_equal(from[0].what, "destinations");
	assert_int_equal(from[0].line, 9);
	assert_string_equal(from[0].file, "main");
	assert_string_equal(from[1].what, "provider");
	assert_string_equal(from[1].file, "providers");
	assert_int_equal(from[1].line, 3);
	assert_string_equal(from[2].what, "mta");
	assert_int_equal(from[2].line, 6);
	assert_string_equal(from[3].what, "window");
	assert_int_equal(from[3].line, 2);
	assert_int_equal(generation_window_sources(g, 0, "x.example", 9, GENERATION_NO_PROVIDER,
	    from), 1);
	assert_string_equal(from[0].what, "window");
	assert_true(generation_window_settings(g, 0, "[198.51.100.1]:25", 17,
	    GENERATION_NO_PROVIDER, &s));
	assert_false(generation_window_settings(g, 0, "x.example", 9, GENERATION_NO_PROVIDER, &s));
}

/* --- paces ----------------------------------------------------------------------- */

static struct pace_settings pace_of(const struct generation *g, const char *destination,
    const char *provider, bool *is_paced) {
	struct window_settings ignored;
	struct pace_settings out;

	memset(&out, 0xff, sizeof(out));
	(void)generation_settings(g, 0, destination, strlen(destination),
	    provider ? generation_find_provider(g, provider, strlen(provider)) :
	    GENERATION_NO_PROVIDER, &ignored, &out, is_paced);
	return out;
}

TEST(a_pace_is_of_the_first_group_that_matches) {
	struct generation *g = compile_good(MAIN
	    "destinations = ( { match = \"a.example\"; pace = \"200/1h\"; pace_burst = 5; },\n"
	    "  { match = \"b.example\"; window = { suspend = \"5m\"; }; },\n"
	    "  { match = \"*.example\"; pace = \"1/1s\"; } );\n", V);
	struct pace_settings s;
	bool is_paced;

	s = pace_of(g, "A.example", NULL, &is_paced);
	assert_true(is_paced);
	assert_int_equal(s.limit.count, 200);
	assert_int_equal(s.limit.period_ns, 3600 * NS_PER_SECOND);
	assert_int_equal(s.limit.burst, 5);
	assert_true(pace_settings_are_sound(&s));
	s = pace_of(g, "b.example", NULL, &is_paced);
	assert_false(is_paced);
	assert_int_equal(s.limit.count, 0);
	assert_true(s.up_ns == pace_defaults.up_ns);
	s = pace_of(g, "c.example", NULL, &is_paced);
	assert_true(is_paced);
	assert_int_equal(s.limit.count, 1);
	assert_int_equal(s.limit.burst, 1);
}

TEST(a_rule_with_slow_tells_how_the_pace_falls_and_rises) {
	struct generation *g = compile_good(MAIN, V
	    "providers = ( { name = \"a\"; relays = \"a.example\"; replies = (\n"
	    "    { match = \"x\"; action = \"alert\"; },\n"
	    "    { match = \"y\"; action = \"slow\"; by = \"25%\"; floor = \"5/1h\";\n"
	    "      up = \"20%/5m\"; },\n"
	    "    { match = \"z\"; action = \"slow\"; by = \"0.9\"; } ); },\n"
	    "  { name = \"b\"; relays = \"b.example\"; } );\n"
	    "replies = ( { match = \"x\"; action = \"slow\"; by = \"10%\"; } );\n");
	const struct pace_settings *own = generation_rule_pace(g, generation_reply_rule(g, 1));
	struct pace_settings s;
	bool is_paced;

	assert_null(generation_rule_pace(g, generation_reply_rule(g, 0)));
	assert_true(own->by == 0.25 && own->up == 0.2);
	assert_int_equal(own->floor.count, 5);
	assert_int_equal(own->floor.period_ns, 3600 * NS_PER_SECOND);
	assert_int_equal(own->up_ns, 300 * NS_PER_SECOND);
	own = generation_rule_pace(g, generation_reply_rule(g, 2));
	assert_true(own->by == 0.9 && own->up == 0.1);
	assert_int_equal(own->floor.count, 30);
	assert_int_equal(own->up_ns, 600 * NS_PER_SECOND);
	/* of the provider's first; without any, of the first of all */
	s = pace_of(g, "provider:a", "a", &is_paced);
	assert_true(is_paced && s.by == 0.25 && s.limit.count == 0);
	s = pace_of(g, "provider:b", "b", &is_paced);
	assert_true(is_paced && s.by == 0.1);
	s = pace_of(g, "x.example", NULL, &is_paced);
	assert_true(is_paced && s.by == 0.1);
}

TEST(feedback_is_a_number_or_a_text) {
	static const struct {
		const char *text;
		enum window_feedback_form form;
		double amount;
	} cases[] = {
		{ "0", FEEDBACK_FIXED, 0 }, { "1", FEEDBACK_FIXED, 1 },
		{ "0.25", FEEDBACK_FIXED, 0.25 }, { "\"1/4\"", FEEDBACK_FIXED, 0.25 },
		{ "\"0.5\"", FEEDBACK_FIXED, 0.5 },
		{ "\"1/concurrency\"", FEEDBACK_PER_CONCURRENCY, 1 },
		{ "\"1/sqrt_concurrency\"", FEEDBACK_PER_SQRT_CONCURRENCY, 1 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct window_settings s;
		struct generation *g;
		char text[256];

		snprintf(text, sizeof(text), MAIN "window = { law = \"postfix\"; "
		    "destination_concurrency_negative_feedback = %s; };\n", cases[i].text);
		g = compile_good(text, NULL);
		s = settings_of(g, 0, "x.example", NULL);
		assert_int_equal(s.law, WINDOW_LAW_POSTFIX);
		assert_int_equal(s.negative.form, cases[i].form);
		assert_true(s.negative.amount == cases[i].amount);
		assert_true(s.positive.amount == 1);
	}
}

TEST(what_points_outside_is_refused) {
	struct generation *g = compile_good(window_text, window_providers), *copy;
	struct diag diag;

	copy = malloc((size_t)g->bytes);
	assert_non_null(copy);
#define SPOILED(change) \
	do { \
		memcpy(copy, g, (size_t)g->bytes); \
		change; \
		assert_int_equal(generation_verify(copy, (size_t)g->bytes, &diag), -1); \
		assert_non_null(strstr(diag.text, "outside")); \
	} while (0)
#define AT(type, offset, index) (((type *)(void *)((char *)copy + (offset))) + (index))
	SPOILED(copy->destinations_count = 100000);
	SPOILED(copy->destinations_index = 12);
	SPOILED(*AT(uint32_t, copy->destinations_masks, 1) = 2);
	SPOILED(AT(struct generation_destinations, copy->destinations, 1)->window = 4);
	SPOILED(AT(struct generation_destinations, copy->destinations, 0)->pace =
	    ((struct rate_limit){ .count = 1, .period_ns = 1 }));
	SPOILED(copy->mtas[1].window = (uint32_t)g->bytes - 8);
	SPOILED(copy->providers = (uint32_t)g->bytes - 8);
	SPOILED(copy->provider_index += 4);
	SPOILED(*AT(uint32_t, copy->provider_masks, 2) = 3);
	SPOILED(AT(struct generation_provider, copy->providers, 0)->window = 1);
	SPOILED(AT(struct generation_provider, copy->providers, 2)->rule_count = 1);
	SPOILED(copy->reply_rule_count = UINT32_MAX);
	SPOILED(copy->common_rules = 1);
	SPOILED(copy->common_pace = (uint32_t)g->bytes - 8);
	SPOILED(AT(struct generation_provider, copy->providers, 0)->pace = copy->providers);
	/* a text is none then */
	*AT(uint32_t, copy->destinations_names, 1) = (uint32_t)g->bytes;
	assert_string_equal(generation_destination_name(copy, 1), "");
	free(copy);
}

/* --- mistakes ---------------------------------------------------------------------- */

#define P(settings) V "providers = ( { name = \"p\"; relays = \"p.example\";\n" settings " } );\n"
#define R(settings) V "replies = ( { match = \"x\";\n" settings " } );\n"

static const struct {
	bool in_main;
	const char *text;
	int line;
	const char *words;
} mistakes[] = {
	{ true, MAIN "window = 5;\n", 2, "window: must be a group" },
	{ true, MAIN "window = { limit = 5; };\n", 2, "unknown setting window.limit" },
	{ true, MAIN "window = { law = \"ours\"; };\n", 2, "window.law: \"ours\" is not one of" },
	{ true, MAIN "window = { destination_concurrency_negative_feedback = 2; };\n", 2,
	    "\"2\" is not a feedback: it must be" },
	{ true, MAIN "window = { destination_concurrency_negative_feedback = \"1/x\"; };\n", 2,
	    "\"1/x\" is not a feedback: it must be" },
	{ true, MAIN "window = { destination_concurrency_negative_feedback = 1.5; };\n", 2,
	    "is not a feedback: it must be" },
	{ true, MAIN "window = { destination_concurrency_negative_feedback = true; };\n", 2,
	    "must be a number from 0 to 1, or text such as \"1/concurrency\"" },
	{ true, MAIN "window = { canary = \"20m\"; };\n", 2, "canary is longer than" },
	{ true, MAIN "window = { initial_destination_concurrency = 5;\n"
	    "destination_concurrency_limit = 4; };\n", 2, "(5) is above" },
	{ true, MAIN "mta = ( { window = { suspend = 3; };\nsite = \"/x\"; } );\n", 2,
	    "window.suspend: must be a time" },
	{ true, MAIN "destinations = ( { window = { suspend = \"5m\"; }; } );\n", 2,
	    "has no masks; set match" },
	{ true, MAIN "destinations = ( { match = \"a.example\"; } );\n", 2, "sets nothing" },
	{ true, MAIN "destinations = ( { match = \"a.example\";\npace = \"1001/1s\"; } );\n", 3,
	    "destinations.pace: must be between \"1/1d\" and \"1000/1s\"" },
	{ true, MAIN "destinations = ( { match = \"a.example\"; pace = \"1/2d\"; } );\n", 2,
	    "destinations.pace: must be between" },
	{ true, MAIN "destinations = ( { match = \"a.example\"; pace = 200; } );\n", 2,
	    "destinations.pace: must be a rate in quotes" },
	{ true, MAIN "destinations = ( { match = \"a.example\"; pace = \"200\"; } );\n", 2,
	    "destinations.pace: \"200\" is not a rate such as" },
	{ true, MAIN "destinations = ( { match = \"a.example\";\npace_burst = 5; } );\n", 3,
	    "destinations.pace_burst needs pace" },
	{ true, MAIN "destinations = ( { match = \"a.example\"; pace = \"1/1s\";\n"
	    "pace_burst = 1001; } );\n", 3, "\"1001\" is not within 1..1000" },
	{ true, MAIN "destinations = ( { match = [ \"a.example\",\n\"a b\" ];\n"
	    "window = { suspend = \"5m\"; }; } );\n", 3, "bad mask \"a\\x20b\"" },
	{ true, MAIN "destinations = ( { match = \"provider:x\"; window = { suspend = \"5m\"; }; } );\n",
	    2, "destinations.match: unknown provider x in providers" },
	{ true, MAIN "destinations = ( { match = \"[1.2.3.4]:0\"; window = { suspend = \"5m\"; }; } );\n",
	    2, "\" is not a relay such as \"[192.0.2.1]:10024\"" },
	{ true, MAIN "destinations = ( { match = \"[2001:DB8::1]:25\"; window = { suspend = \"5m\"; }; } );\n",
	    2, "must be written [2001:db8::1]:25" },
	{ true, MAIN "destinations = ( { match = \"*.a\"; window = { suspend = \"5m\"; }; },\n"
	    "{ match = \"b.a\"; window = { suspend = \"5m\"; }; } );\n", 3,
	    "destinations.match: this mask can never match: the one in line 2" },
	{ true, MAIN "mta = ( { kind = \"sendmail\"; smart_host = \"esmtp:[a.example]\"; } );\n", 2,
	    "without a mailer" },
	{ true, MAIN "mta = ( { kind = \"sendmail\"; smart_host = \"[a.example\"; } );\n", 2,
	    "must be a host" },
	{ false, "replies = ();\n", 0, "version = 1; is missing" },
	{ false, "version = 2;\n", 1, "is not within 1..1" },
	{ false, V "providers = (\n { name = \"a\" relays }\n", 3, "syntax error" },
	{ false, V "classes = ();\n", 2, "unknown setting classes" },
	{ false, V "provider = ();\n", 2, "did you mean providers?" },
	{ false, V "providers = { };\n", 2, "must be a list of groups" },
	{ false, V "providers = ( { relays = \"a.example\"; } );\n", 2, "providers: a provider "
	    "has no name" },
	{ false, V "providers = ( { name = \"A\"; relays = \"a.example\"; } );\n", 2,
	    "may only have lower-case letters, digits, point, hyphen and underscore, and "
	    "cannot start with point or hyphen" },
	{ false, V "providers = ( { name = \"a\"; } );\n", 2, "providers: a provider has no "
	    "relays, so it never matches; set relays" },
	{ false, V "providers = ( { name = \"a\"; relays = [ ]; } );\n", 2, "providers: a "
	    "provider has no relays, so it never matches; set relays" },
	{ false, V "providers = ( { name = \"a\"; relays = [ \"a\",\n\"*\" ]; } );\n", 3,
	    "providers.relays: \"*\" would make all sites one provider" },
	{ false, V "providers = ( { name = \"a\"; relays = \"a..b\"; } );\n", 2, "bad mask \"a..b\"" },
	{ false, V "providers = ( { name = \"a\"; relays = \"*.a\"; },\n"
	    "{ name = \"a\"; relays = \"b\"; } );\n", 3, "provider name a is already used at " },
	{ false, V "providers = ( { name = \"a\"; relays = \"*.a\"; },\n"
	    "{ name = \"b\"; relays = \"b.a\"; } );\n", 3, "the one in line 2 matches "
	    "first" },
	{ false, P("ceiling = 0;"), 3, "\"0\" is not within" },
	{ false, P("window = { lw = \"probe\"; };"), 3, "did you mean window.law?" },
	{ false, P("replies = ( { class = \"local\"; } );"), 3, "replies: a rule has no "
	    "pattern; set match" },
	{ false, P("replies = ( { match = \"x\"; klass = 1; } );"), 3,
	    "did you mean replies.class?" },
	{ false, V "replies = ( { match = \"a(b\"; class = \"local\"; } );\n", 2,
	    "\"a(b\" is not a valid pattern: missing closing parenthesis, at character 4" },
	{ false, V "replies = ( { match = \"\"; class = \"local\"; } );\n", 2,
	    "must have 1..500 characters" },
	{ false, R("class = \"ok\";"), 3, "\"ok\" is not one of" },
	{ false, R("action = \"stop\";"), 3, "\"stop\" is not one of" },
	{ false, R("action = \"ceiling\";"), 2, "needs ceiling = NUMBER" },
	{ false, R("action = \"suspend\";\nceiling = 3;"), 4, "replies.ceiling is for action "
	    "\"ceiling\" only" },
	{ false, R("action = \"alert\";\nfor = \"5m\";"), 4, "replies.for is for the actions "
	    "ceiling, suspend and hold-recipient only" },
	{ false, R("class = \"local\";\nthreshold = \"3/1h\";"), 4, "replies.threshold needs "
	    "an action" },
	{ false, R("action = \"alert\"; threshold = \"3\";"), 3, "is not a rate" },
	{ false, R("action = \"slow\";\nfor = \"5m\";"), 4, "replies.for is for the actions "
	    "ceiling, suspend and hold-recipient only" },
	{ false, R("action = \"alert\";\nby = \"50%\";"), 4, "replies.by is for action \"slow\" "
	    "only" },
	{ false, R("class = \"local\";\nfloor = \"30/1h\";"), 4, "replies.floor is for action" },
	{ false, R("class = \"local\";\nup = \"10%/10m\";"), 4, "replies.up is for action" },
	{ false, R("action = \"slow\";\nby = \"half\";"), 4, "replies.by: \"half\" is not a "
	    "share such as \"50%\"" },
	{ false, R("action = \"slow\";\nby = 50;"), 4, "replies.by: must be text in quotes" },
	{ false, R("action = \"slow\";\nby = \"96%\";"), 4, "replies.by: must be between 1% and "
	    "95%" },
	{ false, R("action = \"slow\";\nby = \"0%\";"), 4, "replies.by: must be between" },
	{ false, R("action = \"slow\";\nfloor = \"30\";"), 4, "replies.floor: \"30\" is not a "
	    "rate" },
	{ false, R("action = \"slow\";\nfloor = \"1/2d\";"), 4, "replies.floor: must be between "
	    "\"1/1d\" and \"1000/1s\"" },
	{ false, R("action = \"slow\";\nup = \"10%\";"), 4, "replies.up: \"10%\" is not a rise "
	    "such as \"10%/10m\"" },
	{ false, R("action = \"slow\";\nup = \"10%/ever\";"), 4, "is not a rise" },
	{ false, R("action = \"slow\";\nup = \"0.5%/10m\";"), 4, "replies.up: must be between 1% "
	    "and 100%, in a time between 1s and 31d" },
	{ false, R("action = \"slow\";\nup = \"10%/32d\";"), 4, "in a time between" },
	{ false, R("action = \"alert\"; threshold = \"1001/1h\";"), 3, "more than 1000 replies" },
	{ false, R("note = \"n\";"), 2, "replies: this rule only exempts its matches from "
	    "later rules; set class or action" },
};

TEST(every_mistake_has_its_place) {
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		bool found = false;

		(void)compile(mistakes[i].in_main ? mistakes[i].text : MAIN,
		    mistakes[i].in_main ? V : mistakes[i].text);
		for (size_t k = 0; k < messages.count && !found; k++)
			found = strstr(messages.list[k].text, mistakes[i].words) != NULL &&
			    messages.list[k].line == mistakes[i].line &&
			    strcmp(messages.list[k].file,
			    mistakes[i].in_main ? "main" : "providers") == 0;
		if (!found) {
			print_messages();
			fail_msg("%s\n%d: %s", mistakes[i].text, mistakes[i].line,
			    mistakes[i].words);
		}
	}
}

/* --- files ----------------------------------------------------------------------- */

/* The first message that has these words; its line, or -1. */
static int said(const char *words) {
	for (size_t i = 0; i < messages.count; i++)
		if (strstr(messages.list[i].text, words) != NULL)
			return messages.list[i].line;
	return -1;
}

TEST(the_file_is_found) {
	struct generation *g;
	char text[512];

	/* none, and nobody who needs one: nothing to say */
	scratch_write("postern.conf", MAIN);
	g = compiled(config_compile(scratch_path("postern.conf"), fresh_messages()));
	assert_non_null(g);
	assert_int_equal(said("providers.conf"), -1);
	/* none, a mail server: a note */
	scratch_write("postern.conf", MAIN "mta = ( { site = \"/none\"; } );\n");
	g = compiled(config_compile(scratch_path("postern.conf"), fresh_messages()));
	assert_non_null(g);
	assert_int_equal(said(""), 0);
	/* named, and not there: a mistake */
	scratch_write("postern.conf", MAIN "\nproviders = \"/none/p.conf\";\n");
	assert_null(config_compile(scratch_path("postern.conf"), fresh_messages()));
	assert_int_equal(said("/none/p.conf cannot be read: No such file"), 3);
	/* beside it, with an included one */
	scratch_write("postern.conf", MAIN);
	scratch_write("providers.conf", V "providers = (\n@include \"mine.conf\"\n);\n");
	scratch_write("mine.conf", "\n{ name = \"mine\"; relays = \"*.mine.example\";\n"
	    "replies = ( { match = \"x\"; action = \"alert\"; } ); }\n");
	g = compiled(config_compile(scratch_path("postern.conf"), fresh_messages()));
	assert_non_null(g);
	assert_int_equal(provider_of(g, "a.mine.example", NULL), 0);
	assert_int_equal(generation_reply_rule(g, 0)->line, 3);
	assert_non_null(strstr(generation_text(g, generation_reply_rule(g, 0)->file), "/mine.conf"));
	/* named, elsewhere */
	snprintf(text, sizeof(text), MAIN "providers = \"%s/mine.conf\";\n", scratch);
	scratch_write("postern.conf", text);
	scratch_write("mine.conf", V "\nproviders = 3;\n");
	assert_null(config_compile(scratch_path("postern.conf"), fresh_messages()));
	assert_int_equal(said("must be a list of groups"), 3);
}

TEST(the_shipped_file_is_good) {
	char text[4096];
	struct generation *g;

	snprintf(text, sizeof(text), MAIN "providers = \"%s/conf/providers.conf\";\n",
	    top_of_sources());
	scratch_write("postern.conf", text);
	g = compiled(config_compile(scratch_path("postern.conf"), fresh_messages()));
	print_messages();
	assert_non_null(g);
	assert_int_equal(messages.count, 1);	/* classes is empty */
	assert_true(g->provider_count >= 15);
	for (uint32_t i = 0; i < g->reply_rule_count; i++)
		assert_true(generation_reply_rule(g, i)->name != 0);
	assert_int_equal(provider_of(g, "gmail-smtp-in.l.google.com", NULL),
	    generation_find_provider(g, "google", 6));
	assert_int_equal(provider_of(g, "hotmail-com.olc.protection.outlook.com", NULL),
	    generation_find_provider(g, "outlook", 7));
	assert_int_equal(provider_of(g, "x-example.mail.protection.outlook.com", NULL),
	    generation_find_provider(g, "microsoft365", 12));
	assert_int_equal(provider_of(g, "mta5.am0.yahoodns.net", NULL),
	    generation_find_provider(g, "yahoo", 5));
	assert_int_equal(settings_of(g, 0, "provider:orange", "orange").limit, 3);
	assert_int_equal(settings_of(g, 0, "provider:cox", "cox").limit, 10);
	assert_int_equal(settings_of(g, 0, "provider:comcast", "comcast").limit, 20);
}

TEST_GROUP(scratch_open, scratch_close)
