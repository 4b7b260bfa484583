/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A classes list that fits the sessions of a log.
 * MODEL    Domains that have a large part of all sessions at once get a class of
 *          their own, as they would take the places of all others; the rest is one
 *          class, with limits for each client.  Every limit is twice what was seen:
 *          tomorrow is not like yesterday.
 * ERRORS   Names that could be no mask are left to the rest: who has an address may
 *          name it as he likes.
 * THREADS  One.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/text.h"
#include "ctl/analyze/analyze_sessions.h"

#define DOMAINS_MAX	10
#define DOMAIN_LEAST	10u	/* open at once, and a fifth of all */
#define PORT		25

struct domains {
	const char **names;	/* of each client; NULL: none that can be used */
	uint32_t *keys;		/* of each session */
	struct analyze_load *loads;
	uint32_t *numbers;	/* of clients, sorted by name */
	uint32_t *of_client;
	uint32_t count;
};

static bool is_label_byte(char c) {
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	    c == '-';
}

static size_t label_before(const char *name, size_t end) {
	while (end > 0 && name[end - 1] != '.')
		end--;
	return end;
}

/* "example.com" of "mx1.example.com", "example.co.uk" of "mx1.example.co.uk"; NULL: it
 * is no name of a host. */
static const char *domain_of(const char *name) {
	size_t length = name == NULL ? 0 : strlen(name), top, second, third;

	for (size_t i = 0; i < length; i++)
		if (!is_label_byte(name[i]) &&
		    (name[i] != '.' || i == 0 || name[i - 1] == '.' || i + 1 == length))
			return NULL;
	if (length == 0 || (name[length - 1] >= '0' && name[length - 1] <= '9'))
		return NULL;
	top = label_before(name, length);
	if (top < 2)
		return NULL;
	second = label_before(name, top - 1);
	if (second < 2 || length - top != 2 || top - 1 - second > 3)
		return name + second;
	third = label_before(name, second - 1);
	return name + third;
}

static const char **sorted_names;

static int by_name(const void *a, const void *b) {
	const char *left = sorted_names[*(const uint32_t *)a];
	const char *right = sorted_names[*(const uint32_t *)b];

	if (left == NULL || right == NULL)
		return (left == NULL) - (right == NULL);
	return strcasecmp(left, right);
}

static void domains_free(struct domains *domains) {
	free(domains->names);
	free(domains->keys);
	free(domains->loads);
	free(domains->numbers);
	free(domains->of_client);
}

/* False: no memory. */
static bool find_domains(const struct analyze_seen *seen, struct domains *d) {
	size_t count = seen->client_count + 1;

	*d = (struct domains){ .names = calloc(count, sizeof(*d->names)),
		.keys = calloc(seen->session_count + 1, sizeof(*d->keys)),
		.loads = calloc(count, sizeof(*d->loads)),
		.numbers = calloc(count, sizeof(*d->numbers)),
		.of_client = calloc(count, sizeof(*d->of_client)) };
	if (d->names == NULL || d->keys == NULL || d->loads == NULL || d->numbers == NULL ||
	    d->of_client == NULL)
		return false;
	for (uint32_t i = 0; i < seen->client_count; i++) {
		d->names[i] = domain_of(seen->clients[i].name);
		d->numbers[i] = i;
	}
	sorted_names = d->names;
	qsort(d->numbers, seen->client_count, sizeof(*d->numbers), by_name);
	for (size_t i = 0; i < seen->client_count; i++) {
		uint32_t client = d->numbers[i];

		if (d->names[client] == NULL) {
			d->of_client[client] = UINT32_MAX;
			continue;
		}
		if (i == 0 || strcasecmp(d->names[d->numbers[i - 1]], d->names[client]) != 0)
			d->numbers[d->count++] = client;	/* the first of its domain */
		d->of_client[client] = d->count - 1;
	}
	return true;
}

static const struct analyze_load *sorted_loads;

static int by_peak(const void *a, const void *b) {
	uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;

	return order_then(ORDER(sorted_loads[other].peak, sorted_loads[one].peak),
	    ORDER(one, other));
}

static uint32_t twice(uint32_t seen, uint32_t least) {
	uint32_t limit = seen > UINT32_MAX / 2 ? UINT32_MAX / 2 : 2 * seen;

	return limit < least ? least : limit;
}

