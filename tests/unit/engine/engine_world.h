/* SPDX-License-Identifier: ISC */
/*
 * A host in virtual time with MTAs, their clients and our roles, and what the
 * engine makes of it.  Truth is the kernel's table and the processes that live;
 * the engine hears of it as it would: in part, late, or never.
 */
#ifndef TESTS_ENGINE_WORLD_H
#define TESTS_ENGINE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

/* All that follows is of one seed; a wrong admission ends the test at once. */
void world_open(uint64_t seed);
void world_close(void);

/* Something happens. */
void world_step(void);

/* Every role is up again, and dumps and leases have had their turn. */
void world_rest(void);

/* More than an hour goes by at rest. */
void world_wait_for_leases(void);

/* After world_rest: does each live session stand in one slot of the right class,
 * and every counted slot for one of them?  Says on stderr what does not. */
bool world_agrees(void);

void world_end_all(void);
bool world_is_empty(void);

#endif
