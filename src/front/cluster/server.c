/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  A Redis that can be asked to run our scripts.
 * MODEL    Two connections: one for commands, and one that hears the channel, as a
 *          connection that hears one can do nothing else.  The second comes when the first
 *          is ready, and goes with it.  After a failure both wait, twice as long each
 *          time up to a bound, give or take by chance, so that the nodes of a cluster do not
 *          come all at once.
 * ERRORS   Each has a word (cluster_errors.def) and ends the connection.
 * THREADS  One.
 */
#include "front/cluster/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "front/cluster/redis.h"
#include "segment/cluster/cluster_told.h"
#include "wire/ask/span.h"

#define DELAY_FIRST_NS	(100 * NS_PER_MS)
#define DELAY_LAST_NS	(5 * NS_PER_SECOND)
#define STEADY_NS	(3 * NS_PER_SECOND)
#define BRIEF_MOST	20	/* connections in a row that were not */
#define FAILURES_BRIEF	3	/* 0.8 s */
#define TEXT_BYTES	192
#define WORD_BYTES	16

/* A connection, and when it is tried again. */
struct line {
	struct server *server;
	struct redis *redis;
	void (*begin)(struct line *line);	/* when the server knows who we are */
	bool up;		/* connected or connecting */
	unsigned failures;	/* in a row */
	int64_t next_ns;	/* down: when it is tried again */
	int64_t least_ns;	/* but not before so long after its end */
	enum cluster_error why;	/* an answer that ends it: told in the place of what it ended by */
	bool has_why;
	char text[TEXT_BYTES];
};

struct server {
	const struct server_handlers *handlers;
	void *context;
	struct server_setup setup;
	struct line commands, channel;
	bool ready;
	int64_t ready_ns;		/* since then */
	unsigned brief;
	bool hears;
	unsigned loading;		/* scripts whose answer is due */
	char sha[CLUSTER_SCRIPT_COUNT][SERVER_SHA_BYTES];
	uint64_t sent;
};

/* A run, until its answer comes; its words follow. */
struct run {
	struct server *server;
	server_answer_fn *answer;
	void *context;
	uint64_t tag;
	enum cluster_script script;
	bool again;
	size_t count;
	struct span words[];
};

/* --- errors -------------------------------------------------------------------------- */

/* An answer ends the line. */
static void line_fail(struct line *line, enum cluster_error error, const char *text) {
	if (line->has_why)
		return;
	line->has_why = true;
	line->why = error;
	(void)log_sentence(line->text, sizeof(line->text), text);
	redis_drop(line->redis, error, line->text);
}

static void fail_by(struct line *line, const char *what, const struct redis_value *answer) {
	char text[TEXT_BYTES], said[TEXT_BYTES];
	size_t length;

	if (answer->kind != REDIS_KIND_ERROR) {
		text_append(text, sizeof(text), 0, "%s: invalid answer", what);
		line_fail(line, CLUSTER_ERROR_PROTOCOL, text);
		return;
	}
	length = answer->length < sizeof(said) ? answer->length : sizeof(said) - 1;
	memcpy(said, answer->text, length);
	said[length] = '\0';
	text_append(text, sizeof(text), 0, "%s: %s", what, said);
	line_fail(line, server_error_of(answer->text, answer->length), text);
}

/* Of what the server says to AUTH its first word alone is told ("WRONGPASS"): some repeat
 * what they do not understand, and that is the password. */
static void fail_by_welcome(struct line *line, const struct redis_value *answer) {
	size_t length = 0;
	char text[TEXT_BYTES];

	if (answer->kind != REDIS_KIND_ERROR) {
		fail_by(line, "AUTH", answer);
		return;
	}
	while (length < answer->length && length < WORD_BYTES && answer->text[length] >= 'A' &&
	    answer->text[length] <= 'Z')
		length++;
	text_append(text, sizeof(text), 0, "AUTH: the server refused it: %.*s",
	    (int)length, answer->text);
	line_fail(line, server_error_of(answer->text, answer->length), text);
}

/* From half to one and a half of it. */
static int64_t by_chance(int64_t delay_ns) {
	uint32_t number = 0;

	(void)!getrandom(&number, sizeof(number), GRND_NONBLOCK);
	return delay_ns / 2 + (int64_t)((uint64_t)delay_ns * (number % 1024) / 1024);
}

static int64_t when_again(struct line *line, enum cluster_error error) {
	int64_t delay_ns = DELAY_FIRST_NS;

	for (unsigned i = 0; i < line->failures && delay_ns < DELAY_LAST_NS; i++)
		delay_ns *= 2;
	line->failures++;
	/* people have to do something first */
	if (delay_ns < NS_PER_SECOND && cluster_error_refuses(error))
		delay_ns = NS_PER_SECOND;
	if (delay_ns > DELAY_LAST_NS)
		delay_ns = DELAY_LAST_NS;
	delay_ns = by_chance(delay_ns);
	return clock_now_ns() + (delay_ns > line->least_ns ? delay_ns : line->least_ns);
}

