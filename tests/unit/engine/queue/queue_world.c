/* SPDX-License-Identifier: ISC */
#include "tests/unit/engine/queue/queue_world.h"

#include "tests/unit/check.h"

#include "base/clock.h"
#include "engine/feed/feed.h"
#include "engine/outbound/outbound.h"
#include "engine/queue/queue_internal.h"
#include "engine/destination/windows.h"
#include "segment/file/layout.h"
#include "tests/unit/engine/queue/queue_world_journal.h"
#include "tests/unit/engine/queue/queue_defaults.h"

#define STARTS_NS	(20 * NS_PER_MS)	/* a process */
#define BRIEF_NS	(20 * NS_PER_SECOND)
#define TEXT "classes = ( { name = \"all\"; match = \"*\"; hold_at = 1000; refuse_at = 1000; } );\n" \
	"mta = ( { name = \"s\"; kind = \"sendmail\"; log = \"/a\"; } );\n"
#define PROCESSES_MOST	256

struct recipients {
	unsigned server;	/* or WORLD_SERVERS: local */
	unsigned count;		/* that are left */
	unsigned got, wanted;
};

struct file {
	char id[QUEUE_ID_MAX + 1];
	unsigned directory;
	char origin[QUEUE_ID_MAX + 1];
	bool there, removed;
	int64_t locked_ns;	/* by somebody else */
	bool in_run;
	int64_t arrival_ns, tried_ns, delivered_ns;
	uint32_t tries;
	uint64_t stamp;
	struct recipients *list;
	unsigned count;
};

struct process {
	uint32_t run;		/* 0: none */
	struct outbound_process *asks;
	bool brief;
	unsigned files[QUEUE_RUN_IDS_MAX], file_count, file, group;
	bool turns[WORLD_SERVERS + 1];	/* of the file that is open */
	bool open, connected;
	unsigned server;		/* that it is connected to, or WORLD_SERVERS */
	int64_t at_ns;
};

struct asked {
	unsigned file;
	bool more;
	uint64_t place;
};

struct world world;
static struct file *files;
static unsigned file_count;
static struct process processes[PROCESSES_MOST];
static struct asked *asked;
static size_t asked_count, asked_size;
static int next_pid;
static int64_t turn_ns, beat_ns;
static bool beats = true;
static bool scan_wanted;
static int64_t mores_ns;		/* when more was asked for last */
static unsigned mores_then;	/* how often, at that time */

/* --- the role --------------------------------------------------------------------- */

static unsigned file_of(const char *id) {
	return (unsigned)strtoul(id + 3, NULL, 10);
}

static void note_asked(unsigned file, bool more, uint64_t place) {
	if (asked_count == asked_size) {
		asked_size = asked_size == 0 ? 64 : 2 * asked_size;
		asked = realloc(asked, asked_size * sizeof(*asked));
		assert_non_null(asked);
	}
	asked[asked_count++] = (struct asked){ file, more, place };
}

static void read_file(void *context, unsigned directory, const char *id, uint64_t place) {
	assert_int_equal(directory, files[file_of(id)].directory);
	if (!world.loses_reads)
		note_asked(file_of(id), place > 0, place);
	world.mores++;
	if (place == 0)
		return;
	if (mores_ns != world.now_ns)
		mores_then = 0;
	mores_ns = world.now_ns;
	/* without an end, not only often: a drain may take long */
	if (++mores_then > 20000) {
		world_tell();
		fail_msg("%s is asked for again and again", id);
	}
}

static void offer(unsigned file);

static void room(void *context) {
	for (unsigned i = 0; i < file_count; i++)
		if (files[i].there && !queue_knows(world.queue, files[i].directory,
		    files[i].id, files[i].stamp))
			note_asked(i, false, 0);
}

