/* SPDX-License-Identifier: ISC */
/*
 * The file of account_overrides: limits of single logins.
 *
 *	# login, then what it may; what is not named is as the entry of accounts has it
 *	alice@example.org	recipients=1000/1d,200/1h bytes=2G/1d
 *	newsletter		recipients=none recipients_per_message=none
 *
 * Model: lines are read once; equal limits are stored once, found by their text; logins go
 * into a table by hash, of which only the key is kept.  Errors: a file that cannot be read is
 * one, as one that is included; a line that is wrong is left out with a note of file and line,
 * the rest stands; of a login that stands twice the last line counts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/login.h"
#include "base/map.h"
#include "base/text.h"
#include "config/classes/accounts.h"
#include "config/read/read_file.h"

#define FILE_BYTES_MAX	((size_t)256 << 20)
#define LINES_MAX	(UINT32_C(4) << 20)
#define BEHIND_MAIN	(1u << 30)
#define LIMITS_TEXT_MAX	1024

struct overrides_work {
	struct compilation *c;
	const char *file;
	unsigned line;
	struct map known;	/* sets by their text's place in the block */
	struct generation_override_set *sets;
	size_t set_room;
	uint32_t set_count;
	struct generation_override *places;	/* as they go into the block */
	uint32_t place_count;
	uint32_t count;
};

#define wrong(w, ...) \
	report_add(&(w)->c->report, MESSAGE_NOTE, (w)->file, (w)->line, \
	    BEHIND_MAIN + (w)->line, __VA_ARGS__)

/* One value of "recipients=1000/1d,200/1h". */
static bool read_quota(struct overrides_work *w, enum quota_kind kind, char *text,
    struct generation_quota *out) {
	const struct setting *row = account_limit_setting("accounts[].each", kind);
	struct setting_value value;
	char why[256];

	if (!setting_parse_text(row, text, &value, why, sizeof(why))) {
		wrong(w, "%s", why);
		return false;
	}
	out->limit = account_limit(kind, &value);
	out->line = w->line;
	return true;
}

/* The words of a line behind its login. */
struct limits_read {
	struct generation_quota quotas[GENERATION_QUOTAS_MAX];
	uint32_t count;
	uint32_t kinds;
	uint32_t per_message;
};

static bool read_quotas(struct overrides_work *w, enum quota_kind kind, char *values,
    struct limits_read *out) {
	char *rest = NULL;

	if ((out->kinds >> kind & 1) != 0) {
		wrong(w, "%s= stands twice; use %s=N/TIME,N/TIME", account_kind_names[kind],
		    account_kind_names[kind]);
		return false;
	}
	out->kinds |= 1u << kind;
	if (strcmp(values, "none") == 0)
		return true;
	if (values[0] == ',' || strstr(values, ",,") != NULL ||
	    values[strlen(values) - 1] == ',') {
		wrong(w, "%s: a value is missing beside a comma", account_kind_names[kind]);
		return false;
	}
	for (char *value = strtok_r(values, ",", &rest); value != NULL;
	     value = strtok_r(NULL, ",", &rest)) {
		if (out->count == GENERATION_QUOTAS_MAX) {
			wrong(w, "more than %d limits", GENERATION_QUOTAS_MAX);
			return false;
		}
		if (!read_quota(w, kind, value, &out->quotas[out->count]))
			return false;
		out->count++;
	}
	return true;
}

static bool read_word(struct overrides_work *w, char *word, struct limits_read *out) {
	char *value = strchr(word, '=');
	char quoted[128];

	if (value == NULL || value[1] == '\0') {
		wrong(w, "\"%s\" must be NAME=VALUE", log_sentence(quoted, sizeof(quoted), word));
		return false;
	}
	*value++ = '\0';
	for (unsigned kind = 0; kind < QUOTA_KINDS; kind++)
		if (strcmp(word, account_kind_names[kind]) == 0)
			return read_quotas(w, (enum quota_kind)kind, value, out);
	if (strcmp(word, "recipients_per_message") != 0) {
		wrong(w, "unknown name \"%s\"; use recipients, messages, bytes or "
		    "recipients_per_message", log_sentence(quoted, sizeof(quoted), word));
		return false;
	}
	out->per_message = 0;
	if (strcmp(value, "none") == 0)
		return true;
	if (text_to_u32(value, strlen(value), 1000000, &out->per_message) &&
	    out->per_message > 0)
		return true;
	wrong(w, "recipients_per_message: \"%s\" must be a number from 1 to 1000000, or none",
	    log_sentence(quoted, sizeof(quoted), value));
	return false;
}

