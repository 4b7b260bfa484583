/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl analyze --accounts: what each login sent, in windows of time, and an
 *          accounts block that fits it.
 * MODEL    All messages of logins are kept in memory (24 bytes each), then looked at login by
 *          login: at each message, what the login had sent in the window that ends with it.
 *          Of these values p50, p99 and the maximum are shown.  Limits are twice what nine of ten
 *          logins never exceeded; logins above get a line of account_overrides.
 * ERRORS   Lines of no known login, or without a date, are left out.
 * THREADS  One.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/account_text.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/login.h"
#include "base/map.h"
#include "base/order.h"
#include "base/siphash.h"
#include "base/text.h"
#include "ctl/analyze/analyze.h"
#include "wire/mail/login_line.h"

#define COUNT_OF(array)	(sizeof(array) / sizeof((array)[0]))
#define OVERRIDES_SHOWN	1000
#define USUAL_PERCENT	90	/* of the logins */

/* What is summed up: as many as a login has counters. */
static const struct shown_window {
	enum quota_kind kind;
	const char *word;
	uint32_t period_s;
} windows[] = {
	{ QUOTA_RECIPIENTS, "recipients", 3600 }, { QUOTA_RECIPIENTS, "recipients", 86400 },
	{ QUOTA_MESSAGES, "messages", 3600 }, { QUOTA_KIB, "KiB", 86400 },
};
#define WINDOWS	COUNT_OF(windows)

struct sent {
	int64_t at_ms;
	uint32_t login;
	uint32_t recipients;
	uint32_t kib;
	uint32_t order;
};

struct login_use {
	char *name;
	uint64_t messages;
	uint64_t p50[WINDOWS], p99[WINDOWS], most[WINDOWS];
};

struct accounts_read {
	struct ctl *ctl;
	struct analyze_clock clock;
	struct analyze_lines lines;
	struct siphash_key key;
	struct map logins, by_queue_id, by_process;
	struct login_use *uses;
	size_t use_count, use_size;
	struct sent *sent;
	size_t sent_count, sent_size;
	bool no_memory;
};

/* --- reading -------------------------------------------------------------------------- */

static uint64_t key_of(const struct accounts_read *read, const char *text, size_t length) {
	return siphash13(&read->key, text, length) | 1;
}

/* MAP_NONE: no login, or no memory. */
static uint32_t find_login(struct accounts_read *read, struct span login) {
	char folded[LOGIN_MAX];
	uint32_t number;
	uint64_t key;

	if (!login_fold(login.text, login.length, folded))
		return MAP_NONE;
	key = key_of(read, folded, login.length);
	number = map_index(&read->logins, key);
	if (number != MAP_NONE)
		return number;
	if (!array_grow(&read->uses, &read->use_size, read->use_count, sizeof(*read->uses)) ||
	    !map_set_index(&read->logins, key, (uint32_t)read->use_count)) {
		read->no_memory = true;
		return MAP_NONE;
	}
	read->uses[read->use_count] = (struct login_use){
		.name = strndup(folded, login.length) };
	return (uint32_t)read->use_count++;
}

static void note_login(struct accounts_read *read, struct map *table, uint64_t key,
    struct span login) {
	uint32_t number = login.length == 0 ? MAP_NONE : find_login(read, login);

	/* the queue id, or the process, of somebody else before */
	map_remove_hash(table, key);
	if (number != MAP_NONE && !map_set_index(table, key, number))
		read->no_memory = true;
}

static void note_sent(struct accounts_read *read, uint32_t login,
    const struct login_line *line) {
	uint64_t kib = line->bytes / 1024 + (line->bytes % 1024 != 0);

	read->no_memory |= !array_grow(&read->sent, &read->sent_size, read->sent_count,
	    sizeof(*read->sent));
	if (read->no_memory)
		return;
	read->sent[read->sent_count] = (struct sent){ .at_ms = read->clock.now_ms,
		.login = login, .recipients = line->recipients,
		.kib = kib == 0 ? 1 : kib > QUOTA_MOST ? QUOTA_MOST : (uint32_t)kib,
		.order = (uint32_t)read->sent_count };
	read->sent_count++;
	read->uses[login].messages++;
}

static void note_queued(struct accounts_read *read, const struct log_line *line,
    const struct login_line *found) {
	uint64_t key = found->of_sendmail ? key_of(read, (const char *)&line->pid,
	    sizeof(line->pid)) : key_of(read, line->queue_id.text, line->queue_id.length);
	struct map *table = found->of_sendmail ? &read->by_process :
	    &read->by_queue_id;
	uint32_t login = map_index(table, key);

	/* a message is active each time that it is tried */
	if (!found->of_sendmail)
		map_remove_hash(table, key);
	if (login != MAP_NONE && !found->is_bounce && found->recipients > 0 &&
	    (!found->of_sendmail || found->is_authenticated))
		note_sent(read, login, found);
}

