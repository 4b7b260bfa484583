/* SPDX-License-Identifier: ISC */
/*
 * The settings of a Postfix instance, as its own postconf(1) tells them.  What
 * master.cf sets for one service is in force there, and main.cf's elsewhere.
 */
#ifndef CTL_POSTFIX_SETTINGS_H
#define CTL_POSTFIX_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/diag.h"
#include "policy/reply/delivery.h"

#define POSTFIX_TRANSPORTS_MAX	8

struct postfix_settings;

/* Runs postconf for a configuration directory; the settings that Postfix has for each
 * transport are asked for these, `count` of POSTFIX_TRANSPORTS_MAX at most.  0, or -1 with
 * *diag; postfix_settings_free it in both cases. */
int postfix_settings_read(struct postfix_settings **settings,
    const char *config_directory, const char *const *transports, unsigned count,
    struct diag *diag);
void postfix_settings_free(struct postfix_settings **settings);

const char *postfix_directory(const struct postfix_settings *settings);

/* The value of a setting of main.cf with all $names in it replaced, or, `raw`, as
 * it stands.  NULL: this Postfix has no such setting, or it was not asked for. */
const char *postfix_main(const struct postfix_settings *settings, const char *name,
    bool raw);

/* The settings that Postfix has for each transport: what follows "TRANSPORT_", and how the
 * default of all is named.  NULL behind the last. */
struct postfix_parameter {
	const char *name, *fallback;
};
extern const struct postfix_parameter postfix_parameters[];

/* What main.cf (or master.cf, for the queue manager) sets for the clone, raw; NULL: it is
 * the default of all transports. */
const char *postfix_transport_value(const struct postfix_settings *settings,
    const char *clone, const struct postfix_parameter *parameter);

/* What master.cf sets for a service of type unix, or NULL. */
const char *postfix_override(const struct postfix_settings *settings,
    const char *service, const char *name, bool raw);

/* The one of both that is in force. */
const char *postfix_value(const struct postfix_settings *settings,
    const char *service, const char *name, bool raw);

/* Every setting that master.cf has for the service, raw, in order. */
void postfix_overrides_each(const struct postfix_settings *settings,
    const char *service,
    void (*each)(void *context, const char *name, const char *value), void *context);

/* The line of a unix service of master.cf on one line, or NULL: there is none. */
const char *postfix_service(const struct postfix_settings *settings,
    const char *service);

/* How many lines master.cf has for it; Postfix goes by the last. */
unsigned postfix_service_count(const struct postfix_settings *settings,
    const char *service);

/* The next word of *list, which moves behind it: those characters part words, but not within { };
 * empty at the end. */
struct span postfix_word(const char **list, const char *between);

/* Word `number` (0: its name, 4: chroot, 7: the program, 8: its first argument) of
 * such a line, copied; words in { } are one.  False: there is none, or it is cut. */
bool postfix_service_word(const char *line, unsigned number, char *out, size_t size);

#endif