/* Does what counts for the login need more counters than it has? */
static bool fits_entry(struct overrides_work *w, uint32_t account,
    const struct limits_read *read) {
	const struct generation *g = compilation_header(w->c);
	const struct generation_account *entry = account == GENERATION_NO_ACCOUNT ? NULL :
	    (const struct generation_account *)block_at(&w->c->block, g->accounts.accounts) +
	    account;
	struct quota_limit limits[2 * GENERATION_QUOTAS_MAX];
	unsigned count = 0;

	for (uint32_t i = 0; i < read->count; i++)
		limits[count++] = read->quotas[i].limit;
	for (uint32_t i = 0; entry != NULL && i < entry->each.count; i++) {
		const struct generation_quota *quota = (const struct generation_quota *)
		    block_at(&w->c->block, entry->each.at) + i;

		if ((read->kinds >> quota->limit.kind & 1) == 0)
			limits[count++] = quota->limit;
	}
	return count <= GENERATION_QUOTAS_MAX &&
	    account_counters(limits, count) <= GENERATION_QUOTA_COUNTERS;
}

static bool add_set(struct overrides_work *w, uint32_t text, const struct limits_read *read) {
	const struct generation_override_set set = {
		.quotas = account_store(w->c, read->quotas, read->count),
		.kinds = read->kinds, .per_message = read->per_message };

	if (!array_grow(&w->sets, &w->set_room, w->set_count, sizeof(set)) ||
	    !map_set_index(&w->known, text, w->set_count))
		return false;
	w->sets[w->set_count++] = set;
	return true;
}

/* The set of these words, known or new; the caller's text is changed.  False: wrong. */
static bool set_of(struct overrides_work *w, char *words, uint32_t account, uint32_t *set) {
	struct limits_read read = { .per_message = UINT32_MAX };
	uint32_t text = block_text(&w->c->block, words);
	char *rest = NULL;

	if (w->c->block.failed)
		return false;
	for (char *word = strtok_r(words, " \t", &rest); word != NULL;
	     word = strtok_r(NULL, " \t", &rest))
		if (!read_word(w, word, &read))
			return false;
	if (!fits_entry(w, account, &read)) {
		wrong(w, "more than %d different windows, with those of the entry of accounts",
		    GENERATION_QUOTA_COUNTERS);
		return false;
	}
	if (map_index(&w->known, text) == MAP_NONE && !add_set(w, text, &read))
		w->c->block.failed = true;
	*set = map_index(&w->known, text);
	return !w->c->block.failed;
}

static void put_override(struct overrides_work *w, uint64_t key, uint32_t set) {
	uint32_t mask = w->place_count - 1, at = (uint32_t)key & mask;

	while (w->places[at].key != 0 && w->places[at].key != key)
		at = (at + 1) & mask;
	if (w->places[at].key == key)
		wrong(w, "this login is already in line %u, which no longer counts",
		    w->places[at].line);
	else
		w->count++;
	w->places[at] = (struct generation_override){ key, set, w->line };
}

static void read_line(struct overrides_work *w, char *line, size_t length) {
	char folded[LOGIN_MAX], *words = line + strcspn(line, " \t");
	size_t login = (size_t)(words - line);
	uint32_t pattern, account, set;
	uint64_t key;

	if (memchr(line, '\0', length) != NULL) {
		wrong(w, "a NUL character");
		return;
	}
	words += strspn(words, " \t");
	if (*line == '#' || length == 0)
		return;
	if (login == 0) {
		if (*words != '\0' && *words != '#')
			wrong(w, "a line begins with a login, not with a blank");
		return;
	}
	if (*words == '\0' || strlen(words) > LIMITS_TEXT_MAX) {
		wrong(w, *words == '\0' ? "a login without limits" : "the line is too long");
		return;
	}
	if (!login_fold(line, login, folded)) {
		wrong(w, "the login is longer than %d bytes", LOGIN_MAX);
		return;
	}
	if (memchr(line, '*', login) != NULL)
		wrong(w, "patterns do not work here; the line is for one login, whose name has a *");
	account = generation_account_of(compilation_header(w->c), folded, login, &pattern);
	key = login_key(folded, login).words[0];
	if (account == GENERATION_NO_ACCOUNT)
		wrong(w, "no entry of accounts matches this login; the line has no effect");
	else if (set_of(w, words, account, &set))
		put_override(w, key, set);
}

