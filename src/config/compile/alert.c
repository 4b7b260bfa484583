/* SPDX-License-Identifier: ISC */
/* Alerts: the command that tells people, of what and how often; and the words of any
 * command that the supervisor runs. */
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "config/read/compilation.h"

#define WORDS_MAX	(GENERATION_COMMAND_WORDS - 1)	/* the last place is for one more */

static const char *const alert_words[ALERT_KINDS] = {
#define ALERT(symbol, word, subject, text) [ALERT_##symbol] = word,
#include "defs/alerts.def"
#undef ALERT
};

const char *generation_alert_word(enum alert_kind kind) {
	return alert_words[kind];
}

/* A directory may be "executed", too. */
static bool is_program(const char *path) {
	struct stat status;

	return access(path, X_OK) == 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

unsigned compile_command_words(struct compilation *c, const char *path, const char *without,
    uint32_t words[GENERATION_COMMAND_WORDS]) {
	const config_setting_t *command = config_lookup(&c->config, path);
	unsigned count = command == NULL ? 0 : setting_element_count(command);
	const struct setting *row = setting_find(path);
	char why[256], quoted[128];

	if (command != NULL && (count == 0 || count > WORDS_MAX)) {
		complain(c, command, "%s: needs a path and at most %d arguments, not %u words",
		    path, WORDS_MAX - 1, count);
		return 0;
	}
	for (unsigned i = 0; i < count; i++) {
		const config_setting_t *element = setting_element(command, i);
		struct setting_value value;

		if (!setting_parse(row, element, &value, why, sizeof(why)))
			return 0;	/* check.c has said so */
		log_quote(quoted, sizeof(quoted), value.text, strlen(value.text));
		if (i == 0 && value.text[0] != '/')
			complain(c, element, "%s: \"%s\" must be an absolute path",
			    path, quoted);
		else if (i == 0 && !is_program(value.text))
			note(c, element, "%s: %s cannot be run: %s", path, quoted, without);
		words[i] = block_text(&c->block, value.text);
		if (c->block.failed)
			return 0;
	}
	return count;
}

/* The words of alert.on; without it all. */
static uint32_t compile_on(const struct compilation *c) {
	const config_setting_t *group = config_lookup(&c->config, "alert");
	struct setting_value value;
	uint32_t bits = 0;

	if (compilation_member(group, "alert.on") == NULL)
		return (1u << ALERT_KINDS) - 1;
	for (unsigned i = 0; i < compilation_element_count(group, "alert.on"); i++)
		if (compilation_element(group, "alert.on", i, &value))
			bits |= 1u << value.number;
	return bits;
}

void compile_alert(struct compilation *c) {
	const config_setting_t *group = config_lookup(&c->config, "alert");
	uint32_t words[GENERATION_COMMAND_WORDS];
	unsigned count = compile_command_words(c, "alert.command", "no alerts will be sent",
	    words);
	struct generation_alert *alert;

	if (c->block.failed)
		return;
	alert = &compilation_header(c)->alert;
	memcpy(alert->words, words, count * sizeof(words[0]));
	alert->word_count = count;
	alert->on = compile_on(c);
	if (alert->on == 0 && count > 0)
		note(c, config_lookup(&c->config, "alert.on"), "alert.on is empty: no event "
		    "triggers an alert");
	if (group != NULL && config_lookup(&c->config, "alert.command") == NULL)
		note(c, group, "alert.command is missing: no alerts will be sent");
}
