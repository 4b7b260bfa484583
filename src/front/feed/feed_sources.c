/* SPDX-License-Identifier: ISC */
/* The logs of the configuration, whatever they are read from (feed_logs.c, feed_journals.c): kept
 * over reloads, and what is reported of each.  One thread. */
#include <string.h>

#include "base/log.h"
#include "front/feed/feed_internal.h"

void feed_source_log(const struct feed_source *source, enum event_kind event, const char *text) {
	char log[256], quoted[512];

	log_event(event, "log=%s text=\"%s\"", log_quote(log, sizeof(log), source->log,
	    strlen(source->log)), log_sentence(quoted, sizeof(quoted), text));
}

void feed_source_tell(struct feed_source *source, int error, const char *why) {
	char text[256];

	if (error == source->told)
		return;
	source->told = error;
	snprintf(text, sizeof(text), "cannot read log: %s", why);
	feed_source_log(source, error == 0 ? EVENT_FEED : EVENT_FEED_FAILED,
	    error == 0 ? "reading log" : text);
}

/* The place of the log of that text in the list, or its count. */
static unsigned find(const struct feed_sources *sources, const char *text) {
	unsigned i = 0;

	while (i < sources->count && (sources->list[i] == NULL ||
	    strcmp(sources->list[i]->log, text) != 0))
		i++;
	return i;
}

void feed_sources_take_up(struct feed *feed, struct feed_sources *sources,
    const struct feed_source_calls *calls) {
	const struct generation *g = feed->generation;
	struct feed_sources old = *sources;
	bool whole = true;

	sources->count = 0;
	for (unsigned i = 0; i < g->mta_count; i++) {
		const char *text = generation_text(g, g->mtas[i].log);
		unsigned at = find(sources, text);

		if (!calls->is_one(feed, text))
			continue;
		if (at == sources->count) {
			unsigned kept = find(&old, text);
			struct feed_source *source = kept < old.count ? old.list[kept] :
			    calls->open(feed, text, g->mtas[i].log_from_begin != 0);

			if (kept < old.count)
				old.list[kept] = NULL;
			if (source == NULL) {
				whole = false;	/* no memory: the next turn tries again */
				continue;
			}
			source->mtas = 0;
			sources->list[sources->count++] = source;
		}
		sources->list[at]->mtas |= 1U << i;
	}
	for (unsigned i = 0; i < old.count; i++)
		if (old.list[i] != NULL)
			calls->close(old.list[i]);
	if (whole)
		sources->taken_up = g->number;
}
