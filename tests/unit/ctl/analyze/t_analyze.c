/* SPDX-License-Identifier: ISC */
/* posternctl analyze, on invented logs: rows, what is learned, sessions and the classes
 * that fit them, and files that are none. */
#include <sysexits.h>
#include "tests/unit/test.h"
#include "ctl/analyze/analyze.h"
#include "tests/unit/scratch.h"

static char path[2][64];
static char *output;

static const char config[] = "version = 1;\n"
    "mta = ( { name = \"out\"; kind = \"postfix\"; log = \"\"; ports = [ 25, 587 ]; },\n"
    "        { name = \"sendmail\"; kind = \"sendmail\"; log = \"\"; } );\n"
    "classes = ( { name = \"friends\"; match = [ \"*.friend.example\" ]; hold_at = 9;\n"
    "              refuse_at = 9; },\n"
    "            { name = \"everyone\"; match = [ \"*\" ]; hold_at = 9; refuse_at = 9; } );\n";

static int make_directory(void **state) {
	if (scratch_open(state) != 0)
		return -1;
	snprintf(path[0], sizeof(path[0]), "%s", scratch_path("one"));
	snprintf(path[1], sizeof(path[1]), "%s", scratch_path("two"));
	return 0;
}

static int remove_directory(void **state) {
	free(output);
	return scratch_close(state);
}

static FILE *create(const char *name) {
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	return file;
}

struct asked {
	size_t files;
	bool json, sessions;
	const char *year;
	const char *config;	/* NULL: the one above */
};

/* Its output is in `output`. */
static int analyze(struct asked asked) {
	static char conf[80];
	char *words[2] = { path[0], path[1] };
	struct ctl ctl = { .config_path = conf, .config_given = true, .words = words,
		.word_count = asked.files, .sessions = asked.sessions, .year = asked.year };
	size_t length;
	FILE *out;
	int result;

	snprintf(conf, sizeof(conf), "%s", scratch_path("postern.conf"));
	scratch_write("postern.conf", asked.config == NULL ? config : asked.config);
	free(output);
	output = NULL;
	out = open_memstream(&output, &length);
	assert_non_null(out);
	writer_init(&ctl.writer, out, asked.json);
	result = command_ANALYZE(&ctl);
	assert_int_equal(fclose(out), 0);
	return result;
}

static void has(const char *text) {
	if (strstr(output, text) == NULL)
		fail_msg("\"%s\" is missing in:\n%s", text, output);
}

static void has_not(const char *text) {
	if (strstr(output, text) != NULL)
		fail_msg("\"%s\" is in:\n%s", text, output);
}

#define POSTFIX "Nov 21 05:48:22 mx postfix/smtp[7]: 5C1E9A7E2B8: "

