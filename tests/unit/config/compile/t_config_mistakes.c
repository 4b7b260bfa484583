/* SPDX-License-Identifier: ISC */
/* Every kind of mistake: severity, file, line and words. */
#include "tests/unit/test.h"
#include "tests/unit/config/compiled.h"
#include "tests/unit/material.h"
#include "tests/unit/scratch.h"

#define V "version = 1;\n"
#define C "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );\n"

/* What the words of tests/unit/cases/config_mistakes stand for, around the settings behind. */
static const struct {
	const char *word, *before, *after;
} forms[] = {
	{ "%classes", C, "" },
	{ "%class", "classes = ( { name = \"a\"; match = \"a.example\"; hold_at = 2;\n",
	    " },\n { name = \"z\"; match = \"*\"; hold_at = 1; } );\n" },
	{ "%cluster", "cluster = { redis = \"unix:/r\"; node = \"a\"; nodes = 3;\n",
	    " };\nclasses = ( { name = \"c\"; match = \"*\"; hold_at = 6;\n"
	    "scope = \"cluster\"; } );\n" },
	{ "%sources", V C "mta = ( { log = \"\"; } ); hints = { group = \"g\"; };\nsources = (\n",
	    " );\n" },
	{ "%source", V C "mta = ( { log = \"\"; transports = ( { name = \"relay\"; } ); } );\n"
	    "hints = { group = \"g\"; }; sources = ( { name = \"a\"; transport = \"ta\";\n"
	    "warm = { plan = [ 1 ]; }; }, { name = \"b\"; \n", " } );\n" },
	{ "%warm", V C "mta = ( { log = \"\"; } ); hints = { group = \"g\"; };\n"
	    "sources = ( { name = \"b\"; transport = \"tb\"; warm = {\n", " }; } );\n" },
};

static const char *const features[] = {
#ifdef WITH_ACCOUNTS
	"accounts",
#endif
#ifdef WITH_CLUSTER
	"cluster",
#endif
#ifdef WITH_PACE
	"pace",
#endif
#ifdef WITH_QUEUE
	"queue",
#endif
#ifdef HAVE_SD_JOURNAL
	"sd_journal",
#endif
	NULL
};

static bool has_feature(const char *name) {
	for (unsigned i = 0; features[i] != NULL; i++)
		if (strcmp(features[i], name) == 0)
			return true;
	return false;
}

/* Does this build have the features, and none of those behind a "!"? */
static bool has_features(char *names) {
	for (char *name; (name = strsep(&names, " ")) != NULL; )
		if (name[0] == '!' ? has_feature(name + 1) : !has_feature(name))
			return false;
	return true;
}

static void add_line(char *text, size_t size, const char *line) {
	size_t length = strlen(text), word = strcspn(line, " ");

	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		if (strlen(forms[i].word) != word || memcmp(forms[i].word, line, word) != 0)
			continue;
		snprintf(text + length, size - length, "%s%s%s", forms[i].before,
		    line + word + (line[word] == ' '), forms[i].after);
		return;
	}
	assert_true(line[0] != '%');
	snprintf(text + length, size - length, "%s\n", line);
}

/* The next case for this build: its configuration to `text`, and what is expected. Counts
 * those that the build leaves out. */
static const char *next_mistake(FILE *file, char *text, size_t size, unsigned *left_out) {
	static char line[1024];
	static bool is_left_out;

	text[0] = '\0';
	while (fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "%if ", 4) == 0) {
			is_left_out = !has_features(line + 4);
		} else if (strcmp(line, "%end") == 0) {
			is_left_out = false;
		} else if (is_left_out) {
			*left_out += strncmp(line, "=>", 2) == 0;
		} else if (text[0] == '\0' && (line[0] == '\0' || line[0] == '#')) {
			continue;
		} else if (strncmp(line, "=>", 2) == 0) {
			return line + 2 + (line[2] == ' ');
		} else {
			add_line(text, size, line);
		}
	}
	return NULL;
}

static void render(const struct config_message *message, char *out, size_t size) {
	snprintf(out, size, "%d: %s%s", message->line,
	    message->severity == MESSAGE_NOTE ? "note: " : "", message->text);
	assert_string_equal(message->file, "t");
}

