/* SPDX-License-Identifier: ISC */
/* The other machines, and what it means for a class that its limits hold for all of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "config/read/compilation.h"
#include "config/read/read_file.h"
#include "policy/window/share.h"

#define PASSWORD_FILE_MAX	4096

static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:";

/* Of `plain`, the last `without` characters left out. */
static bool is_plain(const char *text, size_t without) {
	char allowed[sizeof(plain)];

	memcpy(allowed, plain, sizeof(plain));
	allowed[sizeof(plain) - 1 - without] = '\0';
	return strspn(text, allowed) == strlen(text);
}

/* The other machines know it by this name, and it is part of keys. */
static void check_names(struct compilation *c, const config_setting_t *group) {
	const config_setting_t *node = compilation_member(group, "cluster.node");
	const config_setting_t *prefix = compilation_member(group, "cluster.prefix");
	struct setting_value value;
	char quoted[128];

	if (compilation_value(group, "cluster.node", &value) &&
	    (!is_plain(value.text, 1) || *value.text == '.' || *value.text == '-'))
		complain(c, node, "cluster.node: %s may only have letters, digits, point, "
		    "hyphen and underscore, and cannot start with point or hyphen",
		    log_sentence(quoted, sizeof(quoted), value.text));
	if (compilation_value(group, "cluster.prefix", &value) && !is_plain(value.text, 0))
		complain(c, prefix, "cluster.prefix: %s may only have letters, digits, colon, "
		    "point, hyphen and underscore",
		    log_sentence(quoted, sizeof(quoted), value.text));
}

static void check_password(struct compilation *c, const config_setting_t *where,
    const char *path, const struct stat *status) {
	char quoted[256];
	size_t length, end;
	char *text;

	log_quote(quoted, sizeof(quoted), path, strlen(path));
	if (!S_ISREG(status->st_mode)) {
		complain(c, where, "cluster.password_file: %s is not a regular file", quoted);
		return;
	}
	if ((status->st_mode & S_IRWXO) != 0) {
		complain(c, where, "cluster.password_file: %s is accessible to all users; run "
		    "chmod 0640",
		    quoted);
		return;
	}
	text = read_file(path, PASSWORD_FILE_MAX, &length);
	if (text == NULL) {
		complain(c, where, "cluster.password_file: %s cannot be read: %s", quoted,
		    read_file_error());
		return;
	}
	end = strcspn(text, "\n");
	if (length > PASSWORD_FILE_MAX || end > CLUSTER_PASSWORD_MAX)
		complain(c, where, "cluster.password_file: the first line of %s is longer than %d "
		    "bytes", quoted, CLUSTER_PASSWORD_MAX);
	else if (end == 0 || memchr(text, '\0', length) != NULL)
		complain(c, where, "cluster.password_file: the first line of %s %s", quoted,
		    length == 0 || *text == '\n' ? "is empty" : "contains a NUL");
	else if (text[end - 1] == '\r' || text[end - 1] == ' ' || text[end - 1] == '\t')
		note(c, where, "cluster.password_file: the first line of %s ends with a %s, which "
		    "is part of the password", quoted, text[end - 1] == '\r' ?
		    "carriage return" : "blank");
	explicit_bzero(text, length);
	free(text);
}

/* Whoever only checks a file may not be allowed to read the password. */
static void look_at_password(struct compilation *c, const config_setting_t *group) {
	const config_setting_t *where = compilation_member(group, "cluster.password_file");
	struct setting_value value;
	struct stat status;
	char quoted[256];

	if (!c->reads_files || !compilation_value(group, "cluster.password_file", &value))
		return;
	log_quote(quoted, sizeof(quoted), value.text, strlen(value.text));
	if (stat(value.text, &status) != 0 && errno != EACCES)
		complain(c, where, "cluster.password_file: %s: %s", quoted, strerror(errno));
	else if (geteuid() != 0 && access(value.text, R_OK) != 0)
		note(c, where, "cluster.password_file: %s: not checked, because this user "
		    "cannot read it",
		    quoted);
	else
		check_password(c, where, value.text, &status);
}

