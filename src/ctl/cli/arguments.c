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

/* How many of argv's words are the command's words (all of them, or 0); when
 * argv ends too early, *partial. */
static int match_words(const char *words, int argc, char **argv, bool *partial) {
	int matched = 0;

	while (*words != '\0') {
		size_t length = strcspn(words, " ");

		if (matched == argc) {
			*partial = matched > 0;
			return 0;
		}
		if (strlen(argv[matched]) != length ||
		    memcmp(argv[matched], words, length) != 0) {
			*partial = matched > 0;
			return 0;
		}
		matched++;
		words += length;
		words += strspn(words, " ");
	}
	return matched;
}

/* The program that has this command now, or NULL. */
static const char *find_moved(const char *word) {
	static const struct {
		const char *word, *program;
	} moved[] = {
#define RENAMED_SETTING(path, old_name)
#define RENAMED_COMMAND(symbol, word)
#define MOVED_COMMAND(word, program) { word, program },
#include "defs/renamed.def"
#undef MOVED_COMMAND
#undef RENAMED_COMMAND
#undef RENAMED_SETTING
	};

	for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++)
		if (strcmp(moved[i].word, word) == 0)
			return moved[i].program;
	return NULL;
}

static void complain_unknown(int argc, char **argv) {
	const char *moved = find_moved(argv[0]);
	unsigned best = UINT32_MAX;
	const char *nearest = NULL;
	char given[64];

	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		bool two = strchr(commands[i].words, ' ') != NULL && argc > 1;
		unsigned d;

		given[0] = '\0';
		text_append(given, sizeof(given), 0, "%s%s%s", argv[0], two ? " " : "",
		    two ? argv[1] : "");
		d = text_distance(given, commands[i].words);
		if (d < best && d <= (strlen(given) + 1) / 3) {
			best = d;
			nearest = commands[i].words;
		}
	}
	if (moved != NULL)
		ctl_complain("\"%s\" is a program of its own: use %s", argv[0], moved);
	else if (nearest != NULL)
		ctl_complain("unknown command \"%s\"; did you mean \"%s\"?", argv[0], nearest);
	else
		ctl_complain("unknown command \"%s\"; see posternctl --help",
		    argv[0]);
}

static bool asks_for_help(const char *word) {
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Lists every command that begins so, or names the one that was meant. */
static void complain_unfinished(int argc, char **argv) {
	size_t first = strlen(argv[0]);
	const char *nearest = NULL;
	char list[256] = "";
	size_t length = 0;

	for (unsigned i = 0; i < COMMAND_COUNT; i++) {
		bool partial = false;

		(void)match_words(commands[i].words, argc, argv, &partial);
		if (!partial)
			continue;
		length = text_append(list, sizeof(list), length, "%s\"%s\"",
		    length > 0 ? " or " : "", commands[i].words);
		if (argc > 1 && text_distance(argv[1], commands[i].words + first + 1) <=
		    (strlen(argv[1]) + 1) / 3)
			nearest = commands[i].words;
	}
	if (nearest != NULL)
		ctl_complain("unknown command \"%s %s\"; did you mean \"%s\"?", argv[0],
		    argv[1], nearest);
	else
		ctl_complain("%s: missing subcommand: use %s", argv[0], list);
}

/* The command that had this word in the previews, or COMMAND_COUNT. */
static enum command find_renamed(const char *word) {
	static const struct {
		enum command command;
		const char *word;
	} renamed[] = {
#define RENAMED_SETTING(path, old_name)
#define RENAMED_COMMAND(symbol, word) { COMMAND_##symbol, word },
#define MOVED_COMMAND(word, program)
#include "defs/renamed.def"
#undef MOVED_COMMAND
#undef RENAMED_COMMAND
#undef RENAMED_SETTING
	};

	for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++)
		if (strcmp(renamed[i].word, word) == 0) {
			ctl_complain("\"%s\" is the new name of \"%s\"",
			    commands[renamed[i].command].words, word);
			return renamed[i].command;
		}
	return COMMAND_COUNT;
}

/* Was only the first of its two words given? */
static bool is_unfinished(enum command command, const char *word, int used) {
	const char *words = commands[command].words;
	size_t length = strcspn(words, " ");

	return used == 1 && words[length] != '\0' && strlen(word) == length &&
	    memcmp(word, words, length) == 0;
}

/* Finds the command and steps over its words, or COMMAND_COUNT. */
static enum command find_command(int argc, char **argv, int *used) {
	enum command begun = COMMAND_COUNT;

	for (unsigned i = 0; i < COMMAND_COUNT; i++) {
		bool partial = false;

		*used = match_words(commands[i].words, argc, argv, &partial);
		if (*used > 0)
			return (enum command)i;
		if (partial && begun == COMMAND_COUNT)
			begun = (enum command)i;
	}
	if (begun == COMMAND_COUNT) {
		*used = 1;
		begun = find_renamed(argv[0]);
		if (begun != COMMAND_COUNT)
			return begun;
		complain_unknown(argc, argv);
	} else if (argc > 1 && asks_for_help(argv[1])) {
		*used = 1;
		return begun;
	} else {
		complain_unfinished(argc, argv);
	}
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

	if (argc == 1)
		return REQUEST_HELP;
	*command = find_command(count, words, &used);
	if (*command == COMMAND_COUNT)
		return REQUEST_WRONG;
	if (used < argc - 1) {
		ctl_complain("help: unexpected argument \"%s\"", argv[1 + used]);
		return try_help(*command);
	}
	return is_unfinished(*command, words[0], used) ? REQUEST_HELP_FAMILY : REQUEST_HELP;
}

enum request arguments_parse(int argc, char **argv, struct ctl *ctl, bool *json,
    enum command *command) {
	static char name[] = "posternctl";	/* in getopt's complaints */
	struct parse parse = { .ctl = ctl, .json = json };
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
	*command = find_command(argc - optind, argv + optind, &used);
	if (*command == COMMAND_COUNT)
		return REQUEST_WRONG;
	if (is_unfinished(*command, argv[optind], used))
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
