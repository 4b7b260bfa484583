/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Decides which destinations of a Postfix site hints may speak of.
 * MODEL    The path that a recipient takes through trivial-rewrite(8): the domain
 *          classes, default_transport and relayhost, the transport maps, what hangs
 *          on the sender.  A "!name" in a list is passed over, and a list that
 *          Postfix reads until a first match is read whole: that excludes more, never
 *          less.
 * ERRORS   See postfix_site.h.
 * THREADS  One.
 */
#include "ctl/postfix/postfix_site.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_stamp.h"
#include "base/text.h"
#include "config/generation/generation.h"
#include "config/read/read_file.h"

#define LIST_FILE_MAX	((size_t)16 << 20)
#define LIST_DEPTH_MAX	4
#define TOKEN_MAX	4096

void site_refuse(struct postfix_site *site, const char *word,
    const char *format, ...) {
	va_list arguments;

	if (site->refusal[0] != '\0')
		return;
	text_copy(site->refusal, sizeof(site->refusal), word, strlen(word));
	va_start(arguments, format);
	vsnprintf(site->refusal_text, sizeof(site->refusal_text), format, arguments);
	va_end(arguments);
	for (char *at = site->refusal_text; *at != '\0'; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
}

struct site_entry *site_add(struct site_list *list, const char *name, struct diag *diag) {
	char *copy = strdup(name);
	struct site_entry *added;

	if (copy == NULL || !array_grow(&list->entries, &list->room, list->count,
	    sizeof(*added))) {
		diag_set(diag, errno, "no memory");
		free(copy);
		return NULL;
	}
	added = &list->entries[list->count++];
	*added = (struct site_entry){ .name = copy };
	return added;
}

static struct site_entry *find_entry(const struct site_list *list, const char *name) {
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->entries[i].name, name) == 0)
			return &list->entries[i];
	return NULL;
}

static int add_exclusion(struct postfix_site *site, const char *setting,
    const char *mask, struct diag *diag) {
	struct site_entry *added;
	struct mask parsed;
	const char *why;

	/* what is no name of a host is never held, whatever the site says */
	if (!mask_parse(mask, strlen(mask), &parsed, &why) ||
	    (parsed.kind != MASK_NAME && parsed.kind != MASK_DOMAIN))
		return 0;
	added = site_add(&site->exclusions, mask, diag);
	if (added == NULL)
		return -1;
	added->setting.name = setting;
	return 0;
}

int postfix_site_watch(struct postfix_site *site, const char *path, uint64_t stamp,
    struct diag *diag) {
	struct site_entry *added;

	for (const char *at = path; *at != '\0'; at++)
		if (*at < ' ' || *at > '~') {
			site_refuse(site, "path", "the file name %s is not plain ASCII", path);
			return 0;
		}
	if (find_entry(&site->watches, path) != NULL)
		return 0;
	added = site_add(&site->watches, path, diag);
	if (added == NULL)
		return -1;
	added->stamp = stamp;
	return 0;
}

static bool is_plain(const char *name) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	return name[0] != '\0' && name[strspn(name, letters)] == '\0';
}

/* Where "TRANSPORT:NEXTHOP" goes by the cloned transport to a next hop that can stand
 * in an answer of ours, that; else NULL.  Of a further transport "" for the domain's own. */
static const char *next_hop_of(const struct postfix_site *site, const char *value) {
	size_t length = value == NULL ? 0 : strcspn(value, ":");

	if (value != NULL && site->is_further && strlen(site->clone) == length &&
	    memcmp(value, site->clone, length) == 0 &&
	    value[length + (value[length] == ':')] == '\0')
		return "";
	if (value == NULL || (length == 0 && site->is_further) || value[length] != ':' ||
	    value[length + 1] == '\0' ||
	    (length != 0 && (strlen(site->clone) != length ||
		memcmp(value, site->clone, length) != 0)))
		return NULL;
	value += length + 1;
	for (const char *at = value; *at != '\0'; at++)
		if (*at <= ' ' || *at > '~' || *at == ',')
			return NULL;
	return strlen(value) > 255 ? NULL : value;
}

