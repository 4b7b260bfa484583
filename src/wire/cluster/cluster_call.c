/* SPDX-License-Identifier: ISC */
/*
 * Calls of the lease script and its answers: see the header.  An answer is read whole before
 * anything of it is believed: every number has bounds, every list its length.  No memory but
 * the caller's; errors come as CLUSTER_NONSENSE with a static reason.
 */
#include "wire/cluster/cluster_call.h"

#include "policy/window/share.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NUMBER_MAX	INT64_C(9007199254740991)	/* what a Lua number holds exactly */
#define MS_MAX		UINT32_C(2000000000)

static const char *const status_words[CLUSTER_STATUS_COUNT] = {
	[CLUSTER_OK] = "ok", [CLUSTER_AGAIN] = "again", [CLUSTER_OLD] = "old",
	[CLUSTER_TAKEN] = "taken", [CLUSTER_FULL] = "full", [CLUSTER_LEASE] = "lease",
	[CLUSTER_ALIVE] = "alive", [CLUSTER_NEWER] = "newer", [CLUSTER_FOREIGN] = "foreign",
	[CLUSTER_BAD] = "bad", [CLUSTER_REFUSED] = "refused", [CLUSTER_NONSENSE] = "nonsense",
};

const char *cluster_status_word(enum cluster_status status) {
	return status_words[status];
}

static bool is_alphanumeric(char c) {
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name(const char *text, size_t length, size_t most, const char *besides) {
	if (length == 0 || length > most)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!is_alphanumeric(text[i]) &&
		    (text[i] == '\0' || strchr(besides, text[i]) == NULL))
			return false;
	return true;
}

bool cluster_node_name_is_good(const char *name) {
	/* "-" alone stands for none. */
	return is_name(name, strlen(name), CLUSTER_NODE_MAX, "._-") && strcmp(name, "-") != 0;
}

/* --- calls -------------------------------------------------------------------------------- */

static bool add_bytes(struct cluster_call *call, const char *text, size_t length) {
	if (call->count == call->capacity || call->size - call->length < length) {
		call->full = true;
		return false;
	}
	memcpy(call->text + call->length, text, length);
	call->words[call->count++] = (struct span){ call->text + call->length, length };
	call->length += length;
	return true;
}

static bool add_word(struct cluster_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool add_word(struct cluster_call *call, const char *format, ...) {
	char text[512];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= sizeof(text)) {
		call->full = true;
		return false;
	}
	return add_bytes(call, text, (size_t)length);
}

static const char *or_none(const char *text) {
	return text == NULL || text[0] == '\0' ? "-" : text;
}

void cluster_call_begin(struct cluster_call *call, struct cluster_link *link,
    enum cluster_operation operation, const char *sha, const char *prefix, uint64_t nonce,
    const char *other, int64_t now_ms) {
	static const char *const words[] = {
		[CLUSTER_HELLO] = "hello", [CLUSTER_SHARE] = "share",
		[CLUSTER_FORGET] = "forget", [CLUSTER_LOOK] = "look",
	};

	call->count = 0;
	call->length = 0;
	call->full = false;
	link->sequence++;
	call->sent = (struct cluster_sent){ .operation = operation, .ms = now_ms,
		.token = link->token };
	memcpy(call->sent.epoch, link->epoch, sizeof(call->sent.epoch));
	add_bytes(call, "EVALSHA", 7);
	add_word(call, "%s", sha);
	add_bytes(call, "3", 1);
	add_word(call, "%s%d:leases", prefix, CLUSTER_SCHEMA);
	add_word(call, "%sschema", prefix);
	add_word(call, "%s%d:" CLUSTER_CHANNEL, prefix, CLUSTER_SCHEMA);
	add_word(call, "%s %d %s %s %" PRIu64 " %" PRIu64 " %s %" PRIu64 " %" PRId64 " %" PRId64
	    " %" PRId64 " %" PRIu32 " %016" PRIx64 " %s",
	    words[operation], CLUSTER_SCHEMA, link->node, link->instance, link->token,
	    link->sequence, or_none(link->epoch), link->event, link->heard_ms, now_ms,
	    link->lease_ms, link->nodes, nonce, or_none(other));
}

static uint32_t bounded(uint32_t places) {
	return places < CLUSTER_PLACES_MAX ? places : CLUSTER_PLACES_MAX;
}

