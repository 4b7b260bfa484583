/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The tables of a Postfix site, read by its own postmap(1).
 * MODEL    A table with a file of keys is listed; one that is a service is asked,
 *          with all keys in one run, about every destination that is known; one that
 *          matches anything, or by patterns where the answer is not yes or no, is a
 *          refusal.  "proxy:" only says by which process Postfix reads it.
 * ERRORS   A table that cannot be read or asked is a refusal with postmap's words:
 *          Postfix's own look at it may end differently.
 * THREADS  One.
 */
#include "ctl/postfix/postfix_site.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_stamp.h"
#include "base/text.h"
#include "ctl/cli/program.h"

#define VALUE_MAX	512

static const char *const listable[] = { "hash", "btree", "lmdb", "cdb", "dbm", "sdbm",
	"texthash", "inline", NULL };
/* Keyed by exact text; the answer tells all. */
static const char *const exact[] = { "ldap", "mysql", "pgsql", "sqlite", "memcache",
	"tcp", "socketmap", "nis", "nisplus", NULL };
static const char *const patterns[] = { "regexp", "pcre", "cidr", "unix", "environ",
	"unionmap", "pipemap", "randmap", NULL };

static bool is_one_of(const char *const *types, const char *table) {
	size_t length = strcspn(table, ":");

	for (; *types != NULL; types++)
		if (strlen(*types) == length && memcmp(*types, table, length) == 0)
			return true;
	return false;
}

static int run_postmap(const struct postfix_site *site, const char *option,
    const char *key, const char *table, const char *input,
    struct program_output *output, struct diag *diag) {
	const char *argv[] = { "postmap", "-c", postfix_directory(site->settings),
		option, key == NULL ? table : key, key == NULL ? NULL : table, NULL };

	return program_run(argv, postfix_main(site->settings, "queue_directory", false),
	    input, input == NULL ? 0 : strlen(input), output, diag);
}

static int note_table(struct postfix_site *site, const struct site_setting *setting,
    const char *table, struct diag *diag) {
	struct site_entry *added = site_add(&site->tables, table, diag);

	if (added == NULL)
		return -1;
	added->setting = *setting;
	return 0;
}

/* The keys of "KEY<tab>VALUE" lines, each to site_exclude. */
static int take_keys(struct postfix_site *site, const struct site_setting *setting,
    const char *text, struct diag *diag) {
	for (size_t length; *text != '\0'; text += length + (text[length] != '\0')) {
		char value[VALUE_MAX];
		size_t key;
		bool whole;

		length = strcspn(text, "\n");
		key = strcspn(text, "\t\n");
		whole = key < length && text_copy(value, sizeof(value), text + key + 1,
		    length - key - 1);
		if (site_exclude(site, setting, text, key, whole ? value : NULL, diag) != 0)
			return -1;
	}
	return 0;
}

/* What postmap ended of, behind warnings that may have been there before, or "". */
static const char *fatal(const struct program_output *output) {
	const char *found = strstr(output->error, "fatal:");

	return found != NULL ? found : strstr(output->error, "warning:") != NULL ? "" :
	    output->error;
}

/* Does postmap answer that there is nothing, and not that it failed? */
static bool is_answer(const struct program_output *output) {
	return output->exit == 0 || (output->exit == 1 && fatal(output)[0] == '\0');
}

static int list_table(struct postfix_site *site, const struct site_setting *setting,
    const char *table, struct diag *diag) {
	struct program_output output;
	int result = 0;

	if (run_postmap(site, "-s", NULL, table, NULL, &output, diag) != 0)
		return -1;
	if (output.exit == 0)
		result = take_keys(site, setting, output.out, diag);
	else if (strstr(output.error, "sequence") != NULL)
		result = note_table(site, setting, table, diag);
	else
		site_refuse(site, "table", "%s: %s cannot be listed: %s", setting->name,
		    table, fatal(&output));
	program_free(&output);
	return result;
}

/* The file that Postfix reads for it, if it is one. */
static int watch_table(struct postfix_site *site, const char *table, struct diag *diag) {
	static const char *const endings[][2] = { { "hash", ".db" }, { "btree", ".db" },
		{ "dbm", ".pag" }, { "sdbm", ".pag" }, { "lmdb", ".lmdb" }, { "cdb", ".cdb" } };
	const char *file = strchr(table, ':') + 1, *ending = "";
	char path[PATH_MAX] = "";

	if (*file != '/')
		return 0;
	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (strlen(endings[i][0]) == (size_t)(file - table) - 1 &&
		    memcmp(table, endings[i][0], (size_t)(file - table) - 1) == 0)
			ending = endings[i][1];
	(void)text_append(path, sizeof(path), 0, "%s%s", file, ending);
	return postfix_site_watch(site, path, file_stamp(path), diag);
}

int site_table(struct postfix_site *site, const struct site_setting *setting,
    const char *table, struct diag *diag) {
	while (strncmp(table, "proxy:", 6) == 0)
		table += 6;
	if (strchr(table, ':') != NULL && watch_table(site, table, diag) != 0)
		return -1;
	if (is_one_of(listable, table))
		return list_table(site, setting, table, diag);
	if (is_one_of(exact, table) || (!setting->routes && is_one_of(patterns, table)))
		return note_table(site, setting, table, diag);
	site_refuse(site, "table", "%s: the entries of %s cannot be listed",
	    setting->name, table);
	return 0;
}

/* All that Postfix might ask this table about mail for the destination. */
static void write_keys(FILE *out, const struct site_setting *setting, const char *destination) {
	fprintf(out, "%s\n", destination);
	for (const char *at = strchr(destination, '.'); at != NULL; at = strchr(at + 1, '.')) {
		if (setting->below)
			fprintf(out, "%s\n", at + 1);
		if (setting->dotted)
			fprintf(out, ".%s\n", at + 1);
	}
}

/* NULL: no memory. */
static char *keys_of(const struct site_setting *setting,
    const struct site_list *destinations) {
	char *keys = NULL;
	size_t length;
	FILE *out = open_memstream(&keys, &length);

	if (out == NULL)
		return NULL;
	fputs("*\n", out);
	for (size_t i = 0; i < destinations->count; i++)
		write_keys(out, setting, destinations->entries[i].name);
	if (fclose(out) == 0)
		return keys;
	free(keys);
	return NULL;
}

static int ask_table(struct postfix_site *site, const struct site_entry *table,
    const struct site_list *destinations, struct diag *diag) {
	const struct site_setting *setting = &table->setting;
	struct program_output output;
	char *keys = keys_of(setting, destinations);
	int result;

	if (keys == NULL)
		return diag_set(diag, ENOMEM, "no memory");
	result = run_postmap(site, "-q", "-", table->name, keys, &output, diag);
	free(keys);
	if (result != 0)
		return -1;
	if (is_answer(&output))
		result = output.exit == 0 ?
		    take_keys(site, setting, output.out, diag) : 0;
	else
		site_refuse(site, "table", "%s: %s cannot be queried: %s", setting->name,
		    table->name, fatal(&output));
	program_free(&output);
	return result;
}

int postfix_site_ask(struct postfix_site *site, const struct site_list *destinations,
    struct diag *diag) {
	for (size_t i = 0; i < site->tables.count; i++)
		if (ask_table(site, &site->tables.entries[i], destinations, diag) != 0)
			return -1;
	for (size_t i = 0; i < destinations->count; i++)
		if (site_add(&site->listed, destinations->entries[i].name, diag) == NULL)
			return -1;
	return site_sort_routes(site, diag);
}
