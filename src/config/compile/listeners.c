/* SPDX-License-Identifier: ISC */
/* The table of sockets, out of listen.*: those of this version's kinds only. */
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"
#include "base/text.h"
#include "config/generation/account_settings.h"
#include "config/read/compilation.h"
#include "config/read/listen_address.h"

/* The listener that has this address already, or NULL. */
static const struct generation_listener *same_address(const struct generation *header,
    uint32_t address) {
	for (uint32_t i = 0; i < header->listener_count; i++)
		if (header->listeners[i].address == address)
			return &header->listeners[i];
	return NULL;
}

/* What a group says that means nothing for such an address. */
static void note_idle_settings(struct compilation *c, const config_setting_t *group,
    const struct setting *row, const char *address) {
	static const char *const of_files[] = { "mode", "owner", "group" };
	const config_setting_t *setting;

	for (size_t i = 0; i < sizeof(of_files) / sizeof(of_files[0]); i++) {
		setting = compilation_member(group, of_files[i]);
		if (setting != NULL && strncmp(address, "unix:", 5) != 0)
			note(c, setting, "%s: %s has no effect for %s: only unix sockets have "
			    "one",
			    row->path, of_files[i], address);
	}
	setting = compilation_member(group, "session_proof");
	if (setting != NULL &&
	    (row->offset == LISTENER_CONTROL || row->offset == LISTENER_SYSLOG ||
	    row->offset == LISTENER_QUEUE || row->offset == LISTENER_METRICS ||
	    row->offset == LISTENER_MILTER_ACCOUNTS))
		note(c, setting, "%s: session_proof has no effect here: this socket has no sessions",
		    row->path);
}

/* Owner and groups that the system does not know. */
static void check_names(struct compilation *c, const config_setting_t *group,
    const struct setting *row) {
	static const char *const names[] = { "owner", "group", "read_group", "write_group" };
	char path[64];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const config_setting_t *setting = compilation_member(group, names[i]);

		if (setting == NULL)
			continue;
		snprintf(path, sizeof(path), "%s: %s", row->path, names[i]);
		check_name_is_known(c, setting, path, i > 0, config_setting_get_string(setting),
		    row->offset == LISTENER_METRICS ? "posternd will start without this socket" : NULL);
	}
}

/* Why nobody may be heard at this address: whoever can send there is believed, or may
 * read.  NULL: all is well. */
static const char *refusal(uint8_t kind, const char *text) {
	static const uint8_t ipv4_local = 127;
	bool is_unix = strncmp(text, "unix:", 5) == 0;
	struct listen_address address;
	const char *why;

#ifndef WITH_QUEUE
	if (kind == LISTENER_QUEUE)
		return "cannot be used: this posternd was built without the managed queue";
#endif
	if (kind == LISTENER_SOCKETMAP && !is_unix)
		return "is not a unix socket: only these identify the process that asks";
	if ((kind == LISTENER_EVENTS || kind == LISTENER_QUEUE) && !is_unix)
		return "is not a unix socket: only these have permissions";
	if ((kind != LISTENER_SYSLOG && kind != LISTENER_METRICS) || is_unix ||
	    !listen_address_parse(text, &address, &why))
		return NULL;
	if (address.socket_address.ss_family == AF_INET ?
	    *(const uint8_t *)&((const struct sockaddr_in *)&address.socket_address)->sin_addr ==
	    ipv4_local : IN6_IS_ADDR_LOOPBACK(
	    &((const struct sockaddr_in6 *)&address.socket_address)->sin6_addr))
		return NULL;
	return kind == LISTENER_METRICS ?
	    "is not a loopback address (127.0.0.1, ::1): other hosts could read there" :
	    "is not a loopback address (127.0.0.1, ::1): other hosts could send there";
}