static bool is_named(const char *text, const char *expected) {
	struct generation *g = compiled(config_compile_text(text, "t", fresh_messages()));
	char said[512] = "";
	bool right;

	assert_int_equal(g == NULL, messages.errors > 0);
	if (messages.count > 0)
		render(&messages.list[0], said, sizeof(said));
	right = strncmp(said, expected, strlen(expected)) == 0 &&
	    messages.count == (*expected != '\0') &&
	    messages.count == messages.errors + messages.notes;
	if (!right)
		print_message("%s\n  expected %s\n", text, expected);
	for (size_t k = 0; !right && k < messages.count; k++) {
		render(&messages.list[k], said, sizeof(said));
		print_message("  said     %s\n", said);
	}
	return right;
}

TEST(each_mistake_is_named) {
	FILE *file = open_source("tests/unit/cases/config_mistakes");
	const char *expected;
	char text[4096];
	unsigned cases = 0, left_out = 0, failed = 0;

	while ((expected = next_mistake(file, text, sizeof(text), &left_out)) != NULL) {
		cases++;
		failed += !is_named(text, expected);
	}
	fclose(file);
	print_message("%u cases, %u left out\n", cases, left_out);
	assert_true(cases + left_out >= 180);
	assert_int_equal(failed, 0);
}

TEST(all_mistakes_in_one_run_and_in_order) {
	static const char text[] = "version = 3;\nuser = \"\";\nstat = 1;\n"
	    "classes = ( { name = \"a\"; match = [ \"*\",\n\"..\" ]; hold_at = 99999999999; },\n"
	    "{ name = \"a\"; match = \"x\"; colour = 1; } );\nexempt = \"1.2.3\";\n";
	static const int lines[] = { 1, 2, 3, 5, 5, 6, 6, 6, 6, 7 };
	struct generation *g = compiled(config_compile_text(text, "t", fresh_messages()));

	assert_null(g);
	for (size_t i = 0; i < messages.count; i++) {
		char said[512];

		render(&messages.list[i], said, sizeof(said));
		if (i >= sizeof(lines) / sizeof(lines[0]) || messages.list[i].line != lines[i])
			print_message("unexpected: %s\n", said);
	}
	assert_int_equal(messages.count, sizeof(lines) / sizeof(lines[0]));
	for (size_t i = 0; i < messages.count; i++)
		assert_int_equal(messages.list[i].line, lines[i]);
}

TEST(a_thousand_messages_are_kept_and_all_are_counted) {
	size_t room = 1 << 16, length = 0;
	char *text = malloc(room);

	assert_non_null(text);
	for (int i = 0; i < 3000; i++)
		length += (size_t)snprintf(text + length, room - length, "x%d = 1;\n", i);
	assert_null(config_compile_text(text, "t", fresh_messages()));
	assert_int_equal(messages.errors, 3001);
	assert_int_equal(messages.count, 1000);
	free(text);
}

/* --- files --- */

/* Compiles the file; the first message must be of FILE:LINE with the words. */
static void expect(const char *name, const char *file, int line, const char *words) {
	struct generation *g = compiled(config_compile(scratch_path(name), fresh_messages()));

	assert_int_equal(g == NULL, messages.errors > 0);
	if (words == NULL) {
		for (size_t i = 0; i < messages.count; i++)
			print_message("%s\n", messages.list[i].text);
		assert_non_null(g);
	} else {
		assert_true(messages.count > 0);
		if (strstr(messages.list[0].text, words) == NULL)
			fail_msg("%s", messages.list[0].text);
		assert_string_equal(messages.list[0].file, scratch_path(file));
		assert_int_equal(messages.list[0].line, line);
	}
}

TEST(included_files_are_named) {
	struct generation *g;

	scratch_write("classes", "# one\nclasses = (\n { name = \"c\"; match = [ \"a.example\"\n, \"*\"\n ];"
	    " hold_at = 1; } );\nobserve = 1;");
	scratch_write("main", V "  @include \"classes\" \n  oops = 1;\n");
	g = compiled(config_compile(scratch_path("main"), fresh_messages()));
	assert_null(g);
	assert_int_equal(messages.count, 2);
	assert_string_equal(messages.list[0].file, scratch_path("classes"));
	assert_int_equal(messages.list[0].line, 6);
	assert_string_equal(messages.list[1].file, scratch_path("main"));
	assert_int_equal(messages.list[1].line, 3);

	scratch_write("classes", "# one\nclasses = (\n { name = \"c\"; match = [ \"a.example\"\n, \"*\"\n ];"
	    " hold_at = 1; } );");
	scratch_write("main", V "@include \"classes\"\nobserve = true;\n# @include \"none\"\n"
	    "/*\n@include \"none\"\n*/ user = \"nobody\";\n");
	g = compiled(config_compile(scratch_path("main"), fresh_messages()));
	assert_non_null(g);
	assert_string_equal(generation_text(g, generation_rule(g, 1)->file), scratch_path("classes"));
	assert_int_equal(generation_rule(g, 1)->line, 4);
	assert_string_equal(generation_text(g, g->file), scratch_path("main"));
}

