/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Writes the lines that attach hints to the queue manager alone.
 * MODEL    The queue manager's own line with another resolver; that resolver as the
 *          site's own, whose transport_maps end with our map; the map's program behind
 *          spawn(8).  The site's values are written as they stand, $names and all.
 *          Probes of addresses (verify(8)) go through the same resolver: their maps
 *          stay the site's, and end with one of ours for probes, by which smtpd hears of
 *          a site that is suspended, but of no lane.
 * ERRORS   None; fprintf's are the caller's.
 * THREADS  One.
 */
#include "ctl/postfix/postfix_lines.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ctl/postfix/postfix_clones.h"
#include "ctl/postfix/postfix_probes.h"

#define MAPS		"transport_maps"
#define PROBE_MAPS	"address_verify_transport_maps"
#define OUR_MAP		"socketmap:unix:private/" POSTFIX_HINT_SERVICE ":transport"
#define OUR_PROBE_MAP	"socketmap:unix:private/" POSTFIX_HINT_SERVICE ":probe"
#define VALUE_MAX	16384

static const char *maps_of(const struct postfix_site *site) {
	const char *maps = postfix_value(site->settings, site->resolver, MAPS, true);

	return maps == NULL ? "" : maps;
}

/* The site's maps of probes, in which "$transport_maps" would be ours; then perhaps ours. */
static void probe_maps(const struct postfix_site *site, bool with_ours, char out[VALUE_MAX]) {
	static const char *const forms[] = { "$" MAPS, "${" MAPS "}", "$(" MAPS ")" };
	const char *value = postfix_value(site->settings, site->resolver, PROBE_MAPS,
	    true);
	size_t length = 0;

	out[0] = '\0';
	while (value != NULL && *value != '\0') {
		size_t form = 0;

		for (size_t i = 0; i < 3 && form == 0; i++)
			if (strncmp(value, forms[i], strlen(forms[i])) == 0)
				form = strlen(forms[i]);
		length = text_append(out, VALUE_MAX, length, "%.*s", form > 0 ? 0 : 1, value);
		if (form > 0)
			length = text_append(out, VALUE_MAX, length, "%s", maps_of(site));
		value += form > 0 ? form : 1;
	}
	if (with_ours)
		(void)text_append(out, VALUE_MAX, length, "%s" OUR_PROBE_MAP,
		    length == 0 ? "" : ", ");
}

struct copying {
	FILE *out;
	const char *const *but;		/* NULL-terminated */
	const struct postfix_use *use;	/* or NULL: settings of its lanes neither */
	const struct postfix_site *probes;	/* or NULL: nor what their lanes set */
};

static void copy_option(void *context, const char *name, const char *value) {
	const struct copying *copying = context;

	for (const char *const *but = copying->but; *but != NULL; but++)
		if (strcmp(*but, name) == 0)
			return;
	for (unsigned i = 0; copying->use != NULL && i < copying->use->lane_groups; i++)
		if (postfix_lanes_have(copying->use->lanes[i], name))
			return;
	if (postfix_probes_has(name) ||
	    (copying->probes != NULL && postfix_probes_sets(copying->probes, name)))
		return;
	postfix_clone_write_option(copying->out, name, value == NULL ? "" : value);
}

static void write_lanes(FILE *out, const struct postfix_lanes *lanes,
    void (*write)(FILE *out, const struct postfix_clone *clone)) {
	struct postfix_clone lane;

	for (uint32_t i = 0; i < lanes->count; i++) {
		postfix_lane(lanes, i, &lane);
		write(out, &lane);
	}
}

void postfix_lines_write(FILE *out, const struct postfix_site *site,
    const struct postfix_use *use) {
	static const char *const of_qmgr[] = { "rewrite_service_name", NULL };
	static const char *const of_resolver[] = { MAPS, PROBE_MAPS, NULL };
	const char *maps = maps_of(site);
	char probes[VALUE_MAX];

	fprintf(out, "# Postern's routing hints for mta %s, for the queue manager only, "
	    "written by\n# posternctl postfix-lanes.  They replace the qmgr line and earlier "
	    "lines of\n# Postern.  Run the command again after postfix reload, and when "
	    "main.cf,\n# master.cf or one of their tables changes.\n", use->mta);
	postfix_service_write(out, postfix_service(site->settings, "qmgr"), "qmgr", "");
	postfix_overrides_each(site->settings, "qmgr", copy_option,
	    &(struct copying){ out, of_qmgr, use, NULL });
	postfix_clone_write_option(out, "rewrite_service_name", POSTFIX_RESOLVER);
	for (unsigned i = 0; i < use->lane_groups; i++)
		write_lanes(out, use->lanes[i], postfix_clone_write_options);
	if (use->probes != NULL)
		postfix_probes_write_options(out, use->probes);
	postfix_service_write(out, postfix_service(site->settings, site->resolver),
	    POSTFIX_RESOLVER, "");
	postfix_overrides_each(site->settings, site->resolver, copy_option,
	    &(struct copying){ out, of_resolver, NULL, use->probes == NULL ? NULL : site });
	fprintf(out, "  -o { " MAPS " = %s%s" OUR_MAP " }\n", maps,
	    maps[0] == '\0' ? "" : ", ");
	probe_maps(site, use->probes != NULL, probes);
	postfix_clone_write_option(out, PROBE_MAPS, probes);
	if (use->probes != NULL)
		postfix_probes_write_resolver(out, use->probes);
	fprintf(out, POSTFIX_HINT_SERVICE " unix - n n - 0 spawn\n"
	    "  -o " POSTFIX_HINT_SERVICE "_time_limit=3600s\n"
	    "  user=nobody%s%s argv=" POSTERN_SBINDIR "/postern-lookup %s %s %s\n",
	    use->group[0] == '\0' ? "" : ":", use->group, use->hints, use->mta, use->site);
	for (unsigned i = 0; i < use->lane_groups; i++)
		write_lanes(out, use->lanes[i], postfix_clone_write_service);
	if (use->probes != NULL)
		postfix_probes_write_services(out, use->probes);
}

/* Equal but for blanks and commas? */
static bool is_same_list(const char *a, const char *b) {
	static const char parts[] = ", \t";

	for (;;) {
		a += strspn(a, parts);
		b += strspn(b, parts);
		if (*a == '\0' || *a != *b)
			return *a == *b;
		while (*a == *b && *a != '\0' && strchr(parts, *a) == NULL) {
			a++;
			b++;
		}
		if ((*a != '\0' && strchr(parts, *a) == NULL) ||
		    (*b != '\0' && strchr(parts, *b) == NULL))
			return false;
	}
}

enum attachment postfix_attachment(const struct postfix_site *site) {
	const char *resolver = postfix_override(site->settings, "qmgr",
	    "rewrite_service_name", true);
	const char *maps = postfix_override(site->settings, POSTFIX_RESOLVER, MAPS, true);
	char wanted[VALUE_MAX] = "";

	if (resolver == NULL || strcmp(resolver, POSTFIX_RESOLVER) != 0)
		return ATTACHED_NO;
	text_append(wanted, sizeof(wanted), 0, "%s, " OUR_MAP, maps_of(site));
	return maps != NULL && is_same_list(maps, wanted) ? ATTACHED_YES :
	    ATTACHED_OUTDATED;
}

bool postfix_lines_ask_for_probes(const struct postfix_site *site) {
	const char *maps = postfix_override(site->settings, POSTFIX_RESOLVER, PROBE_MAPS, true);
	char wanted[VALUE_MAX];

	probe_maps(site, true, wanted);
	return maps != NULL && is_same_list(maps, wanted);
}
