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

struct site_exclusion {
	char *mask;		/* "a.example" or "*.a.example" */
	const char *setting;	/* that says something about it: static text */
};

/* The site names the next hop of the cloned transport itself. */
struct site_route {
	char *mask;		/* "a.example", or "*.a.example" for all below a.example */
	char *next_hop;		/* spelled as there; of a further transport "": the domain's own */
};

/* A table that can only be asked. */
struct site_table {
	char *name;		/* "ldap:/etc/postfix/transport" */
	const char *setting;
	bool below;		/* entries for "a" hold for "x.a", */
	bool dotted;		/* or those for ".a" do */
	const char *hop;	/* as in site_setting */
};

/* A file that the site's settings were read of. */
struct site_watch {
	char *path;
	uint64_t stamp;		/* base/file_stamp.h, from before it was read */
};

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
	struct site_exclusion *exclusions;
	size_t exclusion_count, exclusion_room;
	struct site_route *routes;	/* those that count more come first */
	size_t route_count, route_room;
	struct site_table *tables;
	size_t table_count, table_room;
	char relayhost[256];		/* as it is in force, or "" */
	struct site_watch *watches;
	size_t watch_count, watch_room;
	char **listed;			/* destinations that all tables were asked about */
	size_t listed_count;
};

/* Reads it.  Of a transport of mta[].transports[] (is_further) `routes` are the domains that the
 * site sends by it.  -1 with *diag: no memory, or a tool of Postfix cannot be run.  What the
 * site's settings are to blame for is a refusal.  postfix_site_free it in both cases. */
int postfix_site_read(struct postfix_site *site, const struct postfix_settings *settings,
    const char *clone, bool is_further, struct diag *diag);

/* Asks the tables that can only be asked about these destinations; those are then
 * `listed`.  As postfix_site_read. */
int postfix_site_ask(struct postfix_site *site, char *const *destinations,
    size_t count, struct diag *diag);
void postfix_site_free(struct postfix_site *site);

/* Notes a file, with its stamp; what cannot stand in the site's file is a refusal.  As
 * postfix_site_read. */
int postfix_site_watch(struct postfix_site *site, const char *path, uint64_t stamp,
    struct diag *diag);

/* --- for postfix_site.c and postfix_tables.c only --------------------------- */

/* Only the first refusal counts. */
void site_refuse(struct postfix_site *site, const char *word,
    const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What kind of setting a table or a name stands in. */
struct site_setting {
	const char *name;
	bool routes;		/* transport_maps: keys are addresses, too */
	bool below, dotted;	/* as in site_table */
	const char *hop;	/* mail for all that it names goes by the transport, by this next hop
				 * ("": the domain's own); or NULL */
};

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
