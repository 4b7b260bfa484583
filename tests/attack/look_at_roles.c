/* SPDX-License-Identifier: ISC */
/*
 * What somebody with the rights of the roles' user sees of processes that have just been
 * started: tries to read the memory of each new one, to open it, and to trace it, until its
 * standard input ends.  The caller changes the user before.
 *
 *     look_at_roles
 *
 * A line for each that could be looked at; at the end "looks N", those at processes of this
 * user.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BACK	12	/* as many may start within one round */
#define TURNS	50	/* rounds between two looks at standard input */

/* The number that was given to a process last. */
static pid_t last_pid(int fd) {
	char text[128];
	ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
	const char *blank;

	if (length <= 0)
		return 0;
	text[length] = '\0';
	blank = strrchr(text, ' ');
	return blank == NULL ? 0 : (pid_t)strtol(blank, NULL, 10);
}

static void seen(pid_t pid, const char *how) {
	printf("%s %ld\n", how, (long)pid);
	fflush(stdout);
}

/* No address is there: EFAULT is what who may read gets. */
static bool can_read(pid_t pid) {
	char byte;
	struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)1, 1 };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT;
}

static bool can_open(pid_t pid) {
	char path[64], byte;
	bool there;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/mem", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	there = pread(fd, &byte, 1, 1) != 0;	/* one that has ended reads as empty */
	close(fd);
	return there;
}

static bool can_trace(pid_t pid) {
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0)
		return false;
	(void)ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
	(void)waitpid(pid, NULL, __WALL);
	(void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
	return true;
}

/* True: it is this user's. */
static bool look(pid_t pid) {
	if (pid <= 0 || pid == getpid() || pid == getppid() ||
	    (kill(pid, 0) != 0 && errno != EPERM))
		return false;
	if (can_read(pid))
		seen(pid, "read");
	if (can_open(pid))
		seen(pid, "opened");
	if (can_trace(pid))
		seen(pid, "traced");
	return kill(pid, 0) == 0;
}

int main(void) {
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	uint64_t looks = 0;

	if (fd < 0) {
		perror("/proc/loadavg");
		return 1;
	}
	puts("looks");
	fflush(stdout);
	do {
		for (unsigned i = 0; i < TURNS; i++) {
			pid_t last = last_pid(fd);

			for (pid_t pid = last; pid > last - BACK; pid--)
				looks += look(pid);
		}
	} while (poll(&input, 1, 0) == 0);
	printf("looks %" PRIu64 "\n", looks);
	return 0;
}
