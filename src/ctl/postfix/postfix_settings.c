/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A Postfix site's settings, read by its own postconf(1).
 * MODEL    Five runs: main.cf and the services' settings, each as it stands and with
 *          $names replaced, and the services.  The outputs are kept as lists of
 *          lines "NAME = VALUE".
 * ERRORS   A postconf that fails: diag with its own words.
 * THREADS  One.
 */
#include "ctl/postfix/postfix_settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "ctl/cli/program.h"

#define DIRECTORY_MAX	1024

static const char *const wanted[] = {
	"queue_directory", "syslog_name", "smtp_connection_cache_on_demand",
	"smtp_connection_cache_destinations", "rewrite_service_name", "default_transport",
	"relayhost", "sender_dependent_relayhost_maps",
	"sender_dependent_default_transport_maps", "transport_maps",
	"address_verify_transport_maps", "parent_domain_matches_subdomains",
	"address_verify_default_transport", "address_verify_relay_transport",
	"mydestination", "virtual_alias_domains", "virtual_mailbox_domains",
	"relay_domains", "relay_transport", "minimal_backoff_time",
};
#define WANTED	(sizeof(wanted) / sizeof(wanted[0]))

const struct postfix_parameter postfix_parameters[] = {
#define SAME(name)	{ #name, "$default_" #name }
	{ "initial_destination_concurrency", "$initial_destination_concurrency" },
	SAME(destination_concurrency_limit),
	SAME(destination_concurrency_positive_feedback),
	SAME(destination_concurrency_negative_feedback),
	SAME(destination_concurrency_failed_cohort_limit),
	SAME(destination_recipient_limit), SAME(destination_rate_delay),
	SAME(transport_rate_delay), SAME(recipient_limit),
	SAME(extra_recipient_limit), SAME(recipient_refill_limit),
	SAME(recipient_refill_delay), SAME(delivery_slot_cost),
	SAME(delivery_slot_loan), SAME(delivery_slot_discount),
	SAME(minimum_delivery_slots), SAME(delivery_status_filter),
#undef SAME
	{ NULL, NULL },
};
#define PARAMETERS (sizeof(postfix_parameters) / sizeof(postfix_parameters[0]))
#define PARAMETER_MAX	128

enum listing { MAIN_RAW, MAIN_FULL, SERVICES_RAW, SERVICES_FULL, LINES, LISTINGS };

struct postfix_settings {
	char directory[DIRECTORY_MAX];
	/* "smtp_recipient_limit" */
	char parameters[POSTFIX_TRANSPORTS_MAX * PARAMETERS][PARAMETER_MAX];
	size_t parameter_count;
	struct program_output outputs[LISTINGS];
};

static int ask_postconf(struct postfix_settings *settings, enum listing listing,
    struct diag *diag) {
	static const char *const options[LISTINGS][2] = {
		[MAIN_RAW] = { NULL }, [MAIN_FULL] = { "-x", NULL },
		[SERVICES_RAW] = { "-P", NULL }, [SERVICES_FULL] = { "-P", "-x" },
		[LINES] = { "-M", NULL },
	};
	const char *argv[6 + WANTED + POSTFIX_TRANSPORTS_MAX * PARAMETERS] = { "postconf", "-c",
		settings->directory };
	struct program_output *output = &settings->outputs[listing];
	size_t count = 3;

	for (size_t i = 0; i < 2 && options[listing][i] != NULL; i++)
		argv[count++] = options[listing][i];
	for (size_t i = 0; i < WANTED && listing <= MAIN_FULL; i++)
		argv[count++] = wanted[i];
	for (size_t i = 0; i < settings->parameter_count && listing <= MAIN_FULL; i++)
		argv[count++] = settings->parameters[i];
	argv[count] = NULL;
	if (program_run(argv, NULL, NULL, 0, output, diag) != 0)
		return -1;
	if (output->exit == 0)
		return 0;
	return diag_set(diag, 0, "postconf -c %s: exit code %d: %s", settings->directory,
	    output->exit, output->error);
}

int postfix_settings_read(struct postfix_settings **out,
    const char *config_directory, const char *const *transports, unsigned count,
    struct diag *diag) {
	struct postfix_settings *settings = calloc(1, sizeof(*settings));

	*out = settings;
	if (settings == NULL)
		return diag_set(diag, errno, "no memory");
	if (!text_copy(settings->directory, sizeof(settings->directory),
		config_directory, strlen(config_directory)) ||
	    config_directory[0] != '/')
		return diag_set(diag, 0, "config_directory %s is not an absolute path",
		    config_directory);
	for (unsigned k = 0; k < count && k < POSTFIX_TRANSPORTS_MAX; k++)
		for (size_t i = 0; postfix_parameters[i].name != NULL; i++)
			(void)text_append(settings->parameters[settings->parameter_count++],
			    PARAMETER_MAX, 0, "%s_%s", transports[k],
			    postfix_parameters[i].name);
	for (unsigned i = 0; i < LISTINGS; i++) {
		if (ask_postconf(settings, (enum listing)i, diag) != 0)
			return -1;
		/* one string a line */
		for (char *at = settings->outputs[i].out;
		     (at = strchr(at, '\n')) != NULL; at++)
			*at = '\0';
	}
	return 0;
}