/* A line is down: what is told of it. */
static enum cluster_error end_line(struct line *line, enum cluster_error error,
    const char *text) {
	if (!line->has_why) {
		line->why = error;
		(void)log_sentence(line->text, sizeof(line->text), text);
	}
	line->up = line->has_why = false;
	line->next_ns = when_again(line, line->why);
	line->least_ns = 0;
	return line->why;
}

/* --- asking --------------------------------------------------------------------------- */

static bool send_words(struct line *line, const struct span *words, size_t count,
    redis_answer_fn *answer, void *context) {
	if (!redis_command(line->redis, words, count, answer, context))
		return false;
	line->server->sent++;
	return true;
}

/* --- who we are ------------------------------------------------------------------------ */

static void on_welcome(void *context, const struct redis_value *answer) {
	struct line *line = context;

	if (answer == NULL)
		return;
	if (redis_value_is(answer, "OK"))
		line->begin(line);
	else
		fail_by_welcome(line, answer);
}

static void on_opened(void *context) {
	struct line *line = context;
	const struct server_setup *setup = &line->server->setup;
	struct span words[3] = { span_text("AUTH") };
	size_t count = 1;

	if (setup->password_length == 0) {
		line->begin(line);
		return;
	}
	if (*setup->user != '\0')
		words[count++] = span_text(setup->user);
	words[count++] = (struct span){ setup->password, setup->password_length };
	if (!send_words(line, words, count, on_welcome, line))
		line_fail(line, CLUSTER_ERROR_CLOSED, "cannot send");
}

/* --- scripts ----------------------------------------------------------------------------- */

static bool is_sha(const struct redis_value *answer) {
	if (answer->kind != REDIS_KIND_TEXT || answer->length != SERVER_SHA_BYTES - 1)
		return false;
	for (size_t i = 0; i < answer->length; i++)
		if (strchr("0123456789abcdef", answer->text[i]) == NULL ||
		    answer->text[i] == '\0')
			return false;
	return true;
}

/* Answers come in the order of the scripts. */
static void on_loaded(void *context, const struct redis_value *answer) {
	struct server *server = context;
	char *sha;

	if (answer == NULL || server->loading == 0)
		return;
	sha = server->sha[CLUSTER_SCRIPT_COUNT - server->loading];
	if (!is_sha(answer)) {
		fail_by(&server->commands, "SCRIPT LOAD", answer);
		return;
	}
	memcpy(sha, answer->text, answer->length);
	sha[answer->length] = '\0';
	server->loading--;
	if (server->loading > 0 || server->commands.has_why)
		return;
	server->ready = true;
	server->ready_ns = clock_now_ns();
	server->channel.next_ns = 0;
	server->handlers->ready(server->context);
}

static bool script_load(struct server *server, enum cluster_script script,
    redis_answer_fn *answer) {
	struct span words[3] = { span_text("SCRIPT"), span_text("LOAD") };

	words[2].text = cluster_script_text(script, &words[2].length);
	return send_words(&server->commands, words, 3, answer, server);
}

static void load_all(struct line *commands) {
	struct server *server = commands->server;

	server->loading = CLUSTER_SCRIPT_COUNT;
	for (unsigned i = 0; i < CLUSTER_SCRIPT_COUNT; i++)
		if (!script_load(server, (enum cluster_script)i, on_loaded))
			line_fail(commands, CLUSTER_ERROR_CLOSED, "cannot send");
}

static void on_reloaded(void *context, const struct redis_value *answer) {
	struct server *server = context;

	if (answer == NULL)
		return;
	if (!is_sha(answer))
		fail_by(&server->commands, "SCRIPT LOAD", answer);
}

/* --- runs ----------------------------------------------------------------------------------- */

static bool lacks_script(const struct redis_value *answer) {
	return answer->kind == REDIS_KIND_ERROR && answer->length >= 8 &&
	    memcmp(answer->text, "NOSCRIPT", 8) == 0;
}

static void on_run(void *context, const struct redis_value *answer) {
	struct run *run = context;
	struct server *server = run->server;

	if (answer != NULL && lacks_script(answer) && !run->again) {
		run->again = true;
		if (script_load(server, run->script, on_reloaded) &&
		    send_words(&server->commands, run->words, run->count, on_run, run))
			return;
		line_fail(&server->commands, CLUSTER_ERROR_CLOSED, "cannot send");
		answer = NULL;
	}
	run->answer(run->context, run->tag, answer);
	free(run);
}

bool server_run(struct server *server, enum cluster_script script,
    const struct span *words, size_t count, server_answer_fn *answer, void *context,
    uint64_t tag) {
	size_t bytes = 0;
	struct run *run;
	char *text;

	if (!server->ready || server->commands.has_why)
		return false;
	for (size_t i = 0; i < count; i++)
		bytes += words[i].length;
	run = malloc(sizeof(*run) + count * sizeof(words[0]) + bytes);
	if (run == NULL)
		return false;
	*run = (struct run){ .server = server, .answer = answer, .context = context, .tag = tag,
		.script = script, .count = count };
	text = (char *)(run->words + count);
	for (size_t i = 0; i < count; i++) {
		run->words[i] = (struct span){ text, words[i].length };
		memcpy(text, words[i].text, words[i].length);
		text += words[i].length;
	}
	if (send_words(&server->commands, run->words, count, on_run, run))
		return true;
	free(run);
	return false;
}

