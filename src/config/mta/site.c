/* SPDX-License-Identifier: ISC */
/* What a site's file says goes into the block, when no line of it is wrong. */
#include "config/mta/site.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/generation/site_file.h"
#include "config/read/read_file.h"
#include "config/mta/relayhost.h"

struct site_work {
	struct compilation *c;
	const char *name;
	unsigned order;
	bool silent;			/* mistakes were noted already */
	struct site_file file;
};

static void note_mistake(void *context, unsigned line, const char *what, struct span where) {
	struct site_work *w = context;
	char quoted[100];

	if (!w->silent)
		report_add(&w->c->report, MESSAGE_NOTE, w->name, line, w->order, "%s%s%s", what,
		    where.text ? ": " : "", where.text ? log_quote(quoted, sizeof(quoted),
		    where.text, where.length) : "");
}

/* What the file tells is as old as it is. */
static void look_for_changes(struct site_work *w, struct generation_mta *mta) {
	const struct generation *g = compilation_header(w->c);
	char quoted[256];
	const char *path;
	uint64_t stamp;

	if (!w->c->reads_files || w->c->block.failed)
		return;
	mta->site_changed = generation_site_changed(g, mta);
	if (mta->site_changed == 0)
		return;
	path = generation_site_watch(g, mta, mta->site_changed - 1, &stamp);
	report_add(&w->c->report, MESSAGE_NOTE, w->name, 0, w->order, "%s has changed: no "
	    "destination of the mta gets a hint until %s has read it",
	    log_quote(quoted, sizeof(quoted), path, strlen(path)),
	    generation_site_reader(mta));
}

static void note_relayhost(const struct site_work *w, const struct generation_mta *mta) {
	char text[1024];

	if (mta->relayhost != 0 && !w->c->block.failed &&
	    relayhost_fault(block_at(&w->c->block, mta->relayhost), mta, text, sizeof(text)))
		report_add(&w->c->report, MESSAGE_NOTE, w->name, 0, w->order, "%s", text);
}

/* "refuse WORD TEXT": the text is for people. */
static void note_refusal(struct site_work *w, const struct site_part *part) {
	struct span text = part->refusal;
	char words[256] = "", quoted[sizeof(words) + 64];

	if (text.length == 0)
		return;
	(void)site_word(&text);
	if (text.length == 0)
		text = part->refusal;
	(void)text_copy(words, sizeof(words), text.text,
	    text.length < sizeof(words) ? text.length : sizeof(words) - 1);
	report_add(&w->c->report, MESSAGE_NOTE, w->name, part->refusal_line, w->order,
	    "no destination of the %s%.*s gets a hint, and there are no lanes: %s",
	    part->transport.length > 0 ? "transport " : "mta", (int)part->transport.length,
	    part->transport.length > 0 ? part->transport.text : "",
	    log_sentence(quoted, sizeof(quoted), words));
}

/* Where lines of ours are in master.cf, those of the probes are to be, too. */
static void note_probes(struct site_work *w, const struct generation_mta *mta) {
	struct span why = w->file.no_probes;
	char words[256] = "", quoted[sizeof(words) + 64];

	if (mta->probes == 0 || mta->site_probes != 0 ||
	    (mta->site_lanes == 0 && mta->site_by_setup == 0))
		return;
	(void)text_copy(words, sizeof(words), why.text,
	    why.length < sizeof(words) ? why.length : sizeof(words) - 1);
	report_add(&w->c->report, MESSAGE_NOTE, w->name, 0, w->order, "address verification "
	    "probes have no lane in master.cf: they come on top of windows, and suspended "
	    "destinations are probed%s%s", words[0] == '\0' ? "; run " : ": ",
	    words[0] == '\0' ? generation_site_reader(mta) :
	    log_sentence(quoted, sizeof(quoted), words));
}

