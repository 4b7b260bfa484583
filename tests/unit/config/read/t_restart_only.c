/* SPDX-License-Identifier: ISC */
/* What waits for a restart is carried over by a reload, all of it and nothing
 * else. */
#include "tests/unit/test.h"
#include "config/compile/compile.h"
#include "config/read/restart_only.h"
#include "config/read/setting.h"

static const char first_text[] =
    "version = 1;\n"
    "user = \"daemon\"; group = \"mail\";\n"
    "state = { path = \"/run/a/state\"; sessions = \"1k\"; classes = 10; };\n"
    "listen = { policy = ( \"unix:/run/a/p\", { address = \"inet:127.0.0.1:10040\";\n"
    "    session_proof = \"owner\"; } );\n"
    "  milter = \"unix:/run/a/m\"; control = \"unix:/run/a/c\"; };\n"
    "journal = { path = \"/j/a\"; file_size = \"1M\"; sync_delay = \"10ms\"; "
    "envelope_delay = \"2s\"; };\n"
    "policy = { processes = 3; };\n"
    "log = { facility = \"local3\"; };\n"
    "hints = { group = \"mail\"; };\n"
    "witness = { netns = [ \"blue\", \"green\" ]; };\n"
    "classes = ( { name = \"all\"; match = [ \"*\" ]; refuse_at = 5; } );\n";

static const char second_text[] =
    "version = 1;\n"
    "user = \"bin\";\n"
    "state = { path = \"/run/another/state\"; sessions = \"2k\"; classes = 20; };\n"
    "listen = { policy = ( { address = \"inet:127.0.0.1:10040\"; session_proof = \"lease\";\n"
    "    mta = \"mx1\"; } );\n"
    "  milter = ( { address = \"unix:/run/a/m2\"; owner = \"daemon\"; } );\n"
    "  control = \"unix:/run/a/c\"; };\n"
    "policy = { processes = 1; };\n"
    "mta = ( { name = \"mx1\"; log = \"/var/log/mail.log\"; } );\n"
    "classes = ( { name = \"some\"; match = [ \"*.example\" ]; refuse_at = 7; },\n"
    "  { name = \"all\"; match = [ \"*\" ]; refuse_at = 6; } );\n";

static struct generation *compile(const char *text) {
	struct config_messages messages;
	struct generation *block = config_compile_text(text, "test", &messages);

	if (block == NULL && messages.count > 0)
		print_message("%d: %s\n", messages.list[0].line,
		    messages.list[0].text);
	config_messages_free(&messages);
	assert_non_null(block);
	return block;
}

static void count_one(void *context, const char *setting) {
	size_t *count = context;

	++*count;
}

static void print_one(void *context, const char *setting) {
	count_one(context, setting);
	print_message("still another: %s\n", setting);
}

TEST(nothing_that_waits_is_taken) {
	struct generation *running = compile(first_text);
	struct generation *wanted = compile(second_text), *kept;
	size_t count = 0;
	struct diag diag;

	restart_only_differences(running, wanted, count_one, &count);
	assert_true(count >= 10);
	kept = restart_only_keep(wanted, running);
	assert_non_null(kept);
	count = 0;
	restart_only_differences(running, kept, print_one, &count);
	assert_int_equal(count, 0);
	assert_int_equal(generation_verify(kept, (size_t)kept->bytes, &diag), 0);
	free(running);
	free(kept);
}

/* Where each kind of setting is kept, so that it is compared and carried. */
TEST(every_setting_that_waits_has_a_place) {
	size_t count;
	const struct setting *rows = settings(&count);

	for (size_t i = 0; i < count; i++) {
		bool known = rows[i].place != PLACE_NONE ||
		    strcmp(rows[i].path, "witness.netns") == 0 ||
		    strncmp(rows[i].path, "listen.*[].", 11) == 0;

		if (rows[i].effect == EFFECT_RESTART && !known)
			fail_msg("%s waits for a restart and is kept nowhere", rows[i].path);
	}
}

static void is_it_hints_group(void *context, const char *setting) {
	*(bool *)context |= strcmp(setting, "hints.group") == 0;
}

