/* SPDX-License-Identifier: ISC */
/* The queue of a Sendmail that is driven: mta[].drive and what belongs to it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "config/read/compilation.h"
#include "config/read/read_file.h"

#define CF_MOST	(4u << 20)

bool compilation_drives(const struct compilation *c) {
	const config_setting_t *list = config_lookup(&c->config, "mta"), *group;
	struct setting_value value;

	for (unsigned at = 0; (group = compilation_next_group(list, &at)) != NULL;)
		if (compilation_value(group, "mta[].drive", &value) && value.number != 0)
			return true;
	return false;
}

/* What is wrong with a queue directory, or NULL. */
static const char *fault_of(const char *path) {
	const char *star = strchr(path, '*');

	if (path[0] != '/')
		return "must be an absolute path";
	if (star != NULL && (star[1] != '\0' || star == path + 1))
		return "may have a * only at its end, below a directory";
	return NULL;
}

static void add_queue(struct compilation *c, const config_setting_t *where, const char *path,
    struct generation_mta *mta) {
	const char *fault = fault_of(path);
	char quoted[256];
	uint32_t text;

	if (fault != NULL) {
		complain(c, where, "mta.queue: %s %s",
		    log_quote(quoted, sizeof(quoted), path, strlen(path)), fault);
		return;
	}
	text = block_text(&c->block, path);
	for (uint32_t i = 0; i < mta->queue_count; i++)
		if (mta->queues[i] == text)
			return;
	if (mta->queue_count == GENERATION_QUEUES_MAX)
		complain(c, where, "mta.queue: more than %d directories", GENERATION_QUEUES_MAX);
	else
		mta->queues[mta->queue_count++] = text;
}

/* Each of a list. */
static void add_list(struct compilation *c, const config_setting_t *group, const char *path,
    struct generation_mta *mta) {
	struct setting_value value;

	for (unsigned i = 0; i < compilation_element_count(group, path); i++)
		if (compilation_element(group, path, i, &value))
			add_queue(c, compilation_member(group, path), value.text, mta);
}

static void compile_queues(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	const struct setting *row = setting_find("mta[].queue");
	const config_setting_t *queues = compilation_member(group, "mta[].queue");

	/* first: a directory that both name is for local mail */
	add_list(c, group, "mta[].local_queue", mta);
	mta->local_queues = (UINT32_C(1) << mta->queue_count) - 1;
	if (queues == NULL) {
		add_queue(c, group, row->fallback, mta);
		return;
	}
	if (setting_element_count(queues) == 0)
		complain(c, queues, "mta.queue is empty; omit it for %s", row->fallback);
	add_list(c, group, "mta[].queue", mta);
}

/* --- what Sendmail's own file says ---------------------------------------------------- */

static bool is_driven(const struct compilation *c, const struct generation_mta *mta,
    const char *path) {
	for (uint32_t i = 0; i < mta->queue_count; i++) {
		const char *queue = block_at(&c->block, mta->queues[i]);
		size_t length = strcspn(queue, "*");

		/* one directory, or fewer than these */
		if (strcmp(queue, path) == 0 || (queue[length] == '*' &&
		    strncmp(queue, path, length) == 0 && strchr(path + length, '/') == NULL))
			return true;
	}
	return false;
}

/* The directory of "O QueueDirectory=/path", or of "Qname, P=/path, ...": cut out of the
 * line, or NULL. */
static char *queue_of_line(char *line) {
	static const char option[] = "O QueueDirectory=";
	char *path = NULL;

	if (strncmp(line, option, sizeof(option) - 1) == 0)
		path = line + sizeof(option) - 1;
	else if (*line == 'Q')
		path = strstr(line, "P=");
	if (path == NULL)
		return NULL;
	path += *line == 'Q' ? 2 : 0;
	path[strcspn(path, ", \t\r")] = '\0';
	return *path == '/' ? path : NULL;
}

/* Mail in a directory that was forgotten would wait for Sendmail's own slow runs; an answer
 * that the rules do not know is none. */
static void compare_cf(struct compilation *c, const config_setting_t *where,
    const struct generation_mta *mta) {
	const char *name = block_at(&c->block, mta->cf);
	char shown[256], quoted[256], *line, *rest;
	size_t length;
	char *text = read_file(name, CF_MOST, &length);

	log_quote(shown, sizeof(shown), name, strlen(name));
	if (text == NULL) {
		note(c, where, "mta.cf: %s cannot be read, so mta.queue is not checked against "
		    "it: %s", shown, read_file_error());
		return;
	}
	if (mta->exactly_once == EXACTLY_ONCE_ENFORCE && strstr(text, "\nRDISCARD") == NULL)
		note(c, where, "mta.exactly_once: %s has no line RDISCARD (sendmail-outbound.mc), so "
		    "recipients that were delivered get their mail again", shown);
	for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		const char *path = queue_of_line(line);

		if (path != NULL && !is_driven(c, mta, path))
			note(c, where, "mta.queue does not list %s, which is a queue of %s: "
			    "mail there is not managed", log_quote(quoted, sizeof(quoted), path,
			    strlen(path)), shown);
	}
	free(text);
}

