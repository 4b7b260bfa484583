/* SPDX-License-Identifier: ISC */
/* The log of a mail server: a file, a pattern of files, or systemd's journal. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/path_pattern.h"
#include "base/sd_log.h"
#include "config/read/compilation.h"

#define POSTFIX_USER	"postfix"	/* mail_owner, as nearly everybody has it */

#ifdef HAVE_SD_JOURNAL
#define CAN_READ_JOURNAL	true
#else
#define CAN_READ_JOURNAL	false
#endif

static bool exists(const char *path) {
	struct stat status;

	return stat(path, &status) == 0 || errno != ENOENT;
}

/* journald runs here, and no syslog daemon has made the file.  Where sockets bring lines, they may
 * be the journal's. */
static bool is_in_journal_alone(const struct compilation *c, const char *path) {
	return c->reads_files && !generation_is_fed(compilation_header(c)) && *path == '/' &&
	    path_pattern_is_plain(path) && !exists(path) && exists(SD_LOG_SOCKET);
}

static void compile_journal(struct compilation *c, const config_setting_t *where,
    const char *text) {
	struct sd_log name;
	const char *why;

	if (!sd_log_parse(text, &name, &why))
		complain(c, where, "mta.log %s", why);
	else if (!CAN_READ_JOURNAL)
		complain(c, where, "mta.log: this build cannot read systemd's journal: it was built "
		    "without libsystemd (Debian package libsystemd-dev)");
	else if (c->reads_files && getgrnam(SD_LOG_GROUP) == NULL)
		note(c, where, "mta.log: group " SD_LOG_GROUP " does not exist: systemd's journal "
		    "may be unreadable for Postern");
}

/* A log may come later; until then nothing is learned. */
static void note_file(struct compilation *c, const config_setting_t *where, const char *path) {
	struct stat status;

	if (!c->reads_files || path[0] != '/' || !path_pattern_is_plain(path))
		return;
	if (stat(path, &status) != 0) {
		if (errno == ENOENT || errno == ENOTDIR)
			note(c, where, "mta.log: %s does not exist: until it does, no delivery "
			    "results are read", path);
	} else if (!S_ISREG(status.st_mode)) {
		note(c, where, "mta.log: %s is not a regular file: no delivery results are read",
		    path);
	}
}

/* `is_set`: it is not the default. */
static void compile_file(struct compilation *c, const config_setting_t *where, bool is_set,
    const char *path) {
	const char *fault = path_pattern_fault(path);

	if (fault != NULL)
		complain(c, where, "mta.log %s", fault);
	else if (is_in_journal_alone(c, path))
		note(c, where, "mta.log: %s does not exist, so Postern learns nothing: with no "
		    "syslog daemon, the log is in systemd's journal%s", path, CAN_READ_JOURNAL ?
		    ": set log = \"journal:\"" : ", which this build cannot read");
	else if (is_set)
		note_file(c, where, path);
}

void compile_mta_log(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	const config_setting_t *where = compilation_member(group, "mta[].log");
	struct setting_value value;
	const char *text;

	compilation_value(group, "mta[].log", &value);
	text = value.text;
	if (text == NULL)
		return;		/* check.c has said why */
	if (where == NULL && CAN_READ_JOURNAL && is_in_journal_alone(c, text)) {
		note(c, group, "mta.log is not set, and %s does not exist: reading systemd's "
		    "journal (log = \"journal:\")", text);
		text = "journal:";
	}
	if (sd_log_is(text))
		compile_journal(c, where ? where : group, text);
	else
		compile_file(c, where ? where : group, where != NULL, text);
	mta->log = block_text(&c->block, text);
}

static void add_uid(struct generation_mta *mta, uint32_t uid) {
	if (!generation_logs_as(mta, uid) && mta->log_uid_count < GENERATION_LOG_UIDS_MAX)
		mta->log_uids[mta->log_uid_count++] = uid;
}

void compile_mta_log_users(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	const config_setting_t *where = compilation_member(group, "mta[].log");
	const char *text = block_at(&c->block, mta->log), *user, *why;
	const struct passwd *entry;
	struct sd_log name;
	char quoted[128];

	if (mta->log == 0 || !sd_log_is(text) || !sd_log_parse(text, &name, &why))
		return;
	if (mta->kind == MTA_SENDMAIL && mta->uid_known)
		add_uid(mta, mta->uid);
	user = name.user[0] != '\0' ? name.user : mta->kind == MTA_POSTFIX ? POSTFIX_USER : "root";
	entry = getpwnam(user);
	if (entry != NULL)
		add_uid(mta, entry->pw_uid);
	else if (name.user[0] != '\0')
		complain(c, where, "mta.log: there is no user %s", log_quote(quoted, sizeof(quoted),
		    user, strlen(user)));
	else
		note(c, where ? where : group, "mta.log: there is no user " POSTFIX_USER ", so only "
		    "root's lines in systemd's journal count: name mail_owner of Postfix as "
		    "user=NAME");
}
