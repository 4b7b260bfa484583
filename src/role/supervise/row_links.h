/* SPDX-License-Identifier: ISC */
/* The supervisor's ends of the links of all optional rows: role/link/row.h, one after the other. */
#ifndef ROLE_ROW_LINKS_H
#define ROLE_ROW_LINKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "role/link/row.h"

struct pollfd;
struct supervisor;

void row_links_init(struct supervisor *supervisor);
void row_links_close(struct supervisor *supervisor);
/* Fills in ROLE_ROWS_MAX of them. */
void row_links_poll(const struct supervisor *supervisor, struct pollfd *polled);
void row_links_turn(struct supervisor *supervisor, int64_t now_ns);
int64_t row_links_next_ns(const struct supervisor *supervisor);
void row_links_reloaded(struct supervisor *supervisor);

#endif
