/* SPDX-License-Identifier: ISC */
/* posternctl's command line.  What is complained about goes to stderr, which is
 * caught in a file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ctl/arguments.h"

#define WORDS_MAX	16

struct line {
	struct ctl ctl;
	bool json;
	enum command command;
	char complaint[1024];
};

/* Parses "posternctl ..." as a shell would split it at spaces. */
static enum request parse(struct line *line, const char *text) {
	static char copy[256];
	char *argv[WORDS_MAX + 1] = { NULL }, *rest = copy;
	FILE *caught = tmpfile();
	int argc = 0, saved = dup(STDERR_FILENO);
	enum request request;
	size_t length;

	memset(line, 0, sizeof(*line));
	snprintf(copy, sizeof(copy), "%s", text);
	while (argc < WORDS_MAX && (argv[argc] = strsep(&rest, " ")) != NULL)
		argc++;
	assert_non_null(caught);
	fflush(stderr);
	dup2(fileno(caught), STDERR_FILENO);
	request = arguments_parse(argc, argv, &line->ctl, &line->json, &line->command);
	fflush(stderr);
	dup2(saved, STDERR_FILENO);
	close(saved);
	rewind(caught);
	length = fread(line->complaint, 1, sizeof(line->complaint) - 1, caught);
	line->complaint[length] = '\0';
	fclose(caught);
	return request;
}

static void wrong(const char *text, const char *complaint) {
	struct line line;

	assert_int_equal(parse(&line, text), REQUEST_WRONG);
	if (strstr(line.complaint, complaint) == NULL)
		assert_string_equal(line.complaint, complaint);
}

static void options_stand_before_and_behind(void **state) {
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "posternctl -c /f -s /s --json classes"), REQUEST_RUN);
	assert_int_equal(line.command, COMMAND_CLASSES);
	assert_true(line.json);
	assert_string_equal(line.ctl.config_path, "/f");
	assert_true(line.ctl.config_given);
	assert_string_equal(line.ctl.socket, "/s");
	assert_int_equal(parse(&line, "posternctl classes --json -c/f"), REQUEST_RUN);
	assert_true(line.json);
	assert_string_equal(line.ctl.config_path, "/f");
	assert_int_equal(parse(&line, "posternctl status"), REQUEST_RUN);
	assert_false(line.json);
	assert_null(line.ctl.socket);
	assert_string_equal(line.complaint, "");
}

static void commands_take_their_own(void **state) {
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "posternctl sessions --class a"), REQUEST_RUN);
	assert_string_equal(line.ctl.class, "a");
	assert_false(line.ctl.all);
	assert_int_equal(parse(&line, "posternctl sessions --all"), REQUEST_RUN);
	assert_true(line.ctl.all);
	assert_int_equal(parse(&line,
		"posternctl explain session 192.0.2.1 --port 587 a.example"), REQUEST_RUN);
	assert_int_equal(line.command, COMMAND_EXPLAIN_SESSION);
	assert_string_equal(line.ctl.port, "587");
	assert_int_equal(line.ctl.argument_count, 2);
	assert_string_equal(line.ctl.arguments[0], "192.0.2.1");
	assert_string_equal(line.ctl.arguments[1], "a.example");
	assert_int_equal(parse(&line, "posternctl import-xla -"), REQUEST_RUN);
	assert_string_equal(line.ctl.arguments[0], "-");
	assert_int_equal(parse(&line, "posternctl check"), REQUEST_RUN);
	assert_int_equal(line.ctl.argument_count, 0);
	assert_int_equal(parse(&line, "posternctl check -- -f"), REQUEST_RUN);
	assert_string_equal(line.ctl.arguments[0], "-f");
	assert_int_equal(parse(&line,
		"posternctl explain destination a.example"), REQUEST_RUN);
	assert_int_equal(line.command, COMMAND_EXPLAIN_DESTINATION);
	assert_int_equal(parse(&line, "posternctl journal dump --id 6AM3 --type start "
	    "--destination *.example /var/lib/postern"), REQUEST_RUN);
	assert_int_equal(line.command, COMMAND_JOURNAL_DUMP);
	assert_string_equal(line.ctl.id, "6AM3");
	assert_string_equal(line.ctl.type, "start");
	assert_string_equal(line.ctl.destination, "*.example");
	assert_string_equal(line.ctl.arguments[0], "/var/lib/postern");
}

