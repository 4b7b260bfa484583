/* SPDX-License-Identifier: ISC */
/*
 * Further transports of a Postfix, out of mta[].transports[]: a row for each, behind those of
 * the mail servers, whose numbers stay what they were.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/read/compilation.h"
#include "config/mta/site.h"

static bool is_plain_name(const char *name) {
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	return *name != '-' && strspn(name, letters) == strlen(name);
}

/* Windows are named by it: what else is named so, or is a transport of ours, it cannot be. */
static bool check_name(struct compilation *c, const config_setting_t *where, const char *name,
    unsigned mta) {
	static const char *const taken[] = { "provider", "class", "retry", "error", NULL };
	const struct generation *header = compilation_header(c);
	char quoted[128];

	(void)log_sentence(quoted, sizeof(quoted), name);
	if (!is_plain_name(name)) {
		complain(c, where, "mta.transports.name: %s may only have letters, digits, hyphen "
		    "and underscore, and cannot start with hyphen", quoted);
		return false;
	}
	for (unsigned i = 0; taken[i] != NULL; i++)
		if (strcasecmp(name, taken[i]) == 0) {
			complain(c, where, "mta.transports.name: a transport cannot have the name %s",
			    quoted);
			return false;
		}
	if (strcmp(name, block_at(&c->block, header->mtas[mta].clone)) == 0) {
		complain(c, where, "mta.transports.name: %s is the clone of the mta; set lanes and "
		    "window there", quoted);
		return false;
	}
	if (generation_find_transport(header, mta, name, strlen(name)) != GENERATION_MTAS_MAX) {
		complain(c, where, "mta.transports.name: %s is listed twice", quoted);
		return false;
	}
	return true;
}

/* The same mail server, but for what is the transport's own.  What its site's file tells of the
 * transport is read when the row stands. */
static struct generation_mta make_row(struct compilation *c, const config_setting_t *group,
    const char *name, unsigned mta) {
	struct generation_mta row = compilation_header(c)->mtas[mta];
	char full[256];

	snprintf(full, sizeof(full), "%s/%s", (const char *)block_at(&c->block, row.name), name);
	if (strlen(full) > GENERATION_DESTINATION_MAX)
		complain(c, group, "mta.transports: the names of mail server and transport have "
		    "more than %d characters together", GENERATION_DESTINATION_MAX - 1);
	row.name = block_text(&c->block, full);
	row.transport = block_text(&c->block, name);
	row.parent = mta;
	compilation_place(c, group, &row.line);
	row.log = 0;
	row.clone = row.transport;
	if (compilation_member(group, "mta[].transports[].lanes") != NULL)
		(void)compile_mta_lanes(c, group, "mta.transports.lanes", &row);
	row.window = compile_window_group(c, compilation_member(group,
	    "mta[].transports[].window"));
	return row;
}

/* How the log names its deliveries, as Postfix has it in master.cf. */
static uint32_t usual_program(struct compilation *c, const struct generation_mta *row,
    const char *name) {
	char program[256];

	snprintf(program, sizeof(program), "%s/%s/smtp",
	    (const char *)block_at(&c->block, row->syslog_name), name);
	return block_text(&c->block, program);
}

static void add_transport(struct compilation *c, const config_setting_t *group, unsigned mta) {
	const config_setting_t *where = compilation_member(group, "mta[].transports[].name");
	struct setting_value value;
	struct generation_mta row;
	struct generation *header;

	if (!compilation_value(group, "mta[].transports[].name", &value)) {
		if (where == NULL)
			complain(c, group, "mta.transports: a group must have a name");
		return;
	}
	if (!check_name(c, where, value.text, mta))
		return;
	if (compilation_header(c)->mta_count == GENERATION_MTAS_MAX) {
		complain(c, group, "mta.transports: more than %d mail servers and transports",
		    GENERATION_MTAS_MAX);
		return;
	}
	row = make_row(c, group, value.text, mta);
	row.clone_program = usual_program(c, &row, value.text);
	if (!c->block.failed)
		site_begin_transport(c, group, &row);
	if (c->block.failed)
		return;
	header = compilation_header(c);
	header->mtas[header->mta_count++] = row;
}

void compile_mta_transports(struct compilation *c) {
	const config_setting_t *list = config_lookup(&c->config, "mta"), *group, *transport;
	unsigned mta = 0;

	for (unsigned at = 0; !c->block.failed && mta < compilation_header(c)->mta_count &&
	     compilation_header(c)->mtas[mta].transport == 0 &&
	     (group = compilation_next_group(list, &at)) != NULL; mta++) {
		const config_setting_t *transports = compilation_header(c)->mtas[mta].kind !=
		    MTA_POSTFIX ? NULL : compilation_member(group, "mta[].transports");

		for (unsigned k = 0;
		     (transport = compilation_next_group(transports, &k)) != NULL;)
			add_transport(c, transport, mta);
	}
}