TEST(rows) {
	scratch_write("one", "a line of somebody else\n"
	    POSTFIX "to=<a@b.example>, orig_to=<r>, relay=mx.example.net[192.0.2.7]:25, delay=1.5, "
	    "delays=0.03/1/0/0.5, dsn=4.7.1, status=deferred (host mx.example.net[192.0.2.7] said: "
	    "451 4.7.1 too many messages (in reply to RCPT TO command))\r\n"
	    "Nov 21 05:48:23 mx sm-mta[9]: 6AL5rHTW018202: to=<a@b.example>,<c@d.example>, "
	    "delay=00:00:08, xdelay=00:00:01, mailer=esmtp, pri=1, relay=mx.example.net. "
	    "[192.0.2.7], dsn=2.0.0, stat=Sent (ok)\n"
	    POSTFIX "to=<a\n"
	    "Nov 21 05:48:24 mx postfix/qmgr[7]: 5C1E9A7E2B8: from=<\"x\ty\"@b.example>, "
	    "status=expired, returned to sender\n"
	    "Nov 21 05:48:24 mx other/smtp[7]: 5C1E9A7E2B8: to=<a@b.example>, relay=none, delay=0, "
	    "delays=0/0/0/0, dsn=4.4.1, status=deferred (connect to mx.b.example[192.0.2.8]:25: "
	    "Connection refused)");
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true, .year = "2026" }), EX_OK);
	has("{\"event\": \"delivery\", \"file\": \"");
	has("\"line\": 2, \"mta\": \"postfix\", \"queue_id\": \"5C1E9A7E2B8\", \"recipient\": "
	    "\"a@b.example\", \"relay\": \"mx.example.net[192.0.2.7]:25\", \"dsn\": \"4.7.1\", "
	    "\"status\": \"deferred\", \"class\": \"remote-throttle\", "
	    "\"time\": \"2026-11-21T05:48:22\", \"program\": \"postfix/smtp\", "
	    "\"phase\": \"rcpt\", \"destination\": \"b.example\", \"rule\": null, "
	    "\"reply\": \"451 4.7.1 too many messages\"}\n");
	has("\"line\": 3, \"mta\": \"sendmail\", \"queue_id\": \"6AL5rHTW018202\", \"recipient\": "
	    "\"<a@b.example>,<c@d.example>\", \"relay\": \"mx.example.net. [192.0.2.7]\", "
	    "\"dsn\": \"2.0.0\", \"status\": \"sent\", \"class\": \"ok\"");
	/* of a program that is not named, as of the first Postfix */
	has("\"line\": 6, \"mta\": \"postfix\"");
	has("\"program\": \"other/smtp\", \"phase\": \"connect\", \"destination\": \"b.example\"");
	has("{\"event\": \"destination\", \"line\": null, \"name\": \"b.example\", "
	    "\"law\": \"probe\"");
	has("{\"event\": \"summary\", \"line\": null, \"lines\": 6, "
	    "\"from\": \"2026-11-21T05:48:22\", \"until\": \"2026-11-21T05:48:24\", "
	    "\"deliveries\": 3, \"broken\": 1, \"too_long\": 0, \"sessions\": 0, \"other\": 1, "
	    "\"foreign\": 1");
	assert_int_equal(analyze((struct asked){ .files = 1 }), EX_OK);
	has("line  mta       queue_id");
	has("2  postfix   5C1E9A7E2B8     a@b.example ");
	has("\ndestinations:\n");
	has("\nsummary:\n");
	has_not("event");
	scratch_write("two", POSTFIX "to=<a@b.example>, relay=none, delay=0, status=sent (x)\n");
	assert_int_equal(analyze((struct asked){ .files = 2 }), EX_OK);
	has("file            line  mta");
	has("/two       1  postfix");
}

/* As with the configuration that is installed. */
TEST(a_configuration_without_mail_servers_learns_all_the_same) {
	scratch_write("one", POSTFIX "to=<a@b.example>, relay=mx.example.net[192.0.2.7]:25, delay=1, "
	    "delays=0/0/0.5/0.5, dsn=2.0.0, status=sent (250 ok)\n"
	    "Nov 21 05:48:23 mx sm-mta[9]: 6AL5rHTW018202: to=<c@d.example>, delay=00:00:08, "
	    "xdelay=00:00:01, mailer=esmtp, pri=1, relay=mx.example.net. [192.0.2.7], dsn=2.0.0, "
	    "stat=Sent (ok)\n"
	    POSTFIX "to=<a@b.example>, relay=127.0.0.1[127.0.0.1]:10025, delay=1, "
	    "delays=0/0/0.5/0.5, dsn=2.0.0, status=sent (250 ok)\n");
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true, .config =
	    "version = 1; classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );\n" }),
	    EX_OK);
	has("\"destination\": \"b.example\"");
	has("\"destination\": \"d.example\"");
	has("\"destination\": \"[127.0.0.1]:10025\"");
	has("{\"event\": \"destination\", \"line\": null, \"name\": \"d.example\"");
}

