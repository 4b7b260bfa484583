/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Where the daemon's state file and control socket are.
 * MODEL    Of the configuration, what says so is compiled as the daemon does it; all of it
 *          only where a command needs more.  A file with mistakes there must not hide the
 *          daemon that still runs with the version before them (`reload` has to reach it to be
 *          refused): then its text, with what it includes, is searched for these settings
 *          alone; the others have their defaults.
 * ERRORS   Only a file that was named with -c and cannot be read.
 * THREADS  One (libconfig).
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "base/text.h"
#include "config/compile/compile.h"
#include "config/read/read_file.h"
#include "ctl/cli/ctl.h"
#include "ctl/cli/scan.h"

#define DEFAULT_QUEUE	"unix:" POSTERN_RUNSTATEDIR "/queue"

/* The least that compiles: every place has its default. */
static const char DEFAULTS[] = "version = 1;\n"
    "classes = ( { name = \"all\"; match = [ \"*\" ]; hold_at = 1; } );\n";

static void take_generation(struct places *places, const struct generation *generation) {
	const char *state = generation_text(generation, generation->state_path);
	bool controlled = false;
	const char *journal = generation_text(generation, generation->journal.path);

	text_copy(places->state, sizeof(places->state), state, strlen(state));
	text_copy(places->journal, sizeof(places->journal), journal, strlen(journal));
	for (uint32_t i = 0; i < generation->listener_count; i++) {
		const struct generation_listener *listener = &generation->listeners[i];
		const char *address = generation_text(generation, listener->address);

		if (listener->kind == LISTENER_CONTROL && !controlled)
			controlled = text_copy(places->control,
			    sizeof(places->control), address, strlen(address));
		if (listener->kind == LISTENER_QUEUE && places->queue[0] == '\0')
			text_copy(places->queue, sizeof(places->queue),
			    address, strlen(address));
		if (listener->kind == LISTENER_EVENTS && places->events[0] == '\0')
			text_copy(places->events, sizeof(places->events),
			    address, strlen(address));
	}
}

static void take_defaults(struct places *places) {
	struct config_messages messages;
	struct generation *generation =
	    config_compile_text(DEFAULTS, "defaults", &messages);

	config_messages_free(&messages);
	if (generation != NULL)
		take_generation(places, generation);
	free(generation);
}

static int take_what_is_named(const struct ctl *ctl, struct places *places) {
	char *text = config_expanded_text(ctl->config_path);
	char state[sizeof(places->state)];
	bool other_daemon = ctl->config_given && ctl->socket == NULL;

	if (text == NULL) {
		if (ctl->config_given || ctl->socket == NULL)
			ctl_complain("%s: %s%s", ctl->config_path, read_file_error(),
			    other_daemon ? "" :
			    "; using the default locations of the daemon");
		if (other_daemon)
			return EX_NOINPUT;
	}
	take_defaults(places);
	if (text == NULL)
		return EX_OK;
	ctl_places_are_from(ctl->config_path);
	/* with another state file the journal stands beside that by default */
	if (scan_setting(text, "state", "path", state, sizeof(state)) &&
	    strcmp(state, places->state) != 0) {
		text_copy(places->state, sizeof(places->state), state, strlen(state));
		text_append(places->journal, sizeof(places->journal), 0, "%s.journal", state);
	}
	scan_setting(text, "journal", "path", places->journal, sizeof(places->journal));
	if (strcmp(places->journal, "none") == 0)
		places->journal[0] = '\0';
	scan_setting(text, "listen", "control", places->control,
	    sizeof(places->control));
	text_copy(places->queue, sizeof(places->queue), DEFAULT_QUEUE,
	    sizeof(DEFAULT_QUEUE) - 1);
	scan_setting(text, "listen", "queue", places->queue, sizeof(places->queue));
	scan_setting(text, "listen", "events", places->events,
	    sizeof(places->events));
	free(text);
	return EX_OK;
}

int places_find(const struct ctl *ctl, struct places *places) {
	struct generation *generation;
	struct config_messages messages;
	int result = EX_OK;

	memset(places, 0, sizeof(*places));
	places->config_path = ctl->config_path;
	generation = config_compile_places(ctl->config_path, &messages);
	config_messages_free(&messages);
	if (generation != NULL) {
		ctl_places_are_from(ctl->config_path);
		take_generation(places, generation);
	} else {
		result = take_what_is_named(ctl, places);
	}
	free(generation);
	if (ctl->socket != NULL)
		text_copy(places->control, sizeof(places->control), ctl->socket,
		    strlen(ctl->socket));
	return result;
}

struct generation *places_compile(const struct places *places) {
	struct config_messages messages;
	struct generation *generation = config_compile(places->config_path, &messages);

	config_messages_free(&messages);
	return generation;
}