TEST(bad_includes) {
	scratch_write("main", V "\n@include \"none\"\n" C);
	expect("main", "main", 3, "cannot include");
	scratch_write("main", V "@include \".\"\n" C);		/* libconfig would exit here */
	expect("main", "main", 2, "not a regular file");
	scratch_write("main", V "@include \"self\"\n" C);
	scratch_write("self", "# x\n@include \"self\"\n");
	expect("main", "self", 2, "too deeply");
	scratch_write("main", V "@include \"bad\"\n" C);
	scratch_write("bad", "\n\nuser = ;\n");
	expect("main", "bad", 3, "syntax error");
	scratch_write("bad", "\n\nuser = \"x");
	expect("main", "bad", 3, "missing closing \" for the text that starts here");
	scratch_write("main", V C "@include \"ends\"");
	scratch_write("ends", "observe = true; # no newline");
	expect("main", "main", 0, NULL);
	scratch_write("main", V "user = \"\n@include \\\"none\\\"\n\";\n" C);
	expect("main", "main", 2, "printable");
}

TEST(files_that_are_none) {
	expect("missing", "missing", 0, "cannot be read: No such file or directory");
	scratch_write("main", "");
	expect("main", "main", 0, "version = 1; is missing");
	scratch_write_bytes("nul", V "user = \"a\0b\";\n", sizeof(V "user = \"a\0b\";\n") - 1);
	expect("nul", "nul", 2, "the file contains a NUL byte: it is not a text file");
	assert_int_equal(mkfifo(scratch_path("fifo"), 0600), 0);
	expect("fifo", "fifo", 0, "not a regular file");
	expect(".", ".", 0, "not a regular file");
}

TEST(a_file_that_every_user_can_write_is_noted) {
	static const mode_t modes[] = { 0644, 0660, 0666, 0602 };

	scratch_write("main", V C);
	for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(chmod(scratch_path("main"), modes[i]), 0);
		(void)compiled(config_compile(scratch_path("main"), fresh_messages()));
		assert_int_equal(messages.count, i < 2 ? 0 : 1);
		if (i >= 2)
			assert_non_null(strstr(messages.list[0].text, "run chmod o-w"));
	}
	assert_int_equal(chmod(scratch_path("main"), 0644), 0);
}

/* Nobody but its owner and group may read it, and it has to hold one. */
TEST(passwords_that_are_none) {
	static const struct {
		const char *text;
		mode_t mode;
		const char *words;	/* "": none */
	} files[] = {
		{ "secret\n", 0640, "" },
		{ "secret", 0400, "" },
		{ "secret\r\n", 0600, " ends with a carriage return" },
		{ "secret \n", 0600, " ends with a blank" },
		{ "secret\n", 0644, " is accessible to all users; run chmod 0640" },
		{ "secret\n", 0602, " is accessible to all users; run chmod 0640" },
		{ "", 0600, " is empty" },
		{ "\nsecret\n", 0600, " is empty" },
	};
	char text[1024], words[512];
	unsigned i;

#ifndef WITH_CLUSTER
	skip();
#endif
	snprintf(text, sizeof(text), V "cluster = { redis = \"unix:/r\"; node = \"a\"; nodes = 3;\n"
	    "user = \"u\"; password_file = \"%s\"; };\nclasses = ( { name = \"c\"; match = \"*\"; "
	    "hold_at = 6;\nscope = \"cluster\"; } );\n", scratch_path("password"));
	scratch_write("main", text);
	(void)unlink(scratch_path("password"));
	expect("main", "main", 3, ": No such file or directory");
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
	
		scratch_write("password", files[i].text);
		assert_int_equal(chmod(scratch_path("password"), files[i].mode), 0);
		snprintf(words, sizeof(words), "%s", files[i].words);
		if (files[i].words[0] != '\0') {
			expect("main", "main", 3, words);
		} else {
			(void)compiled(config_compile(scratch_path("main"), fresh_messages()));
			assert_int_equal(messages.count, 0);
		}
		(void)unlink(scratch_path("password"));
	}
	memset(words, 'x', 300);
	scratch_write_bytes("password", words, 300);
	assert_int_equal(chmod(scratch_path("password"), 0600), 0);
	expect("main", "main", 3, " is longer than 255 bytes");
	(void)unlink(scratch_path("password"));
	assert_int_equal(mkdir(scratch_path("password"), 0700), 0);
	expect("main", "main", 3, " is not a regular file");
	assert_int_equal(rmdir(scratch_path("password")), 0);
}