bool cluster_call_pool(struct cluster_call *call, const struct cluster_pool *pool) {
	char text[160 + CLUSTER_POOL_NAME_MAX];
	uint64_t version = pool->version < (uint64_t)NUMBER_MAX ? pool->version : (uint64_t)NUMBER_MAX;
	uint32_t need = pool->need > pool->hold ? pool->need : pool->hold;
	int length;

	if (pool->name_length == 0 || pool->name_length > CLUSTER_POOL_NAME_MAX ||
	    memchr(pool->name, '\0', pool->name_length) != NULL)
		return false;
	length = snprintf(text, sizeof(text), "%" PRIu32 " %" PRIu64 " %" PRIu32 " %" PRIu32
	    " %" PRIu32 " %" PRIu32 " %" PRIu32 " ", bounded(pool->limit), version,
	    bounded(pool->fixed), bounded(pool->hold), bounded(need),
	    bounded(pool->want > need ? pool->want : need), bounded(pool->open));
	memcpy(text + length, pool->name, pool->name_length);
	if (!add_bytes(call, text, (size_t)length + pool->name_length))
		return false;
	call->sent.pools++;
	return true;
}

/* --- answers ------------------------------------------------------------------------------ */

/* Reads a list from its start; once something is not as it must be, `why` tells what. */
struct look {
	const struct redis_value *values;
	size_t count, at;
	const char *why;
};

static const struct redis_value *value_next(struct look *look, enum redis_kind kind,
    const char *why) {
	if (look->why == NULL && look->at < look->count && look->values[look->at].kind == kind)
		return &look->values[look->at++];
	if (look->why == NULL)
		look->why = why;
	return NULL;
}

static uint64_t next_number(struct look *look, int64_t most, const char *why) {
	const struct redis_value *value = value_next(look, REDIS_KIND_NUMBER, why);

	if (value != NULL && value->number >= 0 && value->number <= most)
		return (uint64_t)value->number;
	if (look->why == NULL)
		look->why = why;
	return 0;
}

static uint32_t next_small(struct look *look, uint32_t most, const char *why) {
	return (uint32_t)next_number(look, most, why);
}

/* A word of a known alphabet; `out` has most + 1 bytes. */
static void next_name(struct look *look, char *out, size_t most, const char *besides,
    const char *why) {
	const struct redis_value *value = value_next(look, REDIS_KIND_TEXT, why);

	out[0] = '\0';
	if (value != NULL && is_name(value->text, value->length, most, besides)) {
		memcpy(out, value->text, value->length);
		out[value->length] = '\0';
	} else if (look->why == NULL) {
		look->why = why;
	}
}

/* Text that strangers may have written, to be shown. */
static void copy_shown(const struct redis_value *value, char *out, size_t size) {
	size_t length = value->length < size - 1 ? value->length : size - 1;

	for (size_t i = 0; i < length; i++)
		out[i] = value->text[i] >= ' ' && value->text[i] <= '~' ? value->text[i] : '?';
	out[length] = '\0';
}

static void nonsense(struct cluster_answer *answer, const char *why) {
	*answer = (struct cluster_answer){ .status = CLUSTER_NONSENSE };
	snprintf(answer->text, sizeof(answer->text), "%s", why);
}

static bool read_status(struct look *look, struct cluster_answer *answer) {
	const struct redis_value *word = value_next(look, REDIS_KIND_TEXT, "no status");

	/* REFUSED and NONSENSE are no words of the script. */
	for (unsigned i = 0; word != NULL && i < CLUSTER_REFUSED; i++)
		if (redis_value_is(word, status_words[i])) {
			answer->status = (enum cluster_status)i;
			return true;
		}
	if (look->why == NULL)
		look->why = "unknown status";
	return false;
}

/* What was read of an answer's head, to be taken over once all of it is good. */
struct told {
	char epoch[CLUSTER_EPOCH_MAX + 1];
	uint64_t event, token, life;
};

static void read_ok(struct look *look, struct cluster_answer *answer, struct told *told) {
	told->token = next_number(look, NUMBER_MAX, "no token");
	told->life = next_number(look, NUMBER_MAX, "no life");
	answer->wait_ms = next_small(look, MS_MAX, "no wait");
	answer->nodes = next_small(look, CLUSTER_NODES_MAX, "no nodes");
	answer->alive = next_small(look, CLUSTER_NODES_MAX, "no nodes alive");
	answer->known = next_small(look, CLUSTER_NODES_MAX, "no nodes known");
	if (look->why == NULL && told->token == 0)
		look->why = "no token";
}