static bool make_places(struct overrides_work *w, const char *text, size_t length) {
	uint32_t lines = 1;

	for (size_t i = 0; i < length && lines < LINES_MAX; i++)
		lines += text[i] == '\n';
	w->place_count = 16;
	while (w->place_count < 2 * (uint64_t)lines)
		w->place_count *= 2;
	w->places = calloc(w->place_count, sizeof(*w->places));
	return w->places != NULL;
}

static void overrides_store(struct overrides_work *w) {
	uint32_t places_at, sets_at;
	struct generation_accounts *a;

	if (w->count == 0)
		return;
	places_at = block_store(&w->c->block, w->places, w->place_count * sizeof(*w->places));
	sets_at = block_store(&w->c->block, w->sets, w->set_count * sizeof(*w->sets));
	if (w->c->block.failed)
		return;
	a = &compilation_header(w->c)->accounts;
	a->overrides = places_at;
	a->override_places = w->place_count;
	a->override_count = w->count;
	a->sets = sets_at;
	a->set_count = w->set_count;
}

static void compile_overrides_text(struct compilation *c, const char *name, char *text,
    size_t length) {
	struct overrides_work w = { .c = c, .file = name };
	char *line = text, *end = text + length;

	if (!make_places(&w, text, length)) {
		c->block.failed = true;
		return;
	}
	while (line < end && !c->block.failed) {
		char *newline = memchr(line, '\n', (size_t)(end - line));
		char *stop = newline == NULL ? end : newline;
		size_t line_length = (size_t)(stop - line);

		if (++w.line == LINES_MAX) {
			wrong(&w, "more than %u lines; the rest is not read", LINES_MAX);
			break;
		}
		if (line_length > 0 && stop[-1] == '\r')
			line_length--;
		line[line_length] = '\0';
		read_line(&w, line, line_length);
		line = stop + 1;
	}
	if (!c->block.failed)
		overrides_store(&w);
	map_free(&w.known);
	free(w.sets);
	free(w.places);
}

static void compile_given_text(struct compilation *c) {
	char *text = malloc(c->overrides_length + 1);

	if (text == NULL) {
		c->block.failed = true;
		return;
	}
	memcpy(text, c->overrides_text, c->overrides_length);
	text[c->overrides_length] = '\0';
	compile_overrides_text(c, "overrides", text, c->overrides_length);
	free(text);
}

/* Who only checks may not be allowed to; without the file no login would keep its own limits. */
static void unreadable(struct compilation *c, const config_setting_t *where, const char *name) {
	if (errno == EACCES && geteuid() != 0)
		note(c, where, "account_overrides: %s: not checked, because this user cannot read "
		    "it", name);
	else
		complain(c, where, "account_overrides: cannot read %s: %s", name,
		    read_file_error());
}

void compile_account_overrides(struct compilation *c) {
	const config_setting_t *where = config_lookup(&c->config, "account_overrides");
	const char *path = generation_text(compilation_header(c),
	    compilation_header(c)->accounts.overrides_file);
	char *text, name[4096];
	size_t length;

	if (c->overrides_text != NULL) {
		compile_given_text(c);
		return;
	}
	if (*path == '\0' || !c->reads_files || compilation_header(c)->accounts.count == 0)
		return;
	/* the block may move */
	text_copy(name, sizeof(name), path, strlen(path));
	text = read_file(name, FILE_BYTES_MAX, &length);
	if (text == NULL) {
		unreadable(c, where, name);
		return;
	}
	if (length > FILE_BYTES_MAX)
		complain(c, where, "account_overrides: %s is larger than %zu MiB", name,
		    FILE_BYTES_MAX >> 20);
	else
		compile_overrides_text(c, name, text, length);
	free(text);
}