/* Can every user of this host reach the path?  Directories that are missing yet are no fence. */
static bool everybody_can_reach(const char *path) {
	char above[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct stat status;

	for (const char *slash = strchr(path, '/'); slash != NULL;
	    slash = strchr(slash + 1, '/')) {
		if (!text_copy(above, sizeof(above), path, (size_t)(slash - path) + 1))
			return true;
		if (stat(above, &status) != 0 ? errno == EACCES :
		    (status.st_mode & S_IXOTH) == 0)
			return false;
	}
	return true;
}

/* Sockets on which sessions are opened and ended, or that know the destinations. */
static void note_open_to_all(struct compilation *c, const config_setting_t *where,
    const struct setting *row, const char *address, uint16_t mode) {
	if ((row->offset == LISTENER_POLICY || row->offset == LISTENER_MILTER ||
	    row->offset == LISTENER_MILTER_ACCOUNTS || row->offset == LISTENER_SOCKETMAP) && strncmp(address, "unix:", 5) == 0 &&
	    (mode & S_IWOTH) != 0 && everybody_can_reach(address + 5))
		note(c, where, "%s: every user of this host can connect to %s and fill the "
		    "classes; use mode \"0660\" and the group of the mail server", row->path,
		    address);
}

/* Who may ask: only where there are questions, and only unix sockets tell who does. */
static bool take_access(struct compilation *c, const config_setting_t *group,
    const struct setting *row, const char *address, struct generation_listener *listener) {
	static const char *const names[] = { "read_group", "write_group" };
	uint32_t *const places[] = { &listener->read_group, &listener->write_group };
	static const char *const paths[] = { "listen.*[].read_group",
		"listen.*[].write_group" };
	bool good = true;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const config_setting_t *setting = compilation_member(group, names[i]);
		struct setting_value value;

		if (setting == NULL)
			continue;
		if (row->offset != LISTENER_CONTROL &&
		    (row->offset != LISTENER_QUEUE || i != 0)) {
			complain(c, setting, "%s: %s is for %s only", row->path, names[i],
			    i == 0 ? "listen.control and listen.queue" : "listen.control");
			good = false;
		} else if (strncmp(address, "unix:", 5) != 0) {
			complain(c, setting, "%s: %s: %s is not a unix socket: only these "
			    "identify the user", row->path, names[i], address);
			good = false;
		} else if (compilation_value(group, paths[i], &value)) {
			*places[i] = block_text(&c->block, value.text);
		}
	}
	return good;
}

/* `element` is a text, a group, or NULL for the row's default. */
static void add_listener(struct compilation *c, const struct setting *row,
    const config_setting_t *where, const config_setting_t *element) {
	bool grouped = element != NULL && config_setting_is_group(element);
	const config_setting_t *group = grouped ? element : NULL;
	struct generation_listener listener = { .kind = (uint8_t)row->offset,
		.proof = (uint8_t)c->proof };
	const struct generation_listener *same;
	struct setting_value address;
	const char *unheard;
	char why[256];

	if (element == NULL) {
		if (!setting_parse_text(row, row->fallback, &address, why, sizeof(why)))
			complain(c, NULL, "%s: its default %s", row->path, why);
	} else if (!(grouped ? compilation_value(group, "listen.*[].address", &address) :
	    setting_parse(row, element, &address, why, sizeof(why)))) {
		return;		/* check.c has said why */
	}
	if (address.text == NULL)
		return;
	unheard = refusal(listener.kind, address.text);
	if (unheard != NULL) {
		complain(c, where, "%s: %s %s", row->path, address.text, unheard);
		return;
	}
	note_idle_settings(c, group, row, address.text);
	check_names(c, group, row);
	if (!take_access(c, group, row, address.text, &listener))
		return;
	listener.mode = listener.read_group != 0 || listener.write_group != 0 ? 0666 : 0660;
	compilation_store(c, BOOK_MAIN, "listen.*[]", group, &listener);
	note_open_to_all(c, where, row, address.text, listener.mode);
	listener.address = block_text(&c->block, address.text);
	if (where != NULL)
		compilation_place(c, where, &listener.line);
	if (c->block.failed)
		return;
	same = same_address(compilation_header(c), listener.address);
	if (same != NULL) {
		complain(c, where, "%s: the address is already used in listen, line %u",
		    row->path, same->line);
	} else if (compilation_header(c)->listener_count == GENERATION_LISTENERS_MAX) {
		complain(c, where, "listen: more than %d addresses", GENERATION_LISTENERS_MAX);
	} else {
		struct generation *header = compilation_header(c);

		header->listeners[header->listener_count++] = listener;
	}
}

/* Who names sockets for questions means those alone: the defaults of policy and
 * milter count only together. */
static bool default_applies(const struct compilation *c, const struct setting *row) {
	if (row->offset == LISTENER_QUEUE)
		return compilation_drives(c);
	return row->offset == LISTENER_CONTROL ||
	    (config_lookup(&c->config, "listen.policy") == NULL &&
	    config_lookup(&c->config, "listen.milter") == NULL);
}

static void check_roles(struct compilation *c) {
	const struct generation *header = compilation_header(c);
	const config_setting_t *where = config_lookup(&c->config, "policy.processes");
	unsigned milters = 0, policies = 0;

	for (uint32_t i = 0; i < header->listener_count; i++) {
		milters += header->listeners[i].kind == LISTENER_MILTER ||
		    header->listeners[i].kind == LISTENER_MILTER_ACCOUNTS;
		if (header->listeners[i].kind == LISTENER_POLICY ||
		    header->listeners[i].kind == LISTENER_SOCKETMAP)
			policies = header->policy_processes;
	}
	if (policies + milters > GENERATION_ROLES_MAX)
		complain(c, where ? where : config_lookup(&c->config, "listen.milter"),
		    "policy.processes and listen.milter need %u processes; the maximum is %d",
		    policies + milters, GENERATION_ROLES_MAX);
}

