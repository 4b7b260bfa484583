/* SPDX-License-Identifier: ISC */
/*
 * The queue directories of mail servers that are driven, opened by root for the queue
 * role, which may read their names alone, and one inotify for them all: the role is told
 * of files that come, change and go without being able to reach one.
 */
#ifndef ROLE_QUEUE_PLACES_H
#define ROLE_QUEUE_PLACES_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "config/generation/generation.h"

#define QUEUE_PLACES_MAX	512	/* of all mail servers */

struct queue_place {
	unsigned mta;		/* of the generation that it was opened for */
	char mta_name[80 + 1];	/* its name there */
	char path[PATH_MAX];	/* the directory that Sendmail knows */
	int fd;			/* where its qf files are: it, or its subdirectory qf */
	int watch;		/* descriptor of inotify; -1: none, it is scanned now and then */
	bool is_local;		/* for local mail alone */
	bool has_namesake;	/* the name of another one beside it begins as its own */
	bool no_room;		/* as it was last looked at: logged once */
	dev_t device;
	ino_t inode;
};

struct queue_places {
	unsigned count;
	int notify_fd;		/* -1: none */
	struct queue_place list[QUEUE_PLACES_MAX];
};

/* Opens all that the generation names (a * stands for subdirectories that begin so) and
 * that are there; what is not is logged.  The role's numbers are places in the list. */
void queue_places_open(struct queue_places *places, const struct generation *generation);
void queue_places_close(struct queue_places *places);

/* Whose directory it is today, or NULL: the mail server of that place has another name by
 * now, or drives it no more.  What the role asks for it is then not its business. */
const struct generation_mta *queue_place_owner(const struct queue_place *place,
    const struct generation *generation);

/* Would queue_places_open find others now? */
bool queue_places_changed(const struct queue_places *places,
    const struct generation *generation);

#endif
