/* SPDX-License-Identifier: ISC */
/* Matching through the views of a generation, and blocks that are none. */
#include <math.h>
#include "tests/unit/test.h"
#include "policy/limit/class_internal.h"
#include "tests/unit/config/compiled.h"

static struct generation *compile(const char *text) {
	return compiled_well(config_compile_text(text, "t", fresh_messages()));
}

/* The class that takes an inbound session, "-" for none. */
static const char *inbound(const struct generation *g, uint16_t port, const char *client,
    const char *name) {
	struct address address;
	uint32_t rule;

	assert_true(address_parse(client, strlen(client), &address));
	rule = generation_match_inbound(g, port, &address, name, name ? strlen(name) : 0);
	if (rule == CLASS_NO_RULE)
		return "-";
	return generation_text(g, generation_class(g, generation_rule(g, rule)->class_index)->name);
}

static const char *outbound(const struct generation *g, const char *server, const char *name) {
	struct address address;
	uint32_t rule;

	assert_true(address_parse(server, strlen(server), &address));
	rule = generation_match_outbound(g, &address, name, name ? strlen(name) : 0);
	if (rule == CLASS_NO_RULE)
		return "-";
	return generation_text(g, generation_class(g, generation_rule(g, rule)->class_index)->name);
}

static const char views[] = "version = 1; classes = (\n"
    "{ name = \"mx\"; match = [ \"*.example\", \"192.0.2.0/24\" ]; ports = [ 25 ]; hold_at = 1; },\n"
    "{ name = \"submission\"; match = \"*.example\"; ports = [ 587, 465 ]; hold_at = 1; },\n"
    "{ name = \"net\"; match = [ \"192.0.2.0/25\", \"2001:db8::/32\" ]; hold_at = 1; },\n"
    "{ name = \"rest\"; match = \"*\"; ports = 25; hold_at = 1; } );\n"
    "exempt = [ \"127.0.0.0/8\", \"trusted.example\" ];";

TEST(ports_choose_the_classes) {
	struct generation *g = compile(views);

	assert_string_equal(inbound(g, 25, "192.0.2.1", NULL), "mx");
	assert_string_equal(inbound(g, 25, "203.0.113.1", "a.example"), "mx");
	assert_string_equal(inbound(g, 25, "203.0.113.1", NULL), "rest");
	assert_string_equal(inbound(g, 25, "2001:db8::1", NULL), "net");
	assert_string_equal(inbound(g, 587, "203.0.113.1", "a.example"), "submission");
	assert_string_equal(inbound(g, 465, "203.0.113.1", "A.EXAMPLE."), "submission");
	assert_string_equal(inbound(g, 587, "192.0.2.1", NULL), "net");
	assert_string_equal(inbound(g, 587, "203.0.113.1", "a.test"), "-");
	assert_string_equal(inbound(g, 2525, "192.0.2.1", "a.example"), "net");
	assert_string_equal(inbound(g, 2525, "203.0.113.1", "a.example"), "-");
	assert_string_equal(inbound(g, 0, "192.0.2.1", "a.example"), "net");
	assert_string_equal(inbound(g, 0, "::ffff:192.0.2.1", NULL), "net");
	assert_string_equal(inbound(g, 0, "203.0.113.1", NULL), "-");
}

TEST(outbound_looks_at_all_classes) {
	struct generation *g = compile(views);

	assert_string_equal(outbound(g, "192.0.2.1", NULL), "mx");
	assert_string_equal(outbound(g, "203.0.113.1", "a.example"), "mx");
	assert_string_equal(outbound(g, "2001:db8::1", NULL), "net");
	assert_string_equal(outbound(g, "203.0.113.1", NULL), "rest");
}

TEST(exempt_is_told_by_address_or_name) {
	struct generation *g = compile(views);
	struct address loopback, other;

	assert_true(address_parse("127.1.2.3", 9, &loopback));
	assert_true(address_parse("192.0.2.1", 9, &other));
	assert_true(generation_is_exempt(g, &loopback, NULL, 0));
	assert_false(generation_is_exempt(g, &other, NULL, 0));
	assert_true(generation_is_exempt(g, &other, "Trusted.Example", 15));
	assert_false(generation_is_exempt(g, &other, "a.trusted.example", 17));
	g = compile("version = 1; classes = ();");
	assert_false(generation_is_exempt(g, &loopback, NULL, 0));
	assert_string_equal(inbound(g, 25, "192.0.2.1", "a.example"), "-");
	assert_string_equal(outbound(g, "192.0.2.1", "a.example"), "-");
}

