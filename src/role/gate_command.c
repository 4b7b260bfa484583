/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Run the gate's command.
 * MODEL    What is wanted last is run next, so that no queue can grow.  The child
 *          leads a session of its own: what it started is killed with it.  Its
 *          output goes to a pipe that is read when it has ended.
 * ERRORS   A command that fails, cannot be run or is killed is logged with what it
 *          said; nothing else comes of it.  The keeper asks again while the gate
 *          is shut, and what is not said again opens by itself.
 * THREADS  The supervisor's.
 */
#include "role/gate_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "role/spawn.h"
#include "role/supervisor.h"

#define LIFE_NS		(2 * NS_PER_SECOND)
#define APART_NS	NS_PER_SECOND
#define OUTPUT_SHOWN	400
#define PORTS_TEXT	(2 * GENERATION_PORTS_MAX * (int)sizeof("65535"))
#define WORDS		(sizeof(((struct generation *)0)->gate_words) / sizeof(uint32_t))

static const char *word_text(enum gate_word word) {
	return word == GATE_WORD_SHUT ? "shut" : "open";
}

void gate_command_want(struct supervisor *supervisor, enum gate_word word) {
	supervisor->gate.wanted = word;
}

static size_t add_port(char *text, size_t length, uint16_t port) {
	char word[8];
	size_t i = 0, digits;

	snprintf(word, sizeof(word), "%u", port);
	digits = strlen(word);
	while (i < length) {
		size_t end = i + strcspn(text + i, " ");

		if (end - i == digits && memcmp(text + i, word, digits) == 0)
			return length;
		i = end + (text[end] == ' ');
	}
	return text_append(text, PORTS_TEXT, length, "%s%s",
	    length == 0 ? "" : " ", word);
}

/* Service ports: those that are watched and those that classes name. */
static void write_ports(const struct generation *generation, char *text) {
	size_t length = 0;
	uint32_t i;

	text[0] = '\0';
	for (i = 0; i < generation->witness_port_count; i++)
		length = add_port(text, length, generation->witness_ports[i]);
	for (i = 0; i < generation->port_count; i++)
		length = add_port(text, length, generation->ports[i]);
}

static char *variable(const char *name, const char *value) {
	size_t size = strlen(name) + strlen(value) + 2;
	char *text = malloc(size);

	if (text == NULL)
		_exit(EX_OSERR);
	(void)text_append(text, size, 0, "%s=%s", name, value);
	return text;
}

static void leave_parent(int output_fd) {
	int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || setsid() < 0 ||
	    null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 ||
	    dup2(output_fd, STDOUT_FILENO) < 0 ||
	    dup2(output_fd, STDERR_FILENO) < 0 || chdir("/") != 0)
		_exit(EX_OSERR);
	/* all are close-on-exec; should one not be, it stays here */
#ifdef SYS_close_range
	(void)syscall(SYS_close_range, 3U, ~0U, 0U);
#endif
	umask(022);
	spawn_reset_signals();
	(void)signal(SIGPIPE, SIG_DFL);
}

static void run(const struct generation *generation, enum gate_word word,
    int output_fd) __attribute__((noreturn));

static void run(const struct generation *generation, enum gate_word word,
    int output_fd) {
	char *arguments[WORDS + 1] = { NULL };
	char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", locale[] = "LC_ALL=C";
	char ports[PORTS_TEXT], last[8];
	uint32_t i;

	write_ports(generation, ports);
	for (i = 0; i < generation->gate_word_count; i++) {
		arguments[i] = strdup(
		    generation_text(generation, generation->gate_words[i]));
		if (arguments[i] == NULL)
			_exit(EX_OSERR);
	}
	snprintf(last, sizeof(last), "%s", word_text(word));
	arguments[i] = last;
	{
		char *environment[] = { path, locale,
			variable("POSTERN_GATE_PORTS", ports),
			variable("POSTERN_GATE_EXEMPT4", generation_text(generation,
			    generation->gate_exempt4)),
			variable("POSTERN_GATE_EXEMPT6", generation_text(generation,
			    generation->gate_exempt6)),
			NULL };

		leave_parent(output_fd);
		execve(arguments[0], arguments, environment);
	}
	dprintf(STDERR_FILENO, "cannot be run: %s\n", strerror(errno));
	_exit(EX_OSERR);
}

