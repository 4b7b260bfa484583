/* SPDX-License-Identifier: ISC */
/*
 * The compiler's passes: source (includes, line map), libconfig (syntax), check
 * (every setting against its row), then listeners, mail servers and classes.  A pass goes on
 * after mistakes, so that one run shows them all; only a broken syntax ends it.
 */
#include "config/compile/compile.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "config/read/compilation.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKS_ARE_SOUGHT
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define LEAKS_ARE_SOUGHT
#endif

#ifdef LEAKS_ARE_SOUGHT
const char *__lsan_default_suppressions(void);

/* libconfig 1.5 loses the text that it was reading when it meets a syntax error:
 * some bytes for each such file, nothing that we could free. */
const char *__lsan_default_suppressions(void) {
	return "leak:strbuf_append\nleak:strbuf_ensure_capacity\nleak:libconfig.so\n";
}
#endif

/* Another state file is another Postern: it does not take the journal of the first. */
static void compile_journal(struct compilation *c) {
	const struct setting *state = setting_find("state.path");
	char state_path[PATH_MAX], path[PATH_MAX];
	uint32_t text;

	if (config_lookup(&c->config, "journal.path") != NULL)
		return;
	snprintf(state_path, sizeof(state_path), "%s",
	    generation_text(compilation_header(c), compilation_header(c)->state_path));
	if (strcmp(state_path, state->fallback) == 0 ||
	    snprintf(path, sizeof(path), "%s.journal", state_path) >= (int)sizeof(path))
		return;
	text = block_text(&c->block, path);	/* may move the header */
	compilation_header(c)->journal.path = text;
}

static void compile_version(struct compilation *c) {
	if (config_lookup(&c->config, "version") == NULL)
		note(c, NULL, "version = 1; is missing: assuming version 1");
}

static void compile_observe(struct compilation *c) {
	struct generation *header = compilation_header(c);

	if (config_lookup(&c->config, "outbound.observe") == NULL)
		header->outbound_observe = header->observe;
}

static void compile_witness(struct compilation *c) {
	const config_setting_t *group = config_lookup(&c->config, "witness");
	const config_setting_t *netns = compilation_member(group, "witness.netns");
	struct generation *header = compilation_header(c);
	struct setting_value value;

	if (!compilation_numbers(group, "witness.ports", header->witness_ports,
	    &header->witness_port_count, GENERATION_PORTS_MAX))
		complain(c, compilation_member(group, "witness.ports"),
		    "witness.ports: more than %d ports", GENERATION_PORTS_MAX);
	for (unsigned i = 0; i < compilation_element_count(group, "witness.netns"); i++) {
		uint32_t text;

		if (!compilation_element(group, "witness.netns", i, &value))
			continue;
		text = block_text(&c->block, value.text);
		header = compilation_header(c);
		if (header->netns_count == sizeof(header->netns) / sizeof(header->netns[0])) {
			complain(c, netns, "witness.netns: more than 8 namespaces");
			break;
		}
		header->netns[header->netns_count++] = text;
	}
}

/* A limit of both directions that holds no mail back, where clients are refused.  Without a mail
 * server there is no mail to hold, as far as the file tells. */
static void note_outbound(struct compilation *c) {
	const config_setting_t *classes = config_lookup(&c->config, "classes");
	const config_setting_t *where = config_lookup(&c->config, "outbound.observe");
	const struct generation *header = compilation_header(c);
	unsigned count = classes != NULL ? setting_element_count(classes) : 0, at = 0;

	while (at < count && compilation_member(setting_element(classes, at), "hold_at") == NULL)
		at++;
	if (at < count && !header->observe && header->outbound_observe && header->mta_count > 0)
		note(c, where, "classes.hold_at holds back no outbound mail: outbound.observe is "
		    "on");
}

static void compile_accounts_or_complain(struct compilation *c) {
#ifdef WITH_ACCOUNTS
	compile_accounts(c);
#else
	const config_setting_t *list = config_lookup(&c->config, "accounts");

	compilation_header(c)->account_count = 0;
	for (uint32_t i = 0; i < compilation_header(c)->class_count; i++)
		if (((struct generation_class *)block_at(&c->block,
		    compilation_header(c)->classes))[i].has_quotas)
			complain(c, config_lookup(&c->config, "classes"), "classes: this build has "
			    "no limits of recipients, messages and bytes (configure "
			    "--disable-accounts)");
	if (list != NULL && setting_element_count(list) > 0)
		complain(c, list, "accounts: this build has no accounts (configure "
		    "--disable-accounts)");
#endif
	if (!c->block.failed)
		compile_listener_mtas(c);
}