TEST(equal_views_share_one_index) {
	struct generation *g = compile(views);

	assert_int_equal(g->port_count, 3);
	assert_int_equal(g->ports[0], 25);
	assert_int_equal(g->ports[1], 465);
	assert_int_equal(g->ports[2], 587);
	assert_int_equal(g->port_index[1], g->port_index[2]);
	assert_int_not_equal(g->port_index[0], g->port_index[1]);
	assert_int_not_equal(g->other_index, g->outbound_index);
	g = compile("version = 1; classes = ( { name = \"a\"; match = \"*\"; hold_at = 1; } );");
	assert_int_equal(g->port_count, 0);
	assert_int_equal(g->other_index, g->outbound_index);
}

/* An independent reading of the law: classes in file order, the first whose
 * ports and masks fit. */
TEST(views_agree_with_a_scan) {
	static const char *const masks[] = { "*", "*.example", "a.example", "192.0.2.0/24",
	    "192.0.2.1", "mail.*" };
	static const char *const names[] = { "a.example", "b.example", "mail.test", "x.test" };
	static const char *const clients[] = { "192.0.2.1", "192.0.2.2", "203.0.113.9" };
	static const bool fits[6][4][3] = {
		{ { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } },
		{ { 1, 1, 1 }, { 1, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 } },
		{ { 1, 1, 1 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 } },
		{ { 1, 1, 0 }, { 1, 1, 0 }, { 1, 1, 0 }, { 1, 1, 0 } },
		{ { 1, 0, 0 }, { 1, 0, 0 }, { 1, 0, 0 }, { 1, 0, 0 } },
		{ { 0, 0, 0 }, { 0, 0, 0 }, { 1, 1, 1 }, { 0, 0, 0 } },
	};
	static const uint16_t ports[] = { 0, 25, 465, 587, 2525 };
	uint32_t seed = 7;
	unsigned taken = 0;

	for (int round = 0; round < 400; round++) {
		unsigned mask[5], served[5];
			char text[1024];
		size_t length = (size_t)snprintf(text, sizeof(text), "version = 1; classes = (");
		struct generation *g;

		for (unsigned i = 0; i < 5; i++) {
			seed = seed * 1664525 + 1013904223;
			mask[i] = (seed >> 16) % 6;
			served[i] = (seed >> 24) % 4;	/* 0: all; else bits of 25, 587 */
			length += (size_t)snprintf(text + length, sizeof(text) - length,
			    "%s { name = \"%u\"; match = \"%s\"; hold_at = 1; %s }", i ? "," : "", i,
			    masks[mask[i]], served[i] == 0 ? "" : served[i] == 1 ? "ports = 25;" :
			    served[i] == 2 ? "ports = 587;" : "ports = [ 25, 587 ];");
		}
		snprintf(text + length, sizeof(text) - length, ");");
		g = compiled(config_compile_text(text, "t", fresh_messages()));
		if (g == NULL)
			continue;	/* some class can never match */
		taken++;
		for (unsigned k = 0; k < 5 * 4 * 3; k++) {
			uint16_t port = ports[k / 12];
			unsigned name = k / 3 % 4, client = k % 3;
			char wanted[8] = "-", out[8] = "-";

			for (unsigned i = 0; i < 5 && wanted[0] == '-'; i++)
				if (fits[mask[i]][name][client] && (served[i] == 0 ||
				    (port == 25 && served[i] & 1) || (port == 587 && served[i] & 2)))
					snprintf(wanted, sizeof(wanted), "%u", i);
			for (unsigned i = 0; i < 5 && out[0] == '-'; i++)
				if (fits[mask[i]][name][client])
					snprintf(out, sizeof(out), "%u", i);
			assert_string_equal(inbound(g, port, clients[client], names[name]), wanted);
			assert_string_equal(outbound(g, clients[client], names[name]), out);
		}
	}
	assert_true(taken > 20);
}

