/* SPDX-License-Identifier: ISC */
/* The options of a simulation, as text (defs/simulations.def). */
#ifndef CTL_SIMULATE_OPTIONS_H
#define CTL_SIMULATE_OPTIONS_H

#include "ctl/cli/ctl.h"
#include "lab/simulate.h"

void simulate_defaults(struct simulation *simulation);

/* Reads one; false: it is no such value, and *should tells what it should be. */
bool simulate_take(struct simulation *simulation, enum simulation_option option,
    const char *text, const char **should);

#endif
