/* SPDX-License-Identifier: ISC */
/* A share of a limit against its law, by chance, in virtual time: who is let in, in either
 * direction, what is kept when it is lowered, and what is overhang. */
#include "tests/unit/test.h"
#include "base/clock.h"
#include "engine/outbound/outbound.h"
#include "engine/cluster/shares.h"
#include "segment/file/internal.h"
#include "tests/unit/random.h"
#include "tests/unit/own_site.h"

#define STEPS		20000
#define PROCESSES	16
#define SESSIONS	40
#define FIXED		1u	/* of each pool of 10, for each of 3 */

static int64_t now_ns;

/* The law, by hand. */
struct model {
	bool small_is_inbound;		/* limits 10 and 20, or the other way round */
	uint32_t leased[2], most[2];	/* base, extra */
	int64_t until_ns;
	uint32_t in, out;
};

static struct session_ref in[SESSIONS];
static struct outbound_process *out[PROCESSES];
static uint16_t port;

static uint32_t least_of(uint32_t a, uint32_t b) {
	return a < b ? a : b;
}

/* Places for a direction now. */
static uint32_t places(const struct model *m, bool inbound) {
	bool live = now_ns < m->until_ns;
	uint32_t base = FIXED + (live ? least_of(m->leased[0], m->most[0]) : 0);
	uint32_t extra = FIXED + (live ? least_of(m->leased[1], m->most[1]) : 0);

	return inbound == m->small_is_inbound ? least_of(10, base) :
	    least_of(20, base + extra);
}

static void judge(const struct model *m, const struct decision *decision, bool inbound,
    bool admitted) {
	uint32_t open = m->in + m->out, most = inbound == m->small_is_inbound ? 10 : 20;

	assert_int_equal(admitted, open < places(m, inbound));
	if (admitted)
		return;
	assert_int_equal(decision->reason, open < most ? REASON_CLASS_SHARE : inbound ?
	    REASON_CLASS_INBOUND : REASON_CLASS_SESSIONS);
	assert_int_equal(decision->count, open);
	assert_int_equal(decision->limit, open < most ? places(m, inbound) : most);
}

static void comes_in(struct model *m, uint32_t at) {
	struct question question = site_question("192.0.2.1", ++port, NULL);
	struct answer answer;

	if (in[at].slot != 0) {
		engine_session_close(site.engine, &in[at], now_ns);
		memset(&in[at], 0, sizeof(in[at]));
		m->in--;
		return;
	}
	answer = site_ask(&question, now_ns);
	judge(m, &answer.decision, true, answer.decision.verdict == VERDICT_ADMIT);
	if (answer.decision.verdict != VERDICT_ADMIT)
		return;
	in[at] = answer.session;
	m->in++;
}

static void goes_out(struct model *m, uint32_t pid) {
	struct process_identity identity = { .pid = (int32_t)pid + 1, .start_ticks = 7 };
	/* each to another destination: windows are no matter here */
	char name[] = "a.d.example";
	struct outbound_question question = { .stage = OUTBOUND_BEFORE_CONNECT,
		.destination = name, .destination_length = strlen(name), .mta = UINT8_MAX };
	struct outbound_answer answer;

	name[0] = (char)('a' + pid);
	if (out[pid] != NULL) {
		outbound_process_close(&out[pid], site.generation, now_ns);
		m->out--;
		return;
	}
	out[pid] = outbound_process_open(site.engine, &identity);
	outbound_process_ask(out[pid], site.generation, &question, now_ns, &answer);
	judge(m, &answer.answer.decision, false,
	    answer.answer.decision.verdict == VERDICT_ADMIT);
	if (answer.answer.decision.verdict == VERDICT_ADMIT)
		m->out++;
	else
		outbound_process_close(&out[pid], site.generation, now_ns);
}

static void grant(struct model *m, struct random *random) {
	struct share_pools leased = { random_below(random, 12), random_below(random, 12) };
	struct share_pools most = { random_below(random, 12), random_below(random, 12) };

	m->leased[0] = least_of(leased.base, 10);
	m->leased[1] = least_of(leased.extra, 10);
	m->most[0] = most.base;
	m->most[1] = most.extra;
	m->until_ns = now_ns + random_below(random, 3) * NS_PER_SECOND;
	assert_true(shares_grant(site.engine, site.generation, 0, leased, most, m->until_ns,
	    now_ns));
}

