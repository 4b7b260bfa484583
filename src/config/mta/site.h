/* SPDX-License-Identifier: ISC */
/* The site's file (config/generation/site_file.h) of a mail server, or of its transport. */
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
