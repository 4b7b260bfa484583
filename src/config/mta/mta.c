/* SPDX-License-Identifier: ISC */
/* The mail servers, out of mta[], and the remote ports of all of them. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/read/compilation.h"
#include "config/mta/site.h"

/* A name goes into file names and arguments. */
static bool is_plain_name(const char *name) {
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	return *name != '.' && *name != '-' && strspn(name, rest) == strlen(name);
}

static void compile_name(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	const config_setting_t *where = compilation_member(group, "mta[].name");
	struct setting_value value;
	char quoted[128];

	if (!compilation_value(group, "mta[].name", &value))
		value.text = mta->kind == MTA_POSTFIX ? "postfix" : "sendmail";
	else if (!is_plain_name(value.text))
		complain(c, where, "mta.name: %s may only have letters, digits, point, hyphen "
		    "and underscore, and cannot start with point or hyphen",
		    log_sentence(quoted, sizeof(quoted), value.text));
	mta->name = block_text(&c->block, value.text);
}

static void compile_ports(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	const config_setting_t *ports = compilation_member(group, "mta[].ports");

	if (ports != NULL && setting_element_count(ports) == 0)
		complain(c, ports, "mta.ports is empty; omit it for port %s",
		    setting_find("mta[].ports")->fallback);
	if (!compilation_numbers(group, "mta[].ports", mta->ports, &mta->port_count,
	    GENERATION_PORTS_MAX))
		complain(c, ports, "mta.ports: more than %d ports", GENERATION_PORTS_MAX);
}

static void compile_user(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	const config_setting_t *where = compilation_member(group, "mta[].user");
	const char *name = block_at(&c->block, mta->user);
	const struct passwd *entry;
	char quoted[128];

	errno = 0;
	entry = getpwnam(name);
	if (entry != NULL) {
		mta->uid = entry->pw_uid;
		mta->uid_known = 1;
	} else {
		log_quote(quoted, sizeof(quoted), name, strlen(name));
		complain(c, where ? where : group, "mta.user: there is no user %s%s%s", quoted,
		    errno == 0 || errno == ENOENT ? "" : ": ",
		    errno == 0 || errno == ENOENT ? "" : strerror(errno));
	}
}

/* Settings that mean nothing for this kind. */
static void note_idle(struct compilation *c, const config_setting_t *group,
    const struct generation_mta *mta) {
	static const char *const of_postfix[] = { "config_directory", "command_directory",
		"reload", "clone", "lanes", "cache_from", "probes", "probes_total", "site",
		"transports", NULL };
	static const char *const of_sendmail[] = { "user", "smart_host", "cf", "queue",
		"sendmail", "processes", "retry", "retry_most", "stall", "run_limit",
		"local_queue", "local_processes", "schedule", "local_schedule", "exactly_once",
		NULL };
	const char *const *names = mta->kind == MTA_POSTFIX ? of_sendmail : of_postfix;

	for (; *names != NULL; names++) {
		const config_setting_t *setting = compilation_member(group, *names);

		if (setting != NULL)
			note(c, setting, "mta.%s has no effect for kind %s", *names,
			    mta->kind == MTA_POSTFIX ? "postfix" : "sendmail");
	}
}

static void compile_site(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	const config_setting_t *where = compilation_member(group, "mta[].site");
	struct setting_value value;
	char path[4000 + sizeof(POSTERN_LOCALSTATEDIR)];

	if (compilation_value(group, "mta[].site", &value)) {
		mta->site = block_text(&c->block, value.text);
	} else {
		const char *name = block_at(&c->block, mta->name);

		snprintf(path, sizeof(path), POSTERN_LOCALSTATEDIR "/lib/postern/%s.site", name);
		mta->site = block_text(&c->block, path);
	}
	if (!c->block.failed && c->reads_files && c->report.messages->errors == 0)
		site_read_file(c, where ? where : group, mta);
}

/* The feed tells whose a delivery is by the syslog_name before its program. */
static void note_program(struct compilation *c, const config_setting_t *group,
    const struct generation_mta *mta) {
	const config_setting_t *where = compilation_member(group, "mta[].syslog_name");
	const char *own = block_at(&c->block, mta->syslog_name);
	const char *program = block_at(&c->block, mta->clone_program);
	size_t length = strlen(own);

	if (strncmp(program, own, length) != 0 || program[length] != '/')
		note(c, where ? where : group, "mta.syslog_name is %s, but Postfix logs its "
		    "deliveries as %s (from its site file): no deliveries are read and no mail "
		    "is held",
		    own, program);
}

/* A host in [ ] or not, perhaps with a port: nothing that a mailer takes besides. */
static void compile_smart_host(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	const config_setting_t *where = compilation_member(group, "mta[].smart_host");
	const char *host, *end;
	struct setting_value value;
	char quoted[128];
	size_t length;

	if (!compilation_value(group, "mta[].smart_host", &value))
		return;
	host = value.text + (value.text[0] == '[');
	length = strcspn(host, value.text[0] == '[' ? "]" : ":");
	end = host + length + (value.text[0] == '[' && host[length] == ']');
	if (length == 0 || memchr(host, '@', length) != NULL ||
	    (value.text[0] == '[' && host[length] != ']') ||
	    (*end != '\0' && (*end != ':' || end[1] == '\0' ||
	    end[1 + strspn(end + 1, "0123456789")] != '\0')))
		complain(c, where, "mta.smart_host: \"%s\" must be a host, [host], or either with "
		    ":PORT, without a mailer", log_quote(quoted, sizeof(quoted), value.text,
		    strlen(value.text)));
	else
		mta->relayhost = block_text(&c->block, value.text);
}

