/* SPDX-License-Identifier: ISC */
/*
 * The whole machine in virtual time, from one seed: real code of the segment and the engine,
 * several roles that are interrupted, stopped and killed at any load and store, a kernel that
 * lies, mail servers that ask.  The same seed is the same run.
 *
 *	machine [-n SEEDS] [-s FIRST] [-t SECONDS] [-w NAME=NUMBER,...] [-v] [-d] [-k | -1]
 *
 *	Without options: what fits in 15 seconds, from SEED or 1 on, the first of them twice.
 *	-t  ends after so many seconds; -w changes the plan; -v shows the events;
 *	-d  each seed is run twice and must give the same digest; -k  does not shrink, and goes on;
 *	-1  does not shrink, and ends
 */
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/compile/compile.h"
#include "tests/machine/mail.h"
#include "tests/machine/nodes.h"
#include "tests/machine/world.h"

#define SHRINKS_MAX 400
#define SHORT_SEEDS 200
#define TWICE 20
#define SEED_SECONDS 20		/* of the processor: no seed that ends takes one */

static const char classes[] =
    "classes = ( "
    "{ name = \"a\"; match = [ \"*.a\" ]; hold_at = 3; refuse_at = 3; }, "
    "{ name = \"b\"; match = [ \"*.b\" ]; hold_at = 2; refuse_at = 2; action = \"defer\"; }, "
    "{ name = \"o\"; match = [ \"*.o\" ]; hold_at = 1; refuse_at = 1; observe = true; }, "
    "{ name = \"c\"; match = [ \"*.c\" ]; hold_at = 9; refuse_at = 9; rate = \"4/1s\"; "
    "  client = { rate = \"2/1s\"; ipv4 = 32; }; }, "
    "{ name = \"all\"; match = [ \"*\" ]; hold_at = 4; refuse_at = 4; "
    "  client = { sessions = 2; ipv4 = 32; }; } );";

static char directory[64] = "/dev/shm";
static const struct generation *generation;
static const char *change = "";

struct outcome {
	char text[256];		/* "ok DIGEST", or "PROPERTY what was seen" */
	bool failed;
};

int __real_clock_gettime(clockid_t clock, struct timespec *out);

static double real_seconds(void) {
	struct timespec now;

	(void)__real_clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool write_file(const char *path, const char *text) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* Files of the user who runs it are his there, too. */
static bool map_user(uid_t user, gid_t group) {
	char users[64], groups[64];

	snprintf(users, sizeof(users), "%u %u 1", user, user);
	snprintf(groups, sizeof(groups), "%u %u 1", group, group);
	return write_file("/proc/self/uid_map", users) &&
	    write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/gid_map", groups);
}

/* /dev/shm of our own, of which nothing is left whatever ends us.  Where we may have none: a
 * directory there. */
static bool make_directory(void) {
	uid_t user = getuid();
	gid_t group = getgid();

	if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
	    (user == 0 || map_user(user, group)) &&
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("tmpfs", directory, "tmpfs", 0, "size=64m,mode=0700") == 0)
		return true;
	snprintf(directory, sizeof(directory), "/dev/shm/postern-machine-XXXXXX");
	return mkdtemp(directory) != NULL;
}

/* Of the machine, alone; or of one of several. */
static const struct generation *compile(const char *name, const char *settings,
    const char *with_classes) {
	struct config_messages messages = { 0 };
	const struct generation *compiled;
	char text[2048], path[80];

	snprintf(text, sizeof(text), "version = 1;\n"
	    "state = { path = \"%s/%s\"; sessions = \"256\"; destinations = \"256\"; "
	    "classes = \"64\"; accounts = \"64\"; };\n"
	    "listen = { policy = ( { address = \"unix:%s/p\"; } );\n"
	    "  milter = [ \"unix:%s/m\" ]; };\n"
	    "journal = { path = \"%s/journal\"; file_size = \"64k\"; };\n"
	    "window = { suspend = \"1s\"; canary = \"200ms\"; };\n"
	    "%s%s", directory, name, directory, directory, directory, settings, with_classes);
	snprintf(path, sizeof(path), "%s/conf", directory);
	if (!write_file(path, text))
		abort();
	compiled = config_compile(path, &messages);
	if (compiled == NULL) {
		fprintf(stderr, "machine: %s\n", messages.count > 0 ? messages.list[0].text : "?");
		exit(2);
	}
	return compiled;
}

static void compile_all(void) {
	char path[80], mtas[256];

	snprintf(path, sizeof(path), "%s/providers.conf", directory);
	if (!write_file(path, "version = 1;\nreplies = ( { name = \"later\"; match = \"come back later\"; "
	    "action = \"suspend\"; for = \"1s\"; } );\n"))
		abort();
	snprintf(path, sizeof(path), "%s/site", directory);
	if (!write_file(path, MAIL_LANES))
		abort();
	snprintf(mtas, sizeof(mtas), "mta = ( { name = \"" MAIL_MTA "\"; kind = \"postfix\"; "
	    "site = \"%s/site\"; },\n  { name = \"sender\"; kind = \"sendmail\"; } );\n", directory);
	generation = compile("state", mtas, classes);
#ifdef WITH_CLUSTER
	for (unsigned i = 0; i < NODES_MAX; i++) {
		char name[16], settings[512];

		snprintf(name, sizeof(name), i == 0 ? "state" : "state%u", i);
		/* no mail leaves the others */
		nodes_settings(i, directory, i == 0 ? mtas : "", settings, sizeof(settings));
		nodes_configure(i, compile(name, settings, nodes_classes));
	}
#endif
}

