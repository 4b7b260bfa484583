/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  postern-lookup(8): a socketmap on the standard streams, started by
 *          Postfix's spawn(8), that tells its queue manager which mail to hold, and
 *          by which lanes the rest goes; and of address verification probes, which are
 *          held, and which next hop the rest has in their lane.
 * MODEL    One question, one answer, in their order, however they arrive.  It
 *          reads two files: no daemon, no configuration, no socket.  The hints file,
 *          which a role of the daemon can write, says whether mail is held, until when,
 *          and by which lane it goes; that the lane is one, and where it leads, says the
 *          site's file, which is root's.
 * ERRORS   Mail must go: whatever is in doubt is NOTFOUND.  What is no socketmap
 *          request ends the program (Postfix starts another).  Nothing may be
 *          written to stderr behind spawn(8): it is the same stream.
 * THREADS  One.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <syslog.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "config/generation/site_routes.h"
#include "segment/hints/hints.h"
#include "wire/ask/socketmap.h"

#define MAP_NAME	"transport"
#define PROBE_MAP	"probe"
#define PROBE_LANE	"postern-probe"
#define INPUT_BYTES	(SOCKETMAP_REQUEST_MAX + 16)	/* and length, colon, comma */

struct lookup {
	struct hints_reader *reader;	/* NULL: everything is NOTFOUND */
	struct site_routes *site;	/* NULL: no lanes */
	const char *mta;
};

static bool is_map(const struct socketmap_request *request, const char *name) {
	return request->map_length == strlen(name) &&
	    memcmp(request->map, name, request->map_length) == 0;
}

/* Where the lane leads, says root's file; "lane5:" alone: where the mail exchangers do.  Mail
 * with one next hop shares its lanes, and which these are only a key tells. */
static bool lane_text(const struct lookup *lookup, const struct hints_answer *hint,
    int64_t now_ns, char *text, size_t size) {
	static bool is_logged;
	const char *next_hop = lookup->site == NULL ? NULL : site_routes_next_hop(lookup->site,
	    hint->domain, strlen(hint->domain), hint->width, now_ns);
	const char *transport = next_hop == NULL ? "" : site_routes_transport(lookup->site,
	    hint->domain, strlen(hint->domain), now_ns);

	if (lookup->site != NULL && !site_routes_usable(lookup->site) && !is_logged) {
		syslog(LOG_WARNING, "no lanes: the site file is missing, has errors, is not "
		    "owned by root, or is not readable for this user");
		is_logged = true;
	}
	return next_hop != NULL && (!hint->unknown || *next_hop == '\0') &&
	    (size_t)snprintf(text, size, "lane%u%s%s:%s", hint->width,
	    *transport != '\0' ? "-" : "", transport, next_hop) < size;
}