TEST(hints_group_is_named_at_each_reload) {
	struct generation *running = compile(first_text);

	for (int i = 0; i < 3; i++) {
		struct generation *wanted = compile(second_text);
		bool named = false;

		restart_only_differences(running, wanted, is_it_hints_group, &named);
		assert_true(named);
		wanted = restart_only_keep(wanted, running);
		free(running);
		running = wanted;
	}
	free(running);
}

TEST(the_rest_is_new) {
	struct generation *running = compile(first_text);
	struct generation *kept = restart_only_keep(compile(second_text), running);

	assert_non_null(kept);
	assert_int_equal(kept->class_count, 2);
	assert_string_equal(generation_text(kept, generation_class(kept, 0)->name),
	    "some");
	assert_int_equal(kept->listener_count, 4);
	assert_string_equal(generation_text(kept, kept->listeners[1].address),
	    "inet:127.0.0.1:10040");
	/* the same address: its proof and who asks are not a matter of sockets */
	assert_int_equal(kept->listeners[1].proof, PROOF_LEASE);
	assert_string_equal(generation_text(kept, kept->listeners[1].mta), "mx1");
	assert_int_equal(kept->listeners[1].line, 4);
	free(running);
	free(kept);
}

/* Many reloads: the block does not grow from one to the next. */
TEST(repeated) {
	struct generation *running = compile(first_text);
	uint64_t bytes = 0;
	int i;

	for (i = 0; i < 5; i++) {
		struct generation *kept =
		    restart_only_keep(compile(second_text), running);

		assert_non_null(kept);
		if (i > 0)
			assert_int_equal(kept->bytes, bytes);
		bytes = kept->bytes;
		free(running);
		running = kept;
	}
	assert_string_equal(generation_text(running, running->netns[1]), "green");
	assert_string_equal(generation_text(running, running->journal.path), "/j/a");
	assert_string_equal(generation_text(running, running->state_path),
	    "/run/a/state");
	free(running);
}

#ifdef WITH_CLUSTER
#define SHARED(sessions) "version = 1;\nclasses = ( { name = \"a\"; match = \"*\"; " \
	"hold_at = " #sessions "; scope = \"cluster\"; } );\n"
#define OF(node, nodes, more) "cluster = { redis = \"unix:/r\"; node = \"" node "\"; nodes = " \
	#nodes "; " more "};\n"

/* Name and number of machines wait, limits and who asks do not: what is fixed is of both. */
TEST(a_cluster_waits_but_its_limits_do_not) {
	struct generation *running = compile(OF("a", 3, "user = \"x\"; ") SHARED(30)), *kept;
	struct diag diag;

	assert_int_equal(generation_class(running, 0)->fixed_base, 1);
	kept = restart_only_keep(compile(OF("b", 2, "user = \"y\"; when_unreachable = \"alone\"; ")
	    SHARED(90)), running);
	assert_string_equal(generation_text(kept, kept->cluster.node), "a");
	assert_string_equal(generation_text(kept, kept->cluster.user), "y");
	assert_int_equal(kept->cluster.nodes, 3);
	assert_int_equal(kept->cluster.when_unreachable, CLUSTER_ALONE);
	assert_int_equal(generation_class(kept, 0)->fixed_base, 3);	/* 10 % of 90 by 3 */
	assert_int_equal(generation_verify(kept, (size_t)kept->bytes, &diag), 0);
	free(running);
	free(kept);
}

TEST(a_cluster_begins_and_ends_with_a_restart) {
	struct generation *alone = compile("version = 1;\nclasses = ( { name = \"a\"; "
	    "match = \"*\"; hold_at = 30; } );\n");
	struct generation *many = compile(OF("a", 3, "user = \"x\"; ") SHARED(30)), *kept;

	kept = restart_only_keep(compile(OF("a", 3, "") SHARED(30)), alone);
	assert_false(generation_has_cluster(kept));
	assert_false(generation_class(kept, 0)->shared);
	assert_int_equal(generation_class(kept, 0)->fixed_base, 0);
	free(kept);
	kept = restart_only_keep(compile("version = 1;\nclasses = ( { name = \"a\"; "
	    "match = \"*\"; hold_at = 30; } );\n"), many);
	assert_true(generation_has_cluster(kept));
	assert_string_equal(generation_text(kept, kept->cluster.user), "x");
	assert_false(generation_class(kept, 0)->shared);
	free(kept);
	free(alone);
	free(many);
}
#endif