static int remove_one(const char *path, const struct stat *status, int what, struct FTW *at) {
	(void)status, (void)what;
	return at->level == 0 ? 0 : remove(path);
}

/* What the run before left there would be adopted. */
static void clear(void) {
	(void)nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* In a process of its own, which begins as all others do. */
static void run(const struct plan *plan, bool tells, struct outcome *outcome) {
	int fds[2], status;
	ssize_t got = 0;
	pid_t pid;

	clear();
	if (pipe(fds) != 0 || (pid = fork()) < 0)
		abort();
	if (pid == 0) {
		(void)setrlimit(RLIMIT_CPU, &(struct rlimit){ SEED_SECONDS, SEED_SECONDS });
		close(fds[0]);
		world_run(plan, generation, tells, fds[1]);
	}
	close(fds[1]);
	memset(outcome, 0, sizeof(*outcome));
	got = read(fds[0], outcome->text, sizeof(outcome->text) - 1);
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid)
		abort();
	if (got <= 0)
		snprintf(outcome->text, sizeof(outcome->text), "crash by signal %d", WTERMSIG(status));
	outcome->text[strcspn(outcome->text, "\n")] = '\0';
	outcome->failed = status != 0;
}

/* Does what failed first fail still? */
static bool fails_alike(const struct plan *plan, const char *property) {
	struct outcome outcome;
	size_t length = strcspn(property, " ");

	run(plan, false, &outcome);
	return outcome.failed && strncmp(outcome.text, property, length + 1) == 0;
}

/* Each number as small as it can be: none, half, one less. */
static void shrink(struct plan *plan, const char *property) {
	unsigned runs = 0;
	bool smaller = true;

	while (smaller && runs < SHRINKS_MAX) {
		smaller = false;
		for (size_t i = 0; i < PLAN_COUNT && runs < SHRINKS_MAX; i++) {
			uint32_t had = *plan_number(plan, i);
			const uint32_t tries[] = { 0, had / 2, had - had / 8, had - 1 };

			for (unsigned k = 0; k < 4 && had > 0; k++) {
				struct plan less = *plan;

				*plan_number(&less, i) = tries[k];
				if (tries[k] == had || !plan_is_sound(&less))
					continue;
				runs++;
				if (!fails_alike(&less, property))
					continue;
				*plan = less;
				smaller = true;
				break;
			}
		}
	}
}

static void report(struct plan plan, const struct outcome *outcome, bool shrinks) {
	struct outcome small;

	printf("seed %llu FAILED: %s\n", (unsigned long long)plan.seed, outcome->text);
	fflush(stdout);
	if (!shrinks)
		return;
	shrink(&plan, outcome->text);
	run(&plan, false, &small);
	printf("shrunk: %s\nagain: tests/sim/machine -n 1 -s %llu -v -w ", small.text,
	    (unsigned long long)plan.seed);
	plan_print(&plan);
	putchar('\n');
}

static bool one_seed(uint64_t seed, bool tells, bool twice, bool shrinks) {
	struct plan plan = plan_of(seed);
	struct outcome outcome, again;

	if (!plan_change(&plan, change)) {
		fprintf(stderr, "machine: -w %s: not understood\n", change);
		exit(2);
	}
	run(&plan, tells, &outcome);
	if (tells)
		printf("%s\n", outcome.text);
	if (!outcome.failed && twice) {
		run(&plan, false, &again);
		if (strcmp(again.text, outcome.text) != 0) {
			snprintf(outcome.text, sizeof(outcome.text), "digest differs: %.50s", again.text);
			report(plan, &outcome, false);
			return false;
		}
	}
	if (outcome.failed)
		report(plan, &outcome, shrinks);
	return !outcome.failed;
}

int main(int argc, char **argv) {
	const char *from = getenv("SEED");
	unsigned long long seeds = argc == 1 ? SHORT_SEEDS : 1000000000, done = 0;
	unsigned long long first = from == NULL ? 1 : strtoull(from, NULL, 10);
	double began, spent, most = 1e18;
	bool tells = false, twice = false, shrinks = true, goes_on = false, good = true;
	int option;

	while ((option = getopt(argc, argv, "n:s:t:w:vdk1")) != -1) {
		switch (option) {
		case 'n': seeds = strtoull(optarg, NULL, 10); break;
		case 's': first = strtoull(optarg, NULL, 10); break;
		case 't': most = strtod(optarg, NULL); break;
		case 'w': change = optarg; break;
		case 'v': tells = true; break;
		case 'd': twice = true; break;
		case 'k': shrinks = !(goes_on = true); break;
		case '1': shrinks = false; break;
		default: return 2;
		}
	}
	if (!make_directory())
		return 1;
	compile_all();
	began = real_seconds();
	for (; (good || goes_on) && done < seeds && real_seconds() - began < most; done++)
		good &= one_seed(first + done, tells, twice || (argc == 1 && done < TWICE), shrinks);
	spent = real_seconds() - began;
	clear();
	(void)rmdir(directory);	/* not a mount */
	printf("%llu seeds from %llu on, %.0f an hour: %s\n", done, first,
	    (double)done * 3600 / spent, good ? "ok" : "FAILED");
	return good ? 0 : 1;
}