/* What counts more comes first: single domains, then the longer of two. */
static int compare_routes(const void *a, const void *b) {
	const struct site_entry *one = a, *two = b;
	bool below_one = one->name[0] == '*', below_two = two->name[0] == '*';
	size_t length_one = strlen(one->name), length_two = strlen(two->name);

	if (below_one != below_two)
		return below_one ? 1 : -1;
	if (length_one != length_two)
		return length_one > length_two ? -1 : 1;
	return strcmp(one->name, two->name);
}

static int add_route(struct postfix_site *site, const struct site_setting *setting,
    const char *mask, const char *next_hop, struct diag *diag) {
	struct site_entry *found = find_entry(&site->routes, mask), *added;

	/* what transport_maps says counts more than relay_domains */
	if (found != NULL)
		return setting->hop != NULL || strcmp(found->next_hop, next_hop) == 0 ? 0 :
		    add_exclusion(site, setting->name, mask, diag);
	added = site_add(&site->routes, mask, diag);
	if (added == NULL)
		return -1;
	added->next_hop = strdup(next_hop);
	text_lower(added->name, added->name, strlen(added->name));
	return added->next_hop != NULL ? 0 : diag_set(diag, errno, "no memory");
}

/* An entry for what is below a domain says nothing about the domain itself, where a
 * mask speaks of both. */
int site_sort_routes(struct postfix_site *site, struct diag *diag) {
	const struct site_list *routes = &site->routes;

	if (routes->count > 1)
		qsort(routes->entries, routes->count, sizeof(*routes->entries), compare_routes);
	for (size_t i = 0; i < routes->count; i++) {
		const char *below = routes->entries[i].name;

		if (below[0] == '*' && find_entry(routes, below + 2) == NULL &&
		    add_exclusion(site, "transport_maps", below + 2, diag) != 0)
			return -1;
	}
	return 0;
}

int site_exclude(struct postfix_site *site, const struct site_setting *setting,
    const char *key, size_t length, const char *value, struct diag *diag) {
	const char *next_hop = setting->routes ? next_hop_of(site, value) : setting->hop;
	const char *at = memrchr(key, '@', length);
	char name[MASK_NAME_MAX + 2], mask[MASK_NAME_MAX + 5] = "";
	bool below = setting->below && at == NULL, dotted = false;

	if (length == 1 && key[0] == '*' && setting->routes) {
		site_refuse(site, "all-mail", "%s has an entry for all mail (*)",
		    setting->name);
		return 0;
	}
	if (at != NULL && !setting->routes)
		return 0;
	if (at != NULL) {
		length -= (size_t)(at + 1 - key);
		key = at + 1;
		next_hop = NULL;	/* of this address alone */
	}
	if (length > 0 && key[0] == '.') {
		below = dotted = true;
		key++;
		length--;
	}
	if (!text_copy(name, sizeof(name), key, length) || !is_plain(name))
		return 0;
	text_append(mask, sizeof(mask), 0, "%s%s", below ? "*." : "", name);
	if (next_hop != NULL && below && !dotted &&
	    add_route(site, setting, name, next_hop, diag) != 0)
		return -1;
	if (next_hop != NULL)
		return add_route(site, setting, mask, next_hop, diag);
	return add_exclusion(site, setting->name, mask, diag);
}

/* The next word of a list of Postfix, copied: blanks and commas part words.  Moves *list; false:
 * the end, or a word that is too long (*whole is false then). */
static bool next_word(const char **list, char out[TOKEN_MAX], bool *whole) {
	struct span word = postfix_word(list, ", \t\r\n");

	*whole = text_copy(out, TOKEN_MAX, word.text, word.length);
	return word.length > 0 && *whole;
}

static int read_list(struct postfix_site *site, const struct site_setting *setting,
    const char *list, unsigned depth, struct diag *diag);