/* What can be seen of this machine, where the configuration is for it. */
static void look_at_files(struct compilation *c, const config_setting_t *where,
    const struct generation_mta *mta) {
	const char *program = block_at(&c->block, mta->sendmail);
	char path[4096], quoted[256];
	struct stat status;

	if (access(program, X_OK) != 0)
		note(c, where, "mta.sendmail: %s cannot be run, so no mail is delivered: %s",
		    log_quote(quoted, sizeof(quoted), program, strlen(program)),
		    strerror(errno));
	for (uint32_t i = 0; i < mta->queue_count; i++) {
		const char *queue = block_at(&c->block, mta->queues[i]);
		const char *star = strchr(queue, '*'), *slash = strrchr(queue, '/');

		if (!text_copy(path, sizeof(path), queue, star == NULL ? strlen(queue) :
		    (size_t)(slash - queue) + 1))
			continue;
		if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
			continue;
		note(c, where, "mta.queue: %s is not a directory: it is not managed",
		    log_quote(quoted, sizeof(quoted), path, strlen(path)));
	}
}

/* Can one directory be meant by both?  A * stands for the rest of a name. */
static bool overlap(const char *a, const char *b) {
	size_t a_length = strcspn(a, "*"), b_length = strcspn(b, "*");
	const char *longer = a_length > b_length ? a : b;
	size_t length = a_length < b_length ? a_length : b_length;
	bool shorter_has_star = (a_length < b_length ? a : b)[length] == '*';

	if (a_length == b_length)
		return strncmp(a, b, length) == 0 && (a[length] == b[length] ||
		    a[length - 1] != '/');
	return strncmp(a, b, length) == 0 && shorter_has_star &&
	    strchr(longer + length, '/') == NULL;
}

/* Each would run what the other has just tried. */
void compile_mta_queue_beside(struct compilation *c, const config_setting_t *group,
    const struct generation_mta *mta, const struct generation_mta *other) {
	const config_setting_t *where = compilation_member(group, "mta[].queue");
	char quoted[256];

	if (mta->drive == 0 || other->drive == 0)
		return;
	for (uint32_t i = 0; i < mta->queue_count; i++) {
		const char *path = block_at(&c->block, mta->queues[i]);

		for (uint32_t k = 0; k < other->queue_count; k++)
			if (overlap(path, block_at(&c->block, other->queues[k]))) {
				complain(c, where != NULL ? where : group, "mta.queue: %s is "
				    "already managed for the mta in line %u",
				    log_quote(quoted, sizeof(quoted), path, strlen(path)),
				    other->line);
				break;
			}
	}
}

/* Without questions nothing can be kept back, without results nothing is learned. */
static void check_needs(struct compilation *c, const config_setting_t *where,
    const struct generation_mta *mta) {
	const struct generation *header = compilation_header(c);

	if (!generation_has_listener(header, LISTENER_SOCKETMAP))
		complain(c, where, "mta.drive needs listen.socketmap, where Sendmail asks for "
		    "each recipient (sendmail-outbound.mc)");
	if (mta->log == 0 && !generation_has_listener(header, LISTENER_SYSLOG))
		complain(c, where, "mta.drive needs the results of deliveries: mta.log, or "
		    "listen.syslog");
}

/* What is said without drive is checked, and waits for it. */
void compile_mta_queue(struct compilation *c, const config_setting_t *group,
    struct generation_mta *mta) {
	const config_setting_t *drive = compilation_member(group, "mta[].drive");

	if (mta->local_processes == 0)
		mta->local_processes = mta->processes;
	if (c->block.failed)
		return;
	compile_queues(c, group, mta);
	compile_mta_schedule(c, group, mta);
	if (mta->retry_ns > mta->retry_most_ns)
		complain(c, compilation_member(group, "mta[].retry"),
		    "mta.retry is longer than mta.retry_most");
	if (mta->run_limit_ns < mta->stall_ns)
		note(c, compilation_member(group, "mta[].run_limit") != NULL ?
		    compilation_member(group, "mta[].run_limit") :
		    compilation_member(group, "mta[].stall"),
		    "mta.run_limit is shorter than mta.stall: processes are killed before they "
		    "count as stalled");
	if (mta->drive != 0)
		check_needs(c, drive, mta);
	if (mta->drive == 0 || !c->reads_files || c->block.failed)
		return;
	compare_cf(c, drive, mta);
	look_at_files(c, drive, mta);
}
