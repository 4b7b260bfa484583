/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl's command line.
 * MODEL    What a command takes stands in its row of commands.def and nowhere else:
 *          "NAME" must be there, "[NAME]" and "[--option V]" may, of "NAME..." there
 *          may be more.  Options of all
 *          commands may stand before or behind the command's words.
 * ERRORS   Complained about here, with the nearest command where a word is wrong.
 * THREADS  One (getopt).
 */
#include "ctl/cli/arguments.h"

#include <getopt.h>
#include <stddef.h>
#include <string.h>

#include "base/text.h"

static const struct command_words commands[COMMAND_COUNT] = {
#define COMMAND(symbol, words, arguments, brief, permission, where, text) \
	[COMMAND_##symbol] = { words, arguments, brief, text },
#include "defs/commands.def"
#undef COMMAND
};

const struct command_words *command_words(enum command command) {
	return &commands[command];
}

/* Options of single commands, by number. */
enum {
#define OPTION(name, takes, member) OWN_##member,
#include "defs/options.def"
#undef OPTION
	OWN_OPTIONS
};

enum { OPTION_JSON = 256, OPTION_COLOR, OPTION_WIDE, OPTION_COLUMNS, OPTION_OWN };

#define OPTION_VALUE	required_argument
#define OPTION_FLAG	no_argument

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "socket", required_argument, NULL, 's' },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "color", required_argument, NULL, OPTION_COLOR },
	{ "wide", no_argument, NULL, OPTION_WIDE },
	{ "columns", required_argument, NULL, OPTION_COLUMNS },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
#define OPTION(name, takes, member) { name, OPTION_##takes, NULL, OPTION_OWN + OWN_##member },
#include "defs/options.def"
#undef OPTION
	{ NULL, 0, NULL, 0 },
};

static const struct {
	const char *name;
	int takes;
	size_t member;		/* of struct ctl */
} own_options[OWN_OPTIONS] = {
#define OPTION(name, takes, member) { "--" name, OPTION_##takes, offsetof(struct ctl, member) },
#include "defs/options.def"
#undef OPTION
};

#define GIVEN_MAX	64	/* of a command's words */
#define OWN_OPTIONS_MAX	64	/* given at once */

struct parse {
	struct ctl *ctl;
	bool *json;
	bool help, version, wrong;
	/* options that belong to one command */
	const char *own[OWN_OPTIONS_MAX];
	size_t own_count;
};

static void note_own(struct parse *parse, const char *option) {
	if (parse->own_count < sizeof(parse->own) / sizeof(parse->own[0]))
		parse->own[parse->own_count++] = option;
}

/* False: it is no option of a command's own. */
static bool parse_own_option(struct parse *parse, int option) {
	unsigned own = (unsigned)(option - OPTION_OWN);
	char *member;

	if (option < OPTION_OWN || own >= OWN_OPTIONS)
		return false;
	member = (char *)parse->ctl + own_options[own].member;
	if (own_options[own].takes == OPTION_FLAG)
		*(bool *)(void *)member = true;
	else
		*(const char **)(void *)member = optarg;
	note_own(parse, own_options[own].name);
	return true;
}

static void parse_option(struct parse *parse, int option) {
	switch (option) {
	case 'c':
		parse->ctl->config_path = optarg;
		parse->ctl->config_given = true;
		break;
	case 's':
		parse->ctl->socket = optarg;
		break;
	case OPTION_JSON:
		*parse->json = true;
		break;
	case OPTION_COLOR:
		if (color_parse(optarg, &parse->ctl->color))
			break;
		ctl_complain("--color=%s: must be never, auto or always", optarg);
		parse->wrong = true;
		break;
	case OPTION_WIDE:
		parse->ctl->wide = true;
		break;
	case OPTION_COLUMNS:
		parse->ctl->columns = optarg;
		break;
	case 'h':
		parse->help = true;
		break;
	case 'V':
		parse->version = true;
		break;
	default:
		if (!parse_own_option(parse, option))
			parse->wrong = true;
	}
}

/* getopt's own complaint of an abbreviation lists options of every command. */
static void complain_option(char **argv, int option) {
	const char *word = argv[optind - 1];
	size_t length = strcspn(word, "=");
	bool begins = false;

	if (optopt > 0 && optopt < OPTION_JSON) {
		ctl_complain(option == ':' ? "option -%c needs a value" : "unknown option -%c",
		    optopt);
		return;
	}
	for (const struct option *at = options; at->name != NULL && length > 2; at++)
		begins |= strncmp(at->name, word + 2, length - 2) == 0;
	ctl_complain(option == ':' ? "option %.*s needs a value" : optopt != 0 ?
	    "option %.*s takes no value" : begins ? "option %.*s is ambiguous" :
	    "unknown option %.*s", (int)length, word);
}

