/* SPDX-License-Identifier: ISC */
/*
 * postern-simulate: one simulation a run.  Each is a row of defs/simulate.def and a function
 * here: it reads its options with lab_parse, writes to lab->writer, complains with lab_complain,
 * and returns an exit code of sysexits(3).
 */
#ifndef LAB_LAB_H
#define LAB_LAB_H

#include "lab/options.h"
#include "view/writer.h"

enum simulation_word {
#define SIMULATION(symbol, word, purpose, text) SIMULATION_##symbol,
#define EXAMPLE(symbol, words, purpose)
#include "defs/simulate.def"
#undef EXAMPLE
#undef SIMULATION
	SIMULATION_COUNT
};

struct lab {
	enum simulation_word simulation;
	int argc;
	char **argv;	/* from the simulation's word on */
	struct writer writer;
};

/* What lab_parse returns when the simulation is to be run. */
#define LAB_RUN	(-1)

/* Reads the options into `values`: LAB_RUN; or an exit code after a complaint, or after the help
 * that was asked for. */
int lab_parse(struct lab *lab, const struct option_table *table, void *values);

/* "postern-simulate: TEXT" on stderr, made printable; the exit code comes back. */
int lab_complain(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Complains about usage: EX_USAGE. */
int lab_usage(const struct lab *lab, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The program. */
int lab_main(int argc, char **argv);

int lab_WINDOW(struct lab *lab);
int lab_PACE(struct lab *lab);
int lab_WARM(struct lab *lab);
int lab_WORKERS(struct lab *lab);
int lab_QUEUE(struct lab *lab);
int lab_SCHEDULE(struct lab *lab);

#endif