/* The block may move: its texts are looked at before it grows. */
static bool read_lines(struct site_work *w, const char *mta, const char *text, size_t length) {
	bool good;

	w->file.mta = mta;
	w->file.mistake = note_mistake;
	w->file.context = w;
	good = site_file_read(&w->file, text, length);
	w->c->block.failed |= w->file.no_memory;
	return good;
}

/* The name of its mail server stands before the slash. */
static void read_part(struct site_work *w, const char *text, size_t length,
    struct generation_mta *row) {
	char mta[2 * GENERATION_DESTINATION_MAX] = "", transport[64];
	const char *full = block_at(&w->c->block, row->name), *slash = strrchr(full, '/');
	const struct site_part *part;

	if (slash == NULL || !text_copy(mta, sizeof(mta), full, (size_t)(slash - full)) ||
	    !text_copy(transport, sizeof(transport), slash + 1, strlen(slash + 1)))
		return;
	w->silent = true;
	if (!read_lines(w, mta, text, length))
		return;
	part = site_file_part(&w->file, transport);
	if (part == NULL && w->file.parts[0].refusal.length == 0) {
		report_add(&w->c->report, MESSAGE_NOTE, w->name, 0, w->order, "transport %s is "
		    "unknown: no destination of it gets a hint until %s has read it", transport,
		    generation_site_reader(row));
		return;
	}
	if (part != NULL)
		note_refusal(w, part);
	site_part_store(&w->c->block, &w->file, part != NULL ? part : &w->file.parts[0], row);
}

static void read_mta(struct site_work *w, const char *text, size_t length,
    struct generation_mta *mta) {
	const char *name = mta->name ? block_at(&w->c->block, mta->name) : "";

	if (!read_lines(w, name, text, length)) {
		report_add(&w->c->report, MESSAGE_NOTE, w->name, 0, w->order,
		    "the file has errors: no destination of the mta gets a hint");
		return;
	}
	note_refusal(w, &w->file.parts[0]);
	site_file_store(&w->c->block, &w->file, mta);
	note_probes(w, mta);
	look_for_changes(w, mta);
	note_relayhost(w, mta);
}

void site_read_text(struct compilation *c, const char *text, size_t length,
    const char *name, unsigned order, struct generation_mta *mta) {
	struct site_work w = { .c = c, .name = name, .order = order };

	if (mta->transport != 0)
		read_part(&w, text, length, mta);
	else
		read_mta(&w, text, length, mta);
	site_file_free(&w.file);
}

void site_read_file(struct compilation *c, const config_setting_t *where,
    struct generation_mta *mta) {
	const char *path = block_at(&c->block, mta->site);
	char name[4096 + 1], quoted[256];
	size_t length;
	char *text;

	/* the block moves while it grows */
	if (!text_copy(name, sizeof(name), path, strlen(path)))
		return;
	text = read_file(name, SITE_FILE_BYTES_MAX, &length);
	log_quote(quoted, sizeof(quoted), name, strlen(name));
	if (text == NULL) {
		note(c, where, "site file %s cannot be read: %s: no destination of the mta gets a "
		    "hint (posternctl postfix-lanes writes it)", quoted, read_file_error());
	} else if (length > SITE_FILE_BYTES_MAX) {
		note(c, where, "site file %s is larger than %zu MiB: no destination of the mta "
		    "gets a hint", quoted, SITE_FILE_BYTES_MAX >> 20);
	} else {
		site_read_text(c, text, length, name, config_setting_source_line(where), mta);
	}
	free(text);
}

void site_begin_transport(struct compilation *c, const config_setting_t *where,
    struct generation_mta *row) {
	bool is_read = row->site_known != 0;

	row->site_known = 0;
	row->site_refusal = 0;
	row->site_excluded_index = row->site_excluded_count = row->site_reasons = 0;
	row->site_route_index = row->site_route_count = row->site_routes = 0;
	row->site_lanes = row->site_origin = row->site_route_names = 0;
	if (is_read && c->reads_files && c->report.messages->errors == 0)
		site_read_file(c, where, row);
}