/* n deliveries that begin together and take a second, as their lines tell it. */
static void burst(FILE *file, unsigned second, unsigned n, unsigned limit) {
	/* who is refused is told first */
	for (unsigned at = 0; at < n; at++) {
		unsigned i = (at + limit) % n;
		bool refused = i >= limit;

		fprintf(file, "2026-11-21T05:%02u:%02u.%03uZ mx postfix/smtp[7]: %08XA7E: "
		    "to=<u%u@busy.example>, relay=mx.busy.example[192.0.2.7]:25, delay=1, "
		    "delays=0.01/0/%s, dsn=%s, status=%s (host mx.busy.example[192.0.2.7] %s)\n",
		    (second + !refused) / 60, (second + !refused) % 60, i + (refused ? 5 : 0),
		    second * 100 + i, i, refused ? "0.01/0" : "0/1", refused ? "4.7.0" : "2.0.0",
		    refused ? "deferred" : "sent", refused ? "refused to talk to me: 421 too many "
		    "connections" : "said: 250 ok");
	}
}

/* A server that takes five at once, and another that is away. */
TEST(learning) {
	FILE *file = create(path[0]);

	for (unsigned i = 0; i < 400; i += 2)
		burst(file, i, i < 20 ? 5 : 8, 5);
	for (unsigned i = 0; i < 30; i++)
		fprintf(file, "2026-11-21T06:00:%02u.000Z mx postfix/smtp[7]: %08XA7E: "
		    "to=<u@dead.example>, relay=none, delay=1, delays=0.01/0/0.01/0, dsn=4.4.1, "
		    "status=deferred (connect to mx.dead.example[192.0.2.8]:25: Connection refused)\n",
		    i, i);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true }), EX_OK);
	has("\"name\": \"busy.example\", \"law\": \"probe\", \"state\": \"limited\", \"window\": 5, "
	    "\"ceiling\": 5, \"ok\": 1000, \"failed\": 570");
	/* the initial window of 5 fails, then it is suspended, and the rest is held */
	has("\"name\": \"dead.example\", \"law\": \"probe\", \"state\": \"dead\"");
	has("\"ok\": 0, \"failed\": 30, \"suspended\": 0, \"deaths\": 1, \"held\": 25, "
	    "\"saved\": 25, \"delayed\": 0, \"reason\": \"connect to mx.dead.example[192.0.2.8]:25: "
	    "Connection refused\"");
}

/* A log that tells whole seconds, of a server that takes four, a second each: its lines,
 * others between them, are in order, and that is enough. */
TEST(whole_seconds) {
	FILE *file = create(path[0]);
	unsigned ends_ms[4] = { 0, 250, 500, 750 }, id = 0;

	for (unsigned ms = 10; ms < 200000; ms += 10) {
		for (unsigned i = 0; i < 4; i++) {
			if (ends_ms[i] > ms)
				continue;
			if (ends_ms[i] >= 1000)
				fprintf(file, "Nov 21 05:%02u:%02u mx postfix/smtp[%u]: %08XA7E: "
				    "to=<u@coarse.example>, relay=mx.coarse.example[192.0.2.7]:25, "
				    "delay=1, delays=0.01/0/0/1, dsn=2.0.0, status=sent (250 ok)\n",
				    ms / 60000, ms / 1000 % 60, i, id++);
			ends_ms[i] = ms + 1000;
		}
		if (ms % 50 == 20)
			fprintf(file, "Nov 21 05:%02u:%02u mx postfix/qmgr[5]: %08XA7E: removed\n",
			    ms / 60000, ms / 1000 % 60, id);
		/* a fifth, when all four run */
		if (ms >= 20000 && ms % 500 == 50)
			fprintf(file, "Nov 21 05:%02u:%02u mx postfix/smtp[9]: %08XA7E: "
			    "to=<u@coarse.example>, relay=mx.coarse.example[192.0.2.7]:25, "
			    "delay=0.01, delays=0.01/0/0/0, dsn=4.7.0, status=deferred (host "
			    "mx.coarse.example[192.0.2.7] refused to talk to me: 421 4.7.0 too many)\n",
			    ms / 60000, ms / 1000 % 60, id++);
	}
	assert_int_equal(fclose(file), 0);
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true }), EX_OK);
	has("\"name\": \"coarse.example\", \"law\": \"probe\", \"state\": \"limited\"");
	has("\"ceiling\": 4, \"ok\":");
}