static void read_rest(struct look *look, struct cluster_answer *answer) {
	const struct redis_value *value;

	switch (answer->status) {
	case CLUSTER_TAKEN:
	case CLUSTER_LEASE:
		answer->ms = next_small(look, MS_MAX, "no time");
		next_name(look, answer->text, CLUSTER_INSTANCE_MAX, "._-", "no name");
		break;
	case CLUSTER_ALIVE:
		answer->ms = next_small(look, MS_MAX, "no time");
		break;
	case CLUSTER_FULL:
		answer->nodes = next_small(look, CLUSTER_NODES_MAX, "no nodes");
		break;
	case CLUSTER_NEWER:
		answer->number = next_number(look, NUMBER_MAX, "no schema");
		break;
	case CLUSTER_FOREIGN:
	case CLUSTER_BAD:
		value = value_next(look, REDIS_KIND_TEXT, "no text");
		if (value != NULL)
			copy_shown(value, answer->text, sizeof(answer->text));
		break;
	default:
		break;
	}
}

static void read_share(struct look *look, struct cluster_share *share) {
	share->granted = next_small(look, CLUSTER_PLACES_MAX, "no grant");
	share->fair = next_small(look, CLUSTER_PLACES_MAX, "no fair part");
	/* Of 64 nodes each of which may want that many. */
	share->others_short = (uint32_t)(next_number(look, (int64_t)CLUSTER_NODES_MAX *
	    CLUSTER_PLACES_MAX, "no others") & UINT32_MAX);
	share->limit = next_small(look, CLUSTER_PLACES_MAX, "no limit");
	share->leasable = next_small(look, CLUSTER_PLACES_MAX, "no pool");
	share->free = next_small(look, CLUSTER_PLACES_MAX, "no places");
	share->differs = next_small(look, 1, "no difference") != 0;
	/* (Granted may be more, for a while, where the limit was lowered.) */
	if (look->why == NULL && (share->leasable > share->limit ||
	    share->fair > share->leasable || share->free > share->leasable))
		look->why = "more than the limit";
}

/* Head and, of OK, what follows it.  False: *answer is complete. */
static bool read_head(const struct redis_value *value, struct look *look,
    struct cluster_answer *answer, struct told *told) {
	*answer = (struct cluster_answer){ .status = CLUSTER_NONSENSE };
	*look = (struct look){ .values = NULL };
	*told = (struct told){ .event = 0 };
	if (value != NULL && value->kind == REDIS_KIND_ERROR) {
		answer->status = CLUSTER_REFUSED;
		copy_shown(value, answer->text, sizeof(answer->text));
		return false;
	}
	if (value == NULL || value->kind != REDIS_KIND_LIST) {
		nonsense(answer, "no list");
		return false;
	}
	look->values = value->list;
	look->count = value->count;
	read_status(look, answer);
	next_name(look, told->epoch, CLUSTER_EPOCH_MAX, "-", "no epoch");
	told->event = next_number(look, NUMBER_MAX, "no event");
	if (answer->status == CLUSTER_OK)
		read_ok(look, answer, told);
	else
		read_rest(look, answer);
	if (look->why != NULL) {
		nonsense(answer, look->why);
		return false;
	}
	return true;
}

/* The answer is good: what the next call must know. */
static void take_over(struct cluster_link *link, const struct cluster_answer *answer,
    const struct told *told, int64_t now_ms) {
	/* The base of what this node has seen: any answer of this script is one. */
	if (strcmp(told->epoch, "-") != 0) {
		if (strcmp(told->epoch, link->epoch) != 0)
			link->life = 0;
		memcpy(link->epoch, told->epoch, sizeof(link->epoch));
		link->event = told->event;
		link->heard_ms = now_ms;
	}
	if (answer->status == CLUSTER_AGAIN)
		link->token = 0;
}

static bool is_of_this_call(const struct cluster_sent *sent, const struct told *told) {
	return sent->operation == CLUSTER_HELLO ||
	    (told->token == sent->token && strcmp(told->epoch, sent->epoch) == 0);
}

/* The end of an answer; false: it is none. */
static bool read_end(struct look *look, const struct cluster_sent *sent,
    const struct told *told, struct cluster_answer *answer) {
	if (look->why == NULL && look->at != look->count)
		look->why = "too long";
	if (look->why == NULL && answer->status == CLUSTER_OK && !is_of_this_call(sent, told))
		look->why = "of another call";
	if (look->why == NULL)
		return true;
	nonsense(answer, look->why);
	return false;
}

