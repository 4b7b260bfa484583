/* SPDX-License-Identifier: ISC */
/* Users and groups that the configuration names and this system does not know, and a user that
 * the roles must not be.  A reload does not need them, and so they would be met at the next start
 * only, perhaps that of a reboot: errors, where posternd would not start. */
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/read/compilation.h"

void check_name_is_known(struct compilation *c, const config_setting_t *where, const char *path,
    bool is_group, const char *name, const char *consequence) {
	const char *what = is_group ? "group" : "user";
	uint32_t number;
	char quoted[128];

	if (!c->reads_files || name == NULL || name[0] == '\0' ||
	    (is_group ? getgrnam(name) != NULL : getpwnam(name) != NULL) ||
	    text_to_u32(name, strlen(name), UINT32_MAX - 1, &number))
		return;
	log_quote(quoted, sizeof(quoted), name, strlen(name));
	if (consequence != NULL)
		note(c, where, "%s: there is no %s %s on this host: %s", path, what, quoted, consequence);
	else
		complain(c, where, "%s: there is no %s %s on this host: posternd would not start", path,
		    what, quoted);
}

/* By name or number. */
static bool is_root(const char *user) {
	const struct passwd *entry = getpwnam(user);
	uint32_t number;

	return entry != NULL ? entry->pw_uid == 0 :
	    text_to_u32(user, strlen(user), UINT32_MAX - 1, &number) && number == 0;
}

void check_identity(struct compilation *c) {
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
		if (where == NULL || !setting_parse(row, where, &value, why, sizeof(why)) ||
		    value.text == NULL || strcmp(value.text, row->fallback) == 0)
			continue;
		check_name_is_known(c, where, names[i].path, names[i].is_group, value.text, NULL);
		if (i == 0 && c->reads_files && is_root(value.text))
			complain(c, where, "user: the workers must not run as root: posternd would "
			    "not start");
	}
}
