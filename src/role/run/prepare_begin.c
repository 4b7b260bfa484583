/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  The process that makes the segment, and reads the journal into it (prepare.h).
 * MODEL    It has dropped its privileges, and enters the keeper's sandbox first.
 * ERRORS   Logged, and shown on the terminal of who started the daemon: the process ends.
 * THREADS  One.
 */
#include "role/run/prepare_begin.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/engine.h"
#include "engine/journal/journal_restore.h"
#include "front/decision/journal_news.h"
#include "role/link/generation_memory.h"
#include "role/confine/sandbox.h"
#include "segment/file/segment.h"
#include "segment/file/text_file.h"

static int prepare_failed(const struct handover *handover, int code, const struct diag *diag) {
	char text[sizeof(diag->text)];

	log_event(EVENT_SYSTEM, "text=\"cannot start: %s\"",
	    log_sentence(text, sizeof(text), diag->text));
	if (handover->has_terminal)
		fprintf(stderr, "posternd: %s\n", diag->text);
	return code;
}

static void log_segment(const struct segment_report *report, const char *path) {
	static const char *const origins[] = {
		[SEGMENT_MADE] = "made", [SEGMENT_ADOPTED] = "adopted",
		[SEGMENT_REBUILT] = "rebuilt" };
	char quoted[PATH_MAX];

	log_quote(quoted, sizeof(quoted), path, strlen(path));
	log_event(EVENT_STATE, "path=%s origin=%s sessions=%" PRIu64 "%s%s%s", quoted,
	    origins[report->origin], report->sessions,
	    report->reason[0] == '\0' ? "" : " reason=\"", report->reason,
	    report->reason[0] == '\0' ? "" : "\"");
	if (report->unread[0] != '\0') {
		char text[sizeof(report->unread)];

		log_event(EVENT_SYSTEM, "text=\"%s\"",
		    log_sentence(text, sizeof(text), report->unread));
	}
	if (report->not_tmpfs)
		log_event(EVENT_CONFIG_NOTE, "text=\"state.path is not on a tmpfs; disk writes "
		    "may slow down decisions\" path=%s", quoted);
}

static int prepare_segment(const struct handover *handover, struct generation *generation,
    struct segment **result_segment) {
	struct prepare_result result = { 0 };
	struct segment_report report;
	struct segment *segment;
	struct diag diag;

	if (handover->without_text && text_file_put_aside(handover->state_path))
		log_event(EVENT_SYSTEM, "text=\"the text file of sessions is not read; it is kept "
		    "as *.unread\"");
	if (segment_prepare(&segment, generation, geteuid(), handover->readers,
		handover->supervisor_pid, handover->damaged, &report, &diag) != 0) {
		if (diag.error == EACCES)
			diag_set(&diag, 0, "the workers, which run as uid %u, cannot access or "
			    "write to the directory of %s", geteuid(), handover->state_path);
		return prepare_failed(handover, EX_CANTCREAT, &diag);
	}
	log_segment(&report, handover->state_path);
	if (generation_text(generation, generation->journal.path)[0] == '\0' &&
	    segment_is_unlearned(segment))
		segment_has_learned(segment, true);
	generation->number = handover->context.generation_number;
	if (segment_publish(segment, generation, &diag) != 0)
		return prepare_failed(handover, EX_CANTCREAT, &diag);
	*result_segment = segment;
	result.generation = generation->number;
	return write(handover->result_fd, &result, sizeof(result)) ==
	    (ssize_t)sizeof(result) ? EX_OK : EX_OSERR;
}

static int restore_journal(struct segment *segment) {
	const struct generation *generation;
	struct engine *engine;
	struct diag diag;
	bool all;

	if (engine_open(&engine, segment, segment_role_place(ROLE_KEEPER, 0), &diag) != 0) {
		log_event(EVENT_SYSTEM, "text=\"%s\"", diag.text);
		return EX_OSERR;
	}
	generation = engine_pin(engine);
	all = engine_journal_restore(engine, generation, &journal_news_log, clock_now_ns(),
	    clock_wall_ns());
	segment_has_learned(segment, all);
	return all ? EX_OK : EX_TEMPFAIL;
}

int prepare_begin(const struct handover *handover) {
	struct generation *generation;
	struct segment *segment = NULL;
	struct diag diag;
	uint32_t what;
	int code;

	generation = generation_memory_map(handover->context.fds[ROLE_FD_GENERATION], &diag);
	if (generation == NULL)
		return prepare_failed(handover, EX_OSERR, &diag);
	tzset();
	if (sandbox_enter(generation, ROLE_KEEPER, handover->context.fds[ROLE_FD_LIFELINE], &what,
		&diag) != 0)
		return prepare_failed(handover, EX_NOPERM, &diag);
	code = prepare_segment(handover, generation, &segment);
	return code == EX_OK && segment_is_unlearned(segment) ? restore_journal(segment) : code;
}
