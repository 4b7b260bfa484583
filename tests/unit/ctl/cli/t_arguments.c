/* SPDX-License-Identifier: ISC */
/* posternctl's command line.  What is complained about goes to stderr, which is
 * caught in a file. */
#include "tests/unit/test.h"
#include "ctl/cli/arguments.h"

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

static void means(struct line *line, const char *text, enum request request,
    enum command command) {
	assert_int_equal(parse(line, text), request);
	assert_int_equal(line->command, command);
}

static void wrong(const char *text, const char *complaint) {
	struct line line;

	assert_int_equal(parse(&line, text), REQUEST_WRONG);
	if (strstr(line.complaint, complaint) == NULL)
		assert_string_equal(line.complaint, complaint);
}

TEST(options_stand_before_and_behind) {
	struct line line;

	means(&line, "posternctl -c /f -s /s --json classes", REQUEST_RUN, COMMAND_CLASSES);
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

TEST(commands_take_their_own) {
	struct line line;

	assert_int_equal(parse(&line, "posternctl sessions --class a"), REQUEST_RUN);
	assert_string_equal(line.ctl.class, "a");
	assert_false(line.ctl.all);
	assert_int_equal(parse(&line, "posternctl sessions --all"), REQUEST_RUN);
	assert_true(line.ctl.all);
	means(&line, "posternctl explain session 192.0.2.1 --port 587 a.example",
	    REQUEST_RUN, COMMAND_EXPLAIN_SESSION);
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
	means(&line, "posternctl explain destination a.example",
	    REQUEST_RUN, COMMAND_EXPLAIN_DESTINATION);
	means(&line, "posternctl journal dump --id 6AM3 --type start "
	    "--destination *.example /var/lib/postern", REQUEST_RUN, COMMAND_JOURNAL_DUMP);
	assert_string_equal(line.ctl.id, "6AM3");
	assert_string_equal(line.ctl.type, "start");
	assert_string_equal(line.ctl.destination, "*.example");
	assert_string_equal(line.ctl.arguments[0], "/var/lib/postern");
}

TEST(what_does_not_belong_is_told) {
	wrong("posternctl classes --class a", "--class: not an option of classes");
	wrong("posternctl --port 1 status", "--port: not an option of status");
	wrong("posternctl classes --al", "--all: not an option of classes");
	wrong("posternctl status now", "status: unexpected argument \"now\"");
	wrong("posternctl explain session", "missing arguments: ADDRESS");
	wrong("posternctl explain session a b c", "explain session: unexpected argument \"c\"");
	wrong("posternctl import-xla", "missing arguments: FILE");
	wrong("posternctl check a b", "check: unexpected argument \"b\"");
	wrong("posternctl journal stat --id x", "--id: not an option of journal stat");
	wrong("posternctl journal dump --destinations", "--destinations: not an option of "
	    "journal dump");
	wrong("posternctl sendmail queue --destination x", "--destination: not an option of sendmail queue");
	wrong("posternctl journal", "\"journal check\" or \"journal dump\"");
	wrong("posternctl --frobnicate status", "frobnicate");
	wrong("posternctl sessions --class", "option --class needs a value");
	wrong("posternctl sessions --class", "Try: posternctl sessions --help");
	wrong("posternctl", "Usage: posternctl");
}

TEST(a_wrong_option_leads_to_its_help) {
	wrong("posternctl --bogus", "unknown option --bogus\nTry: posternctl --help\n");
	wrong("posternctl -c", "option -c needs a value\nTry: posternctl --help\n");
	wrong("posternctl -x status", "unknown option -x\nTry: posternctl --help\n");
	wrong("posternctl --co status", "option --co is ambiguous\nTry: posternctl --help\n");
	wrong("posternctl --json=x status", "option --json takes no value\n");
	wrong("posternctl status --bogus=1", "unknown option --bogus\nTry: posternctl status --help");
}

TEST(help_is_a_command_as_well) {
	struct line line;

	means(&line, "posternctl help", REQUEST_HELP, COMMAND_COUNT);
	means(&line, "posternctl help tail", REQUEST_HELP, COMMAND_TAIL);
	means(&line, "posternctl help journal check", REQUEST_HELP, COMMAND_JOURNAL_CHECK);
	assert_int_equal(parse(&line, "posternctl help explain"), REQUEST_HELP_FAMILY);
	wrong("posternctl help frobnicate", "unknown command \"frobnicate\"");
	wrong("posternctl help tail me", "help: unexpected argument \"me\"");
}

TEST(the_nearest_command_is_named) {
	wrong("posternctl stauts", "did you mean \"status\"?");
	wrong("posternctl class", "did you mean \"classes\"?");
	wrong("posternctl session", "did you mean \"sessions\"?");
	wrong("posternctl explain sesion 192.0.2.1", "did you mean \"explain session\"?");
	wrong("posternctl sendmail quue", "did you mean \"sendmail queue\"?");
	wrong("posternctl sendmail frobnicate", "sendmail: unknown subcommand");
	wrong("posternctl explian session 192.0.2.1", "did you mean \"explain session\"?");
	wrong("posternctl explain", 
	    "explain: missing subcommand: use \"explain session\" or \"explain destination\"");
	wrong("posternctl import", "unknown command \"import\"");
	wrong("posternctl relaod", "did you mean \"reload\"?");
	wrong("posternctl chekc", "did you mean \"check\"?");
	wrong("posternctl frobnicate", "unknown command \"frobnicate\"; see posternctl --help");
	/* a word of four letters was near to all that are as short */
	wrong("posternctl foo", "unknown command \"foo\"; see posternctl --help");
	wrong("posternctl s", "unknown command \"s\"; see posternctl --help");
	wrong("posternctl hlp", "unknown command \"hlp\"; see posternctl --help");
	wrong("posternctl \x1b[2J", "unknown command \"\\x1b[2J\"");
	wrong("posternctl aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
	    "unknown command");
}

TEST(help_and_version) {
	struct line line;

	means(&line, "posternctl --help", REQUEST_HELP, COMMAND_COUNT);
	means(&line, "posternctl sessions --help", REQUEST_HELP, COMMAND_SESSIONS);
	means(&line, "posternctl explain session -h", REQUEST_HELP, COMMAND_EXPLAIN_SESSION);
	means(&line, "posternctl explain --help", REQUEST_HELP_FAMILY, COMMAND_EXPLAIN_SESSION);
	assert_int_equal(parse(&line, "posternctl -V"), REQUEST_VERSION);
	assert_int_equal(parse(&line, "posternctl --version"), REQUEST_VERSION);
}

TEST(colours_and_what_tail_wants) {
	struct line line;

	assert_int_equal(parse(&line, "posternctl status"), REQUEST_RUN);
	assert_int_equal(line.ctl.color, COLOR_AUTO);
	assert_int_equal(parse(&line, "posternctl --color=never status"), REQUEST_RUN);
	assert_int_equal(line.ctl.color, COLOR_NEVER);
	assert_int_equal(parse(&line, "posternctl status --color always"), REQUEST_RUN);
	assert_int_equal(line.ctl.color, COLOR_ALWAYS);
	assert_int_equal(parse(&line, "posternctl status --color=red"), REQUEST_WRONG);
	means(&line, "posternctl tail --class c --destination *.example "
	    "--address 192.0.2.0/24 --kind refused --since 5m --lines 3 --once", REQUEST_RUN, COMMAND_TAIL);
	assert_string_equal(line.ctl.address, "192.0.2.0/24");
	assert_string_equal(line.ctl.kind, "refused");
	assert_string_equal(line.ctl.since, "5m");
	assert_string_equal(line.ctl.lines, "3");
	assert_true(line.ctl.once);
	assert_int_equal(parse(&line, "posternctl status --once"), REQUEST_WRONG);
	means(&line, "posternctl top", REQUEST_RUN, COMMAND_TOP);
}

TEST(the_help_fits_on_a_screen) {
	char *text = NULL;
	unsigned lines = 0;
	size_t length;
	FILE *out = open_memstream(&text, &length);

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
		    (i >= COMMAND_ACCOUNTS && i <= COMMAND_SENDMAIL_NEXT) ||
		    (i >= COMMAND_TOP && i <= COMMAND_TAIL) ||
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
TEST(help_of_a_first_word_tells_all_that_begin_so) {
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	arguments_help_family(out, COMMAND_JOURNAL_CHECK);
	fclose(out);
	assert_non_null(strstr(text, " journal COMMAND ..."));
	assert_non_null(strstr(text, "\n  journal check [DIRECTORY]\n        check the journal "
	    "for damage\n"));
	assert_non_null(strstr(text, "\n  journal dump [DIRECTORY] [--type TYPE]"));
	assert_non_null(strstr(text, "\n  journal stat [DIRECTORY]\n"));
	assert_null(strstr(text, "explain"));
	free(text);
}

TEST(commands_by_hand) {
	struct line line;

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
	assert_int_equal(parse(&line, "posternctl limit --window 3 d.example --ceiling 4"),
	    REQUEST_RUN);
	assert_string_equal(line.ctl.window, "3");
	assert_string_equal(line.ctl.ceiling, "4");
	assert_int_equal(parse(&line, "posternctl destinations --relays"), REQUEST_RUN);
	assert_true(line.ctl.relays);
	wrong("posternctl limit", "missing arguments");
	wrong("posternctl hold d.example --ceiling 4", "--ceiling: not an option of hold");
	wrong("posternctl forget d.example --reason x", "--reason: not an option of forget");
	wrong("posternctl classes --relays", "--relays: not an option of classes");
}

TEST(commands_of_the_previews_are_still_taken) {
	struct line line;

	means(&line, "posternctl set d.example --window 3", REQUEST_RUN, COMMAND_LIMIT);
	assert_string_equal(line.ctl.arguments[0], "d.example");
	means(&line, "posternctl queue *.example --destinations",
	    REQUEST_RUN, COMMAND_SENDMAIL_QUEUE);
	assert_string_equal(line.ctl.arguments[0], "*.example");
	means(&line, "posternctl replay a.log", REQUEST_RUN, COMMAND_ANALYZE);
	wrong("posternctl sendmail", "\"sendmail queue\" or \"sendmail next\"");
}

static const struct {
	enum command command;
	const char *text;
} explained[] = {
#define ARGUMENT(command, argument, text) { COMMAND_##command, argument },
#include "defs/arguments.def"
#undef ARGUMENT
}, examples[] = {
#define EXAMPLE(command, line, text) { COMMAND_##command, line },
#include "defs/examples.def"
#undef EXAMPLE
};

/* Steps over one argument of a command's row, without its brackets; false: none is left. */
static bool next_argument(const char **syntax, char *out, size_t size) {
	size_t length = strcspn(*syntax, **syntax == '[' ? "]" : " ");
	const char *begin = *syntax + (**syntax == '[');

	if (**syntax == '\0')
		return false;
	snprintf(out, size, "%.*s", (int)(*syntax + length - begin), begin);
	*syntax += length + ((*syntax)[length] == ']');
	*syntax += strspn(*syntax, " ");
	return true;
}

/* The rows of a command, in the order of its arguments. */
TEST(every_argument_is_explained_once) {
	size_t row = 0, total = sizeof(explained) / sizeof(explained[0]);

	for (unsigned i = 0; i < COMMAND_COUNT; i++) {
		const char *syntax = command_words((enum command)i)->arguments;
		char argument[64];

		while (next_argument(&syntax, argument, sizeof(argument))) {
			assert_true(row < total);
			assert_string_equal(explained[row].text, argument);
			assert_int_equal(explained[row].command, i);
			row++;
		}
	}
	assert_int_equal(row, total);
}

TEST(every_example_is_right) {
	unsigned count[COMMAND_COUNT] = { 0 };
	char text[256];
	struct line line;

	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
		snprintf(text, sizeof(text), "posternctl %s", examples[i].text);
		assert_int_equal(parse(&line, text), REQUEST_RUN);
		assert_int_equal(line.command, examples[i].command);
		count[line.command]++;
	}
	for (unsigned i = 0; i < COMMAND_COUNT; i++)
		assert_int_equal(count[i],
		    command_words((enum command)i)->arguments[0] == '\0' ? 0 : 2);
}

TEST(help_shows_arguments_and_examples) {
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	arguments_help(out, COMMAND_SESSIONS);
	fclose(out);
	assert_non_null(strstr(text, "\n  --class C\n        show only sessions of class C\n"));
	assert_non_null(strstr(text, "\nExamples:\n  posternctl sessions --class customer\n"));
	for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1)
		assert_true(strcspn(line, "\n") < 80);
	free(text);
}
