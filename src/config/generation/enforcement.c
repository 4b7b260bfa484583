/* SPDX-License-Identifier: ISC */
/* Who keeps to what is decided about outbound mail. */
#include "config/generation/enforcement.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const char *const texts[ENFORCEMENT_KINDS] = {
#define ENFORCEMENT(symbol, text) [ENFORCEMENT_##symbol] = text,
#include "defs/enforcement.def"
#undef ENFORCEMENT
};

static enum enforcement_kind kind_of(const struct generation *g,
    const struct generation_mta *mta, bool seen, bool asked) {
	if (mta->kind == MTA_POSTFIX) {
		if (mta->site_known == 0 || mta->site_changed != 0 ||
		    generation_text(g, mta->site_refusal)[0] != '\0')
			return ENFORCEMENT_NO_HINTS;
		return mta->site_lanes == 0 ? ENFORCEMENT_NO_LANES : ENFORCEMENT_APPLIED;
	}
	if (!generation_has_listener(g, LISTENER_SOCKETMAP))
		return ENFORCEMENT_NO_MAP;
	/* one of which no delivery was seen may ask yet */
	return seen && !asked ? ENFORCEMENT_NOT_ASKED : ENFORCEMENT_APPLIED;
}

static struct enforcement find_enforcement(const struct generation *g, unsigned bits, bool asked) {
	struct enforcement out = { ENFORCEMENT_APPLIED, "" };

	for (uint32_t i = 0; i < g->mta_count; i++) {
		const struct generation_mta *mta = &g->mtas[i];
		bool seen = i < 32 && (bits >> i & 1) != 0;
		enum enforcement_kind kind;

		if (bits != 0 && !seen)
			continue;
		kind = kind_of(g, mta, seen, asked);
		if (kind == ENFORCEMENT_APPLIED)
			return (struct enforcement){ kind, "" };
		if (out.kind == ENFORCEMENT_APPLIED)
			out = (struct enforcement){ kind, generation_text(g,
			    g->mtas[mta->transport != 0 ? mta->parent : i].name) };
	}
	return out;
}

struct enforcement enforcement_of(const struct generation *g, unsigned mta_bits, bool asked) {
	if (g == NULL)
		return (struct enforcement){ ENFORCEMENT_APPLIED, "" };
	if (g->outbound_observe != 0)
		return (struct enforcement){ ENFORCEMENT_OBSERVED, "" };
	return find_enforcement(g, mta_bits, asked);
}

static const struct generation_class *class_named(const struct generation *g,
    const char *name) {
	size_t length = strlen(name);

	for (uint32_t i = 0; i < g->class_count; i++) {
		const struct generation_class *class = generation_class(g, i);
		const char *own = generation_text(g, class->name);

		if (strlen(own) == length && strncasecmp(own, name, length) == 0)
			return class;
	}
	return NULL;
}

struct enforcement enforcement_of_class(const struct generation *g, const char *name,
    bool asked) {
	const struct generation_class *class = g == NULL ? NULL : class_named(g, name);

	if (g == NULL)
		return (struct enforcement){ ENFORCEMENT_APPLIED, "" };
	if (class != NULL ? class->outbound_observe != 0 : g->outbound_observe != 0)
		return (struct enforcement){ ENFORCEMENT_OBSERVED, "" };
	return find_enforcement(g, 0, asked);
}

const char *enforcement_effect(enum window_state state, bool applied) {
	switch (state) {
	case WINDOW_DEAD:
		return applied ? "suspended" : "would suspend";
	case WINDOW_HELD:
		return applied ? "held" : "would hold";
	case WINDOW_LIMITED:
		return "limited";
	default:
		return "open";
	}
}

const char *enforcement_text(unsigned kind, const char *mta, char out[ENFORCEMENT_TEXT_MAX]) {
	const char *text = texts[kind < ENFORCEMENT_KINDS ? kind : ENFORCEMENT_APPLIED];
	const char *at = NULL;

	for (const char *c = text; *c != '\0' && at == NULL; c++)
		if (c[0] == '%' && c[1] == 's')
			at = c;
	out[0] = '\0';
	if (*text == '\0' || kind == ENFORCEMENT_OBSERVED)
		(void)text_append(out, ENFORCEMENT_TEXT_MAX, 0, "%s", text);
	else
		(void)text_append(out, ENFORCEMENT_TEXT_MAX, 0, "not enforced: %.*s%s%s",
		    at == NULL ? ENFORCEMENT_TEXT_MAX : (int)(at - text), text,
		    at == NULL ? "" : *mta == '\0' ? "the mail server" : mta,
		    at == NULL ? "" : at + 2);
	return out;
}
