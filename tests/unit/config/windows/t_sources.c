/* SPDX-License-Identifier: ISC */
/* Source addresses that are warmed up, in the block.  What is wrong with them is in
 * cases/config_mistakes. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "tests/unit/config/compiled.h"
#include "tests/unit/material.h"

#define AROUND "version = 1; classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );\n" \
    "mta = ( { log = \"\"; } ); hints = { group = \"g\"; };\n"

static struct generation *sources(const char *list) {
	char text[8192];

	assert_true(snprintf(text, sizeof(text), AROUND "sources = (\n%s);\n", list) <
	    (int)sizeof(text));
	return compiled_well(config_compile_text(text, "t", fresh_messages()));
}

static const char *word(const struct generation *g, uint32_t offset) {
	return generation_text(g, offset);
}

TEST(a_source_is_as_the_file_says) {
	struct generation *g = sources("{ name = \"ip2\"; transport = \"smtp-ip2\";\n"
	    "  warm = { plan = ( 50, 100, 200, \"4k\" ); per = \"source\";\n"
	    "    grow_if = { used = \"70%\"; throttled = \"0.03\"; };\n"
	    "    back_if = { throttled = \"9%\"; }; idle = \"10d\"; };\n"
	    "  over = \"smtp\"; }\n");
	const struct generation_source *source = generation_source(g, 0);

	assert_int_equal(messages.count, 0);
	assert_int_equal(g->source_count, 1);
	assert_string_equal(word(g, source->name), "ip2");
	assert_string_equal(word(g, source->transport), "smtp-ip2");
	assert_string_equal(word(g, source->over), "smtp");
	assert_int_equal(source->line, 4);
	assert_int_equal(source->is_per_provider, 0);
	assert_int_equal(source->warm.steps, 4);
	assert_int_equal(source->warm.plan[0], 50);
	assert_int_equal(source->warm.plan[2], 200);
	assert_true(source->warm.plan[3] == 4096);
	assert_true(source->warm.grow_used > 0.699 && source->warm.grow_used < 0.701);
	assert_true(source->warm.grow_throttled > 0.029 && source->warm.grow_throttled < 0.031);
	assert_true(source->warm.back_throttled > 0.089 && source->warm.back_throttled < 0.091);
	assert_int_equal(source->warm.idle_ns, 10 * WARM_DAY_NS);
}

TEST(what_it_leaves_out_has_defaults) {
	struct generation *g = sources("{ name = \"ip2\"; transport = \"t\"; "
	    "warm = { plan = 7; }; }");
	const struct generation_source *source = generation_source(g, 0);

	assert_int_equal(source->warm.steps, 1);
	assert_int_equal(source->warm.plan[0], 7);
	assert_int_equal(source->is_per_provider, 1);
	assert_int_equal(source->over, 0);
	assert_true(source->warm.grow_used > 0.599 && source->warm.grow_used < 0.601);
	assert_true(source->warm.grow_throttled > 0.019 && source->warm.grow_throttled < 0.021);
	assert_true(source->warm.back_throttled > 0.079 && source->warm.back_throttled < 0.081);
	assert_int_equal(source->warm.idle_ns, 30 * WARM_DAY_NS);
	assert_true(warm_settings_are_sound(&source->warm));
}

TEST(there_may_be_sixteen) {
	char list[4096] = "";
	size_t length = 0;
	struct generation *g;

	for (int i = 0; i < 16; i++)
		length += (size_t)snprintf(list + length, sizeof(list) - length, "%s{ name = \"s%d\"; "
		    "transport = \"t%d\"; warm = { plan = [ 1, 1000000000 ]; }; }", i > 0 ? ",\n" : "",
		    i, i);
	g = sources(list);
	assert_int_equal(g->source_count, 16);
	assert_string_equal(word(g, generation_source(g, 15)->name), "s15");
	assert_int_equal(generation_source(g, 15)->warm.plan[1], WARM_NUMBER_MAX);
	snprintf(list + length, sizeof(list) - length, ",\n{ name = \"x\"; transport = \"x\"; "
	    "warm = { plan = [ 1 ]; }; }");
	{
		char text[8192];

		snprintf(text, sizeof(text), AROUND "sources = (\n%s);\n", list);
		assert_null(config_compile_text(text, "t", fresh_messages()));
	}
	assert_int_equal(messages.count, 1);
	assert_int_equal(messages.list[0].line, 20);
	assert_string_equal(messages.list[0].text, "sources: more than 16 sources");
}

/* What conf/postern.conf shows behind "#". */
TEST(the_shipped_example_is_good) {
	char line[512], path[4096], text[8192] = "version = 1;\nmta = ( { log = \"\"; } );\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );\n";
	size_t length = strlen(text);
	bool shown = false;
	struct generation *g;
	FILE *file;

	snprintf(path, sizeof(path), "%s/conf/postern.conf", top_of_sources());
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file) != NULL) {
		shown = line[0] == '#' && (shown || strncmp(line, "#hints", 6) == 0 ||
		    strncmp(line, "#sources", 8) == 0);
		if (shown)
			length += (size_t)snprintf(text + length, sizeof(text) - length, "%s", line + 1);
	}
	fclose(file);
	g = compiled_well(config_compile_text(text, "t", fresh_messages()));
	assert_int_equal(messages.count, 0);
	assert_int_equal(g->source_count, 1);
	assert_string_equal(word(g, generation_source(g, 0)->name), "ip2");
	assert_int_equal(generation_source(g, 0)->warm.steps, 8);
}

TEST(without_sources_there_are_none) {
	struct generation *g = sources("");

	assert_int_equal(g->source_count, 0);
	assert_int_equal(messages.count, 0);
}

TEST_GROUP(NULL, NULL)
