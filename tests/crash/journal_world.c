/* SPDX-License-Identifier: ISC */
#include "tests/crash/journal_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/crash/storage_faulty.h"
#include "tests/crash/sync_log.h"
#include "journal/queue/messages_internal.h"

#define RECOVERY_STEPS	2000
#define DRAIN_STEPS	200
#define DRAIN_NS	(40 * NS_PER_SECOND)	/* dues are within 12 s, intervals 4 s */
#define START_NS	(INT64_C(1800000000) * NS_PER_SECOND)

static const char mta[] = "m", directory[] = "/var/spool/q";

/* --- talk ------------------------------------------------------------------------------- */

void world_fail(struct world *world, const char *format, ...) {
	va_list arguments;

	if (!world->failed)
		fputs("FAILED: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	world->failed = true;
}

__attribute__((format(printf, 2, 3)))
static void trace(struct world *world, const char *format, ...) {
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(world->trace[world->traced++ % WORLD_TRACE], sizeof(world->trace[0]), format,
	    arguments);
	va_end(arguments);
}

/* --- envelopes ---------------------------------------------------------------------------- */

struct letter {
	struct messages_envelope envelope;
	struct messages_group groups[ORACLE_GROUPS];
	char id[16], sender[32];
};

static const char *const domains[ORACLE_GROUPS] = { "", "a.example", "bb.example",
	"ccc.example", "dddd.example" };

static void identify(unsigned number, char id[16]) {
	snprintf(id, 16, "id%04u", number);
}

/* The sender tells all that can be told of it. */
static void describe(unsigned number, uint32_t generation, char sender[32]) {
	snprintf(sender, 32, "%u.%" PRIu32 "@example.org", number, generation);
}

static void write_letter(struct letter *letter, unsigned number,
    const struct oracle_state *state, int64_t due_ns) {
	struct messages_envelope *envelope = &letter->envelope;

	memset(letter, 0, sizeof(*letter));
	identify(number, letter->id);
	describe(number, state->generation, letter->sender);
	*envelope = (struct messages_envelope){ .mta = mta, .directory = directory,
		.id = letter->id, .stamp = state->generation, .sender = letter->sender,
		.arrival_ns = START_NS + state->generation, .due_ns = due_ns,
		.tries = state->generation % 7, .groups = letter->groups,
		.rest = state->unread == 1 ? 77 : 0 };
	for (unsigned i = 0; i < ORACLE_GROUPS; i++) {
		if (state->left[i] == 0)
			continue;
		letter->groups[envelope->group_count++] = (struct messages_group){
			.domain = domains[i], .length = strlen(domains[i]),
			.recipients = state->left[i], .due_ns = due_ns };
		envelope->recipients += state->left[i];
	}
	envelope->recipients += state->unread > 0 ? 3 : 0;
}

/* Which message that is, and its state; ORACLE_MESSAGES: nobody ever wrote it. */
static unsigned read_letter(struct world *world, const struct messages_envelope *envelope,
    struct oracle_state *state) {
	unsigned number = ORACLE_MESSAGES;
	char text[32];

	memset(state, 0, sizeof(*state));
	if (strncmp(envelope->id, "id", 2) == 0)
		number = (unsigned)strtoul(envelope->id + 2, NULL, 10);
	state->generation = (uint32_t)envelope->stamp;
	describe(number, state->generation, text);
	if (number >= ORACLE_MESSAGES || strcmp(envelope->mta, mta) != 0 ||
	    strcmp(envelope->directory, directory) != 0 || envelope->sender == NULL ||
	    strcmp(envelope->sender, text) != 0 || envelope->stamp != state->generation ||
	    envelope->tries < state->generation % 7 ||
	    envelope->arrival_ns != START_NS + state->generation) {
		world_fail(world, "an envelope that nobody wrote: %s of %s, stamp %" PRIu64
		    ", sender %s", envelope->id, envelope->mta, envelope->stamp,
		    envelope->sender == NULL ? "none" : envelope->sender);
		return ORACLE_MESSAGES;
	}
	for (unsigned i = 0; i < envelope->group_count; i++) {
		const struct messages_group *group = &envelope->groups[i];
		unsigned k = 0;

		while (k < ORACLE_GROUPS && (strlen(domains[k]) != group->length ||
			memcmp(domains[k], group->domain, group->length) != 0))
			k++;
		if (k == ORACLE_GROUPS || state->left[k] != 0)
			world_fail(world, "%s has a group of nobody's: %.*s", envelope->id,
			    (int)group->length, group->domain);
		else
			state->left[k] = (uint16_t)group->recipients;
	}
	state->unread = envelope->rest == 77 ? 1 : envelope->group_count == 0 ? 2 : 0;
	return number;
}

/* --- what the owner does ---------------------------------------------------------------------- */

static uint32_t below(struct world *world, uint32_t limit) {
	return random_below(&world->random, limit);
}

static int64_t some_due(struct world *world) {
	switch (below(world, 4)) {
	case 0: return 0;
	case 1: return INT64_MAX;
	default: return world->wall_ns + (int64_t)below(world, 12000) * NS_PER_MS;
	}
}

static void acknowledge(struct world *world) {
	oracle_synced(&world->oracle, journal_log_synced(messages_log(world->messages)));
}

static void told(struct world *world, unsigned number, uint64_t sequence) {
	oracle_end(&world->oracle, number, sequence);
	if (sequence == 0 && !world->excused && !messages_is_degraded(world->messages))
		world_fail(world, "message %u: nothing was written", number);
	acknowledge(world);
}

static void turn(struct world *world, int64_t passed_ns) {
	world->now_ns += passed_ns;
	world->wall_ns += passed_ns;
	(void)messages_turn(world->messages, world->wall_ns, world->now_ns);
}

static void put(struct world *world, unsigned number, const struct oracle_state *state) {
	struct letter letter;
	bool held = below(world, 2) == 0;
	int64_t due_ns = some_due(world);
	uint64_t sequence;

	write_letter(&letter, number, state, due_ns);
	oracle_begin(&world->oracle, number, state);
	trace(world, "put %u generation %" PRIu32 "%s", number, state->generation,
	    held ? ", held" : "");
	sequence = messages_put(world->messages, &letter.envelope, held, world->wall_ns);
	told(world, number, sequence);
	/* what the journal did not take its owner keeps */
	world->status[number] = held || sequence == 0 ? WORLD_HELD : WORLD_WAITING;
	world->due_ns[number] = due_ns;
	trace(world, "  sequence %" PRIu64, sequence);
}

static void put_new(struct world *world, unsigned number) {
	struct oracle_state state = { .generation = ++world->oracle.generations };
	unsigned groups = below(world, 8);

	if (groups == 0) {
		state.unread = 2;
	} else {
		for (unsigned i = 0; i < 1 + groups % 3; i++)
			state.left[below(world, ORACLE_GROUPS)] =
			    (uint16_t)(1 + below(world, 4));
		state.unread = below(world, 8) == 0;
	}
	put(world, number, &state);
}

static void replace(struct world *world, unsigned number) {
	struct oracle_state state = oracle_newest(&world->oracle, number);

	if (oracle_left(&state) == 0)
		return;
	state.generation = ++world->oracle.generations;
	put(world, number, &state);
}

static void finish(struct world *world, unsigned number) {
	struct oracle_state none = { 0 };
	char id[16];
	uint64_t sequence;

	identify(number, id);
	oracle_begin(&world->oracle, number, &none);
	trace(world, "finish %u", number);
	sequence = messages_finish(world->messages, messages_key(mta, directory, id), world->wall_ns);
	told(world, number, sequence);
	world->status[number] = WORLD_NONE;
	trace(world, "  sequence %" PRIu64, sequence);
}

static void start(struct world *world, unsigned number) {
	struct oracle_state state = oracle_newest(&world->oracle, number);
	char id[16];
	uint64_t sequence;

	identify(number, id);
	oracle_begin(&world->oracle, number, &state);
	trace(world, "start %u", number);
	sequence = messages_start(world->messages, messages_key(mta, directory, id), 0, world->wall_ns);
	told(world, number, sequence);
	/* while the disk fails, or is read again, it is run all the same, and not told of */
	world->status[number] = sequence != 0 ? WORLD_WORKING : WORLD_HELD;
	trace(world, "  sequence %" PRIu64, sequence);
}

static void deliver(struct world *world, unsigned number) {
	struct oracle_state state = oracle_newest(&world->oracle, number);
	unsigned group = below(world, ORACLE_GROUPS), count;
	char id[16];
	uint64_t sequence;

	while (oracle_left(&state) > state.unread && state.left[group] == 0)
		group = (group + 1) % ORACLE_GROUPS;
	if (state.left[group] == 0)
		return;
	count = below(world, 3) == 0 ? 1 : state.left[group];
	state.left[group] = (uint16_t)(state.left[group] - count);
	identify(number, id);
	oracle_begin(&world->oracle, number, &state);
	trace(world, "delivered %u of %u at %s", count, number, domains[group]);
	sequence = messages_delivered(world->messages, messages_key(mta, directory, id),
	    &(const struct journal_delivery){ .domain = journal_text_of(domains[group]),
	    .recipients = count, .left = state.left[group] }, world->wall_ns);
	told(world, number, sequence);
	trace(world, "  sequence %" PRIu64, sequence);
}

static void finish_again(struct world *world, unsigned number);

/* False: nothing is due. */
static bool next(struct world *world) {
	struct messages_envelope envelope;
	struct oracle_state state, newest;
	int64_t next_ns;
	unsigned number;

	if (messages_next(world->messages, world->wall_ns, &envelope, &next_ns) != MESSAGES_ONE)
		return false;
	number = read_letter(world, &envelope, &state);
	if (number == ORACLE_MESSAGES)
		return false;
	trace(world, "next gave %u", number);
	newest = oracle_newest(&world->oracle, number);
	if (world->excused && world->status[number] == WORLD_NONE) {
		finish_again(world, number);
		return true;
	}
	if (world->status[number] != WORLD_WAITING)
		world_fail(world, "message %u was given, though it does not wait (%u)", number,
		    world->status[number]);
	else if (memcmp(&newest, &state, sizeof(state)) != 0) {
		world_fail(world, "message %u was given with an old state", number);
		oracle_print(&world->oracle, number);
		oracle_print_state(&state);
	}
	world->status[number] = WORLD_HELD;
	return true;
}

static void pass_time(struct world *world) {
	static const int64_t steps_ms[] = { 1, 10, 60, 150, 400, 1100, 5000, 31000 };

	int64_t step_ms = steps_ms[below(world, 5 + 3 * (below(world, 4) == 0))];

	trace(world, "time %" PRId64 " ms", world->now_ns / NS_PER_MS + step_ms);
	turn(world, step_ms * NS_PER_MS);
	acknowledge(world);
}

/* --- the directories are looked through -------------------------------------------------------- */

static void unseen(void *context, const char *its_mta, const char *its_directory, const char *id) {
	struct world *world = context;
	unsigned number = (unsigned)strtoul(id + 2, NULL, 10);

	if (strcmp(its_mta, mta) != 0 || strcmp(its_directory, directory) != 0 ||
	    number >= ORACLE_MESSAGES || !world->missing[number])
		world_fail(world, "%s was seen, and is told as missing", id);
	else
		world->missing[number] = false;
}

static void look_through(struct world *world) {
	char id[16];

	if (!messages_is_indexed(world->messages) || messages_is_degraded(world->messages) ||
	    world->messages->telling)
		return;
	messages_seen_begin(world->messages);
	for (unsigned i = 0; i < world->kind.messages; i++) {
		identify(i, id);
		world->missing[i] = world->status[i] == WORLD_WAITING && below(world, 4) == 0;
		if (world->missing[i])
			continue;
		if (below(world, 2) == 0)
			messages_seen(world->messages, messages_key(mta, directory, id));
		else if (messages_knows(world->messages, messages_key(mta, directory, id),
			oracle_newest(&world->oracle, i).generation) !=
		    (world->status[i] != WORLD_NONE) && !world->excused)
			world_fail(world, "message %u: known, or not, and should not be so", i);
	}
	messages_seen_end(world->messages, unseen, world);
	for (unsigned i = 0; world->messages->telling; i++) {
		turn(world, 0);
		if (world->excused && messages_is_degraded(world->messages))
			return;
		if (i == RECOVERY_STEPS) {
			world_fail(world, "telling the unseen does not end");
			return;
		}
	}
	for (unsigned i = 0; i < world->kind.messages; i++) {
		if (world->missing[i] && !world->excused)
			world_fail(world, "message %u was not seen, and not told of", i);
		world->missing[i] = false;
	}
}

/* --- the journal asks for all ------------------------------------------------------------------ */

static void changed(void *context, enum journal_state state, int error, const char *what) {
	struct world *world = context;

	trace(world, "the journal is %s: error %d, %s", state == JOURNAL_GOOD ? "good" : "bad",
	    error, what);
	if (state == JOURNAL_FAILED)
		oracle_forsake(&world->oracle);
}

static void renewed(void *context) {
	struct world *world = context;

	world->renew = true;
	world->renewals++;
}

/* It may be known, from before the fault, or not. */
static void finish_again(struct world *world, unsigned number) {
	struct oracle_state none = { 0 };
	char id[16];

	identify(number, id);
	trace(world, "finish %u again", number);
	oracle_begin(&world->oracle, number, &none);
	oracle_end(&world->oracle, number, messages_finish(world->messages, messages_key(mta, directory, id),
	    world->wall_ns));
	acknowledge(world);
	world->status[number] = WORLD_NONE;
}

void world_put_again(struct world *world, unsigned number) {
	struct oracle_state state = oracle_newest(&world->oracle, number);

	if (world->status[number] != WORLD_NONE && oracle_left(&state) > 0)
		put(world, number, &state);
	else
		finish_again(world, number);
}

/* What the owner has in memory is newer than what is on the disk, and so is that some have
 * been finished. */
static void renew(struct world *world) {
	world->renew = false;
	trace(world, "renew");
	for (unsigned i = 0; i < world->kind.messages; i++)
		world_put_again(world, i);
}

void world_step(struct world *world) {
	unsigned number = below(world, world->kind.messages);

	if (world->renew)
		renew(world);
	if (world->kind.faults)
		world_fault_step(world);
	switch (below(world, 16)) {
	case 0: case 1: case 2:
		pass_time(world);
		return;
	case 3: case 4: case 5:
		(void)next(world);
		return;
	case 6:
		if (below(world, 8) == 0)
			look_through(world);
		return;
	default:
		break;
	}
	switch ((enum world_status)world->status[number]) {
	case WORLD_NONE:
		put_new(world, number);
		break;
	case WORLD_WAITING:
		if (below(world, 6) == 0)
			replace(world, number);
		else if (below(world, 12) == 0)
			finish(world, number);
		break;
	case WORLD_HELD:
		if (below(world, 6) == 0)
			replace(world, number);
		else if (below(world, 10) == 0)
			finish(world, number);
		else
			start(world, number);
		break;
	case WORLD_WORKING:
		if (below(world, 5) == 0)
			replace(world, number);
		else if (below(world, 8) == 0)
			finish(world, number);
		else
			deliver(world, number);
		break;
	}
}

/* --- life ---------------------------------------------------------------------------------------- */

static int64_t some_wall_ns(void) {
	return START_NS;
}

void world_open(struct world *world, const struct world_kind *kind, struct disk *disk,
    const struct oracle *oracle, uint64_t seed, int64_t wall_ns) {
	struct messages_settings settings = { .intervals_ns = { 0, NS_PER_SECOND,
		    2 * NS_PER_SECOND, 4 * NS_PER_SECOND }, .intervals = 4,
		.sync_delay_ns = kind->sync_delay_ns,
		.envelope_delay_ns = kind->envelope_delay_ns,
		.positions_ns = kind->positions_ns,
		.log = { .kind = JOURNAL_QUEUE, .file_size = kind->file_size,
			.wall_ns = some_wall_ns } };
	struct messages_calls calls = { .changed = changed, .renewed = renewed,
		.context = world };
	struct diag diag;

	memset(world, 0, sizeof(*world));
	world->kind = *kind;
	world->disk = disk;
	world->random.state = seed;
	settings.log.random = random_next(&world->random) | 1;
	world->wall_ns = oracle == NULL ? START_NS : wall_ns;
	world->now_ns = below(world, 1000) * NS_PER_SECOND;
	if (oracle == NULL)
		oracle_open(&world->oracle);
	else
		oracle_copy(&world->oracle, oracle);
	world->storage = storage_faulty(disk);
	if (messages_open(&world->messages, world->storage, &settings, &calls, world->wall_ns,
		world->now_ns, &diag) != 0)
		world_fail(world, "the messages do not open");
	else
		world->log = messages_log(world->messages);
}

void world_close(struct world *world) {
	messages_close(&world->messages);
	storage_faulty_close(&world->storage);
	if (disk_handles(world->disk) != 0)
		world_fail(world, "%u files were left open", disk_handles(world->disk));
	disk_free(world->disk);
	oracle_close(&world->oracle);
}

/* --- what is there -------------------------------------------------------------------------------- */

static void show(struct world *world, const struct messages_envelope *envelope) {
	struct oracle_state state;
	unsigned number = read_letter(world, envelope, &state);

	if (number == ORACLE_MESSAGES)
		return;
	/* what is written anew meanwhile may come twice */
	if (world->shown[number] &&
	    memcmp(&state, &world->found[number], sizeof(state)) != 0)
		world_fail(world, "message %u is there twice", number);
	world->shown[number] = true;
	world->found[number] = state;
	world->due_ns[number] = envelope->due_ns;
}

static bool step_until(struct world *world, bool (*done)(const struct messages *messages),
    const char *what) {
	for (unsigned i = 0; !done(world->messages); i++) {
		if (i == RECOVERY_STEPS) {
			world_fail(world, "%s does not end", what);
			return false;
		}
		turn(world, NS_PER_MS);
	}
	return true;
}

static void judge(struct world *world, unsigned number) {
	const struct oracle_state *found = &world->found[number];
	struct oracle_state newest = oracle_newest(&world->oracle, number);
	enum oracle_verdict verdict = oracle_judge(&world->oracle, number, found);
	char id[16];

	if (world->excused && ((verdict == ORACLE_LOST && !world->shown[number]) ||
		(world->robbed && found->generation <= world->oracle.generations) ||
		(world->damaged && oracle_is_mixture(&world->oracle, number, found))))
		verdict = ORACLE_ALLOWED;
	if (verdict != ORACLE_ALLOWED) {
		world_fail(world, "message %u: %s; allowed:", number,
		    oracle_verdict_words[verdict]);
		oracle_print(&world->oracle, number);
		fputs("    found: ", stderr);
		oracle_print_state(found);
		fputc('\n', stderr);
	}
	identify(number, id);
	if (messages_knows(world->messages, messages_key(mta, directory, id),
		world->shown[number] ? found->generation : newest.generation) !=
	    world->shown[number])
		world_fail(world, "message %u is known and is not there, or the other way",
		    number);
}

void world_drain(struct world *world) {
	trace(world, "drain");
	for (unsigned i = 0; i < DRAIN_STEPS && !world->failed; i++) {
		turn(world, DRAIN_NS / DRAIN_STEPS);
		while (next(world) && !world->failed)
			;
	}
	for (unsigned i = 0; i < world->kind.messages && !world->failed; i++)
		if (world->status[i] == WORLD_WAITING && world->due_ns[i] != INT64_MAX)
			world_fail(world, "message %u waits, due %" PRId64 " ms ago, and is not "
			    "given", i, (world->wall_ns - world->due_ns[i]) / NS_PER_MS);
}

void world_sync(struct world *world) {
	if (sync_log(world->log, world->now_ns) != 0 ||
	    journal_log_synced(messages_log(world->messages)) != journal_log_last(world->log))
		world_fail(world, "what was to be synced now is not");
	acknowledge(world);
}

void world_print_trace(const struct world *world) {
	unsigned from = world->traced > WORLD_TRACE ? world->traced - WORLD_TRACE : 0;

	for (; from < world->traced; from++)
		fprintf(stderr, "    %s\n", world->trace[from % WORLD_TRACE]);
}

bool world_knows(struct world *world, unsigned number) {
	char id[16];

	identify(number, id);
	return messages_knows(world->messages, messages_key(mta, directory, id),
	    oracle_newest(&world->oracle, number).generation);
}

/* While the disk fails there is none; then all is read again. */
static struct messages_walk *walk_begin(struct world *world) {
	struct messages_walk *walk = messages_walk_open(world->messages);

	for (unsigned i = 0; walk == NULL && i < RECOVERY_STEPS; i++) {
		turn(world, NS_PER_MS);
		walk = messages_walk_open(world->messages);
	}
	if (walk == NULL)
		world_fail(world, "no walk begins");
	return walk;
}

bool world_recover(struct world *world) {
	struct messages_totals totals;
	struct messages_walk *walk;
	struct messages_envelope envelope;
	enum messages_answer answer;
	uint64_t there = 0;

	if (world->failed)
		return false;
	memset(world->shown, 0, sizeof(world->shown));
	memset(world->found, 0, sizeof(world->found));
	if (!step_until(world, messages_is_recovered, "recovery") ||
	    !step_until(world, messages_is_indexed, "the index"))
		return false;
	walk = walk_begin(world);
	for (unsigned i = 0; walk != NULL &&
	     (answer = messages_walk_next(world->messages, walk, &envelope)) != MESSAGES_NONE;) {
		if (answer == MESSAGES_ONE) {
			show(world, &envelope);
			continue;
		}
		if (i++ == RECOVERY_STEPS) {
			world_fail(world, "the walk does not end");
			break;
		}
		turn(world, NS_PER_MS);
	}
	messages_walk_close(&walk);
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++) {
		judge(world, i);
		there += world->shown[i];
	}
	messages_count(world->messages, &totals);
	if (totals.messages != there || totals.waiting != there)
		world_fail(world, "%" PRIu64 " messages are counted, %" PRIu64 " of them wait, "
		    "%" PRIu64 " are there", totals.messages, totals.waiting, there);
	return !world->failed;
}

void world_settle(struct world *world, bool safe) {
	uint64_t last = journal_log_last(world->log);

	world->excused = world->robbed = world->damaged = false;
	/* where all was gone, sequences begin anew */
	world->oracle.synced = journal_log_synced(messages_log(world->messages));
	for (unsigned i = 0; i < ORACLE_MESSAGES; i++) {
		if (safe)
			oracle_settle(&world->oracle, i, &world->found[i]);
		else
			oracle_found(&world->oracle, i, last, &world->found[i]);
		world->status[i] = world->shown[i] ? WORLD_WAITING : WORLD_NONE;
	}
}
