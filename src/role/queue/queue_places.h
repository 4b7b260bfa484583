/* SPDX-License-Identifier: ISC */
/*
 * The queue directories of mail servers that are driven, opened by root for the queue
 * role, which may read their names alone, and one inotify for them all: the role is told
 * of files that come, change and go without being able to reach one.
 */
#ifndef ROLE_QUEUE_PLACES_H
#define ROLE_QUEUE_PLACES_H

#include <stdbool.h>

#include "config/generation/generation.h"
#include "engine/queue/queue.h"

#define QUEUE_PLACES_MAX	512	/* of all mail servers */

struct queue_places {
	unsigned count;
	int notify_fd;		/* -1: none */
	struct queue_directory list[QUEUE_PLACES_MAX];
};

/* Opens all that the generation names (a * stands for subdirectories that begin so) and
 * that are there; what is not is logged.  The role's numbers are places in the list. */
void queue_places_open(struct queue_places *places, const struct generation *generation);
void queue_places_close(struct queue_places *places);

/* Whose directory it is today, or NULL: the mail server of that place has another name by
 * now, or drives it no more.  What the role asks for it is then not its business. */
const struct generation_mta *queue_place_owner(const struct queue_directory *place,
    const struct generation *generation);

/* Would queue_places_open find others now? */
bool queue_places_changed(const struct queue_places *places,
    const struct generation *generation);

#endif