static void check_given(struct compilation *c, const config_setting_t *group) {
	static const char *const needed[] = { "cluster.redis", "cluster.node", "cluster.nodes" };

	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (compilation_member(group, needed[i]) == NULL)
			complain(c, group, "%s is missing", needed[i]);
	if (compilation_member(group, "cluster.user") != NULL &&
	    compilation_member(group, "cluster.password_file") == NULL)
		note(c, compilation_member(group, "cluster.user"),
		    "cluster.user is set without password_file: no password is sent");
}

void compile_cluster(struct compilation *c) {
	const config_setting_t *group = config_lookup(&c->config, "cluster");
	struct generation_cluster *cluster;
	uint32_t line;

	if (group == NULL || !config_setting_is_group(group))
		return;
	check_given(c, group);
	check_names(c, group);
	look_at_password(c, group);
	(void)compilation_place(c, group, &line);
	if (c->block.failed)
		return;
	cluster = &compilation_header(c)->cluster;
	cluster->line = line;
}

/* What is fixed for one node, or 0: then mail waits while the server is away. */
static void note_fixed(struct compilation *c, const config_setting_t *where,
    const struct limits *limits, const char *name) {
	const struct generation_cluster *cluster = &compilation_header(c)->cluster;
	struct share_pools whole = share_pools_of(limits->sessions, limits->inbound), fixed;

	if (cluster->nodes == 0 || cluster->nodes > SHARE_NODES_MAX || cluster->fraction > 100)
		return;		/* check.c has said so */
	fixed = share_static(whole, cluster->nodes, cluster->fraction);
	if (cluster->when_unreachable == CLUSTER_ALONE || fixed.base != 0 || whole.base == 0)
		return;
	if (cluster->fraction == 0)
		note(c, where, "class %s: cluster.fraction is 0: without the server, all "
		    "sessions are refused", name);
	else
		note(c, where, "class %s: %u sessions are too few for one on each of %u nodes: "
		    "without the server, all sessions are refused", name,
		    whole.base, cluster->nodes);
}

void compile_cluster_scope(struct compilation *c, const config_setting_t *group,
    struct generation_class *class, const char *name) {
	const config_setting_t *where = compilation_member(group, "classes[].scope");
	const struct limits *limits = &class->limits;

	if (class->wants_shared == 0)
		return;
	if (config_lookup(&c->config, "cluster") == NULL)
		complain(c, where, "class %s: scope \"cluster\" needs the group cluster", name);
	else if (limits->sessions == LIMIT_NONE)
		complain(c, where, "class %s: scope \"cluster\" needs hold_at or refuse_at", name);
	else
		note_fixed(c, where, limits, name);
	if (limits->rate.count != 0 || class->has_client_limit)
		note(c, where, "class %s: rate and client limits apply to each node "
		    "separately, whatever scope is", name);
}

void compile_cluster_end(struct compilation *c) {
	const config_setting_t *group = config_lookup(&c->config, "cluster");
	struct generation *g = compilation_header(c);
	bool any = false;

	generation_share_out(g);
	for (uint32_t i = 0; i < g->class_count; i++)
		any |= generation_class(g, i)->wants_shared;
	if (group != NULL && !any)
		note(c, group, "no class has scope = \"cluster\": only destination state is "
		    "shared");
}

void generation_share_out(struct generation *g) {
	const struct generation_cluster *cluster = &g->cluster;

	for (uint32_t i = 0; i < g->class_count; i++) {
		struct generation_class *class = (struct generation_class *)(void *)
		    ((char *)g + g->classes) + i;
		struct share_pools fixed = { 0, 0 };

		class->shared = class->wants_shared && generation_has_cluster(g) &&
		    class->limits.sessions != LIMIT_NONE && cluster->nodes != 0;
		if (class->shared)
			fixed = share_static(share_pools_of(class->limits.sessions,
			    class->limits.inbound), cluster->nodes, cluster->fraction);
		class->fixed_base = fixed.base;
		class->fixed_extra = fixed.extra;
	}
}
