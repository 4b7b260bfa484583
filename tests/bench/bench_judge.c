/* SPDX-License-Identifier: ISC */
/*
 * CPU nanoseconds of one judgement with the shipped providers.conf, by kind of result,
 * and of the window settings of its destination (the most of them).  Least of several
 * runs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/compile/compile.h"
#include "engine/judge/judge.h"
#include "wire/mail/mail_log.h"

#define RUNS	20
#define TIMES	20000

#define LINE(relay, status, text) "Jul  1 12:00:00 host postfix/smtp[1]: 4ABCDEF123: " \
	"to=<u@d.example>, relay=" relay ", delay=1, delays=0/0/1/0, dsn=2.0.0, " \
	"status=" status " (" text ")"
#define OWN "mx.d.example[192.0.2.1]:25"
#define BIG "gmail-smtp-in.l.google.com[192.0.2.1]:25"

static const struct {
	const char *name, *line;
} cases[] = {
	{ "judge_delivered_ns", LINE(OWN, "sent", "250 2.0.0 Ok: queued as 4TEST") },
	{ "judge_delivered_provider_ns", LINE(BIG, "sent", "250 2.0.0 OK 1600000000 a1si1.1 - gsmtp") },
	{ "judge_refused_ns", LINE("none", "deferred",
	    "connect to mx.d.example[192.0.2.1]:25: Connection refused") },
	{ "judge_user_unknown_ns", LINE(OWN, "bounced", "host mx.d.example[192.0.2.1] said: 550 5.1.1 "
	    "<u@d.example>: Recipient address rejected: User unknown (in reply to RCPT TO command)") },
	{ "judge_mailbox_full_provider_ns", LINE(BIG, "deferred", "host gmail-smtp-in.l.google.com"
	    "[192.0.2.1] said: 452 4.2.2 The mailbox that you tried to reach has no room left. "
	    "Please direct the recipient to clear some (in reply to RCPT TO command)") },
	{ "judge_rate_provider_ns", LINE(BIG, "deferred", "host gmail-smtp-in.l.google.com[192.0.2.1] "
	    "said: 421-4.7.28 an unusual rate of mail from your address (in reply to RCPT TO "
	    "command)") },
};

static int64_t now_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static struct generation *compile(void) {
	const char *top = getenv("top_srcdir");
	struct config_messages messages;
	struct generation *g = NULL;
	char path[1024], *text = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/conf/providers.conf", top ? top : ".");
	file = fopen(path, "r");
	if (file != NULL && getdelim(&text, &room, '\0', file) > 0)
		g = config_compile_texts("version = 1; classes = (); mta = ( { site = \"/none\"; } );\n"
		    "destinations = ( { match = [ \"*.a.example\", \"provider:google\" ];\n"
		    "window = { suspend = \"1m\"; }; } );\n", "main", text, path, &messages);
	if (g == NULL) {
		fprintf(stderr, "bench_judge: %s: cannot be read, or has mistakes\n", path);
		exit(1);
	}
	config_messages_free(&messages);
	free(text);
	fclose(file);
	return g;
}

static int64_t measure(const struct generation *g, struct judge *judge, const char *name,
    const char *line) {
	int64_t judging = INT64_MAX, settling = INT64_MAX, before;
	struct window_settings settings;
	struct judgement judgement;
	struct log_line read;

	mail_log_scan(line, strlen(line), &read);
	for (int run = 0; run < RUNS; run++) {
		before = now_ns();
		for (int i = 0; i < TIMES; i++)
			judge_delivery(judge, 1, &read.delivery, &judgement);
		before = (now_ns() - before) / TIMES;
		judging = before < judging ? before : judging;
		before = now_ns();
		for (int i = 0; i < TIMES; i++)
			generation_window_settings(g, 0, judgement.owner.name,
			    strlen(judgement.owner.name), judgement.owner.provider, &settings);
		before = (now_ns() - before) / TIMES;
		settling = before < settling ? before : settling;
	}
	printf("%s %lld\n", name, (long long)judging);
	return settling;
}

int main(void) {
	struct generation *g = compile();
	struct judge *judge;
	struct diag diag;
	int64_t before = now_ns(), most = 0;

	if (judge_open(&judge, g, &diag) != 0) {
		fprintf(stderr, "bench_judge: %s\n", diag.text);
		return 1;
	}
	printf("judge_rules %u\njudge_open_us %lld\n", g->reply_rule_count,
	    (long long)(now_ns() - before) / 1000);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t settling = measure(g, judge, cases[i].name, cases[i].line);

		most = settling > most ? settling : most;
	}
	printf("window_settings_ns %lld\n", (long long)most);
	judge_close(&judge);
	free(g);
	return 0;
}
