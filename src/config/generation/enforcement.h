/* SPDX-License-Identifier: ISC */
/*
 * Does a mail server keep to what Postern decides about outbound mail?  In observe mode, or
 * where nothing carries a suspension to the mail server, mail flows: every list, page, text
 * and metric asks here, and nowhere else, whether mail is suspended or would be.
 * No state.  Any thread.
 */
#ifndef CONFIG_ENFORCEMENT_H
#define CONFIG_ENFORCEMENT_H

#include "config/generation/generation.h"
#include "policy/window/window.h"

enum enforcement_kind {
#define ENFORCEMENT(symbol, text) ENFORCEMENT_##symbol,
#include "defs/enforcement.def"
#undef ENFORCEMENT
	ENFORCEMENT_KINDS
};

struct enforcement {
	enum enforcement_kind kind;	/* APPLIED: mail does wait */
	const char *mta;		/* the mail server that does not keep to it, or "" */
};

/* Of mail that goes by the mail servers of these bits (destination_seen: cloned_by, other_by;
 * 0: not known, any of them).  It is applied if one of them keeps to it.  `asked`: Sendmail has
 * asked about outbound mail since the state was created.  g NULL: taken as applied. */
struct enforcement enforcement_of(const struct generation *g, unsigned mta_bits, bool asked);

/* Of mail of the class of this name, whatever the case (its own observe counts). */
struct enforcement enforcement_of_class(const struct generation *g, const char *name,
    bool asked);

/* What people read of a destination in this state: "open", "limited", "suspended", "held", or
 * "would suspend", "would hold" where that is not applied. */
const char *enforcement_effect(enum window_state state, bool applied);

/* "not enforced: no lanes on mx1", "observe mode"; "" where it is applied.  `mta` may be "".
 * Returns `out`. */
#define ENFORCEMENT_TEXT_MAX	160
const char *enforcement_text(unsigned kind, const char *mta, char out[ENFORCEMENT_TEXT_MAX]);

#endif
