/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Tell processes apart by pid and start time.
 * MODEL    /proc/PID/stat: the command stands in parentheses and may hold any
 *          byte, so the fields are counted after the last ')'.
 * THREADS  Any.
 */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"

#define FIELDS_BEFORE_START 19	/* after the state: fields 4 to 22 of proc(5) */

enum look { LIVES, IS_OVER, CANNOT_TELL };

static enum look read_stat(pid_t pid, char *text, size_t size) {
	char path[40];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT || errno == ESRCH ? IS_OVER : CANNOT_TELL;
	length = read(fd, text, size - 1);
	if (length <= 0) {
		bool is_over = length < 0 && errno == ESRCH;

		close(fd);
		return is_over ? IS_OVER : CANNOT_TELL;
	}
	close(fd);
	text[length] = '\0';
	return LIVES;
}

static enum look look_at(pid_t pid, uint64_t *ticks) {
	char text[1024], *at;
	enum look look = read_stat(pid, text, sizeof(text));

	if (look != LIVES)
		return look;
	at = strrchr(text, ')');
	if (at == NULL || at[1] != ' ')
		return CANNOT_TELL;
	if (at[2] == 'Z' || at[2] == 'X')
		return IS_OVER;
	at += 3;
	for (unsigned i = 1; i < FIELDS_BEFORE_START && at != NULL; i++)
		at = strchr(at + 1, ' ');
	*ticks = at == NULL ? 0 : strtoull(at, NULL, 10);
	return *ticks == 0 ? CANNOT_TELL : LIVES;
}

bool process_start_ticks(pid_t pid, uint64_t *ticks) {
	return look_at(pid, ticks) == LIVES;
}

bool process_is_over(pid_t pid, uint64_t start_ticks) {
	uint64_t ticks;

	switch (look_at(pid, &ticks)) {
	case LIVES:
		return ticks != start_ticks;
	case IS_OVER:
		return true;
	case CANNOT_TELL:
		break;
	}
	return false;
}

bool process_is_gone(pid_t pid) {
	uint64_t ticks;

	return look_at(pid, &ticks) == IS_OVER;
}

void process_reset_signals(void) {
	sigset_t none;
	int number;

	for (number = 1; number < NSIG; number++)
		if (number != SIGKILL && number != SIGSTOP)
			(void)signal(number, number == SIGPIPE ? SIG_IGN : SIG_DFL);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

void process_die_with(pid_t parent) {
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 ||
	    getppid() != parent)
		_exit(EX_TEMPFAIL);
}

bool process_await(pid_t pid, int64_t until_ns) {
	for (;;) {
		pid_t ended = waitpid(pid, NULL, WNOHANG);

		if (ended == pid || (ended < 0 && errno != EINTR))
			return true;
		if (clock_now_ns() >= until_ns)
			return false;
		clock_pause(NS_PER_MS);
	}
}
