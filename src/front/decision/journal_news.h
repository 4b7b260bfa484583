/* SPDX-License-Identifier: ISC */
/* What happens to the journal, in the log.  Any thread. */
#ifndef FRONT_JOURNAL_NEWS_H
#define FRONT_JOURNAL_NEWS_H

#include "engine/journal/journal_status.h"

extern const struct journal_listener journal_news_log;

#endif
