/* SPDX-License-Identifier: ISC */
/* As much of libevent as the witness uses, in virtual time; a process is its own event base. */
#ifndef TESTS_MACHINE_EVENTS_H
#define TESTS_MACHINE_EVENTS_H

#include <stdint.h>

struct event_base;

struct event_base *events_new(void);
/* When the next timer is due; INT64_MAX: none is. */
int64_t events_next_ns(const struct event_base *base);
void events_fire_timers(struct event_base *base);
/* Those that wait for this descriptor. */
void events_fire_readable(struct event_base *base, int fd);

#endif
