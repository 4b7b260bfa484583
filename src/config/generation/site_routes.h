/* SPDX-License-Identifier: ISC */
/*
 * What a site's file (config/mta/site.h) says of single domains, read without the daemon: by
 * postern-lookup, that takes next hops and transports from root alone.
 */
#ifndef CONFIG_SITE_ROUTES_H
#define CONFIG_SITE_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SITE_ROUTES_LOOK_NS	(INT64_C(100) * 1000 * 1000)

struct site_routes;

/* Of letters, digits, '.', '-' and '_', and no address?  All else is left alone, whatever
 * the site's file says. */
bool site_is_host_name(const char *name, size_t length);

/* Reads nothing yet.  The file must be root's, or of who we are, and writable for nobody
 * else.  `mta` stays the caller's.  NULL: no memory. */
struct site_routes *site_routes_open(const char *path, const char *mta);
void site_routes_close(struct site_routes **routes);

/* By which further transport of the mta (mta[].transports[]) mail for the domain (lower case)
 * goes; "": by none, or it is not known.  As the next. */
const char *site_routes_transport(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns);

/* The next hop of mail for the domain (lower case), as the site spells it ("": it names
 * none), if its transport has a lane of that width and the site leaves the domain to lanes;
 * else NULL.
 * NULL wherever there is a doubt: no file, another's, mistakes in it, no memory.  A file
 * that was replaced is read again within SITE_ROUTES_LOOK_NS.  Valid until the next call.
 * One thread. */
const char *site_routes_next_hop(struct site_routes *routes, const char *domain,
    size_t length, uint16_t width, int64_t now_ns);
/* The next hop of an address verification probe for the domain (lower case) that the site spells
 * for the cloned transport, as above; NULL: probes have no lane in master.cf, or it names none and
 * they take their lane by the resolver's own settings. */
const char *site_routes_probe_hop(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns);
/* Does it name transports of sources that are warmed up, as it was read last? */
bool site_routes_has_sources(const struct site_routes *routes);
/* The next hop of mail for the domain (lower case) that may go by one of these, as above; NULL: the
 * site does not leave it to them. */
const char *site_routes_source_hop(struct site_routes *routes, const char *domain,
    size_t length, int64_t now_ns);
/* Such a transport; NULL: it names none that `is_it` knows. */
const char *site_routes_source(const struct site_routes *routes,
    bool (*is_it)(const char *transport, uint64_t which), uint64_t which);
/* Could the file be used at the last question? */
bool site_routes_usable(const struct site_routes *routes);

#endif
