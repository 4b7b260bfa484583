/* SPDX-License-Identifier: ISC */
/* What happens to the journal, in words. */
#include "front/decision/journal_news.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

static void news_log(void *context, const struct journal_news *news) {
	const char *room = generation_journal_word(news->room);
	char why[128], path[512];

	(void)context;
	log_quote(path, sizeof(path), news->path, strlen(news->path));
	switch (news->kind) {
	case JOURNAL_NEWS_FAILED:
		if (news->error == EAGAIN && strcmp(news->what, "lock") == 0) {
			log_event(EVENT_JOURNAL_FAILED, "room=%s path=%s step=lock "
			    "text=\"another process writes this journal, perhaps another "
			    "posternd with the same journal.path: nothing is stored until it "
			    "ends\"", room,
			    path);
			break;
		}
		log_event(EVENT_JOURNAL_FAILED, "room=%s path=%s step=%s text=\"%s: learned "
		    "state and manual actions are not stored until the journal is writable\"",
		    room, path, news->what,
		    log_sentence(why, sizeof(why), strerror(news->error)));
		break;
	case JOURNAL_NEWS_WELL:
		log_event(EVENT_JOURNAL, "room=%s lost=%" PRIu64 " text=\"journal is writable "
		    "again; rewriting the complete state\"", room,
		    news->lost);
		break;
	case JOURNAL_NEWS_DAMAGED:
		log_event(EVENT_JOURNAL_DAMAGED, "room=%s path=%s bytes=%" PRIu64 " "
		    "places=%" PRIu64 " text=\"run posternctl journal check to list the "
		    "damage\"",
		    room, path, news->bytes, news->lost);
		break;
	case JOURNAL_NEWS_LATER:
		log_event(EVENT_JOURNAL_DAMAGED, "room=%s path=%s files=%" PRIu64 " text=\"the "
		    "journal has records of a later version or unknown kind: they are skipped, "
		    "and their files are never deleted\"", room, path,
		    news->lost);
		break;
	case JOURNAL_NEWS_FOREIGN:
		log_event(EVENT_JOURNAL_DAMAGED, "room=%s path=%s files_to=%" PRIu64 " "
		    "text=\"these files are not of this state (from another posternd, added "
		    "meanwhile, or unreadable at the start): they are not used and never "
		    "deleted; posternctl journal dump shows them\"", room, path, news->lost);
		break;
	case JOURNAL_NEWS_TOO_MANY:
		log_event(EVENT_JOURNAL_FAILED, "room=%s lost=%" PRIu64 " text=\"too many "
		    "manual actions: the oldest active ones are not stored\"",
		    room, news->lost);
		break;
	case JOURNAL_NEWS_UNREAD:
		log_event(EVENT_JOURNAL_FAILED, "room=%s path=%s text=\"cannot read journal: "
		    "%s: its contents are not used\"", room, path,
		    log_sentence(why, sizeof(why), news->what));
		break;
	case JOURNAL_NEWS_RESTORED:
		log_event(EVENT_JOURNAL, "destinations=%" PRIu64 " recipients=%" PRIu64 " "
		    "actions=%" PRIu64 " logs=%" PRIu64 " logins=%" PRIu64 " age=%" PRId64 "s text=\"restored "
		    "learned state and manual actions\"",
		    news->destinations, news->recipients, news->actions, news->logs,
		    news->logins, news->age_ns / NS_PER_SECOND);
		break;
	}
}

const struct journal_listener journal_news_log = { news_log, NULL };