void cluster_answer_read(struct cluster_link *link, const struct cluster_sent *sent,
    const struct redis_value *value, int64_t now_ms,
    struct cluster_answer *answer, struct cluster_share *shares) {
	struct look look;
	struct told told;

	if (!read_head(value, &look, answer, &told))
		return;
	if (answer->status == CLUSTER_OK && sent->operation == CLUSTER_SHARE) {
		for (size_t i = 0; i < sent->pools; i++)
			read_share(&look, &shares[i]);
		answer->share_count = sent->pools;
	}
	if (!read_end(&look, sent, &told, answer))
		return;
	take_over(link, answer, &told, now_ms);
	if (answer->status != CLUSTER_OK)
		return;
	if (sent->operation == CLUSTER_HELLO) {
		link->token = told.token;
		link->sequence = 0;
	}
	if (sent->operation == CLUSTER_SHARE && answer->wait_ms == 0) {
		answer->reborn = link->life != told.life;
		link->life = told.life;
		answer->until_ms = sent->ms + share_use_ms(link->lease_ms);
	}
}

/* --- look --------------------------------------------------------------------------------- */

static void list_enter(struct look *look, struct look *inner, const char *why) {
	const struct redis_value *list = value_next(look, REDIS_KIND_LIST, why);

	*inner = (struct look){ .values = list != NULL ? list->list : NULL,
		.count = list != NULL ? list->count : 0, .why = look->why };
}

/* Up from the inner list: what was wrong there is wrong here, as are places left over. */
static void list_leave(struct look *look, const struct look *inner) {
	if (look->why == NULL)
		look->why = inner->why != NULL ? inner->why :
		    inner->at != inner->count ? "too long" : NULL;
}

static void read_node(struct look *list, struct cluster_look_node *node) {
	struct look look;

	list_enter(list, &look, "no node");
	next_name(&look, node->name, CLUSTER_NODE_MAX, "._-", "no node's name");
	node->alive = next_number(&look, 1, "not alive, not dead") != 0;
	node->event = next_number(&look, NUMBER_MAX, "no event");
	node->nodes = next_small(&look, CLUSTER_NODES_MAX, "no nodes");
	list_leave(list, &look);
}

static void read_part(struct look *list, size_t pools, size_t nodes,
    struct cluster_look_share *share) {
	struct look look;

	list_enter(list, &look, "no share");
	share->pool = next_small(&look, CLUSTER_POOLS_MAX, "no pool");
	share->node = next_small(&look, CLUSTER_NODES_MAX, "no node");
	share->granted = next_small(&look, CLUSTER_PLACES_MAX, "no grant");
	share->need = next_small(&look, CLUSTER_PLACES_MAX, "no need");
	share->open = next_small(&look, CLUSTER_PLACES_MAX, "no open");
	share->limit = next_small(&look, CLUSTER_PLACES_MAX, "no limit");
	share->fixed = next_small(&look, CLUSTER_PLACES_MAX, "no static part");
	if (look.why == NULL && (share->pool >= pools || share->node >= nodes))
		look.why = "of no pool or node";
	list_leave(list, &look);
}

bool cluster_look_read(struct cluster_link *link, const struct cluster_sent *sent,
    const struct redis_value *value, int64_t now_ms, struct cluster_answer *answer,
    struct cluster_look_node *nodes, size_t *node_count, size_t node_capacity,
    struct cluster_look_share *shares, size_t *share_count, size_t share_capacity) {
	struct look look, list;
	struct told told;

	*node_count = 0;
	*share_count = 0;
	if (!read_head(value, &look, answer, &told))
		return false;
	if (answer->status == CLUSTER_OK) {
		list_enter(&look, &list, "no nodes");
		while (list.why == NULL && list.at < list.count && *node_count < node_capacity)
			read_node(&list, &nodes[(*node_count)++]);
		list_leave(&look, &list);
		list_enter(&look, &list, "no shares");
		while (list.why == NULL && list.at < list.count && *share_count < share_capacity)
			read_part(&list, sent->pools, *node_count, &shares[(*share_count)++]);
		list_leave(&look, &list);
	}
	if (!read_end(&look, sent, &told, answer)) {
		*node_count = 0;
		*share_count = 0;
		return false;
	}
	take_over(link, answer, &told, now_ms);
	return answer->status == CLUSTER_OK;
}
