/* SPDX-License-Identifier: ISC */
/*
 * The key that the ruleset queuegroup of conf/sendmail-queue.mc looks up, sans I/O:
 *
 *	group;n=GROUPS;i=QUEUE-ID;h=DOMAIN	of a recipient that is being accepted
 *
 * n: how many groups there are besides the one that is usual.  h= goes to the end of the
 * key: strangers fill it.
 */
#ifndef WIRE_GROUP_KEY_H
#define WIRE_GROUP_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ask/map_field.h"

#define GROUP_KEY_GROUPS_MAX 255u	/* more count as so many */

struct group_key {
	uint32_t groups;		/* 0: none, or no number */
	struct span queue_id;
	struct span domain;		/* without a dot at its end */
};

/* False: it does not begin with this word. */
bool group_key_parse(const char *key, size_t length, struct group_key *out);

#endif