static int read_list_file(struct postfix_site *site,
    const struct site_setting *setting, const char *path, unsigned depth,
    struct diag *diag) {
	uint64_t stamp = file_stamp(path);
	size_t length;
	char *text = depth >= LIST_DEPTH_MAX ? NULL :
	    read_file(path, LIST_FILE_MAX, &length), *line = text, *end;
	int result = postfix_site_watch(site, path, stamp, diag);

	if (text == NULL || length > LIST_FILE_MAX) {
		site_refuse(site, "file", "%s: the file %s cannot be read", setting->name,
		    path);
		free(text);
		return 0;
	}
	for (; result == 0 && line != NULL; line = end) {
		end = strchr(line, '\n');
		if (end != NULL)
			*end++ = '\0';
		if (line[0] != '#')
			result = read_list(site, setting, line, depth + 1, diag);
	}
	free(text);
	return result;
}

static int read_list(struct postfix_site *site, const struct site_setting *setting,
    const char *list, unsigned depth, struct diag *diag) {
	char word[TOKEN_MAX];
	bool whole = true;
	int result = 0;

	while (result == 0 && next_word(&list, word, &whole)) {
		/* an address; nobody holds mail for one */
		if (word[0] == '!' || word[0] == '[')
			continue;
		if (word[0] == '/' && !setting->routes)
			result = read_list_file(site, setting, word, depth, diag);
		else if (strchr(word, ':') != NULL)
			result = site_table(site, setting, word, diag);
		else if (is_plain(word) && !setting->routes)
			result = site_exclude(site, setting, word, strlen(word), NULL,
			    diag);
		else
			site_refuse(site, "entry", "%s: unsupported entry %s", setting->name,
			    word);
	}
	if (!whole)
		site_refuse(site, "entry", "%s: an entry is too long", setting->name);
	return result;
}

/* Does an entry for a domain hold for those below it, too? */
static bool holds_below(const struct postfix_site *site, const char *setting) {
	const char *list = postfix_value(site->settings, site->resolver,
	    "parent_domain_matches_subdomains", false);
	char word[TOKEN_MAX];
	bool whole;

	while (list != NULL && next_word(&list, word, &whole))
		if (strcmp(word, setting) == 0 || strpbrk(word, ":/") != NULL)
			return true;
	return false;
}

/* hop: as in site_setting. */
static int read_setting(struct postfix_site *site, const char *name, bool routes,
    bool by_domain, const char *hop, struct diag *diag) {
	struct site_setting setting = { .name = name, .routes = routes, .hop = hop };
	const char *value = postfix_value(site->settings, site->resolver, name, false);

	if (value == NULL) {
		site_refuse(site, "setting", "postconf does not print %s", name);
		return 0;
	}
	setting.below = by_domain && holds_below(site, name);
	setting.dotted = by_domain && !setting.below;
	return read_list(site, &setting, value, 0, diag);
}

/* Settings that must be empty. */
static void check_empty(struct postfix_site *site) {
	static const char *const names[] = { "sender_dependent_relayhost_maps",
		"sender_dependent_default_transport_maps" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = postfix_value(site->settings, site->resolver, names[i], false);

		if (value == NULL || value[0] != '\0')
			site_refuse(site, "sender-dependent", "%s = %s: routes depend on the sender, "
			    "which a transport map cannot see", names[i], value == NULL ? "?" : value);
	}
}

/* It stands in our answers, as it is in force. */
static void read_relayhost(struct postfix_site *site) {
	const char *value = postfix_value(site->settings, site->resolver, "relayhost",
	    false);

	if (value == NULL || strpbrk(value, " \t,") != NULL ||
	    !text_copy(site->relayhost, sizeof(site->relayhost), value, strlen(value))) {
		site->relayhost[0] = '\0';
		site_refuse(site, "relayhost", "relayhost = %s is not a single next hop",
		    value == NULL ? "?" : value);
	}
}

static void check_default_transport(struct postfix_site *site) {
	const char *value = postfix_value(site->settings, site->resolver,
	    "default_transport", false);
	size_t length;

	if (value == NULL)
		value = "";
	length = strcspn(value, ":");
	if (strlen(site->clone) != length || memcmp(value, site->clone, length) != 0)
		site_refuse(site, "default-transport",
		    "default_transport = %s is not the transport %s", value, site->clone);
	else if (value[length] == ':' && value[length + 1] != '\0')
		site_refuse(site, "default-transport",
		    "default_transport = %s sends all mail to one next hop", value);
}

