/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  posternctl import-xla.
 * MODEL    Text is the block as the importer writes it, comments included, to be
 *          pasted into postern.conf.  JSON is what that very text means: it is
 *          compiled, and the classes are listed.  Messages go to stderr, so that
 *          the output can be redirected.
 * THREADS  One (libconfig).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "config/compile/xla_import.h"
#include "ctl/cli/ctl.h"

static void write_masks(struct writer *writer, const struct generation *g, uint32_t class) {
	writer_values_begin(writer, "match");
	for (uint32_t i = 0; i < g->rule_count; i++)
		if (generation_rule(g, i)->class_index == class)
			writer_value(writer, COLUMN_TEXT,
			    value_text(generation_text(g, generation_rule(g, i)->text)));
	writer_values_end(writer);
}

static void write_classes(struct writer *writer, const struct generation *g) {
	writer_list_begin(writer, NULL);
	for (uint32_t i = 0; i < g->class_count; i++) {
		const struct generation_class *class = generation_class(g, i);

		writer_object_begin(writer, NULL);
		writer_text(writer, "name", generation_text(g, class->name));
		write_masks(writer, g, i);
		writer_number(writer, "hold_at", class->limits.sessions);
		writer_number(writer, "refuse_at", class->limits.inbound);
		writer_object_end(writer);
	}
	writer_list_end(writer);
}

/* The importer's text as JSON. */
static int write_meaning(struct writer *writer, const char *classes) {
	static const char head[] = "version = 1;\n";
	size_t size = sizeof(head) + strlen(classes);
	struct config_messages messages;
	struct generation *generation;
	char *text = malloc(size);

	if (text == NULL)
		return ctl_os_error(errno);
	snprintf(text, size, "%s%s", head, classes);
	generation = config_compile_text(text, "import-xla", &messages);
	free(text);
	if (generation != NULL)
		write_classes(writer, generation);
	else
		config_messages_print(&messages, stderr, "posternctl: ");
	config_messages_free(&messages);
	free(generation);
	return generation != NULL ? EX_OK : EX_SOFTWARE;
}

static int import(struct ctl *ctl, FILE *in, const char *name) {
	struct config_messages messages;
	char *text = NULL;
	size_t length = 0;
	FILE *out = ctl->writer.json ? open_memstream(&text, &length) : ctl->writer.out;
	int result;

	if (out == NULL)
		return ctl_os_error(errno);
	result = xla_import(in, name, out, &messages) == 0 ? EX_OK : EX_DATAERR;
	config_messages_print(&messages, stderr, "posternctl: ");
	config_messages_free(&messages);
	if (!ctl->writer.json)
		return result;
	if (fclose(out) != 0 || text == NULL)
		result = ctl_os_error(errno);
	if (result == EX_OK)
		result = write_meaning(&ctl->writer, text);
	else if (length > 0)
		(void)write_meaning(&ctl->writer, text);	/* what could be taken */
	free(text);
	return result;
}

int command_IMPORT_XLA(struct ctl *ctl) {
	const char *path = ctl->arguments[0];
	int result, error;
	FILE *in;

	if (strcmp(path, "-") == 0)
		return import(ctl, stdin, "standard input");
	in = fopen(path, "re");
	if (in == NULL) {
		error = errno;
		ctl_complain("%s: %s", path, strerror(error));
		return error == EACCES ? EX_NOPERM : EX_NOINPUT;
	}
	result = import(ctl, in, path);
	fclose(in);
	return result;
}