TEST(dates) {
	static const char end[] = "mx postfix/smtp[7]: 5C1E9A7E2B8: to=<a@b.example>, relay=none, "
	    "delay=0, status=sent (x)\n";
	FILE *file = create(path[0]);

	fprintf(file, "Dec 31 23:59:59 %sJan  1 00:00:01 %sDec 31 23:59:59 %smx postfix/smtp[7]: x\n",
	    end, end, end);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true, .year = "2023" }), EX_OK);
	has("\"time\": \"2023-12-31T23:59:59\"");
	has("\"time\": \"2024-01-01T00:00:01\"");
	has("\"until\": \"2024-12-31T23:59:59\"");
	assert_int_equal(analyze((struct asked){ .files = 1, .year = "x" }), EX_USAGE);
	assert_int_equal(analyze((struct asked){ .files = 1, .year = "10000" }), EX_USAGE);
}

/* One line stopped the time of all behind it, and its nanoseconds overflowed. */
TEST(a_date_of_the_far_future) {
	static const char end[] = "mx postfix/smtp[7]: 5C1E9A7E2B8: to=<a@b.example>, relay=none, "
	    "delay=0, status=sent (x)\n";
	FILE *file = create(path[0]);

	fprintf(file, "2023-12-31T23:59:59Z %s9999-12-31T23:59:59Z %s2024-01-01T00:00:01Z %s", end,
	    end, end);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true }), EX_OK);
	has("\"deliveries\": 3");
	has("\"until\": \"2024-01-01T00:00:01\"");
	file = create(path[0]);
	fprintf(file, "9999-12-31T23:59:59Z %s2024-01-01T00:00:01Z %s", end, end);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true }), EX_OK);
	has("\"from\": \"2024-01-01T00:00:01\"");
}

static void smtpd(FILE *file, unsigned minute, unsigned second, unsigned pid, const char *what,
    const char *client) {
	fprintf(file, "Nov 21 06:%02u:%02u mx postfix/smtpd[%u]: %s from %s%s\n", minute, second,
	    pid, what, client, what[0] == 'd' ? " ehlo=1 quit=1 commands=2" : "");
}

static void write_sessions(void) {
	FILE *file = create(path[0]);

	/* twelve at once of one domain, three times in a minute */
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 12; i++)
			smtpd(file, 0, 10 * round, 100 + i, "connect", "mx1.big.example[192.0.2.1]");
		for (unsigned i = 0; i < 12; i++)
			smtpd(file, 0, 10 * round + 5, 100 + i, "disconnect",
			    "mx1.big.example[192.0.2.1]");
	}
	/* two at once of somebody else, one process that is used again without an end */
	smtpd(file, 1, 0, 200, "connect", "host.friend.example[198.51.100.1]");
	smtpd(file, 1, 1, 201, "connect", "host.friend.example[198.51.100.1]");
	smtpd(file, 1, 2, 200, "connect", "unknown[203.0.113.9]");
	smtpd(file, 1, 3, 201, "disconnect", "host.friend.example[198.51.100.1]");
	smtpd(file, 1, 4, 200, "disconnect", "unknown[203.0.113.9]");
	/* postscreen: one that passes on, one that does not */
	fputs("Nov 21 06:02:00 mx postfix/postscreen[7]: CONNECT from [203.0.113.8]:111 to "
	    "[192.0.2.9]:25\n"
	    "Nov 21 06:02:00 mx postfix/postscreen[7]: CONNECT from [203.0.113.8]:112 to "
	    "[192.0.2.9]:25\n"
	    "Nov 21 06:02:02 mx postfix/postscreen[7]: PASS OLD [203.0.113.8]:111\n", file);
	smtpd(file, 2, 2, 300, "connect", "late.example[203.0.113.8]");
	fputs("Nov 21 06:02:03 mx postfix/postscreen[7]: DISCONNECT [203.0.113.8]:112\n"
	    "Nov 21 06:02:03 mx postfix/postscreen[7]: NOQUEUE: reject: CONNECT from "
	    "[203.0.113.8]:113: too many connections\n", file);
	smtpd(file, 2, 8, 300, "disconnect", "late.example[203.0.113.8]");
	/* Sendmail, with and without connect lines */
	fputs("Nov 21 06:03:00 mx sendmail[9]: NOQUEUE: connect from [203.0.113.7]\n"
	    "Nov 21 06:03:02 mx sendmail[9]: 6AL5rHTW018202: from=<a@b.example>, size=1, "
	    "daemon=MTA, relay=[203.0.113.7]\n"
	    "Nov 21 06:03:04 mx sendmail[10]: 6AL5rHTW018203: from=<a@b.example>, size=1, "
	    "daemon=MTA, relay=x.example [203.0.113.6]\n"
	    "Nov 21 06:03:04 mx sendmail[11]: 6AL5rHTW018204: from=a, size=1, relay=a@localhost\n",
	    file);
	assert_int_equal(fclose(file), 0);
}