static void start(struct supervisor *supervisor, int64_t now_ns) {
	struct gate_command *gate = &supervisor->gate;
	enum gate_word word = gate->wanted;
	int fds[2];
	pid_t pid;

	gate->wanted = GATE_WORD_NONE;
	gate->started_ns = now_ns;
	if (word != gate->last)
		gate->changed_ns = now_ns;
	gate->last = word;
	if (pipe2(fds, O_CLOEXEC) != 0) {
		log_event(EVENT_GATE_COMMAND, "word=%s text=\"cannot make a pipe: %s\"",
		    word_text(word), strerror(errno));
		return;
	}
	pid = fork();
	if (pid == 0)
		run(supervisor->generation, word, fds[1]);
	close(fds[1]);
	if (pid < 0) {
		log_event(EVENT_GATE_COMMAND, "word=%s text=\"cannot fork: %s\"",
		    word_text(word), strerror(errno));
		close(fds[0]);
		return;
	}
	(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
	gate->pid = pid;
	gate->output_fd = fds[0];
	gate->killed = false;
}

static int64_t due_ns(const struct gate_command *gate) {
	return APART_NS + (gate->wanted != gate->last ? gate->changed_ns
						      : gate->started_ns);
}

void gate_command_turn(struct supervisor *supervisor, int64_t now_ns) {
	struct gate_command *gate = &supervisor->gate;

	if (supervisor->generation->gate_word_count == 0)
		gate->wanted = GATE_WORD_NONE;
	if (gate->pid != 0) {
		if (!gate->killed && now_ns - gate->started_ns >= LIFE_NS) {
			(void)kill(-gate->pid, SIGKILL);
			gate->killed = kill(gate->pid, SIGKILL) == 0;
		}
		return;
	}
	if (gate->wanted != GATE_WORD_NONE && due_ns(gate) <= now_ns)
		start(supervisor, now_ns);
}

int64_t gate_command_next_ns(const struct supervisor *supervisor) {
	const struct gate_command *gate = &supervisor->gate;

	if (gate->pid != 0)
		return gate->killed ? INT64_MAX : gate->started_ns + LIFE_NS;
	return gate->wanted == GATE_WORD_NONE ? INT64_MAX : due_ns(gate);
}

/* The first of what it said, without line ends. */
static void read_output(int fd, char *text, size_t size) {
	ssize_t length = read(fd, text, size - 1);

	text[length > 0 ? length : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

bool gate_command_bury(struct supervisor *supervisor, pid_t pid, int status) {
	struct gate_command *gate = &supervisor->gate;
	char said[OUTPUT_SHOWN], text[OUTPUT_SHOWN];

	if (gate->pid == 0 || gate->pid != pid)
		return false;
	gate->pid = 0;
	read_output(gate->output_fd, said, sizeof(said));
	close(gate->output_fd);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		log_event(EVENT_GATE_COMMAND, "word=%s pid=%ld %s=%d%s text=\"%s\"",
		    word_text(gate->last), (long)pid,
		    WIFEXITED(status) ? "exit" : "signal",
		    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
		    gate->killed ? " killed=yes" : "",
		    log_sentence(text, sizeof(text), said));
	return true;
}

void gate_command_leave(const struct supervisor *supervisor) {
	if (supervisor->gate.pid != 0)
		close(supervisor->gate.output_fd);
}

void gate_command_end(struct supervisor *supervisor) {
	struct gate_command *gate = &supervisor->gate;

	if (gate->pid == 0)
		return;
	(void)kill(-gate->pid, SIGKILL);
	(void)kill(gate->pid, SIGKILL);
	while (waitpid(gate->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(gate->output_fd);
	gate->pid = 0;
}