void postfix_settings_free(struct postfix_settings **settings) {
	if (*settings == NULL)
		return;
	for (unsigned i = 0; i < LISTINGS; i++)
		program_free(&(*settings)->outputs[i]);
	free(*settings);
	*settings = NULL;
}

const char *postfix_directory(const struct postfix_settings *settings) {
	return settings->directory;
}

static const char *next_line(const struct program_output *output, const char *line) {
	const char *end = output->out + output->length;

	line = line == NULL ? output->out : line + strlen(line) + 1;
	return line < end ? line : NULL;
}

/* The value of "NAME = VALUE", or NULL: another name.  An empty value may stand
 * as "NAME =". */
static const char *value_of(const char *line, const char *name) {
	size_t length = strlen(name);

	if (strncmp(line, name, length) != 0)
		return NULL;
	line += length;
	line += strspn(line, " \t");
	if (*line != '=')
		return NULL;
	line++;
	return line + strspn(line, " \t");
}

static const char *find_value(const struct program_output *output, const char *name) {
	const char *found = NULL;

	for (const char *line = NULL; (line = next_line(output, line)) != NULL;) {
		const char *value = value_of(line, name);

		if (value != NULL)
			found = value;
	}
	return found;
}

const char *postfix_main(const struct postfix_settings *settings, const char *name,
    bool raw) {
	return find_value(&settings->outputs[raw ? MAIN_RAW : MAIN_FULL], name);
}

const char *postfix_override(const struct postfix_settings *settings,
    const char *service, const char *name, bool raw) {
	char key[256] = "";

	text_append(key, sizeof(key), 0, "%s/unix/%s", service, name);
	return find_value(&settings->outputs[raw ? SERVICES_RAW : SERVICES_FULL], key);
}

const char *postfix_value(const struct postfix_settings *settings,
    const char *service, const char *name, bool raw) {
	const char *value = postfix_override(settings, service, name, raw);

	return value != NULL ? value : postfix_main(settings, name, raw);
}

const char *postfix_transport_value(const struct postfix_settings *settings,
    const char *clone, const struct postfix_parameter *parameter) {
	char name[PARAMETER_MAX] = "";
	const char *value;

	(void)text_append(name, sizeof(name), 0, "%s_%s", clone, parameter->name);
	value = postfix_value(settings, "qmgr", name, true);
	return value == NULL || strcmp(value, parameter->fallback) == 0 ? NULL : value;
}

void postfix_overrides_each(const struct postfix_settings *settings,
    const char *service,
    void (*each)(void *context, const char *name, const char *value), void *context) {
	const struct program_output *output = &settings->outputs[SERVICES_RAW];
	char prefix[128] = "", name[128];

	text_append(prefix, sizeof(prefix), 0, "%s/unix/", service);
	for (const char *line = NULL; (line = next_line(output, line)) != NULL;) {
		const char *from = line + strlen(prefix);

		if (strncmp(line, prefix, strlen(prefix)) == 0 &&
		    text_copy(name, sizeof(name), from, strcspn(from, " \t=")))
			each(context, name, value_of(from, name));
	}
}

struct span postfix_word(const char **list, const char *between) {
	const char *from = *list + strspn(*list, between), *at = from;
	unsigned depth = 0;

	for (; *at != '\0' && (depth > 0 || strchr(between, *at) == NULL); at++)
		depth += *at == '{' ? 1u : *at == '}' && depth > 0 ? -1u : 0;
	*list = at;
	return (struct span){ from, (size_t)(at - from) };
}

bool postfix_service_word(const char *line, unsigned number, char *out, size_t size) {
	struct span word = postfix_word(&line, " \t");

	for (unsigned i = 0; i < number; i++)
		word = postfix_word(&line, " \t");
	return word.length > 0 && text_copy(out, size, word.text, word.length);
}

/* The last one counts, as for Postfix.  *count: how many there are. */
static const char *find_service(const struct postfix_settings *settings,
    const char *service, unsigned *count) {
	const struct program_output *output = &settings->outputs[LINES];
	const char *found = NULL;
	char name[128], type[16];

	*count = 0;
	for (const char *line = NULL; (line = next_line(output, line)) != NULL;)
		if (postfix_service_word(line, 0, name, sizeof(name)) &&
		    postfix_service_word(line, 1, type, sizeof(type)) &&
		    strcmp(name, service) == 0 && strcmp(type, "unix") == 0) {
			found = line;
			++*count;
		}
	return found;
}

const char *postfix_service(const struct postfix_settings *settings,
    const char *service) {
	unsigned count;

	return find_service(settings, service, &count);
}

unsigned postfix_service_count(const struct postfix_settings *settings,
    const char *service) {
	unsigned count;

	(void)find_service(settings, service, &count);
	return count;
}