static void what_does_not_belong_is_told(void **state) {
	(void)state;
	wrong("posternctl classes --class a", "--class: not for classes");
	wrong("posternctl --port 1 status", "--port: not for status");
	wrong("posternctl classes --al", "--all: not for classes");
	wrong("posternctl status now", "now: status takes no more arguments");
	wrong("posternctl explain session", "arguments are missing: ADDRESS");
	wrong("posternctl explain session a b c", "c: explain session takes no more");
	wrong("posternctl import-xla", "arguments are missing: FILE");
	wrong("posternctl check a b", "b: check takes no more");
	wrong("posternctl journal stat --id x", "--id: not for journal stat");
	wrong("posternctl journal dump --destinations", "--destinations: not for journal dump");
	wrong("posternctl queue --destination x", "--destination: not for queue");
	wrong("posternctl journal", "\"journal check\" and \"journal dump\"");
	wrong("posternctl --frobnicate status", "frobnicate");
	wrong("posternctl sessions --class", "option --class needs a value");
	wrong("posternctl sessions --class", "Try: posternctl sessions --help");
	wrong("posternctl", "Usage: posternctl");
}

static void a_wrong_option_leads_to_its_help(void **state) {
	(void)state;
	wrong("posternctl --bogus", "unknown option --bogus\nTry: posternctl --help\n");
	wrong("posternctl -c", "option -c needs a value\nTry: posternctl --help\n");
	wrong("posternctl -x status", "unknown option -x\nTry: posternctl --help\n");
	wrong("posternctl --j status", "option --j is ambiguous\nTry: posternctl --help\n");
	wrong("posternctl --json=x status", "option --json takes no value\n");
	wrong("posternctl status --bogus=1", "unknown option --bogus\nTry: posternctl status --help");
}

static void help_is_a_command_as_well(void **state) {
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "posternctl help"), REQUEST_HELP);
	assert_int_equal(line.command, COMMAND_COUNT);
	assert_int_equal(parse(&line, "posternctl help tail"), REQUEST_HELP);
	assert_int_equal(line.command, COMMAND_TAIL);
	assert_int_equal(parse(&line, "posternctl help journal check"), REQUEST_HELP);
	assert_int_equal(line.command, COMMAND_JOURNAL_CHECK);
	assert_int_equal(parse(&line, "posternctl help explain"), REQUEST_HELP_FAMILY);
	wrong("posternctl help frobnicate", "frobnicate: no such command");
	wrong("posternctl help tail me", "help: unexpected argument \"me\"");
}

static void the_nearest_command_is_named(void **state) {
	(void)state;
	wrong("posternctl stauts", "did you mean \"status\"?");
	wrong("posternctl class", "did you mean \"classes\"?");
	wrong("posternctl session", "did you mean \"sessions\"?");
	wrong("posternctl explain sesion 192.0.2.1", "There is \"explain session\"");
	wrong("posternctl explian session 192.0.2.1", "did you mean \"explain session\"?");
	wrong("posternctl explain", 
	    "There is \"explain session\" and \"explain destination\"");
	wrong("posternctl import", "posternctl: import");
	wrong("posternctl relaod", "did you mean \"reload\"?");
	wrong("posternctl chekc", "did you mean \"check\"?");
	wrong("posternctl frobnicate", "posternctl --help tells them all");
	/* a word of four letters was near to all that are as short */
	wrong("posternctl foo", "foo: no such command; posternctl --help");
	wrong("posternctl s", "s: no such command; posternctl --help");
	wrong("posternctl hlp", "hlp: no such command; posternctl --help");
	wrong("posternctl \x1b[2J", "\\x1b[2J: no such command");
	wrong("posternctl aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	    "no such command");
}

static void help_and_version(void **state) {
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "posternctl --help"), REQUEST_HELP);
	assert_int_equal(line.command, COMMAND_COUNT);
	assert_int_equal(parse(&line, "posternctl sessions --help"), REQUEST_HELP);
	assert_int_equal(line.command, COMMAND_SESSIONS);
	assert_int_equal(parse(&line, "posternctl explain session -h"), REQUEST_HELP);
	assert_int_equal(line.command, COMMAND_EXPLAIN_SESSION);
	assert_int_equal(parse(&line, "posternctl explain --help"), REQUEST_HELP_FAMILY);
	assert_int_equal(line.command, COMMAND_EXPLAIN_SESSION);
	assert_int_equal(parse(&line, "posternctl -V"), REQUEST_VERSION);
	assert_int_equal(parse(&line, "posternctl --version"), REQUEST_VERSION);
}

static void colours_and_what_tail_wants(void **state) {
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "posternctl status"), REQUEST_RUN);
	assert_int_equal(line.ctl.color, COLOR_AUTO);
	assert_int_equal(parse(&line, "posternctl --color=never status"), REQUEST_RUN);
	assert_int_equal(line.ctl.color, COLOR_NEVER);
	assert_int_equal(parse(&line, "posternctl status --color always"), REQUEST_RUN);
	assert_int_equal(line.ctl.color, COLOR_ALWAYS);
	assert_int_equal(parse(&line, "posternctl status --color=red"), REQUEST_WRONG);
	assert_int_equal(parse(&line, "posternctl tail --class c --destination *.example "
	    "--address 192.0.2.0/24 --kind refused --since 5m --lines 3 --once"), REQUEST_RUN);
	assert_int_equal(line.command, COMMAND_TAIL);
	assert_string_equal(line.ctl.address, "192.0.2.0/24");
	assert_string_equal(line.ctl.kind, "refused");
	assert_string_equal(line.ctl.since, "5m");
	assert_string_equal(line.ctl.lines, "3");
	assert_true(line.ctl.once);
	assert_int_equal(parse(&line, "posternctl status --once"), REQUEST_WRONG);
	assert_int_equal(parse(&line, "posternctl top"), REQUEST_RUN);
	assert_int_equal(line.command, COMMAND_TOP);
}

