/* SPDX-License-Identifier: ISC */
/*
 * What a Postfix site's own settings leave to hints (DESIGN section 11).  An answer
 * for a full address overrides all that the site says by domain, so a destination
 * that the site says anything about gets none; what cannot be known for certain is
 * taken as said.
 */
#ifndef CTL_POSTFIX_SITE_H
#define CTL_POSTFIX_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "ctl/postfix/postfix_settings.h"

/* The service that resolves addresses for the queue manager once hints are attached. */
#define POSTFIX_RESOLVER	"rewrite-postern"

/* What kind of setting a table or a name stands in. */
struct site_setting {
	const char *name;	/* static text */
	bool routes;		/* transport_maps: keys are addresses, too */
	bool below;		/* entries for "a" hold for "x.a", */
	bool dotted;		/* or those for ".a" do */
	const char *hop;	/* mail for all that it names goes by the transport, by this next hop
				 * ("": the domain's own); or NULL */
};

struct site_entry {
	char *name;		/* "a.example" or "*.a.example"; a table, a file */
	char *next_hop;		/* of a route, spelled as there; of a further transport "": the
				 * domain's own */
	struct site_setting setting;	/* that says something about it */
	uint64_t stamp;		/* of a file (base/file_stamp.h), from before it was read */
};

struct site_list {
	struct site_entry *entries;
	size_t count, room;
};

/* One more of this name; NULL with *diag: no memory. */
struct site_entry *site_add(struct site_list *list, const char *name, struct diag *diag);
void site_list_free(struct site_list *list);

struct postfix_site {
	const struct postfix_settings *settings;
	const char *clone;		/* the transport whose mail may be held */
	bool is_further;		/* one of mta[].transports[]: its mail is what the site names it for */
	char resolver[64];		/* the service that the queue manager asks */
	char program[128];		/* how the log names the clone's deliveries */
	/* Why there can be no hints at all: a word for ever, and words for people.
	 * "": there can. */
	char refusal[32];
	char refusal_text[256];
	char relayhost[256];		/* as it is in force, or "" */
	struct site_list exclusions;
	struct site_list routes;	/* the site names the next hop; those that count more first */
	struct site_list tables;	/* that can only be asked */
	struct site_list watches;	/* files that the settings were read of */
	struct site_list listed;	/* destinations that all tables were asked about */
};

/* Reads it.  Of a transport of mta[].transports[] (is_further) `routes` are the domains that the
 * site sends by it.  -1 with *diag: no memory, or a tool of Postfix cannot be run.  What the
 * site's settings are to blame for is a refusal.  postfix_site_free it in both cases. */
int postfix_site_read(struct postfix_site *site, const struct postfix_settings *settings,
    const char *clone, bool is_further, struct diag *diag);

/* Asks the tables that can only be asked about these destinations; those are then
 * `listed`.  As postfix_site_read. */
int postfix_site_ask(struct postfix_site *site, const struct site_list *destinations,
    struct diag *diag);
void postfix_site_free(struct postfix_site *site);

/* Notes a file, with its stamp; what cannot stand in the site's file is a refusal.  As
 * postfix_site_read. */
int postfix_site_watch(struct postfix_site *site, const char *path, uint64_t stamp,
    struct diag *diag);

/* --- for postfix_site.c and postfix_tables.c only --------------------------- */

/* Only the first refusal counts. */
void site_refuse(struct postfix_site *site, const char *word,
    const char *format, ...) __attribute__((format(printf, 3, 4)));

/* An entry of the setting, or a key of one of its tables (then `value`, else NULL, is
 * what the table has for it): excludes what it speaks of, or notes the next hop. */
int site_exclude(struct postfix_site *site, const struct site_setting *setting,
    const char *key, size_t length, const char *value, struct diag *diag);

/* Brings the routes into their order; when all entries are known. */
int site_sort_routes(struct postfix_site *site, struct diag *diag);

/* A table "type:name" of the setting: lists it, or notes that it is to be asked. */
int site_table(struct postfix_site *site, const struct site_setting *setting,
    const char *table, struct diag *diag);

#endif