/* Gives what stands in the file from recipient `from` on. */
static void give(const struct file *f, uint64_t from) {
	uint64_t at = 0;

	for (unsigned i = 0; i < f->count; i++) {
		const struct recipients *r = &f->list[i];
		const char *name = r->server == WORLD_SERVERS ? "" :
		    world.servers[r->server].name;

		for (unsigned j = 0; j < r->count; j++, at++) {
			if (at < from)
				continue;
			if (world.no_room || !queue_read_recipient(world.queue, name, strlen(name))) {
				queue_read_end(world.queue, false, at, world.now_ns);
				return;
			}
		}
	}
	queue_read_end(world.queue, true, at, world.now_ns);
}

static uint32_t left(const struct file *f) {
	uint32_t count = 0;

	for (unsigned i = 0; i < f->count; i++)
		count += f->list[i].count;
	return count;
}

static void offer(unsigned file) {
	const struct file *f = &files[file];
	const struct queue_file facts = { .stamp = f->stamp, .inode = f->stamp, .arrival_ns = f->arrival_ns,
		.tried_ns = f->tried_ns, .tries = f->tries, .recipients = left(f),
		.sender = "s@example.com", .sender_length = 13,
		.origin = f->origin };

	if (!f->there) {
		queue_forget_file(world.queue, f->directory, f->id, true, world.now_ns);
		return;
	}
	if (!queue_read_begin(world.queue, f->directory, f->id, &facts))
		return;
	world.reads++;
	give(f, 0);
}

static void offer_asked(void) {
	for (size_t i = 0; i < asked_count; i++) {
		const struct asked one = asked[i];

		if (!one.more) {
			offer(one.file);
			continue;
		}
		if (queue_read_more(world.queue, files[one.file].directory, files[one.file].id))
			give(&files[one.file], one.place);
	}
	asked_count = 0;
}

static void start(const struct queue_run *run) {
	const struct process_identity identity = { .pid = ++next_pid + 4194304,
		.start_ticks = 7 };
	unsigned at = 0;

	world.runs++;
	if (world.no_process) {
		queue_run_ended(world.queue, run->run, QUEUE_RUN_NOT_STARTED, world.now_ns);
		return;
	}
	while (processes[at].run != 0)
		at++;
	assert_in_range(at, 0, PROCESSES_MOST - 1);
	processes[at] = (struct process){ .run = run->run, .brief = run->brief,
		.at_ns = world.now_ns + STARTS_NS, .server = WORLD_SERVERS,
		.file_count = run->count,
		.asks = outbound_process_open(world.site.engine, &identity) };
	for (unsigned i = 0; i < run->count; i++) {
		processes[at].files[i] = file_of(run->ids[i]);
		assert_int_equal(files[processes[at].files[i]].directory, run->directory);
	}
	if (++world.processes > world.processes_most)
		world.processes_most = world.processes;
	queue_run_started(world.queue, run->run, identity.pid, world.now_ns);
}

/* All directories are looked through. */
static void scan(void) {
	if (!scan_wanted || world.no_scan || !queue_scan_may_begin(world.queue))
		return;
	scan_wanted = false;
	queue_scan_begin(world.queue);
	for (unsigned i = 0; i < file_count; i++)
		if (files[i].there && !queue_scan_found(world.queue, files[i].directory,
		    files[i].id, files[i].stamp) &&
		    queue_wants(world.queue, files[i].directory, files[i].id))
			note_asked(i, false, 0);
	queue_scan_end(world.queue, true);
}

void world_scan(void) {
	scan_wanted = true;
	turn_ns = world.now_ns;
}

static void role(void) {
	struct queue_run run;

	scan();
	if (beats && world.now_ns >= beat_ns) {
		engine_heartbeat(world.site.engine, world.now_ns);
		/* the feed role's: what the log told to be running ends there */
		engine_feed_turn(world.site.engine, world.site.generation, world.now_ns);
		beat_ns = world.now_ns + NS_PER_SECOND;
	}
	offer_asked();
	turn_ns = queue_turn(world.queue, world.now_ns);
	offer_asked();
	for (unsigned i = 0; queue_next_run(world.queue, world.now_ns, &run); i++) {
		start(&run);
		assert_in_range(i, 0, 10000);
	}
	if (asked_count > 0)
		turn_ns = world.now_ns;
}