static void on_line(void *context, const struct analyze_line *at) {
	struct accounts_read *read = context;
	struct login_line found;
	struct log_line line;

	mail_log_scan(at->text, at->length, &line);
	if (line.kind == LOG_LINE_FOREIGN || !analyze_clock_read(&read->clock, line.head))
		return;
	switch (login_line_read(&line, &found)) {
	case LOGIN_LINE_CLIENT:
		note_login(read, &read->by_queue_id, key_of(read, line.queue_id.text,
		    line.queue_id.length), found.login);
		break;
	case LOGIN_LINE_PROCESS:
		note_login(read, &read->by_process, key_of(read, (const char *)&line.pid,
		    sizeof(line.pid)), found.login);
		break;
	case LOGIN_LINE_QUEUED:
		note_queued(read, &line, &found);
		break;
	case LOGIN_LINE_OTHER:
		break;
	}
}

/* --- summing up ------------------------------------------------------------------------- */

static int by_login(const void *a, const void *b) {
	const struct sent *left = a, *right = b;

	return order_then(ORDER(left->login, right->login), ORDER(left->order, right->order));
}

static uint32_t amount_of(const struct sent *sent, enum quota_kind kind) {
	return kind == QUOTA_RECIPIENTS ? sent->recipients : kind == QUOTA_KIB ? sent->kib : 1;
}

/* The least value that so many of a hundred do not exceed; the list is sorted. */
static uint64_t percentile(const uint64_t *values, size_t count, unsigned percent) {
	return count == 0 ? 0 : values[(count * percent + 99) / 100 - 1];
}

/* Of the messages of one login, in their order; `values` has room for each. */
static void sum_window(const struct sent *sent, size_t count, unsigned w, uint64_t *values,
    struct login_use *use) {
	int64_t period_ms = (int64_t)windows[w].period_s * 1000;
	uint64_t sum = 0;
	size_t first = 0;

	for (size_t i = 0; i < count; i++) {
		sum += amount_of(&sent[i], windows[w].kind);
		for (; sent[first].at_ms <= sent[i].at_ms - period_ms; first++)
			sum -= amount_of(&sent[first], windows[w].kind);
		values[i] = sum;
	}
	qsort(values, count, sizeof(*values), order_u64);
	use->p50[w] = percentile(values, count, 50);
	use->p99[w] = percentile(values, count, 99);
	use->most[w] = percentile(values, count, 100);
}

/* False: no memory. */
static bool sum_up(struct accounts_read *read) {
	uint64_t *values = calloc(read->sent_count + 1, sizeof(*values));

	if (values == NULL)
		return false;
	qsort(read->sent, read->sent_count, sizeof(*read->sent), by_login);
	for (size_t at = 0; at < read->sent_count;) {
		struct login_use *use = &read->uses[read->sent[at].login];

		for (unsigned w = 0; w < WINDOWS; w++)
			sum_window(&read->sent[at], (size_t)use->messages, w, values, use);
		at += (size_t)use->messages;
	}
	free(values);
	return true;
}

/* Those who sent most in a day first; who sent nothing is last. */
static int by_use(const void *a, const void *b) {
	const struct login_use *left = a, *right = b;

	if (left->most[1] != right->most[1])
		return left->most[1] > right->most[1] ? -1 : 1;
	return left->name == NULL || right->name == NULL ? 0 : strcmp(left->name, right->name);
}

/* --- the block ---------------------------------------------------------------------------- */

/* Two figures are enough. */
static uint64_t rounded_up(uint64_t value) {
	uint64_t unit = 1;

	while (value / unit >= 100)
		unit *= 10;
	return (value + unit - 1) / unit * unit;
}

static bool find_limits(const struct accounts_read *read, size_t count,
    uint64_t limits[WINDOWS]) {
	uint64_t *values = calloc(count + 1, sizeof(*values));

	if (values == NULL)
		return false;
	for (unsigned w = 0; w < WINDOWS; w++) {
		for (size_t i = 0; i < count; i++)
			values[i] = read->uses[i].most[w];
		qsort(values, count, sizeof(*values), order_u64);
		limits[w] = rounded_up(2 * percentile(values, count, USUAL_PERCENT));
	}
	free(values);
	return true;
}

static bool is_above(const struct login_use *use, const uint64_t limits[WINDOWS]) {
	for (unsigned w = 0; w < WINDOWS; w++)
		if (use->most[w] > limits[w])
			return true;
	return false;
}

/* Words of a file that blanks and what is not printable would cut. */
static bool can_be_written(const char *login) {
	for (; *login != '\0'; login++)
		if (*login <= ' ' || *login > '~' || *login == '#')
			return false;
	return true;
}

