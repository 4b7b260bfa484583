/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  postern-simulate(1): its command line, help and complaints.
 * MODEL    Simulations, examples and options are those of defs/simulate*.def.
 * ERRORS   One line on stderr and an exit code of sysexits(3).
 * THREADS  One (getopt).
 */
#include "lab/lab.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "view/help.h"

#define ROWS_MAX	40	/* options of a simulation */

enum { LONG_JSON = 256, LONG_ROWS };

static const struct {
	const char *word, *purpose, *text;
	int (*run)(struct lab *lab);
} simulations[SIMULATION_COUNT] = {
#define SIMULATION(symbol, word, purpose, text) { word, purpose, text, lab_##symbol },
#define EXAMPLE(symbol, words, purpose)
#include "defs/simulate.def"
#undef EXAMPLE
#undef SIMULATION
};

static const struct {
	enum simulation_word simulation;
	const char *words, *purpose;
} examples[] = {
#define SIMULATION(symbol, word, purpose, text)
#define EXAMPLE(symbol, words, purpose) { SIMULATION_##symbol, words, purpose },
#include "defs/simulate.def"
#undef EXAMPLE
#undef SIMULATION
};

/* --- complaints -------------------------------------------------------------------------- */

static void write_complaint(const char *format, va_list arguments)
    __attribute__((format(printf, 1, 0)));

static void write_complaint(const char *format, va_list arguments) {
	char text[1024];

	vsnprintf(text, sizeof(text), format, arguments);
	fputs("postern-simulate: ", stderr);
	writer_print(stderr, text);
	putc('\n', stderr);
}

int lab_complain(int code, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	write_complaint(format, arguments);
	va_end(arguments);
	return code;
}

int lab_usage(const struct lab *lab, const char *format, ...) {
	bool has_word = lab->simulation < SIMULATION_COUNT;
	va_list arguments;

	va_start(arguments, format);
	write_complaint(format, arguments);
	va_end(arguments);
	fprintf(stderr, "Try: postern-simulate %s%s--help\n",
	    has_word ? simulations[lab->simulation].word : "", has_word ? " " : "");
	return EX_USAGE;
}

#ifndef WITH_PACE
int lab_PACE(struct lab *lab) {
	(void)lab;
	return lab_complain(EX_UNAVAILABLE, "pace: built without paces");
}
#endif

#ifndef WITH_QUEUE
int lab_QUEUE(struct lab *lab) {
	(void)lab;
	return lab_complain(EX_UNAVAILABLE, "queue: built without the managed queue");
}
#endif

/* --- help -------------------------------------------------------------------------------- */

static void help_all(FILE *out) {
	fputs("Usage: postern-simulate [--json] SIMULATION [OPTION VALUE]... | SIMULATION --help\n"
	      "Simulate in virtual time:\n", out);
	for (unsigned i = 0; i < SIMULATION_COUNT; i++)
		fprintf(out, "  %-9s %s\n", simulations[i].word, simulations[i].purpose);
	fputs("--json: JSON output; -V: version\n", out);
}

static void help_simulation(FILE *out, enum simulation_word simulation,
    const struct option_table *table) {
	fprintf(out, "Usage: postern-simulate [--json] %s [OPTION VALUE]...\n\n",
	    simulations[simulation].word);
	help_fold(out, 0, simulations[simulation].text, ".");
	fputs("\nOptions (defaults in parentheses):\n", out);
	for (size_t i = 0; i < table->count; i++)
		help_option(out, table->rows[i].name, table->rows[i].argument,
		    table->rows[i].text);
	fputs("\nExamples:\n", out);
	for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++)
		if (examples[i].simulation == simulation)
			help_example(out, "postern-simulate", examples[i].words,
			    examples[i].purpose);
}

/* --- options ----------------------------------------------------------------------------- */

static void list_options(const struct option_table *table, struct option *options) {
	static const struct option general[] = {
		{ "json", no_argument, NULL, LONG_JSON },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
	};
	size_t count = sizeof(general) / sizeof(general[0]);

	memcpy(options, general, sizeof(general));
	for (size_t i = 0; i < table->count && i < ROWS_MAX; i++)
		options[count++] = (struct option){ table->rows[i].name + 2,
			table->rows[i].kind == OPTION_FLAG ? no_argument : required_argument,
			NULL, LONG_ROWS + (int)i };
	options[count] = (struct option){ NULL, 0, NULL, 0 };
}

static int complain_option(const struct lab *lab, const struct option *options, int found) {
	const char *word = lab->argv[optind - 1];
	size_t length = strcspn(word, "=");
	bool begins = false;

	for (; options->name != NULL && length > 2; options++)
		begins |= strncmp(options->name, word + 2, length - 2) == 0;
	return lab_usage(lab, found == ':' ? "option %.*s needs a value" : optopt >= LONG_JSON ?
	    "option %.*s takes no value" : begins ? "option %.*s is ambiguous" :
	    "unknown option %.*s", (int)length, word);
}

/* LAB_RUN at the first word that is no option. */
static int parse_options(struct lab *lab, const struct option_table *table, void *values) {
	struct option options[ROWS_MAX + 4];
	char should[OPTION_SHOULD_BYTES];
	int found;

	list_options(table, options);
	opterr = 0;
	optind = 0;	/* glibc: begin again */
	while ((found = getopt_long(lab->argc, lab->argv, "+:hV", options, NULL)) != -1) {
		const struct option_row *row;

		switch (found) {
		case LONG_JSON:
			lab->writer.json = true;
			break;
		case 'h':
			if (lab->simulation < SIMULATION_COUNT)
				help_simulation(lab->writer.out, lab->simulation, table);
			else
				help_all(lab->writer.out);
			return EX_OK;
		case 'V':
			fputs("postern-simulate " PACKAGE_VERSION "\n", lab->writer.out);
			return EX_OK;
		case '?': case ':':
			return complain_option(lab, options, found);
		default:
			row = &table->rows[found - LONG_ROWS];
			if (!option_parse(row, optarg, values, should))
				return lab_usage(lab, "%s: \"%s\" is not %s", row->name, optarg,
				    should);
		}
	}
	return LAB_RUN;
}

int lab_parse(struct lab *lab, const struct option_table *table, void *values) {
	int code = parse_options(lab, table, values);

	if (code == LAB_RUN && optind < lab->argc)
		return lab_usage(lab, "%s: unexpected argument \"%s\"", lab->argv[0],
		    lab->argv[optind]);
	return code;
}

/* --- the program ------------------------------------------------------------------------- */

static int run_simulation(struct lab *lab) {
	static const struct option_table none = { NULL, 0 };
	int code = parse_options(lab, &none, NULL);

	if (code != LAB_RUN)
		return code;
	if (optind == lab->argc) {
		help_all(stderr);
		return EX_USAGE;
	}
	lab->argc -= optind;
	lab->argv += optind;
	for (unsigned i = 0; i < SIMULATION_COUNT; i++)
		if (strcmp(lab->argv[0], simulations[i].word) == 0) {
			lab->simulation = (enum simulation_word)i;
			return simulations[i].run(lab);
		}
	return lab_usage(lab, "unknown simulation \"%s\"", lab->argv[0]);
}

int lab_main(int argc, char **argv) {
	struct lab lab = { .simulation = SIMULATION_COUNT, .argc = argc, .argv = argv };
	int code;

	writer_init(&lab.writer, stdout, false);
	code = run_simulation(&lab);
	if (!writer_finish(&lab.writer))
		return lab_complain(EX_IOERR, "cannot write the output: %s", strerror(errno));
	return code;
}