/* --- Sendmail ---------------------------------------------------------------------- */

static struct outbound_answer ask(struct process *p, enum outbound_stage stage,
    const struct file *f, const struct server *s) {
	const char *host = s->host != NULL ? s->host : s->name;
	char recipient[80], address[32];
	struct outbound_question question = { .stage = stage, .destination = host,
		.destination_length = strlen(host), .queue_id = f->id,
		.queue_id_length = strlen(f->id), .mta = 0 };
	struct outbound_answer answer;

	(void)snprintf(recipient, sizeof(recipient), "u@%s", s->name);
	if (stage == OUTBOUND_CONNECTED) {
		question.server_name = host;
		question.server_name_length = strlen(host);
		(void)snprintf(address, sizeof(address), "198.51.100.%u",
		    (unsigned)(s - world.servers) + 1);
		assert_true(address_parse(address, strlen(address), &question.server));
	} else {
		question.recipient = recipient;
		question.recipient_length = strlen(recipient);
	}
	outbound_process_ask(p->asks, world.site.generation, &question, world.now_ns, &answer);
	return answer;
}

static struct span span_of(const char *text) {
	return (struct span){ text, strlen(text) };
}

static void log_result(const struct file *f, const struct server *s, bool good,
    const char *text, const char *reply) {
	char recipient[80], relay[128];
	struct delivery d = { .source = DELIVERY_OF_SENDMAIL, .agent = AGENT_SMTP,
		.status = good ? DELIVERY_SENT : DELIVERY_DEFERRED,
		.program = span_of("sendmail"), .mailer = span_of("esmtp"),
		.queue_id = span_of(f->id), .domain = span_of(s->name),
		.relay_name = span_of(s->name), .relay_port = 25,
		.delays_ms = { -1, -1, -1, 1000 }, .dsn = { good ? 2 : 4, 0, 0 },
		.text = span_of(text), .reply = span_of(reply), .recipients = 1 };
	const struct feed_origin origin = { .log = 0 };
	char address[32];

	(void)snprintf(recipient, sizeof(recipient), "u@%s", s->name);
	(void)snprintf(address, sizeof(address), "198.51.100.%u",
	    (unsigned)(s - world.servers) + 1);
	(void)snprintf(relay, sizeof(relay), "%s. [%s]", s->name, address);
	d.recipient = span_of(recipient);
	d.relay = span_of(relay);
	assert_true(address_parse(address, strlen(address), &d.relay_address));
	(void)engine_feed_delivery(world.site.engine, world.site.generation, 1, &d, &origin,
	    world.now_ns);
}

static void leave_server(struct process *p) {
	if (p->server != WORLD_SERVERS)
		world.servers[p->server].now--;
	p->server = WORLD_SERVERS;
}

static void exits(struct process *p, enum queue_run_end how) {
	uint32_t run = p->run;

	leave_server(p);
	for (unsigned i = 0; i < p->file_count; i++)
		if (i == p->file && p->open)
			files[p->files[i]].in_run = false;
	outbound_process_close(&p->asks, world.site.generation, world.now_ns);
	p->run = 0;
	world.processes--;
	queue_run_ended(world.queue, run, how, world.now_ns);
}

void world_kill_runs(void) {
	for (unsigned i = 0; i < PROCESSES_MOST; i++) {
		struct process *p = &processes[i];

		if (p->run == 0)
			continue;
		if (p->open) {
			struct file *f = &files[p->files[p->file]];

			f->tries++;
			f->stamp++;
			f->there = left(f) > 0;
		}
		exits(p, QUEUE_RUN_KILLED);
	}
}

