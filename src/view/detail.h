/* SPDX-License-Identifier: ISC */
/*
 * All about one class, destination, client or decision, as an object of JSON for the page:
 * limits with file and line, what binds now, what led to it, and the commands to copy, which
 * hold for a posternctl of the default configuration.  One thread.
 */
#ifndef VIEW_DETAIL_H
#define VIEW_DETAIL_H

#include "segment/decision/history.h"
#include "view/view.h"

/* False: there is no such class (or no memory); nothing was written. */
bool detail_class_write(const struct view *view, const char *name, struct writer *writer);

/* False: it is unknown. */
bool detail_destination_write(const struct view *view, const char *name,
    struct writer *writer);

/* Its open sessions, and the commands.  False: it is no address. */
bool detail_client_write(const struct view *view, const char *address,
    struct writer *writer);

/* history: for what the rings have lost; or NULL.  False: it is unknown here, or about a
 * recipient; the journal may have it. */
bool detail_decision_write(const struct view *view, struct history *history, const char *id,
    struct writer *writer);

#endif
