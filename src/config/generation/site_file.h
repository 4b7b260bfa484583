/* SPDX-License-Identifier: ISC */
/*
 * The site's file of one Postfix: what posternctl postfix-lanes read from its
 * settings, one fact a line:
 *
 *	postern-site 1			the first line
 *	mta NAME			must be the name of the mta
 *	made TIME
 *	clone-program SYSLOG/PROGRAM	deliveries of the cloned transport in the log
 *	clone-limit N			that it runs at once to one next hop; 0: any number
 *	clone-cohorts N			failed pseudo-cohorts, in thousandths, after which Postfix
 *					suspends one of its lanes; 0: never; without it 1000
 *	clone-backoff N			and for so many seconds; without it 300
 *	lane N				the lane of this concurrency stands in master.cf
 *	route MASK NEXTHOP		the site names the next hop for these, the first one that
 *					matches counts; spelled as there
 *	relayhost HOST			as Postfix's setting: "[host]:port", "host"; none: no line
 *	refuse REASON			no destination gets a hint; the first one counts
 *	exclude MASK [REASON]		these get none
 *	by-setup		postern-postfix-setup put the lines into master.cf
 *	probes N			so wide is the lane of address verification probes
 *	no-probes REASON		why they have none
 *	source TRANSPORT	a transport of sources that are warmed up
 *	watch STAMP PATH		a file that the settings were read of
 *	only-listed			those of `list` alone can have one
 *	list MASK
 *
 *	transport NAME			what follows is of this transport, of mta[].transports[],
 *					alone: clone-..., lane, route, exclude, refuse as above, and
 *	own MASK			mail for these goes by it to the domain's mail exchangers
 *
 * Mail for what no route and no own of a transport matches does not go by it.
 * Blank lines and lines that begin with # are passed over.  Text from outside,
 * though root wrote it: it is taken whole, or, where anything in it is wrong, not
 * at all.
 */
#ifndef CONFIG_SITE_FILE_H
#define CONFIG_SITE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/generation/generation.h"
#include "policy/reply/delivery.h"

#define SITE_FILE_BYTES_MAX	((size_t)64 << 20)
#define SITE_PARTS_MAX		GENERATION_MTAS_MAX

/* Masks of one kind of line, and what stands behind each. */
struct site_masks {
	struct class_rule *masks;
	struct span *texts;
	uint32_t count;
	size_t mask_room, text_room;
};

/* What is told of one transport. */
struct site_part {
	struct span transport;		/* empty: that which the mta clones, the first part */
	struct span clone_program;
	struct span refusal;
	unsigned refusal_line;
	struct site_masks excluded, routes;
	uint16_t lanes[GENERATION_LANES_MAX];
	uint32_t lane_count;
	uint32_t limit, cohorts, backoff_s;
};

struct site_file {
	/* The caller's: the name that it must have, and who hears of mistakes. */
	const char *mta;
	void (*mistake)(void *context, unsigned line, const char *what, struct span where);
	void *context;

	/* Spans point into the text. */
	struct site_part parts[SITE_PARTS_MAX];
	uint32_t part_count;
	struct site_masks listed;
	struct site_masks watches;	/* "STAMP PATH"; of masks it has none */
	struct site_masks sources;	/* nor these */
	struct span relayhost;
	struct span no_probes;
	uint32_t probes;
	bool named, only_listed, by_setup;
	unsigned line;
	unsigned mistakes;		/* it stops at SITE_MISTAKES_MAX */
	bool no_memory;
};
#define SITE_MISTAKES_MAX	20

/* Reads all of it.  False: there are mistakes, or no memory.  site_file_free in both cases. */
bool site_file_read(struct site_file *file, const char *text, size_t length);
void site_file_free(struct site_file *file);

/* The part of this transport, or NULL. */
const struct site_part *site_file_part(const struct site_file *file, const char *transport);

struct block;
/* The offset of a text in the block. */
uint32_t site_text_store(struct block *block, struct span text);
/* Puts what the file says of a mail server, whose lanes are known, into *mta and the block; or of
 * one of its transports. */
void site_file_store(struct block *block, const struct site_file *file,
    struct generation_mta *mta);
void site_part_store(struct block *block, const struct site_file *file,
    const struct site_part *part, struct generation_mta *mta);

/* The next word of *rest, which goes on behind the blanks after it. */
struct span site_word(struct span *rest);

#endif