/* The next file: true. */
static bool opens(struct process *p) {
	for (; p->file < p->file_count; p->file++) {
		struct file *f = &files[p->files[p->file]];

		if (!f->there || f->in_run || f->locked_ns > world.now_ns)
			continue;
		f->in_run = p->open = true;
		p->group = 0;
		for (unsigned i = 0; i < f->count; i++) {
			const struct server *s = f->list[i].server == WORLD_SERVERS ? NULL :
			    &world.servers[f->list[i].server];
			const char *name = s == NULL ? "" :
			    s->canonical != NULL ? s->canonical : s->name;

			/* local ones are not asked about */
			p->turns[i % (WORLD_SERVERS + 1)] = f->list[i].server ==
			    WORLD_SERVERS || outbound_is_its_turn(world.site.engine,
				world.site.generation, f->id, strlen(f->id), name,
				strlen(name), world.now_ns);
			if (!p->turns[i % (WORLD_SERVERS + 1)])
				world.waits += f->list[i].count;
		}
		return true;
	}
	return false;
}

static void closes(struct process *p) {
	struct file *f = &files[p->files[p->file]];

	f->in_run = p->open = false;
	p->file++;
	if (world.no_disk)
		return;
	f->tries++;
	f->tried_ns = world.now_ns;
	f->stamp++;
	f->there = left(f) > 0 && !f->removed;
}

static void deliver(struct file *f, struct recipients *r) {
	if (r->server != WORLD_SERVERS)
		world.servers[r->server].got += r->count;
	r->got += r->count;
	if (!world.no_disk)
		r->count = 0;
	f->delivered_ns = world.now_ns;
}

/* At the end of its time with a group of recipients. */
static void ends_group(struct process *p) {
	struct file *f = &files[p->files[p->file]];
	struct recipients *r = &f->list[p->group];
	struct server *s = &world.servers[r->server];

	switch (s->mode) {
	case SERVER_TAKES:
		deliver(f, r);
		log_result(f, s, true, "Sent (ok)", "");
		break;
	case SERVER_SLOW:
		if (!p->brief) {
			deliver(f, r);
			log_result(f, s, true, "Sent (ok)", "");
			break;
		}
		log_result(f, s, false, "Deferred: Connection timed out", "");
		leave_server(p);
		break;
	case SERVER_HANGS:
		log_result(f, s, false, "Deferred: Connection timed out", "");
		leave_server(p);
		break;
	case SERVER_REFUSES:
		log_result(f, s, false, "Deferred: Connection refused by it", "");
		leave_server(p);
		break;
	case SERVER_PUTS_OFF:
		log_result(f, s, false, "Deferred: 450 4.2.0 later", "450 4.2.0 later");
		break;
	}
	p->group++;
	p->at_ns = world.now_ns + NS_PER_MS;
}

static void connects(struct process *p, unsigned server) {
	struct server *s = &world.servers[server];

	if (p->server != server) {
		leave_server(p);
		p->server = server;
		s->connections++;
		if (++s->now > s->most)
			s->most = s->now;
	}
	p->connected = true;
}

/* Asks about the group, and connects: true: there is something to wait for. */
static bool begins_group(struct process *p) {
	struct file *f = &files[p->files[p->file]];
	struct recipients *r = &f->list[p->group];
	struct server *s = &world.servers[r->server];
	bool goes = false;

	if (r->count == 0 || !p->turns[p->group % (WORLD_SERVERS + 1)])
		return false;
	if (r->server == WORLD_SERVERS) {
		deliver(f, r);
		return false;
	}
	for (unsigned i = 0; i < r->count; i++) {
		goes = ask(p, OUTBOUND_BEFORE_CONNECT, f, s).answer.decision.verdict ==
		    VERDICT_ADMIT;
		world.put_off += !goes;
	}
	if (!goes)
		return false;
	connects(p, r->server);
	if (s->mode == SERVER_HANGS) {
		p->at_ns = world.now_ns + (p->brief ? BRIEF_NS :
		    (int64_t)world.hang_timeout_s * NS_PER_SECOND);
		return true;
	}
	if (s->mode == SERVER_SLOW) {
		p->at_ns = world.now_ns + (p->brief ? BRIEF_NS : 30 * NS_PER_SECOND);
		return true;
	}
	if (s->mode == SERVER_REFUSES) {
		p->at_ns = world.now_ns + NS_PER_MS;
		return true;
	}
	if (ask(p, OUTBOUND_CONNECTED, f, s).answer.decision.verdict != VERDICT_ADMIT) {
		world.put_off += r->count;
		leave_server(p);
		return false;
	}
	p->at_ns = world.now_ns + NS_PER_MS + r->count * s->takes_ns;
	return true;
}