/* The limits of each client of the rest. */
static bool client_limits(const struct analyze_seen *seen, uint32_t *keys,
    uint32_t *peak, uint32_t *per_minute) {
	struct analyze_load *loads = calloc(seen->client_count + 1, sizeof(*loads));

	*peak = *per_minute = 0;
	if (loads == NULL)
		return false;
	for (size_t i = 0; i < seen->session_count; i++)
		keys[i] = keys[i] == 0 ? seen->sessions[i].client : UINT32_MAX;
	analyze_sum(seen, keys, loads, seen->client_count);
	for (size_t i = 0; i < seen->client_count; i++) {
		if (loads[i].peak > *peak)
			*peak = loads[i].peak;
		if (loads[i].per_minute > *per_minute)
			*per_minute = loads[i].per_minute;
	}
	free(loads);
	return true;
}

static void write_domain(FILE *out, const char *name, const struct analyze_load *load) {
	char lower[ANALYZE_NAME_MAX + 1];

	(void)text_copy(lower, sizeof(lower), name, strlen(name));
	text_lower(lower, lower, strlen(lower));
	fprintf(out, "\t# %llu sessions, at most %u at once and %u in a minute\n"
	    "\t{ name = \"%s\"; match = [ \"*.%s\" ]; ports = [ %d ];\n"
	    "\t  hold_at = %u; refuse_at = %u; },\n",
	    (unsigned long long)load->sessions, load->peak, load->per_minute, lower, lower,
	    PORT, twice(load->peak, 1), twice(load->peak, 1));
}

/* Domains with a class of their own: marks their sessions in keys (1; the rest is 0, and
 * what did not come in by port 25 is left out). */
static void write_domains(FILE *out, const struct analyze_seen *seen, struct domains *d,
    const struct analyze_load *all) {
	uint32_t *order = d->of_client == NULL ? NULL : calloc(d->count + 1, sizeof(*order));
	uint32_t least = all->peak / 5 > DOMAIN_LEAST ? all->peak / 5 : DOMAIN_LEAST;
	bool *own = calloc(d->count + 1, sizeof(*own));

	for (size_t i = 0; i < seen->session_count; i++)
		d->keys[i] = seen->sessions[i].port == PORT ?
		    d->of_client[seen->sessions[i].client] : UINT32_MAX;
	analyze_sum(seen, d->keys, d->loads, d->count);
	for (uint32_t i = 0; order != NULL && i < d->count; i++)
		order[i] = i;
	sorted_loads = d->loads;
	if (order != NULL && own != NULL && d->count > 0) {
		qsort(order, d->count, sizeof(*order), by_peak);
		for (uint32_t i = 0; i < d->count && i < DOMAINS_MAX &&
		    d->loads[order[i]].peak >= least; i++) {
			own[order[i]] = true;
			write_domain(out, d->names[d->numbers[order[i]]], &d->loads[order[i]]);
		}
	}
	for (size_t i = 0; i < seen->session_count; i++)
		if (seen->sessions[i].port == PORT)
			d->keys[i] = d->keys[i] < d->count && own != NULL && own[d->keys[i]];
	free(order);
	free(own);
}

static bool write_rest(FILE *out, const struct analyze_seen *seen, uint32_t *keys) {
	struct analyze_load rest[1];
	uint32_t peak, per_minute;

	analyze_sum(seen, keys, rest, 1);
	if (!client_limits(seen, keys, &peak, &per_minute))
		return false;
	fprintf(out, "\t# %llu sessions, at most %u at once and %u in a minute;\n"
	    "\t# of one client at most %u at once and %u in a minute\n"
	    "\t{ name = \"everyone\"; match = [ \"*\" ]; ports = [ %d ];\n"
	    "\t  hold_at = %u; refuse_at = %u;\n"
	    "\t  client = { sessions = %u; rate = \"%u/1m\"; }; }\n",
	    (unsigned long long)rest->sessions, rest->peak, rest->per_minute, peak, per_minute,
	    PORT, twice(rest->peak, 20), twice(rest->peak, 20), twice(peak, 5),
	    twice(per_minute, 10));
	return true;
}

char *analyze_propose_classes(const struct analyze_seen *seen) {
	struct domains domains;
	struct analyze_load all[1];
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	bool good = find_domains(seen, &domains) && out != NULL;

	if (good) {
		for (size_t i = 0; i < seen->session_count; i++)
			domains.keys[i] = seen->sessions[i].port == PORT ? 0 : UINT32_MAX;
		analyze_sum(seen, domains.keys, all, 1);
	}
	if (good && all->sessions == 0) {
		fprintf(out, "# no sessions on port %d, so no limits are recommended\n", PORT);
	} else if (good) {
		fputs("classes = (\n", out);
		write_domains(out, seen, &domains, all);
		good = write_rest(out, seen, domains.keys);
		fputs(");\n", out);
	}
	domains_free(&domains);
	if (out != NULL && fclose(out) != 0)
		good = false;
	if (!good) {
		free(text);
		text = NULL;
	}
	return text;
}