/* Or a reload takes away the limits of all logins that have their own. */
TEST(account_overrides_that_cannot_be_read_are_an_error) {
	char text[512];

#ifndef WITH_ACCOUNTS
	skip();
#endif
	snprintf(text, sizeof(text), V "classes = ( { name = \"c\"; match = \"*\"; "
	    "hold_at = 1; } );\naccounts = ( { name = \"a\"; match = \"*\"; "
	    "each = { messages = \"9/1h\"; }; } );\naccount_overrides = \"%s\";\n",
	    scratch_path("overrides"));
	scratch_write("main", text);
	assert_null(config_compile(scratch_path("main"), fresh_messages()));
	expect("main", "main", 4, ": No such file or directory");
	assert_int_equal(mkdir(scratch_path("overrides"), 0700), 0);
	expect("main", "main", 4, ": not a regular file");
	assert_int_equal(rmdir(scratch_path("overrides")), 0);
	scratch_write("overrides", "ann recipients=1/1h\n");
	expect("main", "main", 0, NULL);
	(void)unlink(scratch_path("overrides"));
}

#ifdef WITH_QUEUE
/* A directory that only sendmail.cf names would wait for the mail server's slow runs. */
TEST(queues_that_are_not_driven) {
	char text[1024];
	size_t i;
	static const struct {
		const char *cf, *queue, *words, *once;
	} cases[] = {
		{ "O QueueDirectory=/q/m\nR$*\t$@ OK\n", "/q/m", "has no line RDISCARD "
		    "(sendmail-outbound.mc), so recipients that were delivered", "enforce" },
		{ "O QueueDirectory=/q/m\nRDISCARD $*\t$#discard $: $1\n", "/q/m", NULL, "enforce" },
		{ "O QueueDirectory=/q/m*\n#O QueueDirectory=/no\n", "/q/m*", NULL, NULL },
		{ "O QueueDirectory=/q/m*\n", "/q/m",
		    "mta.queue does not list /q/m*, which is a queue of", NULL },
		{ "Qmqueue, P=/q/a, F=f\nO QueueDirectory=/q/m\n", "/q/m",
		    "mta.queue does not list /q/a, which is a queue of", NULL },
		{ "Qmqueue, F=f, r=40\nO QueueDirectory=/q/m \n", "/q/m", NULL, NULL },
		{ NULL, "/q/m", "cannot be read, so mta.queue is not checked against it:", NULL },
	};

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].cf != NULL)
			scratch_write("cf", cases[i].cf);
		snprintf(text, sizeof(text), V "providers = \"%s\";\nlisten = { socketmap = "
		    "\"unix:/m\"; };\nmta = ( { kind = \"sendmail\"; cf = \"%s\"; queue = \"%s\";\n"
		    "drive = true; exactly_once = \"%s\"; } );\n" C, scratch_path("none"),
		    scratch_path(cases[i].cf != NULL ? "cf" : "no-cf"), cases[i].queue,
		    cases[i].once != NULL ? cases[i].once : "observe");
		scratch_write("driven", text);
		scratch_write("none", "version = 1;\n");
		expect("driven", "driven", 5, cases[i].words);
	}
}

/* Without them nothing would be delivered, and nobody told. */
TEST(a_program_and_a_queue_that_are_not_there) {
	static const char format[] = V "providers = \"%s\";\nlisten = { socketmap = "
	    "\"unix:/m\"; };\nmta = ( { kind = \"sendmail\"; cf = \"%s\"; queue = \"%s\";\n"
	    "sendmail = \"%s\"; drive = true; } );\n" C;
	char text[1024];

	scratch_write("none", "version = 1;\n");
	scratch_write("cf", "# nothing\n");
	snprintf(text, sizeof(text), format, scratch_path("none"), scratch_path("cf"), "/usr/b*", "/bin/sh");
	scratch_write("driven", text);
	expect("driven", "driven", 5, NULL);
	snprintf(text, sizeof(text), format, scratch_path("none"), scratch_path("cf"), "/usr", "/no/sendmail");
	scratch_write("driven", text);
	expect("driven", "driven", 5, "mta.sendmail: /no/sendmail cannot be run, so no mail is "
	    "delivered: ");
	snprintf(text, sizeof(text), format, scratch_path("none"), scratch_path("cf"), "/no/q*", "/bin/sh");
	scratch_write("driven", text);
	expect("driven", "driven", 5, "mta.queue: /no/ is not a directory: it is not managed");
}
#endif

