/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  What nodes tell each other of destinations, by way of Redis.
 * MODEL    Each change there has a number.  After a join all is read, page by page: names
 *          that changed since a number, then what all nodes say of them.  Each minute, and
 *          where a message's number is not the next one, the same from the last number on.
 *          A number that fell: the server has lost what it had.  A few calls are out at a
 *          time; a call's tag tells what it was, and of which life of the connection.
 * ERRORS   An answer that makes no sense is counted, and what was asked comes again.
 * THREADS  One.
 */
#include "front/cluster/knowledge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "engine/cluster/knowledge.h"
#include "front/cluster/server.h"
#include "segment/file/layout.h"
#include "wire/ask/span.h"
#include "wire/cluster/knowledge_text.h"

#define CALLS_MOST	8
#define PUTS_MOST	4		/* of them */
#define PAGE_NAMES	512
#define PAGES_MOST	64		/* of one reading: more than there may be */
#define NAMES_MOST	12		/* of one GET, so that its answer is not too large: */
_Static_assert(NAMES_MOST * KNOWLEDGE_NODES_MAX * (KNOWLEDGE_TEXT_MAX + 64) <= REDIS_BYTES_MAX,
    "the states of all nodes");
#define SYNC_NS		(60 * NS_PER_SECOND)
#define WHOLE_NS	(600 * NS_PER_SECOND)
#define AGAIN_NS	NS_PER_SECOND
#define LONGEST_LIVE	"34560000000"	/* ms: 400 days */
#define NAME_MAX_BYTES	80
#define KEY_BYTES	(2 + NAME_MAX_BYTES + 1)

enum call_kind { CALL_FREE, CALL_PUT, CALL_CHANGED, CALL_GET };

struct call {
	enum call_kind kind;
	uint32_t life;			/* of the connection */
	uint32_t entry, entry_life;	/* PUT */
	char name[NAME_MAX_BYTES + 1];	/* PUT */
	uint32_t first, count;		/* GET: of the page */
};

struct knowledge_front {
	struct engine *engine;
	struct knowledge_store *store;
	struct knowledge_calls calls;
	char node[64];
	bool joined;
	uint32_t life;
	struct call out[CALLS_MOST];
	unsigned puts;			/* out */
	int64_t put_ns;			/* none before then */
	/* what is read */
	bool syncing, whole;		/* whole: from the beginning */
	bool wanted;			/* once more, when this one is done */
	bool page_asked, page_last;
	char (*page)[NAME_MAX_BYTES + 1];
	uint32_t page_count, page_next, page_done, pages;
	uint64_t page_number;		/* of the last name of the page */
	uint64_t number;		/* all up to it was read */
	int64_t sync_ns;		/* when it is read again */
	int64_t synced_ns;
	int64_t whole_ns;		/* all was read last */
};

int knowledge_front_open(struct knowledge_front **result, struct engine *engine,
    const char *node, const struct knowledge_calls *calls, struct diag *diag) {
	struct knowledge_front *front = calloc(1, sizeof(*front));

	*result = NULL;
	if (front == NULL || (front->page = calloc(PAGE_NAMES, sizeof(*front->page))) == NULL) {
		free(front);
		return diag_set(diag, 0, "no memory for the destinations of the cluster");
	}
	if (knowledge_open(&front->store, engine, node, diag) != 0) {
		knowledge_front_close(&front);
		return -1;
	}
	front->engine = engine;
	front->calls = *calls;
	text_copy(front->node, sizeof(front->node), node, strlen(node));
	*result = front;
	return 0;
}

void knowledge_front_close(struct knowledge_front **front) {
	if (*front == NULL)
		return;
	knowledge_close(&(*front)->store);
	free((*front)->page);
	free(*front);
	*front = NULL;
}

struct knowledge_store *knowledge_front_store(struct knowledge_front *front) {
	return front->store;
}

/* --- calls -------------------------------------------------------------------------------- */

/* `name`: of the destination it is about; NULL: of several. */
static void knowledge_fail(struct knowledge_front *front, const char *what, const char *name,
    const struct redis_value *value) {
	bool is_error = value->kind == REDIS_KIND_ERROR;
	enum cluster_error error = is_error ? server_error_of(value->text, value->length) :
	    CLUSTER_ERROR_PROTOCOL;
	char text[192];

	if (error == CLUSTER_ERROR_FOREIGN)
		server_say_foreign(front->calls.prefix, what, name, text, sizeof(text));
	else
		(void)text_append(text, sizeof(text), 0, "%s: %.*s", what,
		    is_error ? (int)(value->length < sizeof(text) ? value->length : sizeof(text)) : 64,
		    is_error ? value->text : "invalid answer");
	front->calls.failed(front->calls.context, error, text);
}

