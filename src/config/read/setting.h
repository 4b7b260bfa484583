/* SPDX-License-Identifier: ISC */
/*
 * The settings that exist (defs/settings.def), and single values read against
 * them.  Part of config/ only: it knows libconfig's types.
 */
#ifndef CONFIG_SETTING_H
#define CONFIG_SETTING_H

#include <libconfig.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/window/window.h"

#define SETTING_PATH_MAX 96

/* What the source puts for a bare number that was refused already (written out,
 * this number would be refused itself). */
#define SETTING_UNREADABLE INT32_MIN
#define SETTING_UNREADABLE_TEXT "-2147483648"

enum setting_type {
	SETTING_GROUP,		/* { } */
	SETTING_GROUPS,		/* ( { }, ... ) */
	SETTING_FLAG,		/* true, false */
	SETTING_NUMBER,		/* small integer, or text with k, M */
	SETTING_SIZE,		/* the same */
	SETTING_DURATION,	/* text: "90s" */
	SETTING_RATE,		/* text: "60/1m" */
	SETTING_WORD,		/* one of `allowed` */
	SETTING_TEXT,		/* printable ASCII */
	SETTING_WORD_TEXT,	/* printable ASCII without space */
	SETTING_PATH,		/* absolute */
	SETTING_LOG,		/* absolute path, or journal:... (base/sd_log.h) */
	SETTING_PATH_OR_NONE,	/* the same, or the word none: no text is kept then */
	SETTING_MODE,		/* "0660" */
	SETTING_ADDRESS,	/* listen_address.h */
	SETTING_FEEDBACK,	/* 0..1, or text: "1/4", "1/concurrency" */
	SETTING_WINDOW,		/* { } with the settings of the group window */
	SETTING_REPLIES,	/* ( { }, ... ) with those of the list replies */
	/* a single one, or an array or list of them: */
	SETTING_MASKS,
	SETTING_PORTS,
	SETTING_NUMBERS,
	SETTING_TEXTS,
	SETTING_WORDS,		/* each one of `allowed` */
	SETTING_QUOTAS,		/* texts: "500/1d", never more in any such time */
	SETTING_LISTEN,		/* addresses, or groups with an address */
};

enum setting_effect { EFFECT_RELOAD, EFFECT_RESTART };

enum setting_place { PLACE_NONE, PLACE_TEXT, PLACE_NUMBER, PLACE_RATE, PLACE_LISTENERS };

struct setting {
	const char *path;
	enum setting_type type;
	const char *fallback;	/* "": none */
	const char *allowed;	/* "low..high" or "word|word" */
	enum setting_effect effect;
	enum setting_place place;
	size_t offset;		/* PLACE_LISTENERS: the kind */
	size_t bytes;
	bool is_in_element;	/* the offset; else in struct generation */
	const char *help;
};

struct setting_value {
	int64_t number;		/* flags, numbers, sizes, ns, places of words, modes, rates */
	int64_t period_ns;	/* rates, quotas */
	const char *text;	/* texts: the caller's or libconfig's */
	struct window_feedback feedback;
};

/* Each kind of file has a table of its own. */
enum setting_book {
	BOOK_MAIN,		/* postern.conf: defs/settings.def */
	BOOK_PROVIDERS,		/* providers.conf: defs/providers.def */
	BOOK_SCENARIO,		/* of postern-simulate schedule: defs/scenario.def */
};

/* All rows of postern.conf, or of any file, `*count` of them. */
const struct setting *settings(size_t *count);
const struct setting *settings_in(enum setting_book book, size_t *count);

/* The row of a path such as "classes[].name", or NULL. */
const struct setting *setting_find(const char *path);	/* of postern.conf */
const struct setting *setting_find_in(enum setting_book book, const char *path);

/* The last word that a setting of postern.conf had in the previews (renamed.def), or NULL.
 * Static text. */
const char *setting_old_name(const char *path);

/* The row of postern.conf that had this name in the group then, or NULL. */
const struct setting *setting_renamed(const char *group, const char *old_name);

/* The known name that is most like `name` in the group `group` ("" is the top
 * level), or NULL when none is near.  For a name of a preview, the new one.  Static text. */
const char *setting_nearest(enum setting_book book, const char *group, const char *name);

/* The row whose last word is `name`, or nearly so, wherever it stands, or NULL. */
const struct setting *setting_elsewhere(enum setting_book book, const char *name);

/* The path as people write it: without "[]" and "*". */
const char *setting_spoken(const char *path, char out[SETTING_PATH_MAX]);

/* Reads one value of the row's type (for the many-valued types: of one
 * element) out of text or a libconfig scalar.  False: *why says what it should
 * be, as "must be ..." or "is not ...". */
bool setting_parse_text(const struct setting *setting, const char *text,
    struct setting_value *out, char *why, size_t why_size);
bool setting_parse(const struct setting *setting, const config_setting_t *value,
    struct setting_value *out, char *why, size_t why_size);

/* A single value counts as one element; an aggregate has its own. */
unsigned setting_element_count(const config_setting_t *value);
const config_setting_t *setting_element(const config_setting_t *value, unsigned index);

#endif