static void refused(const void *block, size_t bytes, const char *words) {
	struct diag diag = { .error = 0 };

	assert_int_equal(generation_verify(block, bytes, &diag), -1);
	if (strstr(diag.text, words) == NULL)
		fail_msg("%s", diag.text);
}

/* Names that are not there would be sought in it for ever. */
static void fill_names(struct generation *g) {
	char *index = (char *)g + g->outbound_index;
	const struct name_table *table = (const struct name_table *)(const void *)(index + 16);
	struct name_slot *slots = (struct name_slot *)(void *)(index + table->slots);

	assert_true(table->slot_count > 0);
	for (uint32_t i = 0; i < table->slot_count; i++)
		slots[i].length = 1;
}

TEST(foreign_blocks_are_refused) {
	struct generation *g = compile(views), *copy = malloc((size_t)g->bytes);
	struct diag diag;

	assert_non_null(copy);
	assert_int_equal(generation_verify(g, (size_t)g->bytes, &diag), 0);
	refused(g, 0, "0 bytes");
	refused(g, sizeof(*g) - 1, "bytes long");
	refused(g, (size_t)g->bytes - 1, "bytes instead of");
#define SPOILED(change, words) do { \
	memcpy(copy, g, (size_t)g->bytes); \
	change; \
	refused(copy, (size_t)g->bytes, words); \
} while (0)
	SPOILED(fill_names(copy), "outside");
	SPOILED(copy->window.settings.law = WINDOW_LAW_COUNT, "out of bounds");
	SPOILED(copy->window.settings.initial = 0, "out of bounds");
	SPOILED(copy->window.settings.limit = 10001, "out of bounds");
	SPOILED(copy->window.settings.positive.amount = (double)NAN, "out of bounds");
	SPOILED(copy->window.settings.negative.form = 3, "out of bounds");
	SPOILED(copy->window.settings.failed_cohort_limit = 1001, "out of bounds");
	SPOILED(copy->window.settings.suspend_ns = INT64_MAX, "out of bounds");
	SPOILED(copy->window.settings.canary_most_ns = -1, "out of bounds");
	SPOILED(copy->window.settings.believe_refusals = 17, "out of bounds");
	SPOILED(copy->magic ^= 1, "not a configuration");
	SPOILED(copy->layout ^= 1, "another build");
	SPOILED(copy->bytes--, "bytes instead of");
	SPOILED(((char *)copy)[g->bytes - 1] = 'x', "outside");
	SPOILED(copy->class_count = UINT32_MAX, "outside");
	SPOILED(copy->rule_count += 100000, "outside");
	SPOILED(copy->classes = (uint32_t)g->bytes - 8, "outside");
	SPOILED(copy->classes += 4, "outside");
	SPOILED(copy->rules = 8, "outside");
	SPOILED(copy->listener_count = GENERATION_LISTENERS_MAX + 1, "outside");
	SPOILED(copy->port_count = GENERATION_PORTS_MAX + 1, "outside");
	SPOILED(copy->witness_port_count = GENERATION_PORTS_MAX + 1, "outside");
	SPOILED(copy->netns_count = 9, "outside");
	SPOILED(copy->port_index[2] = UINT32_MAX - 7, "outside");
	SPOILED(copy->other_index = 12, "outside");
	SPOILED(copy->exempt_index += 1, "outside");
	SPOILED(((struct generation_rule *)(void *)((char *)copy + copy->rules))->class_index = 99,
	    "outside");
	SPOILED(((struct generation_class *)(void *)((char *)copy + copy->classes))->port_count =
	    UINT32_MAX, "outside");
	/* texts are none then */
	assert_string_equal(generation_text(copy, (uint32_t)g->bytes), "");
	assert_string_equal(generation_text(copy, sizeof(*g) - 1), "");
	free(copy);
}

TEST(layout_is_one_for_a_build) {
	assert_true(generation_layout() == generation_layout());
	assert_true(generation_layout() != 0);
}