static struct call *free_call(struct knowledge_front *front, unsigned *index) {
	for (*index = 0; *index < CALLS_MOST; (*index)++)
		if (front->out[*index].kind == CALL_FREE)
			return &front->out[*index];
	return NULL;
}

static uint64_t tag_of(const struct knowledge_front *front, unsigned index) {
	return (uint64_t)front->life << 32 | index;
}

static bool record_put(struct knowledge_front *front, const struct knowledge_own *own,
    int64_t now_ns) {
	char key[KEY_BYTES], record[KNOWLEDGE_TEXT_MAX], live[24], most[16];
	struct span keys[4], words[6];
	unsigned index;
	struct call *call = free_call(front, &index);
	size_t length = knowledge_text_write(own->told, now_ns, record);

	if (call == NULL || length == 0)
		return length == 0;
	snprintf(key, sizeof(key), "d:%s", own->name);
	snprintf(live, sizeof(live), "%lld", (long long)own->live_ms);
	snprintf(most, sizeof(most), "%u", KNOWLEDGE_DESTINATIONS);
	keys[0] = span_text("dv");
	keys[1] = span_text("di");
	keys[2] = span_text(key);
	keys[3] = span_text(KNOWLEDGE_CHANNEL);
	words[0] = span_text(front->node);
	words[1] = (struct span){ record, length };
	words[2] = span_text(own->name);
	words[3] = span_text(live);
	words[4] = span_text(most);
	words[5] = span_text(LONGEST_LIVE);
	if (!front->calls.run(front->calls.context, CLUSTER_SCRIPT_PUT, keys, 4, words, 6,
	    tag_of(front, index)))
		return false;
	*call = (struct call){ .kind = CALL_PUT, .life = front->life, .entry = own->entry,
		.entry_life = own->life };
	text_copy(call->name, sizeof(call->name), own->name, strlen(own->name));
	front->puts++;
	return true;
}

static void put_all(struct knowledge_front *front, int64_t now_ns) {
	struct knowledge_own own;

	while (front->puts < PUTS_MOST && now_ns >= front->put_ns &&
	    knowledge_next(front->store, now_ns, &own)) {
		if (record_put(front, &own, now_ns))
			continue;
		knowledge_again(front->store, own.entry, own.life, now_ns);
		break;
	}
}

static void ask_page(struct knowledge_front *front) {
	char number[24], most[16];
	struct span keys[2] = { span_text("dv"), span_text("di") }, words[2];
	unsigned index;
	struct call *call = free_call(front, &index);

	if (call == NULL || front->page_asked)
		return;
	snprintf(number, sizeof(number), "%llu", (unsigned long long)front->number);
	snprintf(most, sizeof(most), "%u", PAGE_NAMES);
	words[0] = span_text(number);
	words[1] = span_text(most);
	if (!front->calls.run(front->calls.context, CLUSTER_SCRIPT_CHANGED, keys, 2, words, 2,
	    tag_of(front, index)))
		return;
	*call = (struct call){ .kind = CALL_CHANGED, .life = front->life };
	front->page_asked = true;
}

static void ask_records(struct knowledge_front *front) {
	char texts[NAMES_MOST][KEY_BYTES];
	struct span keys[1 + NAMES_MOST], words[NAMES_MOST];
	unsigned index;
	struct call *call = free_call(front, &index);
	uint32_t count = front->page_count - front->page_next;

	if (call == NULL)
		return;
	if (count > NAMES_MOST)
		count = NAMES_MOST;
	keys[0] = span_text("di");
	for (uint32_t i = 0; i < count; i++) {
		const char *name = front->page[front->page_next + i];

		snprintf(texts[i], sizeof(texts[i]), "d:%s", name);
		keys[1 + i] = span_text(texts[i]);
		words[i] = span_text(name);
	}
	if (!front->calls.run(front->calls.context, CLUSTER_SCRIPT_GET, keys, 1 + count, words,
	    count, tag_of(front, index)))
		return;
	*call = (struct call){ .kind = CALL_GET, .life = front->life,
		.first = front->page_next, .count = count };
	front->page_next += count;
}

/* --- reading all --------------------------------------------------------------------------- */

static void begin_sync(struct knowledge_front *front, bool whole) {
	if (front->syncing) {
		front->wanted = true;
		return;
	}
	front->syncing = true;
	front->whole = whole;
	front->wanted = front->page_asked = front->page_last = false;
	front->page_count = front->page_next = front->page_done = front->pages = 0;
	if (!whole)
		return;
	front->number = 0;
	knowledge_begin_hearing(front->store);
}