/* It is for logs: one line, whatever stood in the file. */
static void held_text(struct hints_answer *hint, char *text, size_t size) {
	for (char *at = hint->text; *at != '\0'; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	snprintf(text, size, "retry:4.7.1 %s", hint->text);
}

/* The domain of the key in lower case, without a dot at its end; 0: the key is no address, or it is
 * too long. */
static size_t domain_of(const struct socketmap_request *request, char out[HINTS_NAME_MAX + 1]) {
	const char *at = memrchr(request->key, '@', request->key_length);
	size_t length = at == NULL ? 0 :
	    request->key_length - (size_t)(at + 1 - request->key);

	if (length == 0 || length > HINTS_NAME_MAX)
		return 0;
	text_lower(out, at + 1, length);
	length -= out[length - 1] == '.';
	out[length] = '\0';
	return length;
}

/* By which name the hints know the mail server, or the transport that the site's file names for
 * the address: "MTA/TRANSPORT". */
static const char *row_of(const struct lookup *lookup, const struct socketmap_request *request,
    int64_t now_ns, char *out, size_t size) {
	char domain[HINTS_NAME_MAX + 1];
	size_t length = lookup->site == NULL ? 0 : domain_of(request, domain);
	const char *transport;

	if (length == 0 || !site_is_host_name(domain, length))
		return lookup->mta;
	transport = site_routes_transport(lookup->site, domain, length, now_ns);
	if (*transport == '\0' ||
	    (size_t)snprintf(out, size, "%s/%s", lookup->mta, transport) >= size)
		return lookup->mta;
	return out;
}

/* Where the site names the next hop of the domain, its own answer would lead past the lane. */
static bool probe_text(const struct lookup *lookup, const struct socketmap_request *request,
    int64_t now_ns, char *text, size_t size) {
	char domain[HINTS_NAME_MAX + 1];
	size_t length = lookup->site == NULL ? 0 : domain_of(request, domain);
	const char *next_hop = length == 0 ? NULL :
	    site_routes_probe_hop(lookup->site, domain, length, now_ns);

	return next_hop != NULL &&
	    (size_t)snprintf(text, size, PROBE_LANE ":%s", next_hop) < size;
}

static size_t answer_probe(const struct lookup *lookup, const struct socketmap_request *request,
    char out[SOCKETMAP_REPLY_MAX]) {
	struct hints_answer hint = { .kind = HINTS_NOTHING };
	char text[sizeof(hint.text) + HINTS_NAME_MAX + 32], row[HINTS_NAME_MAX + 1];
	int64_t now_ns = clock_now_ns();

	if (lookup->reader == NULL)
		return socketmap_reply(out, SOCKETMAP_NOTFOUND, "");
	hints_reader_ask(lookup->reader, row_of(lookup, request, now_ns, row, sizeof(row)),
	    request->key, request->key_length, true, now_ns, &hint);
	if (hint.kind == HINTS_HELD)
		held_text(&hint, text, sizeof(text));
	else if (!probe_text(lookup, request, now_ns, text, sizeof(text)))
		return socketmap_reply(out, SOCKETMAP_NOTFOUND, "");
	return socketmap_reply(out, SOCKETMAP_OK, text);
}

static bool is_transport(const char *transport, uint64_t which) {
	return hints_transport(transport) == which;
}

static bool site_has_transport(const void *context, uint64_t transport) {
	return site_routes_source(context, is_transport, transport) != NULL;
}

/* The transport that the hints mean is root's word, as its next hop is. */
static bool source_text(const struct lookup *lookup, const struct hints_answer *hint,
    int64_t now_ns, char *text, size_t size) {
	const char *next_hop = site_routes_source_hop(lookup->site, hint->domain,
	    strlen(hint->domain), now_ns);
	const char *transport = site_routes_source(lookup->site, is_transport, hint->transport);

	return next_hop != NULL && transport != NULL &&
	    (size_t)snprintf(text, size, "%s:%s", transport, next_hop) < size;
}

/* Does the site leave this mail to sources that are warmed up, where there are any? */
static void allow_sources(const struct lookup *lookup, const struct socketmap_request *request,
    int64_t now_ns) {
	char domain[HINTS_NAME_MAX + 1];
	size_t length;

	if (lookup->site == NULL || !site_routes_has_sources(lookup->site))
		return;
	length = domain_of(request, domain);
	if (length > 0 && site_routes_source_hop(lookup->site, domain, length, now_ns) != NULL)
		hints_reader_allow_sources(lookup->reader, site_has_transport, lookup->site);
}

static void tell_missing(const struct hints_reader *reader) {
	static bool is_logged;

	if (is_logged || !hints_reader_lacks_numbers(reader))
		return;
	syslog(LOG_WARNING, "no mail by sources: the file of their numbers (.given beside the hints "
	    "file) is missing, or this user, who must be in hints.group, cannot write it");
	is_logged = true;
}

static size_t answer(const struct lookup *lookup,
    const struct socketmap_request *request, char out[SOCKETMAP_REPLY_MAX]) {
	struct hints_answer hint = { .kind = HINTS_NOTHING };
	char text[sizeof(hint.text) + HINTS_NAME_MAX + 64], row[HINTS_NAME_MAX + 1];
	int64_t now_ns = clock_now_ns();

	if (is_map(request, PROBE_MAP))
		return answer_probe(lookup, request, out);
	if (lookup->reader != NULL && is_map(request, MAP_NAME)) {
		const char *name = row_of(lookup, request, now_ns, row, sizeof(row));

		allow_sources(lookup, request, now_ns);
		hints_reader_ask(lookup->reader, name, request->key, request->key_length, false,
		    now_ns, &hint);
		tell_missing(lookup->reader);
	}
	switch (hint.kind) {
	case HINTS_LANE:
		if (!lane_text(lookup, &hint, now_ns, text, sizeof(text)))
			break;
		return socketmap_reply(out, SOCKETMAP_OK, text);
	case HINTS_SOURCE:
		if (!source_text(lookup, &hint, now_ns, text, sizeof(text)))
			break;
		return socketmap_reply(out, SOCKETMAP_OK, text);
	case HINTS_HELD:
		held_text(&hint, text, sizeof(text));
		return socketmap_reply(out, SOCKETMAP_OK, text);
	case HINTS_NOTHING:
		break;
	}
	return socketmap_reply(out, SOCKETMAP_NOTFOUND, "");
}

static bool write_all(const char *data, size_t length) {
	while (length > 0) {
		ssize_t written = write(STDOUT_FILENO, data, length);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return false;
		data += written;
		length -= (size_t)written;
	}
	return true;
}

/* Answers every whole request of the input and moves the rest to its start.
 * EX_OK: go on. */
static int answer_all(const struct lookup *lookup, char *input, size_t *length) {
	struct socketmap_request request;
	struct socketmap_error error;
	char out[SOCKETMAP_REPLY_MAX];
	size_t used = 0;
	long taken;

	while ((taken = socketmap_parse(input + used, *length - used, &request,
		    &error)) > 0) {
		if (!write_all(out, answer(lookup, &request, out)))
			return EX_IOERR;
		used += (size_t)taken;
	}
	if (taken < 0) {
		syslog(LOG_WARNING, "not a socketmap request: %s", error.reason);
		return EX_PROTOCOL;
	}
	memmove(input, input + used, *length - used);
	*length -= used;
	return EX_OK;
}

static int serve(const struct lookup *lookup) {
	static char input[INPUT_BYTES];
	size_t length = 0;
	int code = EX_OK;

	while (code == EX_OK) {
		ssize_t got = read(STDIN_FILENO, input + length,
		    sizeof(input) - length);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got == 0 ? EX_OK : EX_IOERR;
		length += (size_t)got;
		code = answer_all(lookup, input, &length);
	}
	return code;
}

static void help(FILE *out) {
	fputs("Usage: postern-lookup HINTS-FILE MTA-NAME [SITE-FILE]\n\n"
	      "Answers Postfix's queue manager over its standard streams: see\n"
	      "postern-lookup(8) and posternctl postfix-lanes.\n", out);
}

/* A mistake in master.cf must not stop the mail. */
static int wrong_usage(void) {
	static const struct lookup nothing = { .reader = NULL };
	struct stat status;

	if (fstat(STDIN_FILENO, &status) == 0 && S_ISSOCK(status.st_mode)) {
		syslog(LOG_ERR, "wrong arguments in master.cf: no mail is held");
		return serve(&nothing);
	}
	help(stderr);
	return EX_USAGE;
}

int main(int argc, char **argv) {
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	char site[PATH_MAX];
	struct lookup lookup;
	int option, code;

	signal(SIGPIPE, SIG_IGN);
	openlog("postern-lookup", LOG_PID | LOG_NDELAY, LOG_MAIL);
	opterr = 0;
	while ((option = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (option) {
		case 'h':
			help(stdout);
			return EX_OK;
		case 'V':
			puts("postern-lookup " PACKAGE_VERSION);
			return EX_OK;
		default:
			return wrong_usage();
		}
	}
	if (argc - optind != 2 && argc - optind != 3)
		return wrong_usage();
	lookup = (struct lookup){ .reader = hints_reader_open(argv[optind]),
		.mta = argv[optind + 1] };
	snprintf(site, sizeof(site), POSTERN_LOCALSTATEDIR "/lib/postern/%s.site", lookup.mta);
	lookup.site = site_routes_open(argc - optind == 3 ? argv[optind + 2] : site, lookup.mta);
	hints_reader_outlive_cuts();
	code = serve(&lookup);
	site_routes_close(&lookup.site);
	hints_reader_close(&lookup.reader);
	return code;
}
