/* SPDX-License-Identifier: ISC */
/*
 * A log that is systemd's journal, as mta[].log names it:
 *
 *	journal:				what came with syslog facility mail
 *	journal:unit=postfix@-.service		what processes of this unit wrote
 *	journal:identifier=sm-mta		what was written under this name
 *	journal:user=vmail			facility mail; this user may write, too
 *	journal:directory=/srv/journal		journal files of this directory alone
 *
 * and several of these behind each other, with commas.  Pure; any thread.
 */
#ifndef BASE_SD_LOG_H
#define BASE_SD_LOG_H

#include <limits.h>
#include <stdbool.h>

#define SD_LOG_GROUP		"systemd-journal"	/* it may read all of the journal */
#define SD_LOG_PERSISTENT	"/var/log/journal"
#define SD_LOG_VOLATILE		"/run/log/journal"
#define SD_LOG_SOCKET		"/run/systemd/journal/socket"	/* journald runs */

/* Each "" where nothing was said. */
struct sd_log {
	char unit[256];
	char identifier[256];
	char user[64];
	char directory[PATH_MAX];
};

/* Is it a journal, and no path? */
bool sd_log_is(const char *text);

/* False with *why (static text): it is a journal that is wrongly named. */
bool sd_log_parse(const char *text, struct sd_log *out, const char **why);

#endif
