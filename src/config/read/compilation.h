/* SPDX-License-Identifier: ISC */
/* What the parts of the compiler share while one file is compiled. */
#ifndef CONFIG_COMPILATION_H
#define CONFIG_COMPILATION_H

#include <libconfig.h>
#include <stdbool.h>

#include "config/generation/block.h"
#include "config/generation/generation.h"
#include "config/read/report.h"
#include "config/read/setting.h"
#include "config/read/source.h"

struct compilation {
	struct source source;
	struct report report;
	config_t config;
	struct block block;	/* begins with the struct generation */
	struct map names;	/* of which each is unique, and the line where it is used */
	uint32_t last_file;	/* that compilation_place found: a text of the block, or 0 */
	int64_t proof;		/* of the top level */
	bool reads_files;	/* false: a text alone, nothing else is looked at */
	bool places_only;	/* the state's, journal's and listeners' settings alone */
	const char *providers_text;	/* instead of the file of providers, or NULL */
	const char *providers_name;
	const char *overrides_text;	/* instead of the file of account_overrides, or NULL */
	size_t overrides_length;
};

/* The header of the block: valid, with the texts so far, until the block grows. */
static inline struct generation *compilation_header(const struct compilation *c) {
	struct generation *header = (struct generation *)(void *)c->block.data;

	header->bytes = c->block.used;
	return header;
}

/* A message about the place of `where` (NULL: the file as a whole). */
#define complain(c, where, ...) \
	compilation_say(c, MESSAGE_ERROR, where, __VA_ARGS__)
#define note(c, where, ...) \
	compilation_say(c, MESSAGE_NOTE, where, __VA_ARGS__)
void compilation_say(struct compilation *c, enum message_severity severity,
    const config_setting_t *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* File (as an offset) and line of a setting. */
uint32_t compilation_place(struct compilation *c, const config_setting_t *where,
    uint32_t *line);

/* Complains where a `what` has a name, a text of the block, that another one has. */
void compilation_check_unique(struct compilation *c, const config_setting_t *group,
    const char *what, uint32_t name);

/* How many elements a list has; 0 of what is none, or NULL. */
unsigned compilation_length(const config_setting_t *list);
/* The next group of a list from number *at on, which moves behind it; NULL: no more. */
const config_setting_t *compilation_next_group(const config_setting_t *list, unsigned *at);

/* The member of `group` (NULL: nothing) that the last word of the path names. */
const config_setting_t *compilation_member(const config_setting_t *group, const char *path);

/* Its value, or the default of the row.  True: it was given and is good.  Where
 * it is bad check.c has said so. */
bool compilation_value(const config_setting_t *group, const char *path,
    struct setting_value *out);

/* The same of a row of any table. */
bool compilation_value_of(const struct setting *row, const config_setting_t *group,
    struct setting_value *out);

/* Number `index` of the elements of its member; false: it is bad (check.c has said so), or none. */
bool compilation_element(const config_setting_t *group, const char *path, unsigned index,
    struct setting_value *out);
/* How many it has; 0: it is not given. */
unsigned compilation_element_count(const config_setting_t *group, const char *path);

/* Stores into *out what `group` (NULL: nothing) says of the rows right below `path`, where their
 * row says it is kept; what is neither given nor has a default stays as it is. */
void compilation_store(struct compilation *c, enum setting_book book, const char *path,
    const config_setting_t *group, void *out);

/* The same of the whole file, into the header of the block. */
void compilation_store_header(struct compilation *c);

/* Adds one to a sorted list without doubles; false: it has `most`. */
bool compilation_add_number(uint16_t *numbers, uint32_t *count, uint32_t most, uint16_t number);
/* All elements of a member, or the default of its row; false: they are more than `most`. */
bool compilation_numbers(const config_setting_t *group, const char *path, uint16_t *numbers,
    uint32_t *count, uint32_t most);

/* Begins `config` by the source, which is usable, and checks every setting.  False: it has no
 * syntax. */
bool compilation_parse(struct compilation *c, enum setting_book book);

/* check.c: every setting is known, of its type and within its bounds. */
void check_settings(struct compilation *c, enum setting_book book);

/* windows.c: window, and (after the providers) destinations. */
void compile_windows(struct compilation *c);
void compile_destinations(struct compilation *c);
/* A group as `window`: its offset, or 0 where it is NULL or sets nothing. */
uint32_t compile_window_group(struct compilation *c, const config_setting_t *group);

/* providers.c: the file that `providers` names. */
void compile_providers(struct compilation *c);

/* paces.c: the pace of a rule with action slow; is that of a group of destinations sound? */
void compile_slow(struct compilation *c, const config_setting_t *group,
    struct generation_reply_rule *rule);
void compile_pace(struct compilation *c, const config_setting_t *group,
    const struct rate_limit *pace);

/* sources.c: source addresses that are warmed up; after the mail servers. */
void compile_sources(struct compilation *c);

/* listeners.c: fills the table of listeners. */
void compile_listeners(struct compilation *c);
/* Which mail server asks at each: after the mail servers and the accounts. */
void compile_listener_mtas(struct compilation *c);

/* names.c: where the system knows no such user or group, an error, or a note of what comes of
 * it (`consequence`, or NULL); and of user, group and hints.group. */
void check_name_is_known(struct compilation *c, const config_setting_t *where, const char *path,
    bool is_group, const char *name, const char *consequence);
void check_identity(struct compilation *c);

/* mta.c: the mail servers, and all their remote ports. */
void compile_mtas(struct compilation *c);

/* The group's lanes, for what the message calls `what`; false: there are too many. */
bool compile_mta_lanes(struct compilation *c, const config_setting_t *group, const char *what,
    struct generation_mta *mta);

/* mta_transports.c: rows for mta[].transports[], behind those of the mail servers. */
void compile_mta_transports(struct compilation *c);

/* mta_log.c: the log of one, and, once its users are known, who may write there for it. */
void compile_mta_log(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta);
void compile_mta_log_users(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta);

/* mta_queue.c: the queue of a Sendmail; is one of them to be driven? */
/* mta[].schedule and mta[].local_schedule; what they do not say is that of all. */
void compile_mta_schedule(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta);
void compile_mta_queue(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta);
/* Both driven: no directory may be that of two. */
void compile_mta_queue_beside(struct compilation *c, const config_setting_t *group,
    const struct generation_mta *mta, const struct generation_mta *other);
bool compilation_drives(const struct compilation *c);

/* alert.c: whom to tell, and of what. */
void compile_alert(struct compilation *c);
/* The words of a command that is run as a program: how many, 0 where there is none or it is
 * wrong.  `without`: what becomes of it where it cannot be run.  There is room for one word
 * more. */
unsigned compile_command_words(struct compilation *c, const char *path, const char *without,
    uint32_t words[GENERATION_COMMAND_WORDS]);

/* cluster.c: the other machines; before the classes. */
void compile_cluster(struct compilation *c);
/* What it means for one class, whose limits stand. */
void compile_cluster_scope(struct compilation *c, const config_setting_t *group,
    struct generation_class *class, const char *name);
/* After the classes. */
void compile_cluster_end(struct compilation *c);

/* accounts.c: quotas per login. */
void compile_accounts(struct compilation *c);

/* classes.c: classes, rules, indexes, and the exempt list. */
void compile_classes(struct compilation *c);

#endif
