/* SPDX-License-Identifier: ISC */
/*
 * What a node asks for.  It needs what was open in the last 0.4 s, and what it refused since
 * the last call: for that others must make room.  While nobody lacks anything it keeps what
 * was open in the last 5 to 10 s and an eighth more, of places that are free, and asks when
 * half of that eighth is left: few calls, no refusals.  Be it idle, of free places it wants
 * an equal part, which lets in a burst; who runs out claims what he is about to need from those
 * who merely hold it so.  While somebody lacks some it keeps what it
 * needs and hardly more: the limit is used to the last place.  Integers only, no errors.
 */
#include "policy/window/share.h"

#define SPAN_MS		5000
/* An answer shows what others needed when they called last, which may be nothing by chance:
 * that another lacks places is believed for so many turns, or until many are free. */
#define TENSION_TURNS	50
/* Whoever lacked places goes on to need more or less of them for a while: so long nobody takes
 * again what he does not need. */
#define STRAINED_TURNS	300
/* Who begins with something leased has had another life, and sessions of it or of the time
 * between that are not counted yet: it gives nothing back for so many turns. */
#define SETTLING_TURNS	30
/* Who was refused so many turns ago has come again meanwhile, or needs nothing any more. */
#define REFUSED_TURNS	10
/* Answers after which nobody is believed to hold what he does not need. */
#define CLAIMS_MOST	4
/* What was open in so many turns is needed; while somebody lacks places, of what was in
 * SHARE_PEAKS one place is kept, so that a client that leaves and one that comes do not cost
 * two calls. */
#define NEED_TURNS	4

