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
#ifndef CONFIG_SITE_H
#define CONFIG_SITE_H

#include <stdbool.h>
#include <stddef.h>

#include "config/read/compilation.h"

/* Puts the facts of `text` (`length` bytes) into *mta and the block, whose texts and
 * indexes it adds to.  Mistakes are notes of file `name`, sorted at line `order`
 * of the configuration; then *mta stays as it was. */
void site_read_text(struct compilation *c, const char *text, size_t length,
    const char *name, unsigned order, struct generation_mta *mta);

/* The same for the row of a transport, which is a copy of its mail server's: what the file says
 * of it, of which only mistakes in that part are notes.  Where the file does not know the
 * transport, that is one. */
void site_begin_transport(struct compilation *c, const config_setting_t *where,
    struct generation_mta *row);

/* The same with the file mta->site; one that is not there or cannot be read is a
 * note, too. */
void site_read_file(struct compilation *c, const config_setting_t *where,
    struct generation_mta *mta);

#endif