/* Nothing was seen, so that nothing can be recommended. */
TEST(no_limits_of_no_sessions) {
	for (unsigned json = 0; json < 2; json++) {
		const struct asked asked = { .files = 1, .sessions = true, .json = json != 0 };

		scratch_write("one", "");	/* an empty pipe */
		assert_int_equal(analyze(asked), EX_DATAERR);
		assert_string_equal(output, "");
		scratch_write("one", POSTFIX "to=<a@b.example>, relay=none, delay=1, "
		    "delays=1/0/0/0, dsn=4.4.1, status=deferred (no)\n");
		assert_int_equal(analyze(asked), EX_DATAERR);
		assert_string_equal(output, "");
		assert_int_equal(unlink(path[0]), 0);
		assert_int_equal(analyze(asked), EX_NOINPUT);
		assert_string_equal(output, "");
	}
	scratch_write("one", "Nov 21 05:48:22 mx postfix/submission/smtpd[7]: connect from a[192.0.2.1]\n"
	    "Nov 21 05:48:23 mx postfix/submission/smtpd[7]: disconnect from a[192.0.2.1]\n");
	assert_int_equal(analyze((struct asked){ .files = 1, .sessions = true }), EX_OK);
	has("sessions                 1\n");
	has("\n# no sessions on port 25");
	has_not("classes = (");
}

TEST(sessions) {
	struct config_messages messages;
	struct generation *generation;
	char text[4096];

	write_sessions();
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true, .sessions = true }), EX_OK);
	has("{\"event\": \"class\", \"line\": null, \"class\": \"friends\", \"sessions\": 2, "
	    "\"peak\": 2, ");
	has("\"class\": \"everyone\", \"sessions\": 41, \"peak\": 12, ");
	has("\"client\": \"192.0.2.1\", \"name\": \"mx1.big.example\", \"class\": \"everyone\", "
	    "\"sessions\": 36, \"peak\": 12, \"per_minute\": 36, \"seconds\": 5.000, "
	    "\"refused\": 0}");
	/* (8 + 3) / 2 s: the one that was handed over lasted from postscreen's start */
	has("\"client\": \"203.0.113.8\", \"name\": \"late.example\", \"class\": \"everyone\", "
	    "\"sessions\": 2, \"peak\": 2, \"per_minute\": 2, \"seconds\": 5.500, \"refused\": 1}");
	has("\"client\": \"203.0.113.7\", \"name\": null, \"class\": \"everyone\", "
	    "\"sessions\": 1, \"peak\": 1, \"per_minute\": 1, \"seconds\": 2.000");
	has("\"sessions\": 43, \"clients\": 6, \"refused\": 1, \"unended\": 0");
	/* the block is for postern.conf */
	assert_int_equal(analyze((struct asked){ .files = 1, .sessions = true }), EX_OK);
	has("\n\t{ name = \"big.example\"; match = [ \"*.big.example\" ]; ports = [ 25 ];\n"
	    "\t  hold_at = 24; refuse_at = 24; },\n");
	has("\t{ name = \"everyone\"; match = [ \"*\" ]; ports = [ 25 ];\n"
	    "\t  hold_at = 20; refuse_at = 20;\n"
	    "\t  client = { sessions = 5; rate = \"10/1m\"; }; }\n);\n");
	snprintf(text, sizeof(text), "version = 1;\n%s", strstr(output, "classes = ("));
	generation = config_compile_text(text, "proposal", &messages);
	if (generation == NULL)
		fail_msg("%s: %s", text, messages.list[0].text);
	assert_int_equal(generation->class_count, 2);
	config_messages_free(&messages);
	free(generation);
}