static void end_sync(struct knowledge_front *front, int64_t now_ns) {
	front->syncing = false;
	front->synced_ns = now_ns;
	front->sync_ns = now_ns + SYNC_NS;
	if (front->whole)
		front->whole_ns = now_ns;
	knowledge_heard_all(front->store, front->whole, now_ns);
	if (!front->wanted)
		return;
	front->sync_ns = now_ns + AGAIN_NS;
	begin_sync(front, false);
}

/* The next step of it. */
static void sync_turn(struct knowledge_front *front, int64_t now_ns) {
	if (!front->syncing && now_ns >= front->sync_ns)
		begin_sync(front, false);
	if (!front->syncing || front->page_asked || now_ns < front->sync_ns)
		return;
	while (front->page_next < front->page_count) {
		uint32_t before = front->page_next;

		ask_records(front);
		if (front->page_next == before)
			return;
	}
	if (front->page_done < front->page_count)
		return;
	if (front->page_count > 0)
		front->number = front->page_number;
	front->page_count = front->page_next = front->page_done = 0;
	if (front->page_last)
		end_sync(front, now_ns);
	else
		ask_page(front);
}

/* It begins anew. */
static void sync_restart(struct knowledge_front *front, int64_t now_ns) {
	bool whole = front->whole;

	front->syncing = false;
	front->sync_ns = now_ns + AGAIN_NS;
	for (unsigned i = 0; i < CALLS_MOST; i++)
		if (front->out[i].kind == CALL_GET || front->out[i].kind == CALL_CHANGED)
			front->out[i].life = 0;	/* its answer is nobody's */
	begin_sync(front, whole);
}

/* --- answers --------------------------------------------------------------------------------- */

static bool is_ok(const struct redis_value *answer, size_t least) {
	return answer->kind == REDIS_KIND_LIST && answer->count >= least &&
	    redis_value_is(&answer->list[0], "ok") && answer->list[1].kind == REDIS_KIND_NUMBER &&
	    answer->list[1].number >= 0;
}

static void count_bad(struct knowledge_front *front) {
	engine_count(front->engine, COUNTER_KNOWLEDGE_BAD, 1);
}

static void take_put(struct knowledge_front *front, const struct call *call,
    const struct redis_value *answer, int64_t now_ns) {
	front->puts--;
	if (is_ok(answer, 2))
		return;
	if (answer->kind == REDIS_KIND_LIST && answer->count > 0 &&
	    redis_value_is(&answer->list[0], "full")) {
		engine_count(front->engine, COUNTER_KNOWLEDGE_UNSHARED, 1);
		/* reading all takes names out of the list of which nothing is left; what is not
		 * in it then is written again */
		if (!front->syncing && now_ns - front->whole_ns >= WHOLE_NS) {
			front->sync_ns = now_ns;
			begin_sync(front, true);
		}
		return;
	}
	knowledge_fail(front, "a record was not written", call->name, answer);
	front->put_ns = now_ns + AGAIN_NS;
	knowledge_again(front->store, call->entry, call->entry_life, now_ns);
}

static void take_page(struct knowledge_front *front, const struct redis_value *answer,
    int64_t now_ns) {
	uint64_t now;

	front->page_asked = false;
	if (!is_ok(answer, 2) || answer->count % 2 != 0 || answer->count > 2 + 2 * PAGE_NAMES ||
	    ++front->pages > PAGES_MOST) {
		knowledge_fail(front, "the list of destinations", NULL, answer);
		sync_restart(front, now_ns);
		return;
	}
	now = (uint64_t)answer->list[1].number;
	/* it has lost what it had: from the beginning, and all of ours again */
	if (now < front->number) {
		sync_restart(front, now_ns);
		front->whole = true;
		front->number = 0;
		front->sync_ns = now_ns;
		knowledge_begin_hearing(front->store);
		return;
	}
	front->page_last = answer->count < 2 + 2 * PAGE_NAMES;
	for (size_t i = 2; i < answer->count; i += 2) {
		const struct redis_value *name = &answer->list[i], *number = name + 1;

		if (number->kind == REDIS_KIND_NUMBER && number->number >= 0)
			front->page_number = (uint64_t)number->number;
		if (name->kind != REDIS_KIND_TEXT || name->length == 0 ||
		    name->length > NAME_MAX_BYTES || memchr(name->text, '\0', name->length)) {
			count_bad(front);
			continue;
		}
		memcpy(front->page[front->page_count], name->text, name->length);
		front->page[front->page_count++][name->length] = '\0';
	}
	if (front->page_count == 0 && !front->page_last)
		front->number = front->page_number;
}

static void record_hear(struct knowledge_front *front, const struct generation *generation,
    struct span node, const char *name, size_t name_length, struct span text,
    int64_t age_ms, int64_t now_ns) {
	struct knowledge_told told;

	if (!knowledge_text_read(text.text, text.length, age_ms, now_ns, &told)) {
		count_bad(front);
		return;
	}
	switch (knowledge_hear(front->store, generation, node.text, node.length, name,
	    name_length, &told, now_ns)) {
	case KNOWLEDGE_BAD_NAME:
	case KNOWLEDGE_BAD_NODE:
	case KNOWLEDGE_BAD_STAMP:
		count_bad(front);
		break;
	default:
		break;
	}
}

