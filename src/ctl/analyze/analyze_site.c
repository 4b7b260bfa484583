/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Judges deliveries of somebody's log, by the configuration of this machine or
 *          by none.
 * MODEL    The judge of the daemon.  A log from elsewhere has other names: its programs
 *          are taken for those of the first mail server of the kind.
 * ERRORS   Complained about.
 * THREADS  One (libconfig).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/text.h"
#include "config/read/read_file.h"
#include "ctl/analyze/analyze.h"

#define PROVIDERS_PATH		POSTERN_SYSCONFDIR "/providers.conf"
#define PROVIDERS_BYTES_MAX	(4u << 20)

/* Two mail servers, both of which deliver to port 25 of others. */
static const char DEFAULTS[] = "version = 1;\n"
    "mta = ( { name = \"postfix\"; kind = \"postfix\"; log = \"\"; },\n"
    "        { name = \"sendmail\"; kind = \"sendmail\"; log = \"\"; } );\n"
    "classes = ( { name = \"everyone\"; match = [ \"*\" ]; hold_at = 1; } );\n";

static void complain(const struct config_messages *messages) {
	for (size_t i = 0; i < messages->count; i++)
		if (messages->list[i].severity == MESSAGE_ERROR)
			ctl_complain("%s:%d: %s", messages->list[i].file, messages->list[i].line,
			    messages->list[i].text);
}

static struct generation *compile(const struct ctl *ctl) {
	struct config_messages messages;
	struct generation *generation;
	char *providers = NULL;
	size_t length;

	if (ctl->config_given || access(ctl->config_path, F_OK) == 0) {
		generation = config_compile(ctl->config_path, &messages);
	} else {
		providers = read_file(PROVIDERS_PATH, PROVIDERS_BYTES_MAX, &length);
		generation = config_compile_texts(DEFAULTS, "defaults", providers,
		    PROVIDERS_PATH, &messages);
	}
	complain(&messages);
	config_messages_free(&messages);
	free(providers);
	return generation;
}

/* The first mail server of the kind.  A configuration that names none, as the one that is
 * installed, is no reason to learn nothing. */
static unsigned first_of(struct generation *g, enum mta_kind kind) {
	for (unsigned i = 0; i < g->mta_count; i++)
		if (g->mtas[i].kind == kind)
			return i;
	if (g->mta_count == GENERATION_MTAS_MAX)
		return GENERATION_MTAS_MAX;
	g->mtas[g->mta_count] = (struct generation_mta){ .kind = (uint8_t)kind,
		.port_count = 1, .ports = { 25 } };
	return g->mta_count++;
}

int analyze_site_open(const struct ctl *ctl, struct analyze_site *site) {
	struct diag diag;

	*site = (struct analyze_site){ .generation = compile(ctl) };
	if (site->generation == NULL)
		return EX_CONFIG;
	site->postfix = first_of(site->generation, MTA_POSTFIX);
	site->sendmail = first_of(site->generation, MTA_SENDMAIL);
	if (judge_open(&site->judge, site->generation, &diag) != 0) {
		analyze_site_close(site);
		return ctl_fail(&diag);
	}
	return EX_OK;
}

void analyze_site_close(struct analyze_site *site) {
	judge_close(&site->judge);
	free(site->generation);
	site->generation = NULL;
}

/* As that mail server's log would name the program. */
static size_t rename_program(const struct generation *g, unsigned mta,
    const struct log_line *line, char *out, size_t size) {
	const char *name = generation_text(g, g->mtas[mta].syslog_name);

	if (g->mtas[mta].kind == MTA_SENDMAIL)
		return text_append(out, size, 0, "%s", *name != '\0' ? name : "sendmail");
	return text_append(out, size, 0, "%s/%.*s", name, (int)line->daemon.length,
	    line->daemon.text);
}

void analyze_site_judge(const struct analyze_site *site, const struct log_line *line,
    struct judgement *out) {
	struct delivery delivery = line->delivery;
	char program[256];
	unsigned mta = delivery.source == DELIVERY_OF_SENDMAIL ? site->sendmail : site->postfix;

	judge_delivery(site->judge, UINT_MAX, &delivery, out);
	if (out->mta != GENERATION_MTAS_MAX || mta == GENERATION_MTAS_MAX)
		return;
	delivery.program = (struct span){ program,
		rename_program(site->generation, mta, line, program, sizeof(program)) };
	judge_delivery(site->judge, UINT_MAX, &delivery, out);
}