/* Who has an address may name it as he likes. */
TEST(names_of_clients) {
	static const char *const names[] = { "\"; };evil.example", "a.b", "..", "x.1", "-", "a",
		"mx.sub.example.co.uk", "MX.Example.COM", "mx.x_y.example", "*.example.net" };
	struct config_messages messages;
	struct generation *generation;
	char text[16384];
	FILE *file = create(path[0]);

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (unsigned j = 0; j < 40; j++) {
			char client[128];

			snprintf(client, sizeof(client), "%s[192.0.2.%u]", names[i], i + 1);
			smtpd(file, i, j, 100 * i + j % 20, j < 20 ? "connect" : "disconnect", client);
		}
	assert_int_equal(fclose(file), 0);
	assert_int_equal(analyze((struct asked){ .files = 1, .sessions = true }), EX_OK);
	has("match = [ \"*.example.co.uk\" ]");
	has("match = [ \"*.example.com\" ]");
	snprintf(text, sizeof(text), "version = 1;\n%s", strstr(output, "classes = ("));
	generation = config_compile_text(text, "proposal", &messages);
	if (generation == NULL)
		fail_msg("%s: %s", text, messages.list[0].text);
	config_messages_free(&messages);
	free(generation);
}

TEST(bad_files) {
	size_t length = 5u << 20;
	char *text = malloc(length);

	assert_non_null(text);
	unlink(path[0]);
	assert_int_equal(analyze((struct asked){ .files = 1 }), EX_NOINPUT);
	snprintf(path[0], sizeof(path[0]), "%s", scratch);
	assert_int_equal(analyze((struct asked){ .files = 1 }), EX_NOINPUT);
	snprintf(path[0], sizeof(path[0]), "%s", scratch_path("one"));
	/* nothing, NULs, a line without an end, and the next one behind it */
	scratch_write("one", "");
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true }), EX_OK);
	has("\"lines\": 0, \"from\": null");
	memset(text, 0, length);
	scratch_write_bytes("one", text, 1000);
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true }), EX_OK);
	has("\"lines\": 1,");
	memset(text, 'x', length);
	text[length - 1] = '\n';
	memcpy(text + length - 200, "\n" POSTFIX "to=<a@b.example>, relay=none, delay=0, status=sent (",
	    sizeof("\n" POSTFIX "to=<a@b.example>, relay=none, delay=0, status=sent (") - 1);
	scratch_write_bytes("one", text, length);
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true }), EX_OK);
	has("\"lines\": 2,");
	has("\"deliveries\": 1,");
	has("\"too_long\": 1,");
	/* what the feed passes over */
	memset(text, 'x', 70000);
	text[70000] = '\n';
	memcpy(text, POSTFIX "to=<a@b.example>, relay=none, delay=0, status=sent (",
	    sizeof(POSTFIX "to=<a@b.example>, relay=none, delay=0, status=sent (") - 1);
	scratch_write_bytes("one", text, 70001);
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true }), EX_OK);
	has("\"deliveries\": 0,");
	has("\"too_long\": 1,");
	scratch_write_bytes("one", "\037\213\b", 3);
	assert_int_equal(analyze((struct asked){ .files = 1, .json = true }), EX_DATAERR);
	scratch_write("one", POSTFIX "to=<a@b.example>, relay=none, delay=0, status=sent (x)\n");
	/* the others are read */
	unlink(path[1]);
	assert_int_equal(analyze((struct asked){ .files = 2, .json = true }), EX_NOINPUT);
	has("\"deliveries\": 1,");
	free(text);
}

TEST_GROUP(make_directory, remove_directory)