static bool is_mta(const struct generation *header, const char *name) {
	for (uint32_t i = 0; i < header->mta_count; i++)
		if (header->mtas[i].transport == 0 &&
		    strcmp(generation_text(header, header->mtas[i].name), name) == 0)
			return true;
	return false;
}

static void check_asking_mta(struct compilation *c, const struct setting *row,
    const config_setting_t *element) {
	const config_setting_t *group = config_setting_is_group(element) ? element : NULL;
	struct setting_value mta;

	if (!compilation_value(group, "listen.*[].mta", &mta))
		return;
	if (row->offset != LISTENER_POLICY && row->offset != LISTENER_MILTER_ACCOUNTS)
		complain(c, compilation_member(group, "mta"), "%s: mta is for listen.policy "
		    "and listen.milter_accounts only", row->path);
	else if (!is_mta(compilation_header(c), mta.text))
		complain(c, compilation_member(group, "mta"), "%s: no mta has the name %s",
		    row->path, mta.text);
}

#ifdef WITH_ACCOUNTS
/* Do results count for logins at all? */
static bool has_health(const struct compilation *c) {
	const struct generation *header = compilation_header(c);
	const struct generation_account *accounts = header->accounts.count == 0 ? NULL :
	    block_at(&c->block, header->accounts.accounts);

	for (uint32_t i = 0; i < header->accounts.count; i++)
		if (accounts[i].health_action != ACCOUNT_HEALTH_NONE)
			return true;
	return false;
}

/* Also of a socket by default. */
static void note_unknown_mta(struct compilation *c, const struct setting *row) {
	const struct generation *header = compilation_header(c);

	for (uint32_t i = 0; i < header->listener_count; i++)
		if (header->listeners[i].kind == row->offset &&
		    generation_asking_mta(header, i) == NULL) {
			note(c, config_lookup(&c->config, row->path), "%s: several mail servers "
			    "could ask here: without mta, results of their mail count for no login",
			    row->path);
			return;
		}
}

/* Where no socket is one that asks about mail, its limits are none. */
static void note_nobody_asks(struct compilation *c) {
	const struct generation *header = compilation_header(c);
	const struct generation_class *classes = header->class_count == 0 ? NULL :
	    block_at(&c->block, header->classes);
	const config_setting_t *list = config_lookup(&c->config, "classes");

	if (generation_has_listener(header, LISTENER_POLICY) ||
	    generation_has_listener(header, LISTENER_MILTER_ACCOUNTS))
		return;
	if (header->accounts.count > header->accounts.class_entries)
		note(c, config_lookup(&c->config, "accounts"), "accounts: no mail server can "
		    "ask; set listen.policy (Postfix) or listen.milter_accounts (Sendmail)");
	for (uint32_t i = 0; i < header->class_count; i++)
		if (classes[i].has_quotas)
			note(c, setting_element(list, i), "class %s: no mail server can "
			    "ask about recipients, messages or bytes; set listen.policy (Postfix) "
			    "or listen.milter_accounts (Sendmail)",
			    generation_text(header, classes[i].name));
}
#endif

void compile_listener_mtas(struct compilation *c) {
	size_t count;
	const struct setting *rows = settings(&count);

	for (size_t i = 0; i < count; i++) {
		const config_setting_t *value = rows[i].place != PLACE_LISTENERS ? NULL :
		    config_lookup(&c->config, rows[i].path);

		for (unsigned k = 0; value != NULL && k < setting_element_count(value); k++)
			check_asking_mta(c, &rows[i], setting_element(value, k));
	}
#ifdef WITH_ACCOUNTS
	for (size_t i = 0; i < count && has_health(c); i++)
		if (rows[i].place == PLACE_LISTENERS && (rows[i].offset == LISTENER_POLICY ||
		    rows[i].offset == LISTENER_MILTER_ACCOUNTS))
			note_unknown_mta(c, &rows[i]);
	note_nobody_asks(c);
#endif
}

void compile_listeners(struct compilation *c) {
	size_t count;
	const struct setting *rows = settings(&count);

	for (size_t i = 0; i < count; i++) {
		const config_setting_t *value;

		if (rows[i].place != PLACE_LISTENERS)
			continue;
		value = config_lookup(&c->config, rows[i].path);
		if (value == NULL) {
			if (*rows[i].fallback != '\0' && default_applies(c, &rows[i]))
				add_listener(c, &rows[i], NULL, NULL);
			continue;
		}
		for (unsigned k = 0; k < setting_element_count(value); k++) {
			const config_setting_t *element = setting_element(value, k);

			add_listener(c, &rows[i], element, element);
		}
	}
	check_roles(c);
}