/* The options from optind on; stops at the first word when `first` says so. */
static void parse_options(struct parse *parse, int argc, char **argv, bool first) {
	int option;

	opterr = 0;
	while (!parse->wrong && (option = getopt_long(argc, argv,
				     first ? "+:c:s:hV" : ":c:s:hV", options, NULL)) != -1) {
		if (option == '?' || option == ':')
			complain_option(argv, option);
		parse_option(parse, option);
	}
}

/* After what was wrong with the options; COMMAND_COUNT: those before the command. */
static enum request try_help(enum command command) {
	fprintf(stderr, "Try: posternctl %s%s--help\n",
	    command == COMMAND_COUNT ? "" : commands[command].words,
	    command == COMMAND_COUNT ? "" : " ");
	return REQUEST_WRONG;
}

/* The first word of it, and a second one that a command may have. */
static const char *command_given(int argc, char **argv, char out[GIVEN_MAX]) {
	out[0] = '\0';
	(void)text_append(out, GIVEN_MAX, 0, "%s%s%s", argv[0], argc > 1 ? " " : "",
	    argc > 1 ? argv[1] : "");
	return out;
}

/* Those words have a blank between them, or none: COMMAND_COUNT. */
static enum command find_exact(const char *words) {
	unsigned i = 0;

	while (i < COMMAND_COUNT && strcmp(commands[i].words, words) != 0)
		i++;
	return (enum command)i;
}

/* Is this the first of its two words? */
static bool begins_with(enum command command, const char *word) {
	size_t length = strlen(word);

	return strncmp(commands[command].words, word, length) == 0 &&
	    commands[command].words[length] == ' ';
}

static bool is_near(const char *given, const char *meant, unsigned *best) {
	unsigned distance = text_distance(given, meant);

	if (distance >= *best || distance > (strlen(given) + 1) / 3)
		return false;
	*best = distance;
	return true;
}

static void complain_unknown(int argc, char **argv) {
	unsigned best = UINT32_MAX;
	const char *nearest = NULL;
	char given[GIVEN_MAX];

	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (is_near(command_given(strchr(commands[i].words, ' ') != NULL ? argc : 1, argv,
		    given), commands[i].words, &best))
			nearest = commands[i].words;
	if (nearest != NULL)
		ctl_complain("unknown command \"%s\"; did you mean \"%s\"?", argv[0], nearest);
	else
		ctl_complain("unknown command \"%s\"; see posternctl --help",
		    argv[0]);
}

/* Lists every command that begins so, or names the one that was meant. */
static void complain_unfinished(int argc, char **argv) {
	const char *nearest = NULL;
	char list[256] = "";
	size_t length = 0;

	for (unsigned i = 0; i < COMMAND_COUNT; i++) {
		unsigned any = UINT32_MAX;

		if (!begins_with((enum command)i, argv[0]))
			continue;
		length = text_append(list, sizeof(list), length, "%s\"%s\"",
		    length > 0 ? " or " : "", commands[i].words);
		if (argc > 1 && is_near(argv[1], strchr(commands[i].words, ' ') + 1, &any))
			nearest = commands[i].words;
	}
	if (nearest != NULL)
		ctl_complain("unknown command \"%s %s\"; did you mean \"%s\"?", argv[0],
		    argv[1], nearest);
	else
		ctl_complain("%s: %s subcommand: use %s", argv[0], argc > 1 ? "unknown" : "missing",
		    list);
}

/* The command that had this word in the previews, or COMMAND_COUNT; of a program that has it
 * now that is said. */
static enum command find_renamed(const char *word, bool *is_moved) {
	static const struct {
		const char *word;
		enum command command;
		const char *program;
	} renamed[] = {
#define RENAMED_COMMAND(symbol, word) { word, COMMAND_##symbol, NULL },
#define MOVED_COMMAND(word, program) { word, COMMAND_COUNT, program },
#include "defs/renamed.def"
	};

	for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++) {
		if (strcmp(renamed[i].word, word) != 0)
			continue;
		*is_moved = renamed[i].program != NULL;
		if (*is_moved)
			ctl_complain("\"%s\" is a program of its own: use %s", word,
			    renamed[i].program);
		else
			ctl_complain("\"%s\" is the new name of \"%s\"",
			    commands[renamed[i].command].words, word);
		return renamed[i].command;
	}
	return COMMAND_COUNT;
}

/* Finds the command and steps over its words, or COMMAND_COUNT.  *family: only the first of its
 * two words was given, with --help. */
static enum command find_command(int argc, char **argv, int *used, bool *family) {
	char given[GIVEN_MAX];
	unsigned command = argc > 1 ? find_exact(command_given(argc, argv, given)) : COMMAND_COUNT;
	bool is_moved = false;