static void take_records(struct knowledge_front *front, const struct generation *generation,
    const struct call *call, const struct redis_value *answer, int64_t now_ns) {
	int64_t server_ms, written_ms;

	if (!is_ok(answer, 2) || (answer->count - 2) % 3 != 0) {
		knowledge_fail(front, "records of destinations", NULL, answer);
		sync_restart(front, now_ns);
		return;
	}
	front->page_done += call->count;
	server_ms = answer->list[1].number;
	for (size_t i = 2; i < answer->count; i += 3) {
		const struct redis_value *at = &answer->list[i];
		const char *name;
		struct span record;

		if (at[0].kind != REDIS_KIND_NUMBER || at[0].number < 1 ||
		    at[0].number > call->count || at[1].kind != REDIS_KIND_TEXT ||
		    at[2].kind != REDIS_KIND_TEXT ||
		    !knowledge_stored_read(at[2].text, at[2].length, &written_ms, &record)) {
			count_bad(front);
			continue;
		}
		name = front->page[call->first + (uint32_t)at[0].number - 1];
		record_hear(front, generation, (struct span){ at[1].text, at[1].length }, name,
		    strlen(name), record, server_ms - written_ms, now_ns);
	}
}

void knowledge_front_answer(struct knowledge_front *front, const struct generation *generation,
    uint64_t tag, const struct redis_value *answer, int64_t now_ns) {
	unsigned index = (unsigned)(tag & UINT32_MAX);
	struct call call;

	if (index >= CALLS_MOST || tag >> 32 != front->life || !front->joined)
		return;
	call = front->out[index];
	front->out[index] = (struct call){ .kind = CALL_FREE };
	if (call.kind == CALL_PUT)
		take_put(front, &call, answer, now_ns);
	else if (call.life != front->life)
		return;
	else if (call.kind == CALL_CHANGED)
		take_page(front, answer, now_ns);
	else if (call.kind == CALL_GET)
		take_records(front, generation, &call, answer, now_ns);
	knowledge_front_turn(front, generation, now_ns);
}

void knowledge_front_heard(struct knowledge_front *front, const struct generation *generation,
    const char *text, size_t length, int64_t now_ns) {
	struct knowledge_news news;

	if (!knowledge_news_read(text, length, &news)) {
		count_bad(front);
		return;
	}
	/* one was missed, or more: they are read */
	if (!front->syncing && news.number != front->number + 1)
		front->sync_ns = now_ns;
	else if (!front->syncing)
		front->number = news.number;
	else
		front->wanted = true;
	/* our own comes back, too */
	if (news.node.length == strlen(front->node) &&
	    memcmp(news.node.text, front->node, news.node.length) == 0)
		return;
	record_hear(front, generation, news.node, news.name.text, news.name.length, news.record, 0,
	    now_ns);
	knowledge_turn(front->store, generation, now_ns);
}

/* --- life ------------------------------------------------------------------------------- */

void knowledge_front_joined(struct knowledge_front *front, int64_t now_ns) {
	knowledge_front_lost(front);
	front->joined = true;
	front->sync_ns = now_ns;
	begin_sync(front, true);
}

void knowledge_front_lost(struct knowledge_front *front) {
	front->joined = false;
	front->syncing = false;
	front->life = front->life == UINT32_MAX ? 1 : front->life + 1;
	for (unsigned i = 0; i < CALLS_MOST; i++) {
		if (front->out[i].kind == CALL_PUT)
			knowledge_again(front->store, front->out[i].entry,
			    front->out[i].entry_life, 0);
		front->out[i].kind = CALL_FREE;
	}
	front->puts = 0;
}

void knowledge_front_turn(struct knowledge_front *front, const struct generation *generation,
    int64_t now_ns) {
	knowledge_turn(front->store, generation, now_ns);
	if (!front->joined)
		return;
	sync_turn(front, now_ns);
	/* after all was heard once: our stamps are greater than all then */
	if (front->synced_ns != 0)
		put_all(front, now_ns);
}

void knowledge_front_count(const struct knowledge_front *front, struct knowledge_counts *out) {
	struct knowledge_numbers numbers;

	knowledge_count(front->store, &numbers);
	*out = (struct knowledge_counts){ .destinations = numbers.destinations,
		.divided = numbers.divided, .waiting = numbers.waiting,
		.unplaced = numbers.unplaced, .untried = numbers.untried,
		.synced_ns = front->synced_ns };
}
