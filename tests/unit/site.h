/* SPDX-License-Identifier: ISC */
/* A private segment with a configuration, for tests of the engine. */
#ifndef TESTS_SITE_H
#define TESTS_SITE_H

#include "engine/engine.h"
#include "segment/file/segment.h"

struct site {
	char directory[64];		/* below /dev/shm */
	char configuration[128];
	struct segment *segment;
	struct engine *engine;		/* of a policy role, policy.0 */
	const struct generation *generation;
	struct segment_report report;
	unsigned place;
	uint64_t sessions;		/* state.sessions */
	uint64_t destinations;		/* state.destinations: 256, or as opened */
	uint8_t auto_listener;		/* numbers in the generation: a policy socket, */
	uint8_t lease_listener;		/* one with proof lease, */
	uint8_t milter_listener;	/* a milter socket, */
	uint8_t map_listener;		/* and a socketmap */
};

/* The file of providers of all sites that are opened or reloaded from now on; NULL at
 * first: none. */
extern const char *site_providers;
/* More settings of the policy socket, and of the one with proof lease; "" at first. */
extern const char *site_policy_settings, *site_lease_settings;
/* state.accounts; "64" at first. */
extern const char *site_accounts;
/* What account_overrides' file says, where the configuration names one; then there are no
 * providers.  NULL at first: none. */
extern const char *site_overrides;

/* Makes the directory and opens the site; `classes` is configuration text that
 * follows version, state and listen ("classes = ( ... ); ...").  Ends the test
 * when anything fails. */
void site_open(struct site *site, uint64_t sessions, const char *classes);
/* Its pages are made large, as the keeper does after a start. */
void site_enlarge_pages(const struct site *site);
void site_open_sized(struct site *site, uint64_t sessions, uint64_t destinations,
    const char *classes);

/* Compiles and publishes other classes. */
void site_reload(struct site *site, const char *classes);

/* Forgets the mapping, as a daemon that was killed, and prepares it again with
 * table size `sessions`. */
void site_restart(struct site *site, uint64_t sessions, const char *classes);

/* Unmaps and removes everything. */
void site_close(struct site *site);

/* A question by policy connection from an IPv4 client "192.0.2.1", port, and
 * name (NULL: unknown). */
struct question site_question(const char *client, uint16_t port, const char *name);

/* Opens and returns the verdict; *ref may be NULL. */
enum verdict site_inbound(struct site *site, const char *client, uint16_t port,
    const char *name, struct session_ref *ref);

struct class_record *site_class(const struct site *site, const char *name);

/* Do all counters equal what the slots say? */
bool site_is_consistent(const struct site *site);

#endif