static uint32_t smaller(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

static uint32_t greater(uint32_t a, uint32_t b) {
	return a > b ? a : b;
}

static uint32_t less(uint32_t a, uint32_t b) {
	return a > b ? a - b : 0;
}

static uint32_t plus(uint32_t a, uint32_t b) {
	return a > LIMIT_NONE - b ? LIMIT_NONE : a + b;
}

/* Of these nothing more is to be said. */
static void forget_refused(struct share_memory *memory, const struct share_seen *seen) {
	memory->refused_small = seen->refused_small;
	memory->refused_other = seen->refused_other;
}

void share_turn(struct share_memory *memory, const struct share_seen *seen, int64_t now_ms) {
	if (!memory->begun) {
		*memory = (struct share_memory){ .span_ms = now_ms, .begun = true,
			.refused_small = seen->refused_small,
			.refused_other = seen->refused_other,
			.settling = seen->leased.base > 0 || seen->leased.extra > 0 ?
			    SETTLING_TURNS : 0 };
	}
	for (unsigned i = SHARE_PEAKS - 1; i > 0; i--)
		memory->peaks[i] = memory->peaks[i - 1];
	memory->peaks[0] = seen->open;
	if (memory->refused != seen->refused_small + seen->refused_other)
		memory->quiet = 0;
	else if (++memory->quiet >= REFUSED_TURNS)
		forget_refused(memory, seen);
	memory->refused = seen->refused_small + seen->refused_other;
	memory->tension = less(memory->tension, 1);
	memory->strained = less(memory->strained, 1);
	memory->settling = less(memory->settling, 1);
	if (now_ms - memory->span_ms >= SPAN_MS) {
		memory->peak_span[1] = now_ms - memory->span_ms < 2 * SPAN_MS ?
		    memory->peak_span[0] : seen->open;
		memory->peak_span[0] = seen->open;
		memory->span_ms = now_ms;
	}
	memory->peak_span[0] = greater(memory->peak_span[0], seen->open);
}

/* Counters that begin anew (another segment) count from there. */
static uint32_t since(uint64_t now, uint64_t before) {
	uint64_t more = now >= before ? now - before : now;

	return more < UINT32_MAX / 4 ? (uint32_t)more : UINT32_MAX / 4;
}

static uint32_t refused_small(const struct share_memory *memory, const struct share_seen *seen) {
	return since(seen->refused_small, memory->refused_small);
}

static uint32_t refused_other(const struct share_memory *memory, const struct share_seen *seen) {
	return since(seen->refused_other, memory->refused_other);
}

static bool contended(const struct share_memory *memory) {
	return memory->tension > 0;
}

/* Places beyond those in use that are good to have while nobody waits. */
static uint32_t headroom(uint32_t open) {
	return greater(2, open / 8);
}

/* So many places are needed in all, static parts included. */
static uint32_t needed(const struct share_memory *memory, const struct share_seen *seen) {
	uint32_t refused = plus(refused_small(memory, seen), refused_other(memory, seen));
	uint32_t most = seen->open;

	for (unsigned i = 0; i < NEED_TURNS; i++)
		most = greater(most, memory->peaks[i]);
	return refused > 0 ? greater(most, plus(seen->open, refused)) : most;
}

static struct share_pools usable(const struct share_seen *seen) {
	return (struct share_pools){ smaller(seen->leased.base, seen->most.base),
		smaller(seen->leased.extra, seen->most.extra) };
}

static uint32_t with_headroom(uint32_t places) {
	return places > 0 ? plus(places, headroom(places)) : 0;
}

/* So many are kept while somebody lacks some. */
static uint32_t needed_nearly(const struct share_memory *memory, const struct share_seen *seen) {
	uint32_t most = 0;

	for (unsigned i = 0; i < SHARE_PEAKS; i++)
		most = greater(most, memory->peaks[i]);
	return greater(needed(memory, seen), smaller(most, plus(seen->open, 1)));
}

/* So many are wanted while nobody lacks any: an old peak may keep places, not take them. */
static uint32_t wanted(const struct share_memory *memory, const struct share_seen *seen) {
	uint32_t need = needed(memory, seen);
	uint32_t peak = greater(memory->peak_span[0], memory->peak_span[1]);
	struct share_pools now = usable(seen);
	uint32_t places = plus(plus(seen->fixed.base, now.base), plus(seen->fixed.extra, now.extra));

	return greater(with_headroom(need), smaller(with_headroom(peak), places));
}

/* The leased parts that make `places`. */
static struct share_pools parts(const struct share_memory *memory, const struct share_seen *seen,
    uint32_t places) {
	bool small = seen->open_small > 0 || refused_small(memory, seen) > 0;
	bool other = seen->open > seen->open_small || refused_other(memory, seen) > 0;
	struct share_pools leasable = share_leasable(seen->whole, seen->nodes, seen->fixed);
	struct share_pools now = usable(seen);
	struct share_pools want = { 0, 0 };
	/* In all, for the direction that may use both. */
	uint32_t both = less(less(places, seen->fixed.base), seen->fixed.extra);

	if (small || !other) {
		want.base = smaller(less(places, seen->fixed.base), leasable.base);
		if (other)
			want.extra = less(both, memory->short_self ? now.base : want.base);
	} else {
		want.extra = smaller(both, leasable.extra);
		want.base = less(both, memory->short_self ? now.extra : want.extra);
	}
	want.base = smaller(want.base, leasable.base);
	want.extra = smaller(want.extra, leasable.extra);
	return want;
}

static struct share_pools kept(const struct share_seen *seen, struct share_pools want) {
	return (struct share_pools){
		smaller(seen->leased.base, smaller(seen->most.base, want.base)),
		smaller(seen->leased.extra, smaller(seen->most.extra, want.extra)) };
}

static struct share_pools at_least(struct share_pools a, struct share_pools b) {
	return (struct share_pools){ greater(a.base, b.base), greater(a.extra, b.extra) };
}

/* What is good to have whatever is open. */
static struct share_pools reserve(const struct share_memory *memory,
    const struct share_seen *seen) {
	struct share_pools leasable = share_leasable(seen->whole, seen->nodes, seen->fixed);

	if (memory->strained > 0 || seen->alive == 0)
		return (struct share_pools){ 0, 0 };
	return (struct share_pools){ leasable.base / seen->alive, leasable.extra / seen->alive };
}

/* So few places are left that more are asked for. */
static bool few_left(const struct share_seen *seen) {
	struct share_pools now = usable(seen);
	uint32_t places = plus(seen->fixed.base, now.base);

	if (seen->open_small == 0)
		places = plus(places, plus(seen->fixed.extra, now.extra));
	return seen->open > 0 && less(places, seen->open) <= headroom(seen->open) / 2;
}

struct share_ask share_asks(const struct share_memory *memory, const struct share_seen *seen) {
	struct share_pools need = parts(memory, seen, needed(memory, seen));
	struct share_pools claim, want;

	if (memory->settling > 0)
		need = at_least(need, usable(seen));
	claim = need;
	if (!contended(memory) && memory->strained == 0 && few_left(seen))
		claim = at_least(need, parts(memory, seen,
		    with_headroom(needed(memory, seen))));
	if (contended(memory))
		want = parts(memory, seen, needed_nearly(memory, seen));
	else
		want = at_least(parts(memory, seen, wanted(memory, seen)), reserve(memory, seen));
	want = at_least(want, claim);
	return (struct share_ask){ .keep = kept(seen, want), .need = need, .claim = claim,
		.want = want };
}

/* Is something leased that is not needed? */
static bool has_spare(const struct share_memory *memory, const struct share_seen *seen) {
	struct share_pools need = parts(memory, seen, needed_nearly(memory, seen));
	struct share_pools least = share_least(seen->fixed, seen->leased, seen->open,
	    seen->open_small, kept(seen, need));

	if (memory->settling > 0)
		return false;
	return least.base < seen->leased.base || least.extra < seen->leased.extra;
}

static bool more_than_equal(const struct share_seen *seen) {
	struct share_pools leasable = share_leasable(seen->whole, seen->nodes, seen->fixed);

	return seen->leased.base > leasable.base / seen->nodes ||
	    seen->leased.extra > leasable.extra / seen->nodes;
}

static bool is_more(struct share_pools wanted_parts, struct share_pools than) {
	return wanted_parts.base > than.base || wanted_parts.extra > than.extra;
}

/* It refuses for want of places that it could have. */
static bool lacks(const struct share_memory *memory, const struct share_seen *seen) {
	return (refused_small(memory, seen) > 0 || refused_other(memory, seen) > 0) &&
	    is_more(share_asks(memory, seen).need, usable(seen));
}

/* The server takes it for one that needs more than it does, and there may be others who need
 * it. */
static bool claims_too_much(const struct share_memory *memory, const struct share_seen *seen) {
	struct share_pools need = share_asks(memory, seen).need;

	if (!contended(memory) && !(memory->short_self && memory->quiet >= REFUSED_TURNS))
		return false;
	need = at_least(need, usable(seen));
	return is_more(memory->claim, need);
}

/* It will soon, and there may be free ones. */
static bool runs_out(const struct share_memory *memory, const struct share_seen *seen) {
	return !contended(memory) && few_left(seen) &&
	    is_more(share_asks(memory, seen).want, usable(seen));
}

/* Is it to look whether others lack what it has? */
static bool looks(const struct share_memory *memory, const struct share_seen *seen,
    enum share_news news, int64_t gone_ms) {
	if (news == SHARE_NEWS_QUIET && !contended(memory))
		return false;
	return gone_ms >= (news == SHARE_NEWS_SHORT ? SHARE_ASK_MS : SHARE_LOOK_MS) &&
	    (more_than_equal(seen) || has_spare(memory, seen));
}

enum share_due share_due(const struct share_memory *memory, const struct share_seen *seen,
    enum share_news news, int64_t sent_ms, int64_t lease_ms, int64_t now_ms) {
	int64_t gone = now_ms - sent_ms;

	if (sent_ms == 0)
		return SHARE_DUE_MORE;
	if (lacks(memory, seen) && gone >= (memory->short_self ? SHARE_ASK_MS : SHARE_TURN_MS))
		return SHARE_DUE_MORE;
	if (runs_out(memory, seen) && gone >= (memory->claimed ? SHARE_ASK_MS :
	    memory->denied && memory->strained > 0 ? SHARE_LOOK_MS : SHARE_TURN_MS))
		return SHARE_DUE_MORE;
	if (contended(memory) && gone >= SHARE_TURN_MS && has_spare(memory, seen))
		return SHARE_DUE_RETURN;
	if (gone >= SHARE_ASK_MS && claims_too_much(memory, seen))
		return SHARE_DUE_RETURN;
	if (looks(memory, seen, news, gone))
		return SHARE_DUE_LOOK;
	return gone >= lease_ms / 3 ? SHARE_DUE_RENEW : SHARE_NOT_DUE;
}

void share_sent(struct share_memory *memory, const struct share_seen *seen) {
	forget_refused(memory, seen);
}

/* An equal part of each pool is free: nobody lacks any, by more than chance. */
static bool is_plenty(const struct share_seen *seen, struct share_pools free) {
	struct share_pools leasable = share_leasable(seen->whole, seen->nodes, seen->fixed);

	return (uint64_t)free.base * seen->nodes >= leasable.base &&
	    (uint64_t)free.extra * seen->nodes >= leasable.extra;
}

void share_answered(struct share_memory *memory, const struct share_seen *seen,
    const struct share_ask *asked, struct share_pools granted, uint32_t others_short,
    struct share_pools free) {
	memory->claim = asked->claim;
	memory->short_self = is_more(asked->need, granted);
	memory->claimed = is_more(asked->claim, granted);
	memory->denied = is_more(asked->want, granted);
	memory->claims = memory->claimed ? memory->claims + 1 : 0;
	/* What this node itself lacks is no reason to give back what it is granted for it. */
	if (others_short > 0)
		memory->tension = TENSION_TURNS;
	else if (!memory->short_self && is_plenty(seen, free))
		memory->tension = 0;
	if (others_short == 0 && !memory->short_self && memory->claims < CLAIMS_MOST)
		return;
	memory->strained = STRAINED_TURNS;
	memory->claims = 0;
	memory->claimed = false;
}
