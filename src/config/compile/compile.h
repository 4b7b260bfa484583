/* SPDX-License-Identifier: ISC */
/*
 * postern.conf to a generation.  libconfig reads the syntax; settings.def says
 * which settings exist, of which type, within which bounds; everything wrong is
 * collected, each with file:line, so that one run shows all mistakes.
 */
#ifndef CONFIG_COMPILE_H
#define CONFIG_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/generation/generation.h"
#include "config/read/report.h"

/* Compiles a file.  Returns the block (free()), with record numbers unset and
 * number 0, or NULL when there is any error (or no memory).  `messages` is
 * filled in both cases; config_messages_free it.  Not thread-safe (libconfig). */
struct generation *config_compile(const char *path,
    struct config_messages *messages);

/* The same in a process that ends with it: what was read is not given back, as with many masks
 * that takes as long as a tenth of the compilation. */
struct generation *config_compile_at_last(const char *path, struct config_messages *messages);

/* Of the block only what says where the daemon's files and sockets are: for who looks for it,
 * as with many classes the rest takes long.  Mistakes elsewhere are not seen. */
struct generation *config_compile_places(const char *path,
    struct config_messages *messages);

/* The same as config_compile from a string, for tests and fuzzing; `name` stands for the
 * file. */
struct generation *config_compile_text(const char *text, const char *name,
    struct config_messages *messages);

/* The same with a file of providers (NULL: none). */
struct generation *config_compile_texts(const char *text, const char *name,
    const char *providers, const char *providers_name, struct config_messages *messages);

/* The same with a file of account_overrides of these bytes, which is named "overrides". */
struct generation *config_compile_accounts(const char *text, const char *name,
    const char *overrides, size_t overrides_length, struct config_messages *messages);

/* The text of a file with its included files in place, whatever is wrong with it
 * (free()); of what cannot be included nothing.  NULL with errno as of read_file. */
char *config_expanded_text(const char *path);

#endif