static void step(struct process *p) {
	if (p->connected) {
		p->connected = false;
		ends_group(p);
		return;
	}
	if (!p->open && (world.does_nothing || !opens(p))) {
		exits(p, world.ends);
		return;
	}
	for (; p->group < files[p->files[p->file]].count; p->group++)
		if (begins_group(p))
			return;
	closes(p);
	p->at_ns = world.now_ns + 2 * NS_PER_MS;
}

/* --- the test's ---------------------------------------------------------------------- */

static void open_queue(void) {
	static const struct queue_calls calls = { read_file, room, NULL };
	struct diag diag;

	assert_int_equal(queue_open(&world.queue, world.site.engine, &world.settings, world.directories,
	    WORLD_DIRECTORIES, &calls, &diag), 0);
	world_journal_open(world.queue, world.now_ns);
}

void world_open(const char *text, uint32_t most) {
	char *all = NULL;

	memset(&world, 0, sizeof(world));
	assert_true(asprintf(&all, "%s%s", TEXT, text) > 0);
	site_open_sized(&world.site, 1024, 4096, all);
	free(all);
	for (unsigned i = 0; i < WORLD_DIRECTORIES; i++) {
		struct queue_directory *directory = &world.directories[i];

		(void)snprintf(directory->mta_name, sizeof(directory->mta_name), "s");
		(void)snprintf(directory->path, sizeof(directory->path), "/q/%u", i);
	}
	world.now_ns = clock_now_ns();
	world.hang_timeout_s = 300;
	files = calloc(WORLD_FILES, sizeof(*files));
	file_count = 0;
	memset(processes, 0, sizeof(processes));
	asked_count = 0;
	beat_ns = 0;
	beats = true;
	world.settings = queue_defaults;
	world.settings.mtas[0] = (struct generation_mta){ .drive = 1,
		.processes = most, .local_processes = most, .retry_ns = 300 * NS_PER_SECOND,
		.retry_most_ns = 1800 * NS_PER_SECOND, .stall_ns = 10 * NS_PER_SECOND };
	scan_wanted = false;
	open_queue();
}

void world_restart_role(bool later) {
	/* memory is gone with the process; grants stay as they are */
	queue_close(&world.queue);
	segment_role_died(world.site.segment, world.site.place, getpid());
	segment_role_starting(world.site.segment, ROLE_POLICY, 0, world.now_ns);
	open_queue();
	beats = later;
	for (unsigned i = 0; i < PROCESSES_MOST; i++) {
		struct process *p = &processes[i];
		const char *ids[QUEUE_RUN_IDS_MAX];

		if (p->run == 0)
			continue;
		for (unsigned j = 0; j < p->file_count; j++)
			ids[j] = files[p->files[j]].id;
		p->run = queue_run_adopt(world.queue, files[p->files[0]].directory, ids,
		    p->file_count, 1, world.now_ns);
		assert_int_not_equal(p->run, 0);
	}
	asked_count = 0;
	world_scan();
}