static void compile_sendmail(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	compile_user(c, group, mta);
	compile_smart_host(c, group, mta);
	if (compilation_member(group, "mta[].syslog_name") == NULL)
		mta->syslog_name = 0;
	compile_mta_queue(c, group, mta);
}

static void refuse_to_drive(struct compilation *c, const config_setting_t *group,
    const struct generation_mta *mta) {
	if (mta->kind == MTA_POSTFIX && mta->drive != 0)
		complain(c, compilation_member(group, "mta[].drive"),
		    "mta.drive: only kind sendmail can be managed; Postfix has its own "
		    "scheduler");
}

bool compile_mta_lanes(struct compilation *c, const config_setting_t *group, const char *what,
    struct generation_mta *mta) {
	const config_setting_t *lanes = compilation_member(group, "mta[].lanes");

	mta->lane_count = 0;
	if (!compilation_numbers(group, "mta[].lanes", mta->lanes, &mta->lane_count,
	    GENERATION_LANES_MAX)) {
		complain(c, lanes, "%s: more than %d lanes", what, GENERATION_LANES_MAX);
		return false;
	}
	if (mta->lane_count > 0 && mta->lanes[0] > 1)
		note(c, lanes, "%s: the smallest lane is %u: smaller windows are not enforced",
		    what, mta->lanes[0]);
	return true;
}

static void compile_lanes(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	static const uint16_t usual[] = { 1, 2, 3, 5, 10, 20 };

	if (compilation_member(group, "mta[].lanes") != NULL) {
		(void)compile_mta_lanes(c, group, "mta.lanes", mta);
		return;
	}
	memcpy(mta->lanes, usual, sizeof(usual));
	mta->lane_count = sizeof(usual) / sizeof(usual[0]);
}

static void compile_postfix(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	char program[2 * 80 + 8];

	compile_lanes(c, group, mta);
	snprintf(program, sizeof(program), "%s/smtp",
	    (const char *)block_at(&c->block, mta->syslog_name));
	mta->clone_program = block_text(&c->block, program);
	if (!c->block.failed)
		compile_site(c, group, mta);
	if (!c->block.failed && mta->site_known)
		note_program(c, group, mta);
}

static struct generation_mta compile_mta(struct compilation *c, const config_setting_t *group) {
	struct generation_mta mta;

	memset(&mta, 0, sizeof(mta));
	compilation_store(c, BOOK_MAIN, "mta[]", group, &mta);
	compilation_place(c, group, &mta.line);
	note_idle(c, group, &mta);
	compile_name(c, group, &mta);
	compile_ports(c, group, &mta);
	compile_mta_log(c, group, &mta);
	if (mta.kind == MTA_POSTFIX)
		compile_postfix(c, group, &mta);
	else
		compile_sendmail(c, group, &mta);
	if (!c->block.failed)
		compile_mta_log_users(c, group, &mta);
	refuse_to_drive(c, group, &mta);
	mta.window = compile_window_group(c, compilation_member(group, "mta[].window"));
	return mta;
}

/* Equal texts have equal offsets. */
static void check_others(struct compilation *c, const config_setting_t *group,
    const struct generation_mta *mta) {
	const struct generation *header = compilation_header(c);
	const char *name = block_at(&c->block, mta->name);

	compilation_check_unique(c, group, "mta", mta->name);
	for (uint32_t i = 0; i < header->mta_count; i++) {
		const struct generation_mta *other = &header->mtas[i];

		compile_mta_queue_beside(c, group, mta, other);
		if (other->name != mta->name && other->kind == mta->kind && (mta->kind == MTA_POSTFIX || mta->log != 0) &&
		    other->log == mta->log && other->syslog_name == mta->syslog_name)
			note(c, group, "mta %s: its deliveries look like those of the mta in "
			    "line %u: same log, same syslog_name", name, other->line);
	}
}

static void add_mta(struct compilation *c, const config_setting_t *list,
    const config_setting_t *group) {
	struct generation_mta mta;
	struct generation *header;

	if (compilation_header(c)->mta_count == GENERATION_MTAS_MAX) {
		complain(c, group, "mta: more than %d mail servers", GENERATION_MTAS_MAX);
		return;
	}
	mta = compile_mta(c, group);
	if (c->block.failed)
		return;
	check_others(c, group, &mta);
	header = compilation_header(c);
	header->mtas[header->mta_count++] = mta;
	for (uint32_t i = 0; i < mta.port_count; i++)
		if (!compilation_add_number(header->remote_ports, &header->remote_port_count,
		    GENERATION_PORTS_MAX, mta.ports[i])) {
			complain(c, list, "mta: more than %d different ports",
			    GENERATION_PORTS_MAX);
			return;
		}
}

void compile_mtas(struct compilation *c) {
	const config_setting_t *list = config_lookup(&c->config, "mta"), *group;

	for (unsigned at = 0; !c->block.failed &&
	     (group = compilation_next_group(list, &at)) != NULL;)
		add_mta(c, list, group);
	compile_mta_transports(c);
}