static void write_override(FILE *out, const struct login_use *use) {
	fprintf(out, "# %s recipients=%llu/1h,%llu/1d messages=%llu/1h bytes=%lluk/1d\n",
	    use->name, (unsigned long long)rounded_up(2 * use->most[0]),
	    (unsigned long long)rounded_up(2 * use->most[1]),
	    (unsigned long long)rounded_up(2 * use->most[2]),
	    (unsigned long long)rounded_up(2 * use->most[3]));
}

/* NULL: no memory. */
static char *propose(const struct accounts_read *read, size_t count) {
	uint64_t limits[WINDOWS];
	char *text = NULL;
	size_t length = 0, above = 0;
	FILE *out = open_memstream(&text, &length);

	if (out == NULL || !find_limits(read, count, limits)) {
		if (out != NULL)
			fclose(out);
		free(text);
		return NULL;
	}
	fprintf(out, "accounts = (\n\t{ name = \"everyone\"; match = \"*\"; observe = true;\n"
	    "\t  each = { recipients = [ \"%llu/1h\", \"%llu/1d\" ]; messages = \"%llu/1h\"; "
	    "bytes = \"%lluk/1d\"; }; } );\n", (unsigned long long)limits[0],
	    (unsigned long long)limits[1], (unsigned long long)limits[2],
	    (unsigned long long)limits[3]);
	for (size_t i = 0; i < count; i++) {
		if (!is_above(&read->uses[i], limits) || !can_be_written(read->uses[i].name) ||
		    above >= OVERRIDES_SHOWN)
			continue;
		if (above++ == 0)
			fputs("# These sent more; lines for the file of account_overrides, if they "
			    "may:\n", out);
		write_override(out, &read->uses[i]);
	}
	return fclose(out) == 0 ? text : NULL;
}

/* --- output ----------------------------------------------------------------------------- */

struct shown_use {
	const struct login_use *use;
	unsigned window;
};

static void use_row(void *context, struct writer *writer, const void *item) {
	static const struct login_use nothing;
	const struct shown_use *shown = item;
	const struct login_use *use = shown->use == NULL ? &nothing : shown->use;
	unsigned w = shown->window;
	char window[ACCOUNT_WINDOW_TEXT];

	(void)context;
	analyze_event_put(writer, "login");
	writer_text(writer, "login", use->name);
	writer_text(writer, "what", windows[w].word);
	writer_text(writer, "window", account_window_text(windows[w].period_s, window));
	writer_number(writer, "p50", use->p50[w]);
	writer_number(writer, "p99", use->p99[w]);
	writer_number(writer, "max", use->most[w]);
	writer_number(writer, "messages", use->messages);
}

static void write_uses(void *context, struct writer *writer) {
	const struct accounts_read *read = context;

	for (size_t i = 0; i < read->use_count && read->uses[i].messages > 0; i++)
		for (unsigned w = 0; w < WINDOWS; w++)
			writer_row(writer, &(const struct shown_use){ &read->uses[i], w });
}

static void write_summary(const struct accounts_read *read, size_t logins, const char *block) {
	struct writer *writer = &read->ctl->writer;

	analyze_summary_begin(writer, &read->lines, &read->clock);
	writer_number(writer, "logins", logins);
	writer_number(writer, "messages", read->sent_count);
	analyze_summary_end(writer, "accounts", block);
}

static bool write_all(struct accounts_read *read) {
	size_t logins = 0;
	char *block;

	if (!sum_up(read))
		return false;
	qsort(read->uses, read->use_count, sizeof(*read->uses), by_use);
	while (logins < read->use_count && read->uses[logins].messages > 0)
		logins++;
	block = propose(read, logins);
	if (block == NULL)
		return false;
	analyze_write_table(&read->ctl->writer, &(const struct table){ .name = "logins",
	    .row = use_row, .rows = write_uses, .context = read });
	write_summary(read, logins, block);
	free(block);
	return true;
}

int analyze_accounts(struct ctl *ctl) {
	struct accounts_read read = { .ctl = ctl, .key = { (uint64_t)clock_now_ns(),
		(uint64_t)clock_thread_cpu_ns() } };
	int result = analyze_clock_begin(ctl, &read.clock);

	if (result == EX_OK)
		result = analyze_lines(ctl, &read.lines, on_line, &read);
	if (read.sent_count == 0 && !read.no_memory) {
		if (result == EX_OK) {
			ctl_complain("analyze: no messages of logins in %llu log lines, so no limits "
			    "are recommended", (unsigned long long)read.lines.lines);
			result = EX_DATAERR;
		}
	} else if (read.no_memory || !write_all(&read)) {
		result = ctl_os_error(ENOMEM);
	}
	for (size_t i = 0; i < read.use_count; i++)
		free(read.uses[i].name);
	free(read.uses);
	free(read.sent);
	map_free(&read.logins);
	map_free(&read.by_queue_id);
	map_free(&read.by_process);
	return result;
}