void world_close(void) {
	for (unsigned i = 0; i < PROCESSES_MOST; i++)
		if (processes[i].run != 0)
			outbound_process_close(&processes[i].asks, world.site.generation,
			    world.now_ns);
	queue_close(&world.queue);
	world_journal_remove();
	site_close(&world.site);
	for (unsigned i = 0; i < file_count; i++)
		free(files[i].list);
	free(files);
	free(asked);
	asked = NULL;
	asked_size = asked_count = 0;
}

struct server *world_find_server(const char *name) {
	for (unsigned i = 0; i < world.server_count; i++)
		if (strcmp(world.servers[i].name, name) == 0)
			return &world.servers[i];
	return NULL;
}

struct server *world_server(const char *name, int64_t takes_ns) {
	struct server *s = world_find_server(name);

	if (s == NULL) {
		assert_in_range(world.server_count, 0, WORLD_SERVERS - 1);
		s = &world.servers[world.server_count++];
		(void)snprintf(s->name, sizeof(s->name), "%s", name);
	}
	s->takes_ns = takes_ns;
	return s;
}

static void add_recipients(struct file *f, char *word) {
	char *times = strchr(word, '*');
	unsigned count = times == NULL ? 1 : (unsigned)strtoul(times + 1, NULL, 10);
	unsigned server = WORLD_SERVERS;

	if (times != NULL)
		*times = '\0';
	if (strcmp(word, "-") != 0) {
		struct server *s = world_find_server(word);

		assert_non_null(s);
		server = (unsigned)(s - world.servers);
	}
	f->list = realloc(f->list, (f->count + 1) * sizeof(*f->list));
	assert_non_null(f->list);
	f->list[f->count++] = (struct recipients){ .server = server, .count = count,
		.wanted = count };
}

unsigned world_mail_in(unsigned directory, const char *recipients) {
	char *copy = strdup(recipients), *rest = copy, *word;
	struct file *f = &files[file_count];

	assert_in_range(file_count, 0, WORLD_FILES - 1);
	*f = (struct file){ .directory = directory, .there = true,
		.arrival_ns = world.now_ns, .stamp = 1 };
	(void)snprintf(f->id, sizeof(f->id), "7AL%011u", file_count);
	if (world.envelope != NULL)
		(void)snprintf(f->origin, sizeof(f->origin), "%s", world.envelope);
	while ((word = strsep(&rest, " ")) != NULL)
		add_recipients(f, word);
	free(copy);
	note_asked(file_count, false, 0);
	turn_ns = world.now_ns;
	return file_count++;
}

unsigned world_mail(const char *recipients) {
	return world_mail_in(0, recipients);
}

void world_remove(unsigned file) {
	files[file].there = false;
	files[file].removed = true;
	note_asked(file, false, 0);
	turn_ns = world.now_ns;
}

void world_lock(unsigned file, int64_t until_ns) {
	files[file].locked_ns = until_ns;
}

void world_vanish(unsigned file) {
	files[file].there = false;
}

void world_touch(unsigned file) {
	files[file].tries++;
	files[file].tried_ns = world.now_ns;
	files[file].stamp++;
}

unsigned world_tries(unsigned file) {
	return files[file].tries;
}

unsigned world_delivered(unsigned file) {
	unsigned count = 0;

	for (unsigned i = 0; i < files[file].count; i++)
		count += files[file].list[i].got;
	return count;
}

bool world_is_gone(unsigned file) {
	return !files[file].there;
}

int64_t world_delivered_ns(unsigned file) {
	return files[file].delivered_ns;
}

const char *world_id(unsigned file) {
	return files[file].id;
}

static struct process *first_process(void) {
	struct process *first = NULL;

	for (unsigned i = 0; i < PROCESSES_MOST; i++)
		if (processes[i].run != 0 &&
		    (first == NULL || processes[i].at_ns < first->at_ns))
			first = &processes[i];
	return first;
}

