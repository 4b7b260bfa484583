/* SPDX-License-Identifier: ISC */
/* What happens to the journal, in words. */
#include "front/journal_news.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

static void tell(void *context, const struct journal_news *news)
{
	const char *room = generation_journal_word(news->room);
	char why[128], path[512];

	(void)context;
	log_quote(path, sizeof(path), news->path, strlen(news->path));
	switch (news->kind) {
	case JOURNAL_NEWS_FAILED:
		if (news->error == EAGAIN && strcmp(news->what, "lock") == 0) {
			log_event(EVENT_JOURNAL_FAILED, "room=%s path=%s step=lock text=\"another "
			    "process writes it, perhaps of another posternd with the same "
			    "journal.path: nothing is kept here until that has ended\"", room,
			    path);
			break;
		}
		log_event(EVENT_JOURNAL_FAILED, "room=%s path=%s step=%s text=\"%s: nothing is kept "
		    "of what is learned and done until it can be written\"", room, path, news->what,
		    log_sentence(why, sizeof(why), strerror(news->error)));
		break;
	case JOURNAL_NEWS_WELL:
		log_event(EVENT_JOURNAL, "room=%s lost=%" PRIu64
		    " text=\"is written again: all that is known is put there anew\"", room,
		    news->lost);
		break;
	case JOURNAL_NEWS_DAMAGED:
		log_event(EVENT_JOURNAL_DAMAGED, "room=%s path=%s bytes=%" PRIu64
		    " places=%" PRIu64 " text=\"posternctl journal check tells where\"",
		    room, path, news->bytes, news->lost);
		break;
	case JOURNAL_NEWS_LATER:
		log_event(EVENT_JOURNAL_DAMAGED, "room=%s path=%s files=%" PRIu64
		    " text=\"records there are of a later version or of a kind that is not known: "
		    "they are passed over, and their files are never deleted\"", room, path,
		    news->lost);
		break;
	case JOURNAL_NEWS_FOREIGN:
		log_event(EVENT_JOURNAL_DAMAGED, "room=%s path=%s files_to=%" PRIu64
		    " text=\"what stands there is not of this state (another posternd wrote it, it "
		    "was put there meanwhile, or could not be read at the start): it is not "
		    "in force, and is never deleted: posternctl journal dump shows it\"", room, path, news->lost);
		break;
	case JOURNAL_NEWS_TOO_MANY:
		log_event(EVENT_JOURNAL_FAILED, "room=%s lost=%" PRIu64
		    " text=\"too much was done by hand: the oldest of it that is in force is not "
		    "kept\"", room, news->lost);
		break;
	case JOURNAL_NEWS_UNREAD:
		log_event(EVENT_JOURNAL_FAILED, "room=%s path=%s text=\"cannot be read: %s: what "
		    "stands there is not in force\"", room, path,
		    log_sentence(why, sizeof(why), news->what));
		break;
	case JOURNAL_NEWS_RESTORED:
		log_event(EVENT_JOURNAL, "destinations=%" PRIu64 " recipients=%" PRIu64
		    " actions=%" PRIu64 " logs=%" PRIu64 " age=%" PRId64
		    "s text=\"what was learned and done by hand was read\"",
		    news->destinations, news->recipients, news->actions, news->logs,
		    news->age_ns / NS_PER_SECOND);
		break;
	}
}

const struct journal_listener journal_news_log = { tell, NULL };
