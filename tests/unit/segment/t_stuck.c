/* SPDX-License-Identifier: ISC */
/* Locks that another process holds on to, or died with: what cannot be done is
 * done later, and nothing is lost. */
#include "tests/unit/test.h"
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "segment/file/internal.h"
#include "segment/file/lock.h"
#include "segment/session/sessions.h"
#include "tests/unit/site.h"

#define ONE "classes = ( { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 1; refuse_at = 1; action = \"defer\"; } );"
#define CLIENTS "classes = ( { name = \"all\"; match = [ \"*\" ]; " \
	"hold_at = 50; refuse_at = 50; client = { sessions = 9; }; } );"

/* Another thread's locks; thread 1 is always there. */
struct holder {
	struct lock *locks[64];
	unsigned count;
};

static void holder_start(struct holder *holder) {
	for (unsigned i = 0; i < holder->count; i++)
		atomic_store(&holder->locks[i]->word, 1);
}

static void holder_end(struct holder *holder) {
	for (unsigned i = 0; i < holder->count; i++)
		atomic_store(&holder->locks[i]->word, 0);
}

static void *die_with(void *lock) {
	assert_int_equal(lock_acquire(lock, clock_now_ns()), LOCK_HELD);
	return NULL;
}

static void add_session_shards(struct holder *holder, const struct site *site) {
	for (uint32_t i = 0; i < site->segment->header->shard_count; i++)
		holder->locks[holder->count++] =
		    &site->segment->session_shards[i].lock;
}

static void add_client_shards(struct holder *holder, const struct site *site) {
	struct learned clients = clients_table(site->segment);

	for (uint32_t i = 0; i < clients.place->shards; i++)
		holder->locks[holder->count++] = &clients.shards[i].lock;
}

static void end_while_stuck(uint8_t how) {
	struct holder holder = { 0 };
	struct site site;
	struct question question;
	struct answer answer;

	site_open(&site, 1000, ONE);
	question = site_question("192.0.2.1", 1, NULL);
	question.listener = site.milter_listener;
	question.owner = OWNER_MILTER;
	engine_session_open(site.engine, site.generation, &question,
	    clock_now_ns(), &answer);
	if (how < 2)
		add_session_shards(&holder, &site);
	else
		holder.locks[holder.count++] = &site_class(&site, "all")->lock;
	holder_start(&holder);
	if (how % 2 == 0)
		engine_session_ended(site.engine, site.generation,
		    &answer.session, OWNER_MILTER, clock_now_ns());
	else
		engine_session_close(site.engine, &answer.session,
		    clock_now_ns());
	assert_int_equal(atomic_load(&site_class(&site, "all")->open), 1);
	holder_end(&holder);
	engine_heartbeat(site.engine, clock_now_ns());
	assert_int_equal(atomic_load(&site_class(&site, "all")->open), 0);
	assert_true(site_is_consistent(&site));
	site_close(&site);
}

TEST(an_end_that_a_lock_stood_in_the_way_of_comes_later) {
	for (uint8_t how = 0; how < 4; how++)
		end_while_stuck(how);
}

TEST(a_deferred_session_outlives_a_stuck_class) {
	struct holder holder = { 0 };
	struct site site;
	struct question question;
	struct answer answer;
	struct class_record *class;
	uint64_t ended;

	site_open(&site, 1000, ONE);
	class = site_class(&site, "all");
	(void)site_inbound(&site, "192.0.2.1", 1, NULL, NULL);
	assert_int_equal(site_inbound(&site, "192.0.2.2", 2, NULL, NULL),
	    VERDICT_DEFER);
	ended = atomic_load(&site.segment->header->counters[COUNTER_ENDED]);
	question = site_question("192.0.2.2", 2, NULL);
	holder.locks[holder.count++] = &class->lock;
	holder_start(&holder);
	engine_session_recipient(site.engine, site.generation, &question,
	    clock_now_ns(), &answer);
	assert_int_equal(answer.decision.verdict, VERDICT_ADMIT);
	assert_int_equal(answer.decision.reason, REASON_UNUSABLE);
	holder_end(&holder);
	engine_session_recipient(site.engine, site.generation, &question,
	    clock_now_ns(), &answer);
	assert_int_equal(answer.decision.verdict, VERDICT_DEFER);
	/* nothing ended meanwhile */
	assert_int_equal(atomic_load(&site.segment->header->counters[
	    COUNTER_ENDED]), ended);
	site_close(&site);
}

static void spoil_clients(const struct site *site) {
	struct learned clients = clients_table(site->segment);

	for (uint32_t shard = 0; shard < clients.place->shards; shard++)
		for (uint32_t i = learned_next(&clients, shard, 0); i != SEGMENT_NO_SLOT;
		     i = learned_next(&clients, shard, i + 1))
			atomic_store(&learned_slot(&clients, shard, i)[WORD_OF(client_slot,
			    open)], 20);
}

/* The class's owner died, and a client shard is not to be had. */
TEST(a_repair_that_cannot_be_finished_is_left_to_the_next) {
	struct holder holder = { 0 };
	struct site site;
	pthread_t victim;
	struct class_record *class;

	site_open(&site, 100, CLIENTS);
	class = site_class(&site, "all");
	for (uint16_t i = 1; i <= 9; i++)
		assert_int_equal(site_inbound(&site, "192.0.2.1", i, NULL, NULL),
		    VERDICT_ADMIT);
	assert_int_equal(pthread_create(&victim, NULL, die_with, &class->lock), 0);
	pthread_join(victim, NULL);
	/* it left the counts like this */
	atomic_store(&class->open, 3);
	spoil_clients(&site);
	add_client_shards(&holder, &site);
	holder_start(&holder);
	assert_int_equal(site_inbound(&site, "192.0.2.1", 10, NULL, NULL),
	    VERDICT_ADMIT);	/* fails open */
	holder_end(&holder);
	assert_true(class_lock(site.segment, 0, clock_now_ns()));
	class_unlock(site.segment, 0);
	assert_true(site_is_consistent(&site));
	assert_int_equal(site_inbound(&site, "192.0.2.1", 11, NULL, NULL),
	    VERDICT_REFUSE);
	assert_int_equal(atomic_load(&class->open), 9);
	assert_true(site_is_consistent(&site));
	assert_int_equal(atomic_load(&class->seq) % 2, 0);
	site_close(&site);
}

TEST(faults_in_a_row_are_one_gap) {
	struct holder holder = { 0 };
	struct site site;
	struct listener_record *record;
	int64_t now_ns = clock_now_ns();
	struct question question;
	struct answer answer;

	site_open(&site, 1000, ONE);
	question = site_question("192.0.2.1", 1, NULL);
	add_session_shards(&holder, &site);
	holder_start(&holder);
	for (int i = 0; i < 4; i++)
		engine_session_open(site.engine, site.generation, &question,
		    now_ns + i * 700 * NS_PER_MS, &answer);
	holder_end(&holder);
	record = segment_listener(site.segment, 0, 25);
	assert_int_equal(atomic_load(&record->fault_begin_ns), now_ns);
	assert_int_equal(atomic_load(&record->fault_until_ns),
	    now_ns + 2100 * NS_PER_MS + NS_PER_SECOND);
	site_close(&site);
}
