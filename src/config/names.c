/* SPDX-License-Identifier: ISC */
/* Users and groups that the configuration names and this system does not know.  A reload does
 * not need them, and so they would be met at the next start only, perhaps that of a reboot.
 * Notes: the file may be meant for another machine. */
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/compilation.h"

static const char no_start[] = "posternd will not start";
static const char not_as_root[] = "posternd will not start as root";

void note_unknown_name(struct compilation *c, const config_setting_t *where, const char *path,
    bool is_group, const char *name, const char *consequence)
{
	uint32_t number;
	char quoted[128];

	if (!c->reads_files || name == NULL || name[0] == '\0' ||
	    (is_group ? getgrnam(name) != NULL : getpwnam(name) != NULL) ||
	    text_to_u32(name, strlen(name), UINT32_MAX - 1, &number))
		return;
	log_quote(quoted, sizeof(quoted), name, strlen(name));
	note(c, where, "%s: there is no %s %s on this host: %s",
	    path, is_group ? "group" : "user", quoted,
	    consequence != NULL ? consequence : no_start);
}

void note_unknown_identity(struct compilation *c)
{
	static const struct {
		const char *path;
		bool is_group;
	} names[] = { { "user", false }, { "group", true }, { "hints.group", true } };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const config_setting_t *where = config_lookup(&c->config, names[i].path);
		const struct setting *row = setting_find(names[i].path);
		struct setting_value value;
		char why[256];

		/* nobody stands in for the default user */
		if (where != NULL && setting_parse(row, where, &value, why, sizeof(why)) &&
		    value.text != NULL && strcmp(value.text, row->fallback) != 0)
			note_unknown_name(c, where, names[i].path, names[i].is_group, value.text,
			    i < 2 ? not_as_root : NULL);
	}
}