static void compile_all(struct compilation *c, const char *name) {
	struct generation *header;
	static void (*const steps[])(struct compilation *c) = { compile_alert, compile_cluster,
		compile_windows, compile_mtas, compile_providers, compile_destinations,
		compile_sources, compile_classes, compile_accounts_or_complain, note_outbound,
		compile_cluster_end };
	struct setting_value proof;
	uint32_t file;

	block_begin(&c->block, sizeof(*header));
	file = block_text(&c->block, name);
	if (c->block.failed)
		return;
	header = compilation_header(c);
	header->magic = GENERATION_MAGIC;
	header->layout = generation_layout();
	header->loaded_wall_s = clock_wall_s();
	header->file = file;
	compilation_value(config_root_setting(&c->config), "session_proof", &proof);
	c->proof = proof.number;
	compile_version(c);
	compilation_store_header(c);
	if (c->block.failed)
		return;
	compile_journal(c);
	compile_observe(c);
	compile_witness(c);
	check_identity(c);
	compile_listeners(c);
	if (c->places_only)
		return;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && !c->block.failed; i++)
		steps[i](c);
}

/* Hands the block over, or says why there is none. */
static struct generation *finish(struct compilation *c, const char *name) {
	struct generation *result = block_finish(&c->block);

	if (result == NULL)
		report_add(&c->report, MESSAGE_ERROR, name, 0, 0, "out of memory, or larger "
		    "than %zu MiB", GENERATION_BYTES_MAX >> 20);
	if (c->report.messages->errors == 0)
		return result;
	free(result);
	return NULL;
}

/* Its commands run as root. */
static void note_writers(struct compilation *c, const char *name) {
	struct stat status;

	if (c->reads_files && stat(name, &status) == 0 && (status.st_mode & S_IWOTH) != 0)
		note(c, NULL, "every user can write this file, and so become root; run chmod o-w");
}

static struct generation *compile_source(struct compilation *c, const char *name) {
	if (!c->source.usable || !compilation_parse(c, BOOK_MAIN))
		return NULL;
	note_writers(c, name);
	compile_all(c, name);
	return finish(c, name);
}

/* The file, or a text under this name. */
static struct generation *compile(struct compilation *c, const char *name, const char *text,
    struct config_messages *messages) {
	struct generation *result;

	c->reads_files = text == NULL;
	report_begin(&c->report, messages);
	if (text == NULL)
		source_read_file(&c->source, name, &c->report);
	else
		source_read_text(&c->source, text, name, &c->report);
	result = compile_source(c, name);
	report_end(&c->report);
	return result;
}

static struct generation *compile_and_free(struct compilation *c, const char *name,
    const char *text, struct config_messages *messages) {
	struct generation *result = compile(c, name, text, messages);

	if (c->source.usable)
		config_destroy(&c->config);
	source_free(&c->source);
	map_free(&c->names);
	return result;
}

struct generation *config_compile(const char *path, struct config_messages *messages) {
	struct compilation c = { .places_only = false };

	return compile_and_free(&c, path, NULL, messages);
}

struct generation *config_compile_at_last(const char *path, struct config_messages *messages) {
	struct compilation c = { .places_only = false };

	return compile(&c, path, NULL, messages);
}

struct generation *config_compile_places(const char *path, struct config_messages *messages) {
	struct compilation c = { .places_only = true };

	return compile_and_free(&c, path, NULL, messages);
}

char *config_expanded_text(const char *path) {
	struct config_messages messages;
	struct report report;
	struct source source;
	int error;
	char *text;

	report_begin(&report, &messages);
	source_read_file(&source, path, &report);
	error = errno;
	text = source.text;
	source.text = NULL;
	source_free(&source);
	report_end(&report);
	config_messages_free(&messages);
	errno = error;
	return text;
}

struct generation *config_compile_text(const char *text, const char *name,
    struct config_messages *messages) {
	return config_compile_texts(text, name, NULL, NULL, messages);
}

struct generation *config_compile_texts(const char *text, const char *name,
    const char *providers, const char *providers_name, struct config_messages *messages) {
	struct compilation c = { .providers_text = providers, .providers_name = providers_name };

	return compile_and_free(&c, name, text, messages);
}

struct generation *config_compile_accounts(const char *text, const char *name,
    const char *overrides, size_t overrides_length, struct config_messages *messages) {
	struct compilation c = { .overrides_text = overrides,
		.overrides_length = overrides_length };

	return compile_and_free(&c, name, text, messages);
}