	*used = 2;
	if (command != COMMAND_COUNT)
		return (enum command)command;
	*used = 1;
	if (strchr(argv[0], ' ') == NULL)
		command = find_exact(argv[0]);
	if (command == COMMAND_COUNT)
		command = find_renamed(argv[0], &is_moved);
	if (command != COMMAND_COUNT || is_moved)
		return (enum command)command;
	for (command = 0; command < COMMAND_COUNT && !begins_with((enum command)command, argv[0]);)
		command++;
	*family = command != COMMAND_COUNT && argc > 1 &&
	    (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
	if (*family)
		return (enum command)command;
	if (command != COMMAND_COUNT)
		complain_unfinished(argc, argv);
	else
		complain_unknown(argc, argv);
	return COMMAND_COUNT;
}

/* What a row's argument column asks for. */
static void count_arguments(const char *syntax, size_t *least, size_t *most) {
	*least = *most = 0;
	while (*syntax != '\0') {
		if (*syntax == '[') {
			if (syntax[1] != '-')
				(*most)++;
			syntax += strcspn(syntax, "]");
			syntax += *syntax == ']';
		} else {
			size_t length = strcspn(syntax, " ");

			(*least)++;
			*most = length > 3 && memcmp(syntax + length - 3, "...", 3) == 0 ?
			    SIZE_MAX : *most + 1;
			syntax += length;
		}
		syntax += strspn(syntax, " ");
	}
}

static bool fits(const struct parse *parse, enum command command, int argc, char **argv) {
	const char *syntax = commands[command].arguments;
	size_t least, most, count = (size_t)argc;

	for (size_t i = 0; i < parse->own_count; i++) {
		const char *at = strstr(syntax, parse->own[i]);

		if (at == NULL || strchr(" ]", at[strlen(parse->own[i])]) == NULL) {
			ctl_usage(command, "%s: not an option of %s", parse->own[i],
			    commands[command].words);
			return false;
		}
	}
	count_arguments(syntax, &least, &most);
	if (count < least || count > most) {
		if (count > most)
			ctl_usage(command, "%s: unexpected argument \"%s\"",
			    commands[command].words, argv[most]);
		else
			ctl_usage(command, "%s: missing arguments: %s",
			    commands[command].words, syntax);
		return false;
	}
	return true;
}

/* "help" and the words of a command: as --help behind them. */
static enum request parse_help(int argc, char **argv, enum command *command) {
	static char option[] = "--help";
	char *words[] = { argc > 1 ? argv[1] : option, argc > 2 ? argv[2] : option, option };
	int count = argc > 2 ? 3 : argc, used = 0;
	bool family = false;

	if (argc == 1)
		return REQUEST_HELP;
	*command = find_command(count, words, &used, &family);
	if (*command == COMMAND_COUNT)
		return REQUEST_WRONG;
	if (used < argc - 1) {
		ctl_complain("help: unexpected argument \"%s\"", argv[1 + used]);
		return try_help(*command);
	}
	return family ? REQUEST_HELP_FAMILY : REQUEST_HELP;
}

enum request arguments_parse(int argc, char **argv, struct ctl *ctl, bool *json,
    enum command *command) {
	static char name[] = "posternctl";	/* in getopt's complaints */
	struct parse parse = { .ctl = ctl, .json = json };
	bool family = false;
	int used = 0;

	*command = COMMAND_COUNT;
	optind = 0;	/* glibc: begin anew */
	parse_options(&parse, argc, argv, true);
	if (parse.wrong || parse.help || parse.version)
		return parse.wrong ? try_help(*command) :
		    parse.help ? REQUEST_HELP : REQUEST_VERSION;
	if (optind == argc) {
		arguments_help(stderr, COMMAND_COUNT);
		return REQUEST_WRONG;
	}
	if (strcmp(argv[optind], "help") == 0)
		return parse_help(argc - optind, argv + optind, command);
	*command = find_command(argc - optind, argv + optind, &used, &family);
	if (*command == COMMAND_COUNT)
		return REQUEST_WRONG;
	if (family)
		return REQUEST_HELP_FAMILY;
	/* getopt takes up where the command's words end, as if they were argv[0] */
	argc -= optind + used - 1;
	argv += optind + used - 1;
	argv[0] = name;
	optind = 0;
	parse_options(&parse, argc, argv, false);
	if (parse.wrong || parse.help || parse.version)
		return parse.wrong ? try_help(*command) :
		    parse.help ? REQUEST_HELP : REQUEST_VERSION;
	argc -= optind;
	argv += optind;
	if (!fits(&parse, *command, argc, argv))
		return REQUEST_WRONG;
	ctl->words = argv;
	ctl->word_count = (size_t)argc;
	for (int i = 0; i < argc && i < CTL_ARGUMENTS_MAX; i++)
		ctl->arguments[ctl->argument_count++] = argv[i];
	return REQUEST_RUN;
}