static bool go_on(int64_t until_ns, bool until_empty) {
	role();
	for (;;) {
		struct process *p = first_process();
		int64_t next_ns = turn_ns;

		if (until_empty && world_files_left() == 0 && world.processes == 0)
			return true;
		if (p != NULL && p->at_ns < next_ns)
			next_ns = p->at_ns;
		if (beats && beat_ns < next_ns)
			next_ns = beat_ns;
		if (next_ns >= until_ns) {
			world.now_ns = until_ns;
			return false;
		}
		if (next_ns > world.now_ns)
			world.now_ns = next_ns;
		if (p != NULL && p->at_ns <= world.now_ns)
			step(p);
		role();
	}
}

void world_run(int64_t until_ns) {
	(void)go_on(until_ns, false);
}

bool world_drain(int64_t for_ns) {
	return go_on(world.now_ns + for_ns, true);
}

unsigned world_files_left(void) {
	unsigned count = 0;

	for (unsigned i = 0; i < file_count; i++)
		count += files[i].there;
	return count;
}

void world_check(void) {
	for (unsigned i = 0; i < file_count; i++)
		for (unsigned j = 0; j < files[i].count; j++) {
			const struct recipients *r = &files[i].list[j];

			assert_int_equal(r->got + r->count, r->wanted);
		}
	if (world_files_left() > 0 || world.processes > 0)
		return;
	assert_int_equal(world.queue->message_count, 0);
	assert_int_equal(world.queue->part_count, 0);
	assert_int_equal(world.queue->in_core, 0);
	assert_int_equal(world.queue->placed, 0);
	for (unsigned i = 0; i < QUEUE_MAILERS; i++)
		assert_int_equal(world.queue->mtas[0].mailers[i].running +
		    world.queue->mtas[0].mailers[i].stalled, 0);
	for (unsigned i = 0; i < world.server_count; i++)
		assert_int_equal(world.servers[i].now, 0);
}

static bool tell_row(void *context, const struct queue_row *row) {
	unsigned *most = context;

	printf("# %s %s: %u recipients, %u unread, %s, due in %lld ms, run %u\n", row->id,
	    row->destination, row->recipients, row->unread, queue_wait_word(row->wait),
	    (long long)((row->due_ns - world.now_ns) / NS_PER_MS), row->run);
	return --*most > 0;
}

void world_tell(void) {
	const struct queue *q = world.queue;
	unsigned most = 40;

	printf("# %u files, %u processes; %u messages, %u parts, %llu in core, %u run, %u stall, "
	    "%u refused\n", world_files_left(), world.processes, q->message_count,
	    q->part_count, (unsigned long long)q->in_core, q->mtas[0].mailers[QUEUE_REMOTE].running,
	    q->mtas[0].mailers[QUEUE_REMOTE].stalled, q->refused);
	queue_each(world.queue, tell_row, &most);
}

struct found {
	const char *id;
	enum queue_wait wait;
	int64_t due_ns;
	bool is;
};

static bool find(void *context, const struct queue_row *row) {
	struct found *found = context;

	if (strcmp(row->id, found->id) != 0)
		return true;
	found->is = true;
	found->wait = row->wait;
	found->due_ns = row->due_ns;
	return false;
}

enum queue_wait world_wait(unsigned file, int64_t *due_ns) {
	struct found found = { .id = files[file].id };

	queue_each(world.queue, find, &found);
	if (!found.is)
		world_each_in_journal(find, &found);
	assert_true(found.is);
	if (due_ns != NULL)
		*due_ns = found.due_ns;
	return found.wait;
}

struct proven {
	const char *destination;
	bool is, found;
};

static bool find_proven(void *context, const struct queue_destination_row *row) {
	struct proven *proven = context;

	if (strcmp(row->destination, proven->destination) != 0)
		return true;
	proven->found = true;
	proven->is = row->proven;
	return false;
}

bool world_is_proven(const char *destination) {
	struct proven proven = { .destination = destination };

	world_each_destination(find_proven, &proven);
	assert_true(proven.found);
	return proven.is;
}