/* Nothing was learned, and nothing said why. */
TEST(a_log_that_is_not_there_is_noted) {
	char text[1024];

	scratch_write("none", "version = 1;\n");
	snprintf(text, sizeof(text), V "providers = \"%s\";\n"
	    "mta = ( { name = \"a\"; log = \"/no/such.log\"; } );\n" C, scratch_path("none"));
	scratch_write("main", text);
	expect("main", "main", 3, "mta.log: /no/such.log does not exist");
	snprintf(text, sizeof(text), V "providers = \"%s\";\n"
	    "mta = ( { name = \"a\"; log = \"/dev/null\"; } );\n" C, scratch_path("none"));
	scratch_write("main", text);
	expect("main", "main", 3, "mta.log: /dev/null is not a regular file");
}

/* A reload went well, and the next start, of a reboot perhaps, did not. */
TEST(users_and_groups_that_are_not_here) {
	static const struct {
		const char *text, *words;
		int line;
	} cases[] = {
		{ V "user = \"no-such\";\n" C, "user: there is no user no-such on this host: posternd "
		    "would not start", 2 },
		{ V "user = \"root\";\n" C, "user: the workers must not run as root", 2 },
		{ V "user = \"0\";\n" C, "user: the workers must not run as root", 2 },
		{ V "group = \"no-such\";\n" C, "group: there is no group no-such on this host", 2 },
		{ V "hints = { group = \"no-such\"; };\n" C, "hints.group: there is no group", 2 },
		{ V "listen = { control = { address = \"unix:/x\";\nread_group = \"no-such\"; }; };\n"
		    C, "listen.control: read_group: there is no group no-such on this host", 3 },
		{ V "listen = { control = { address = \"unix:/x\";\nwrite_group = \"no-such\"; }; };\n"
		    C, "listen.control: write_group: there is no group no-such on this host", 3 },
		{ V "listen = { policy = { address = \"unix:/x\";\nowner = \"no-such\"; }; };\n" C,
		    "listen.policy: owner: there is no user no-such on this host: posternd would", 3 },
		{ V "listen = { metrics = { address = \"unix:/x\";\ngroup = \"no-such\"; }; };\n" C,
		    "listen.metrics: group: there is no group no-such on this host: posternd "
		    "will start without this socket", 3 },
	};
	static const char known[] = V "listen = { control = { address = \"unix:/x\"; owner = \"0\";"
	    " group = \"root\"; read_group = \"4711\"; }; };\nuser = \"postern\";\n" C;
	char text[1024];

	scratch_write("none", "version = 1;\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%sproviders = \"%s\";\n", cases[i].text,
		    scratch_path("none"));
		scratch_write("main", text);
		expect("main", "main", cases[i].line, cases[i].words);
	}
	snprintf(text, sizeof(text), "%sproviders = \"%s\";\n", known, scratch_path("none"));
	scratch_write("main", text);
	(void)compiled(config_compile(scratch_path("main"), fresh_messages()));
	assert_int_equal(messages.count, 0);
}

/* Who looks for the daemon does not wait for 60,000 classes, nor for what is wrong in them. */
TEST(its_places_are_found_whatever_the_classes_are) {
	static const char text[] = "state = { path = \"/run/other/state\"; };\n"
	    "listen = { control = \"unix:/run/other/control\"; };\n"
	    "classes = ( { name = 1; match = [ \"300.1.1.1/99\" ]; } );\n";
	struct generation *g;

	scratch_write_bytes("places", text, sizeof(text) - 1);
	assert_null(config_compile(scratch_path("places"), fresh_messages()));
	g = kept(config_compile_places(scratch_path("places"), fresh_messages()));
	assert_non_null(g);
	assert_string_equal(generation_text(g, g->state_path), "/run/other/state");
	assert_string_equal(generation_text(g, g->journal.path), "/run/other/state.journal");
	assert_true(g->listener_count >= 1);
	assert_int_equal(g->class_count, 0);
}

TEST(random_bytes_give_a_clean_error) {
	uint64_t seed = 42;

	for (int round = 0; round < 300; round++) {
		char bytes[512];

		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			bytes[i] = (char)(seed >> 56);
		}
		scratch_write_bytes("bad", bytes, sizeof(bytes));
		assert_null(config_compile(scratch_path("bad"), fresh_messages()));
		assert_true(messages.errors > 0);
	}
}

TEST_GROUP(scratch_open, scratch_close)
