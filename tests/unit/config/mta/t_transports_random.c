/* SPDX-License-Identifier: ISC */
/* Any site's file with several transports: the daemon and postern-lookup, which read it each
 * for itself, send mail for every domain by the same transport to the same next hop; and that
 * is what its lines say, looked at one by one. */
#include "tests/unit/test.h"
#include "config/compile/compile.h"
#include "config/generation/site_routes.h"
#include "tests/unit/random.h"
#include "tests/unit/scratch.h"

#define FILES	150
#define LINES_MAX 12
#define PARTS	3	/* that of the clone, relay, slow */

static const char *const part_names[PARTS] = { "", "relay", "slow" };
static const char *const domains[] = { "a.example", "b.example", "x.a.example", "y.x.a.example",
	"x.b.example", "example" };
#define DOMAINS	(sizeof(domains) / sizeof(domains[0]))

struct line {
	enum { ROUTE, OWN, EXCLUDE } what;
	bool below;			/* "*." before the domain, which is meant, too */
	uint32_t domain;
	uint32_t hop;
};

struct part {
	struct line lines[LINES_MAX];
	unsigned count;
	bool refused;
};

static struct part parts[PARTS];

static void write_site(const char *path) {
	static const char *const words[] = { "route", "own", "exclude" };
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fprintf(file, "postern-site 1\nmta out\nrelayhost [smart]\n");
	for (unsigned i = 0; i < PARTS; i++) {
		if (i > 0)
			fprintf(file, "transport %s\n", part_names[i]);
		fprintf(file, "lane 5\n");
		if (parts[i].refused)
			fprintf(file, "refuse no-service none\n");
		for (unsigned k = 0; k < parts[i].count; k++) {
			const struct line *line = &parts[i].lines[k];

			fprintf(file, "%s %s%s", words[line->what], line->below ? "*." : "",
			    domains[line->domain]);
			if (line->what == ROUTE)
				fprintf(file, " [hop%u]", line->hop);
			fputs("\n", file);
		}
	}
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, 0644), 0);
}

static void make_parts(struct random *random) {
	for (unsigned i = 0; i < PARTS; i++) {
		parts[i].count = random_below(random, LINES_MAX);
		parts[i].refused = i > 0 && random_below(random, 8) == 0;
		for (unsigned k = 0; k < parts[i].count; k++) {
			uint32_t what = random_below(random, 6);

			parts[i].lines[k] = (struct line){
				.what = what == 0 ? EXCLUDE : what < 3 && i > 0 ? OWN : ROUTE,
				.below = random_below(random, 3) == 0,
				.domain = random_below(random, DOMAINS),
				.hop = random_below(random, 4) };
		}
	}
}

static bool means(const struct line *line, const char *domain) {
	const char *mask = domains[line->domain];
	size_t length = strlen(domain), tail = strlen(mask);

	if (strcmp(mask, domain) == 0)
		return true;
	return line->below && length > tail && domain[length - tail - 1] == '.' &&
	    strcmp(domain + length - tail, mask) == 0;
}

/* The first line of that kind that means the domain, or NULL. */
static const struct line *find(const struct part *part, const char *domain, bool excludes) {
	for (unsigned k = 0; k < part->count; k++)
		if ((part->lines[k].what == EXCLUDE) == excludes &&
		    means(&part->lines[k], domain))
			return &part->lines[k];
	return NULL;
}

/* What the lines say: the part, and the next hop; NULL: no lane. */
static unsigned by_lines(const char *domain, char hop[16], bool *none) {
	const struct line *line;
	unsigned part = 0;

	for (unsigned i = PARTS; i-- > 1;)
		if (find(&parts[i], domain, false) != NULL &&
		    find(&parts[i], domain, true) == NULL)
			part = i;
	*none = parts[part].refused || find(&parts[part], domain, true) != NULL;
	line = find(&parts[part], domain, false);
	snprintf(hop, 16, "[smart]");
	if (line != NULL)
		snprintf(hop, 16, "[hop%u]", line->hop);
	if (line != NULL && line->what == OWN)
		hop[0] = '\0';
	return part;
}

static void compare(const struct generation *g, struct site_routes *routes, const char *domain) {
	static const unsigned rows[PARTS] = { 0, 1, 2 };
	size_t length = strlen(domain);
	unsigned row = generation_site_transport(g, 0, domain, length), part;
	const char *found = site_routes_next_hop(routes, domain, length, 5, 1);
	char hop[16];
	bool none;

	part = by_lines(domain, hop, &none);
	assert_int_equal(row, rows[part]);
	assert_string_equal(site_routes_transport(routes, domain, length, 1), part_names[part]);
	assert_string_equal(generation_text(g, g->mtas[row].transport), part_names[part]);
	if (none) {
		assert_null(found);
		assert_true(generation_site_excludes(g, &g->mtas[row], domain, length, NULL) ||
		    g->mtas[row].site_refusal != 0);
		return;
	}
	assert_non_null(found);
	assert_string_equal(found, hop);
	assert_false(generation_site_excludes(g, &g->mtas[row], domain, length, NULL));
	assert_int_equal(g->mtas[row].site_refusal, 0);
	assert_string_equal(generation_site_next_hop(g, &g->mtas[row], domain, length), hop);
	/* what no lane has gets none */
	assert_null(site_routes_next_hop(routes, domain, length, 4, 1));
}

TEST_IN(scratch_open, scratch_close, both_readers_say_what_the_lines_say) {
	struct random random = { random_seed() };
	char text[512], site[96];

	snprintf(site, sizeof(site), "%s/site", scratch);
	snprintf(text, sizeof(text), "version = 1; classes = ();\nmta = ( { name = \"out\"; log = \"\"; site = \"%s\";\n"
	    "  transports = ( { name = \"relay\"; }, { name = \"slow\"; } ); } );\n", site);
	scratch_write("conf", text);
	for (unsigned i = 0; i < FILES; i++) {
		struct config_messages messages;
		struct site_routes *routes = site_routes_open(site, "out");
		struct generation *g;

		make_parts(&random);
		write_site(site);
		g = config_compile(scratch_path("conf"), &messages);
		assert_non_null(g);
		config_messages_free(&messages);
		for (size_t k = 0; k < DOMAINS; k++)
			compare(g, routes, domains[k]);
		free(g);
		site_routes_close(&routes);
	}
}
