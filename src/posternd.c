/* SPDX-License-Identifier: ISC */
/*
 * posternd: options, the first reading of the configuration, and then the
 * supervisor.  Exit codes are those of sysexits.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

#include "config/compile/compile.h"
#include "role/link/background.h"
#include "role/run/compiler.h"
#include "role/link/generation_memory.h"
#include "role/run/role_begin.h"
#include "role/supervise/supervisor.h"

#ifndef POSTERN_SYSCONFDIR
#define POSTERN_SYSCONFDIR "/etc/postern"
#endif
#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

/* Its roles do on demand what they must not. */
#ifdef POSTERN_FAILPOINTS
#define FAILPOINTS_NOTE	" (failpoints: for tests alone)"
#else
#define FAILPOINTS_NOTE	""
#endif

#ifdef WITH_ACCOUNTS
#define ACCOUNTS_NOTE	""
#else
#define ACCOUNTS_NOTE	" --disable-accounts"
#endif
#ifdef WITH_QUEUE
#define QUEUE_NOTE	""
#else
#define QUEUE_NOTE	" --disable-queue"
#endif
#ifdef WITH_CLUSTER
#define CLUSTER_NOTE	""
#else
#define CLUSTER_NOTE	" --disable-cluster"
#endif
#ifdef WITH_PACE
#define PACE_NOTE	""
#else
#define PACE_NOTE	" --disable-pace"
#endif

struct options {
	const char *config_file;
	bool foreground;
	bool only_test;
};

static const char usage_text[] =
    "usage: posternd [-c FILE] [-f] [-t] [-V] [-h]\n"
    "  -c FILE  configuration, instead of " POSTERN_SYSCONFDIR "/postern.conf\n"
    "  -f       stay in the foreground and log to stderr\n"
    "  -t       check the configuration and stop\n"
    "  -V       print the version and stop\n"
    "  -h       this text\n";

/* `code`, if all output could be written. */
static int finish_output(int code) {
	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	fprintf(stderr, "posternd: the output could not be written: %s\n", strerror(errno));
	return code == EX_OK ? EX_IOERR : code;
}

/* Returns -1 to go on, or an exit code. */
static int parse_options(int argc, char **argv, struct options *options) {
	static const struct option long_options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "c:fhtV", long_options, NULL)) !=
	    -1) {
		switch (option) {
		case 'c':
			if (optarg[0] == '\0') {
				fputs("posternd: -c: the file name is empty\n", stderr);
				return EX_USAGE;
			}
			options->config_file = optarg;
			break;
		case 'f':
			options->foreground = true;
			break;
		case 't':
			options->only_test = true;
			break;
		case 'V':
			puts("posternd " PACKAGE_VERSION FAILPOINTS_NOTE ACCOUNTS_NOTE QUEUE_NOTE
			    CLUSTER_NOTE PACE_NOTE);
			return finish_output(EX_OK);
		case 'h':
			fputs(usage_text, stdout);
			return finish_output(EX_OK);
		default:
			fputs(usage_text, stderr);
			return EX_USAGE;
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "posternd: unexpected argument \"%s\"\n%s", argv[optind],
	    usage_text);
	return EX_USAGE;
}

/* A reload reads the file again, from / by then. */
static char *absolute(const char *path) {
	char directory[PATH_MAX];
	char *result;

	if (path[0] == '/')
		return strdup(path);
	if (getcwd(directory, sizeof(directory)) == NULL ||
	    asprintf(&result, "%s/%s", directory, path) < 0)
		return NULL;
	return result;
}

/* Descriptors 0 to 2 must be taken, or a socket of ours becomes stderr; what
 * else was inherited is nothing that the daemon should keep open. */
static void clean_descriptors(void) {
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (syscall(SYS_close_range, (unsigned)STDERR_FILENO + 1, ~0U, 0U) == 0)
		return;
	for (fd = STDERR_FILENO + 1; fd < (int)sysconf(_SC_OPEN_MAX); fd++)
		(void)close(fd);
}

static int test_configuration(const char *config_file) {
	struct config_messages messages;
	struct generation *generation = config_compile(config_file, &messages);

	config_messages_print(&messages, generation == NULL ? stderr : stdout, "");
	config_messages_free(&messages);
	free(generation);
	return generation == NULL ? EX_CONFIG : finish_output(EX_OK);
}

static int run_daemon(const struct options *options, const char *config_file) {
	struct compiler_report report;
	struct diag diag = { .error = 0 };
	struct generation *generation = compiler_run(config_file, &report, &diag);
	int ready_fd = -1, code = EX_OK;

	if (generation == NULL || !options->foreground)
		config_messages_print(&report.messages, generation == NULL ? stderr : stdout, "");
	if (generation == NULL)
		code = report.messages.errors > 0 ? EX_CONFIG : EX_OSERR;
	else if (!options->foreground && (ready_fd = background_begin(&diag)) < 0)
		code = EX_OSERR;
	if (code == EX_OSERR)
		fprintf(stderr, "posternd: %s\n", diag.text);
	if (code == EX_OK)
		code = supervisor_run(config_file, generation, &report.messages, ready_fd);
	else
		generation_memory_unmap(generation);
	compiler_report_free(&report);
	return code;
}

int main(int argc, char **argv) {
	struct options options = {
		.config_file = POSTERN_SYSCONFDIR "/postern.conf",
	};
	char *config_file;
	int code;

	if (argc == 3 &&
	    strncmp(argv[1], ROLE_BEGIN_OPTION, strlen(ROLE_BEGIN_OPTION)) == 0)
		_exit(role_begin(argv[2]));	/* its memory goes with it */
	code = parse_options(argc, argv, &options);
	if (code >= 0)
		return code;
	clean_descriptors();
	config_file = options.only_test ? strdup(options.config_file) :
	    absolute(options.config_file);
	if (config_file == NULL) {
		fprintf(stderr, "posternd: cannot resolve the path %s: %s\n",
		    options.config_file, strerror(errno));
		return EX_OSERR;
	}
	code = options.only_test ? test_configuration(config_file) : run_daemon(&options, config_file);
	free(config_file);
	return code;
}