/* "postfix/smtp" of the clone's line. */
static void find_program(struct postfix_site *site) {
	static const char own_name[] = "$service_name";
	const char *line = postfix_service(site->settings, site->clone);
	const char *syslog_name = postfix_value(site->settings, site->clone,
	    "syslog_name", false);
	const char *from;
	char program[64];
	size_t length = 0;

	if (line == NULL || !postfix_service_word(line, 7, program, sizeof(program)) ||
	    syslog_name == NULL) {
		site_refuse(site, "no-service", "master.cf has no service %s",
		    site->clone);
		return;
	}
	for (from = syslog_name; (from = strstr(syslog_name, own_name)) != NULL;
	     syslog_name = from + sizeof(own_name) - 1)
		length = text_append(site->program, sizeof(site->program), length,
		    "%.*s%s", (int)(from - syslog_name), syslog_name, site->clone);
	text_append(site->program, sizeof(site->program), length, "%s/%s", syslog_name,
	    strrchr(program, '/') == NULL ? program : strrchr(program, '/') + 1);
	if (strpbrk(site->program, "$ \t") != NULL) {
		site_refuse(site, "syslog-name", "the syslog_name of %s cannot be determined: "
		    "%s",
		    site->clone, site->program);
		site->program[0] = '\0';
	}
}

/* The service that resolves addresses for the queue manager, as it was before we
 * came. */
static void find_resolver(struct postfix_site *site) {
	const char *name = postfix_override(site->settings, "qmgr",
	    "rewrite_service_name", false);

	if (name == NULL || strcmp(name, POSTFIX_RESOLVER) == 0)
		name = postfix_main(site->settings, "rewrite_service_name", false);
	if (name == NULL)
		name = "rewrite";
	if (!text_copy(site->resolver, sizeof(site->resolver), name, strlen(name)) ||
	    postfix_service(site->settings, name) == NULL)
		site_refuse(site, "no-service", "master.cf has no service %s", name);
	else if (postfix_service(site->settings, "qmgr") == NULL)
		site_refuse(site, "no-service", "master.cf has no service qmgr");
	else if (postfix_service(site->settings, "retry") == NULL)
		site_refuse(site, "no-service", "master.cf has no service retry");
}

/* Where relay_domains goes by the transport, by which next hop; else NULL. */
static const char *relay_hop(const struct postfix_site *site) {
	const char *value = postfix_value(site->settings, site->resolver, "relay_transport",
	    false), *hop = value == NULL ? NULL : next_hop_of(site, value);

	return hop == NULL || *hop != '\0' ? hop : site->relayhost;
}

int postfix_site_read(struct postfix_site *site, const struct postfix_settings *settings,
    const char *clone, bool is_further, struct diag *diag) {
	const char *hop;

	*site = (struct postfix_site){ .settings = settings, .clone = clone,
		.is_further = is_further };
	find_resolver(site);
	find_program(site);
	check_empty(site);
	read_relayhost(site);
	if (!is_further)
		check_default_transport(site);
	hop = is_further ? relay_hop(site) : NULL;
	if (read_setting(site, "mydestination", false, false, NULL, diag) != 0 ||
	    read_setting(site, "virtual_alias_domains", false, false, NULL, diag) != 0 ||
	    read_setting(site, "virtual_mailbox_domains", false, false, NULL, diag) != 0 ||
	    (!is_further && read_setting(site, "relay_domains", false, true, NULL, diag) != 0) ||
	    read_setting(site, "transport_maps", true, true, NULL, diag) != 0 ||
	    (hop != NULL && read_setting(site, "relay_domains", false, true, hop, diag) != 0))
		return -1;
	return site_sort_routes(site, diag);
}

void site_list_free(struct site_list *list) {
	for (size_t i = 0; i < list->count; i++) {
		free(list->entries[i].name);
		free(list->entries[i].next_hop);
	}
	free(list->entries);
}

void postfix_site_free(struct postfix_site *site) {
	site_list_free(&site->exclusions);
	site_list_free(&site->routes);
	site_list_free(&site->tables);
	site_list_free(&site->watches);
	site_list_free(&site->listed);
	memset(site, 0, sizeof(*site));
}