static void the_help_fits_on_a_screen(void **state) {
	char *text = NULL;
	unsigned lines = 0;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	assert_non_null(out);
	arguments_help(out, COMMAND_COUNT);
	fclose(out);
	for (unsigned i = 0; i < COMMAND_COUNT; i++) {
		const struct command_words *command = command_words((enum command)i);

		const char *last = strrchr(command->words, ' ');

		/* those of two words stand together, by their second ones */
		assert_non_null(strstr(text, last != NULL ? last + 1 : command->words));
		/* what is done by hand shares lines, too */
		assert_true(last != NULL || strstr(text, command->brief) != NULL ||
		    (i >= COMMAND_SUSPEND && i <= COMMAND_RELOAD));
	}
	for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		lines++;
		/* the path in it is as long as it is */
		assert_true(end - line < 80 || strncmp(line, "-c FILE", 7) == 0);
	}
	assert_in_range(lines, 15, 23);
	free(text);
}

/* "journal --help" told of "journal check" alone, as if there were no other. */
static void help_of_a_first_word_tells_all_that_begin_so(void **state) {
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	assert_non_null(out);
	arguments_help_family(out, COMMAND_JOURNAL_CHECK);
	fclose(out);
	assert_non_null(strstr(text, " journal COMMAND ..."));
	assert_non_null(strstr(text, "\n  journal check [DIRECTORY]\n        is the journal whole?\n"));
	assert_non_null(strstr(text, "\n  journal dump [DIRECTORY] [--type TYPE]"));
	assert_non_null(strstr(text, "\n  journal stat [DIRECTORY]\n"));
	assert_null(strstr(text, "explain"));
	free(text);
}

/* A wall of options in one line was no help. */
static void options_of_simulate_stand_below_its_usage(void **state) {
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	assert_non_null(out);
	arguments_help(out, COMMAND_SIMULATE_WINDOW);
	fclose(out);
	assert_true(strcspn(text, "\n") <= 90);
	assert_non_null(strstr(text, "\n  --report-delay T\n"));
	free(text);
	out = open_memstream(&text, &length);
	assert_non_null(out);
	arguments_help(out, COMMAND_SIMULATE_WORKERS);
	fclose(out);
	assert_true(strcspn(text, "\n") <= 90);
	assert_non_null(strstr(text, "\n  --idle-age T\n"));
	free(text);
}

static void commands_by_hand(void **state) {
	struct line line;

	(void)state;
	assert_int_equal(parse(&line, "posternctl suspend d.example --for 2h --reason x"),
	    REQUEST_RUN);
	assert_int_equal(line.command, COMMAND_SUSPEND);
	assert_string_equal(line.ctl.arguments[0], "d.example");
	assert_string_equal(line.ctl.duration, "2h");
	assert_string_equal(line.ctl.reason, "x");
	assert_null(line.ctl.class);
	assert_int_equal(parse(&line, "posternctl hold --class c"), REQUEST_RUN);
	assert_int_equal(line.ctl.argument_count, 0);
	assert_string_equal(line.ctl.class, "c");
	assert_int_equal(parse(&line, "posternctl set --window 3 d.example --ceiling 4"),
	    REQUEST_RUN);
	assert_string_equal(line.ctl.window, "3");
	assert_string_equal(line.ctl.ceiling, "4");
	assert_int_equal(parse(&line, "posternctl destinations --relays"), REQUEST_RUN);
	assert_true(line.ctl.relays);
	wrong("posternctl set", "arguments are missing");
	wrong("posternctl hold d.example --ceiling 4", "--ceiling: not for hold");
	wrong("posternctl forget d.example --reason x", "--reason: not for forget");
	wrong("posternctl classes --relays", "--relays: not for classes");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_stand_before_and_behind),
		cmocka_unit_test(commands_take_their_own),
		cmocka_unit_test(commands_by_hand),
		cmocka_unit_test(what_does_not_belong_is_told),
		cmocka_unit_test(a_wrong_option_leads_to_its_help),
		cmocka_unit_test(help_is_a_command_as_well),
		cmocka_unit_test(the_nearest_command_is_named),
		cmocka_unit_test(help_and_version),
		cmocka_unit_test(the_help_fits_on_a_screen),
		cmocka_unit_test(help_of_a_first_word_tells_all_that_begin_so),
		cmocka_unit_test(colours_and_what_tail_wants),
		cmocka_unit_test(options_of_simulate_stand_below_its_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
