/* SPDX-License-Identifier: ISC */
/*
 * The first pass over a parsed configuration: is every setting known, of the
 * right type, within its bounds?  What it finds wrong the later passes skip or
 * replace by the default, in silence.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/read/compilation.h"

/* Where a group's rows stand. */
struct shelf {
	enum setting_book book;
	const char *path;
};

static void check_group(struct compilation *c, const config_setting_t *group,
    struct shelf shelf);

static void unknown(struct compilation *c, const config_setting_t *value, struct shelf shelf) {
	const char *group = shelf.path;
	const char *name = config_setting_name(value);
	bool kept = c->report.messages->count < REPORT_KEPT;	/* else only counted */
	const char *near = kept ? setting_nearest(shelf.book, group, name) : NULL;
	const struct setting *elsewhere = kept && !near ? setting_elsewhere(shelf.book, name) : NULL;
	char spoken[SETTING_PATH_MAX], other[SETTING_PATH_MAX], quoted[128];
	const char *point;

	log_quote(quoted, sizeof(quoted), name, strlen(name));
	setting_spoken(group, spoken);
	point = *spoken ? "." : "";
	if (near != NULL)
		complain(c, value, "unknown setting %s%s%s: did you mean %s%s%s?", spoken, point,
		    quoted, spoken, point, near);
	else if (elsewhere != NULL)
		complain(c, value, "unknown setting %s%s%s: did you mean %s?", spoken, point,
		    quoted, setting_spoken(elsewhere->path, other));
	else
		complain(c, value, "unknown setting %s%s%s", spoken, point, quoted);
}

static void wrong(struct compilation *c, const config_setting_t *value,
    const struct setting *row, const char *why) {
	char spoken[SETTING_PATH_MAX];

	complain(c, value, "%s: %s", setting_spoken(row->path, spoken), why);
}

static void check_scalar(struct compilation *c, const config_setting_t *value,
    const struct setting *row) {
	struct setting_value parsed;
	char why[256];

	if (!setting_parse(row, value, &parsed, why, sizeof(why)))
		wrong(c, value, row, why);
}

static void check_listen_group(struct compilation *c, const config_setting_t *group) {
	check_group(c, group, (struct shelf){ BOOK_MAIN, "listen.*[]" });
	if (config_setting_get_member(group, "address") == NULL)
		complain(c, group, "listen: a group must have an address");
}

static void check_elements(struct compilation *c, const config_setting_t *value,
    const struct setting *row) {
	for (unsigned i = 0; i < setting_element_count(value); i++) {
		const config_setting_t *element = setting_element(value, i);

		if (row->type == SETTING_LISTEN && config_setting_is_group(element))
			check_listen_group(c, element);
		else
			check_scalar(c, element, row);
	}
}

static void check_groups(struct compilation *c, const config_setting_t *value,
    const struct setting *row, enum setting_book book) {
	char path[SETTING_PATH_MAX];

	if (!config_setting_is_list(value) &&
	    !(config_setting_is_array(value) && config_setting_length(value) == 0)) {
		wrong(c, value, row, "must be a list of groups, ( { ... }, { ... } )");
		return;
	}
	snprintf(path, sizeof(path), "%s[]",
	    row->type == SETTING_REPLIES ? "replies" : row->path);
	for (unsigned i = 0; i < (unsigned)config_setting_length(value); i++) {
		const config_setting_t *element = config_setting_get_elem(value, i);

		if (config_setting_is_group(element))
			check_group(c, element, (struct shelf){ book, path });
		else
			wrong(c, element, row, "each element must be a group { ... }");
	}
}

static void check_setting(struct compilation *c, const config_setting_t *value,
    const struct setting *row, enum setting_book book) {
	switch (row->type) {
	case SETTING_GROUP: case SETTING_WINDOW:
		if (config_setting_is_group(value))
			check_group(c, value, row->type == SETTING_GROUP ?
			    (struct shelf){ book, row->path } :
			    (struct shelf){ BOOK_MAIN, "window" });
		else
			wrong(c, value, row, "must be a group { ... }");
		break;
	case SETTING_GROUPS: case SETTING_REPLIES:
		check_groups(c, value, row, book);
		break;
	case SETTING_MASKS: case SETTING_PORTS: case SETTING_NUMBERS: case SETTING_TEXTS:
	case SETTING_WORDS: case SETTING_QUOTAS: case SETTING_LISTEN:
		check_elements(c, value, row);
		break;
	default:
		check_scalar(c, value, row);
		break;
	}
}

/* Its row, where it has the name of a preview. */
static const struct setting *renamed(struct compilation *c, const config_setting_t *group,
    const config_setting_t *value, struct shelf shelf) {
	const struct setting *row = shelf.book != BOOK_MAIN ? NULL :
	    setting_renamed(shelf.path, config_setting_name(value));
	const char *point = row == NULL ? NULL : strrchr(row->path, '.');
	char spoken[SETTING_PATH_MAX];

	if (row == NULL)
		return NULL;
	if (config_setting_get_member(group, point == NULL ? row->path : point + 1) != NULL)
		complain(c, value, "%s is set too, which is the new name of %s",
		    setting_spoken(row->path, spoken), config_setting_name(value));
	else
		note(c, value, "%s is the new name of %s", setting_spoken(row->path, spoken),
		    config_setting_name(value));
	return row;
}

static void check_group(struct compilation *c, const config_setting_t *group,
    struct shelf shelf) {
	for (unsigned i = 0; i < (unsigned)config_setting_length(group); i++) {
		const config_setting_t *value = config_setting_get_elem(group, i);
		const struct setting *row;
		char full[SETTING_PATH_MAX];
		int length = snprintf(full, sizeof(full), "%s%s%s", shelf.path,
		    *shelf.path ? "." : "", config_setting_name(value));

		row = length > 0 && (size_t)length < sizeof(full) ?
		    setting_find_in(shelf.book, full) : NULL;
		if (row == NULL)
			row = renamed(c, group, value, shelf);
		if (row == NULL)
			unknown(c, value, shelf);
		else
			check_setting(c, value, row, shelf.book);
	}
}

void check_settings(struct compilation *c, enum setting_book book) {
	check_group(c, config_root_setting(&c->config), (struct shelf){ book, "" });
}