/* Does this keep a place for all who had one? */
static bool is_enough(const struct model *m, uint32_t base, uint32_t extra) {
	uint32_t small = m->small_is_inbound ? m->in : m->out;

	return base + FIXED >= least_of(small, m->leased[0] + FIXED) &&
	    base + extra + 2 * FIXED >= least_of(m->in + m->out,
	    m->leased[0] + m->leased[1] + 2 * FIXED);
}

static uint32_t fewest(const struct model *m, struct share_pools to) {
	uint32_t least = UINT32_MAX;

	for (uint32_t b = least_of(to.base, m->leased[0]); b <= m->leased[0]; b++)
		for (uint32_t e = least_of(to.extra, m->leased[1]); e <= m->leased[1]; e++)
			if (is_enough(m, b, e))
				least = least_of(least, b + e);
	return least;
}

static void lower(struct model *m, struct random *random) {
	struct share_pools to = { random_below(random, 12), random_below(random, 12) }, held;

	assert_true(shares_lower(site.engine, site.generation, 0, to, now_ns, &held));
	if (now_ns >= m->until_ns) {
		assert_int_equal(held.base + held.extra, 0);
	} else {
		assert_true(held.base <= m->leased[0] && held.extra <= m->leased[1]);
		assert_true(held.base >= least_of(to.base, m->leased[0]));
		assert_true(held.extra >= least_of(to.extra, m->leased[1]));
		assert_true(is_enough(m, held.base, held.extra));
		assert_int_equal(held.base + held.extra, fewest(m, to));
	}
	m->leased[0] = held.base;
	m->leased[1] = held.extra;
}

static void look(const struct model *m) {
	bool live = now_ns < m->until_ns;
	uint32_t open = m->in + m->out;
	uint32_t held = 2 * FIXED + (live ? m->leased[0] + m->leased[1] : 0);
	struct share_class class;

	assert_true(shares_look(site.engine, site.generation, 0, now_ns, &class));
	assert_int_equal(class.state, live ? SHARE_LEASED : SHARE_ENDED);
	assert_int_equal(class.open, open);
	assert_int_equal(class.open_small, m->small_is_inbound ? m->in : m->out);
	assert_int_equal(class.overhang, open > held ? open - held : 0);
}

static void step(struct model *m, struct random *random) {
	switch (random_below(random, 8)) {
	case 0:
		grant(m, random);
		break;
	case 1:
		lower(m, random);
		break;
	case 2:
		now_ns += random_below(random, 1000) * NS_PER_MS;
		break;
	case 3:
	case 4:
		goes_out(m, random_below(random, PROCESSES));
		break;
	default:
		comes_in(m, random_below(random, SESSIONS));
	}
	look(m);
}

static void it_follows_its_law(const char *configuration, bool small_is_inbound) {
	struct random random = random_seeded("it_follows_its_law");
	struct model model = { .small_is_inbound = small_is_inbound };

	site_open(&site, 1000, configuration);
	now_ns = clock_now_ns() + 60 * NS_PER_SECOND;
	memset(in, 0, sizeof(in));
	for (unsigned i = 0; i < STEPS; i++)
		step(&model, &random);
	for (uint32_t i = 0; i < PROCESSES; i++)
		if (out[i] != NULL)
			goes_out(&model, i);
	assert_true(site_is_consistent(&site));
	site_close(&site);
}

#define SITE(sessions, inbound) \
	"cluster = { redis = \"unix:/nowhere\"; node = \"a\"; nodes = 3; };\n" \
	"classes = ( { name = \"c\"; match = [ \"192.0.2.0/24\", \"*.d.example\" ]; hold_at = " \
	#sessions "; refuse_at = " #inbound "; scope = \"cluster\"; }, " \
	"{ name = \"room\"; match = [ \"*\" ]; hold_at = 9; } );\n"

TEST(with_more_inbound) {
	it_follows_its_law(SITE(10, 20), false);
}

TEST(with_more_outbound) {
	it_follows_its_law(SITE(20, 10), true);
}