/* --- the line of commands ---------------------------------------------------------------------- */

static void on_commands_ended(void *context, enum cluster_error error, const char *text) {
	struct line *line = context;
	struct server *server = line->server;

	error = end_line(line, error, text);
	server->brief += server->ready && server->brief < BRIEF_MOST;
	server->ready = false;
	server->loading = 0;
	redis_drop(server->channel.redis, CLUSTER_ERROR_CLOSED, "the second connection was "
	    "lost");
	server->handlers->lost(server->context, error, line->text, line->next_ns);
}

/* --- the channel ------------------------------------------------------------------------------- */

static void line_subscribe(struct line *line) {
	if (!redis_subscribe(line->redis, line->server->setup.channel)) {
		line_fail(line, CLUSTER_ERROR_CLOSED, "cannot send");
		return;
	}
	line->server->sent++;
}

static void on_channel_ended(void *context, enum cluster_error error, const char *text) {
	struct line *line = context;
	struct server *server = line->server;
	bool heard_it = server->hears;

	/* an error that came unasked is the answer to SUBSCRIBE */
	if (error == CLUSTER_ERROR_SERVER)
		error = server_error_of(text, strlen(text));
	error = end_line(line, error, text);
	server->hears = false;
	if (server->ready)
		server->handlers->deaf(server->context, error, line->text);
	if (heard_it)
		server->handlers->hears(server->context, false);
}

static void on_subscribed(void *context) {
	struct line *line = context;
	struct server *server = line->server;

	line->failures = 0;
	server->hears = true;
	server->handlers->hears(server->context, true);
}

static void on_message(void *context, const char *text, size_t length) {
	const struct server *server = ((struct line *)context)->server;

	server->handlers->news(server->context, text, length);
}

/* --- life ------------------------------------------------------------------------------------------ */

static const struct redis_handlers commands_handlers = {
	.opened = on_opened, .ended = on_commands_ended,
};
static const struct redis_handlers channel_handlers = {
	.opened = on_opened, .ended = on_channel_ended, .message = on_message,
	.subscribed = on_subscribed,
};

int server_open(struct server **result, struct event_base *base,
    const struct server_setup *setup, const struct server_handlers *handlers, void *context,
    struct diag *diag) {
	struct server *server = calloc(1, sizeof(*server));

	*result = NULL;
	if (server == NULL)
		return diag_set(diag, 0, "no memory for the connection to Redis");
	server->setup = *setup;
	server->handlers = handlers;
	server->context = context;
	server->commands = (struct line){ .server = server, .begin = load_all };
	server->channel = (struct line){ .server = server, .begin = line_subscribe };
	if (redis_new(&server->commands.redis, base, &commands_handlers, &server->commands,
		diag) != 0 || redis_new(&server->channel.redis, base, &channel_handlers,
		&server->channel, diag) != 0) {
		redis_free(&server->commands.redis);
		free(server);
		return -1;
	}
	*result = server;
	return 0;
}

void server_close(struct server **server) {
	if (*server == NULL)
		return;
	redis_free(&(*server)->commands.redis);
	redis_free(&(*server)->channel.redis);
	free(*server);
	*server = NULL;
}

static void turn_line(struct server *server, struct line *line, bool wanted, int64_t now_ns) {
	if (!line->up && wanted && line->next_ns <= now_ns) {
		line->up = true;
		redis_connect(line->redis, server->setup.address);
	} else if (line->up && redis_is_silent(line->redis, server->setup.patience_ns, now_ns)) {
		line_fail(line, CLUSTER_ERROR_TIMEOUT, "no answer in time");
	}
}

void server_turn(struct server *server, int64_t now_ns) {
	turn_line(server, &server->commands, true, now_ns);
	turn_line(server, &server->channel, server->ready, now_ns);
}

bool server_is_ready(const struct server *server) {
	return server->ready && !server->commands.has_why;
}

const char *server_sha(const struct server *server, enum cluster_script script) {
	return server->sha[script];
}

void server_drop(struct server *server, enum cluster_error error, const char *text,
    int64_t least_ns) {
	if (!server->commands.up)
		return;
	server->commands.least_ns = least_ns;
	line_fail(&server->commands, error, text);
}

/* Who answers once and hangs up, again and again, is not tried ten times a second for ever. */
void server_works(struct server *server) {
	struct line *line = &server->commands;

	if (clock_now_ns() - server->ready_ns >= STEADY_NS)
		server->brief = 0;
	if (server->brief < BRIEF_MOST)
		line->failures = 0;
	else if (line->failures > FAILURES_BRIEF)
		line->failures = FAILURES_BRIEF;
}

uint64_t server_commands(const struct server *server) {
	return server->sent;
}
