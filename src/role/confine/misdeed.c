/* SPDX-License-Identifier: ISC */
/* What comes of it is told to stderr: "misdeed=NAME result=N errno=E".  Bare system calls
 * in a signal handler, as code that was brought in would make them. */
#include "role/confine/misdeed.h"

#ifdef POSTERN_FAILPOINTS

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static long do_execve(void) {
	char *const none[] = { NULL };

	return execve("/bin/true", none, none);
}

static long do_fork(void) {
	return syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static long do_ptrace(void) {
	return ptrace(PTRACE_ATTACH, getppid(), NULL, NULL);
}

static long do_memory(void) {
	char byte;
	const struct iovec here = { &byte, 1 }, there = { &byte, 1 };

	return process_vm_readv(getppid(), &here, 1, &there, 1, 0);
}

static long do_inet(void) {
	return socket(AF_INET, SOCK_STREAM, 0);
}

static long do_netlink(void) {
	return socket(AF_NETLINK, SOCK_RAW, 0);
}

static long do_kill(void) {
	return kill(getppid(), SIGTERM);
}

/* Every process that it may signal: the other roles are of its user. */
static long do_kill_others(void) {
	return kill(-1, SIGKILL);
}

static long do_setuid(void) {
	return setuid(0);
}

static long do_mount(void) {
	return mount("none", "/mnt", "tmpfs", 0, NULL);
}

static long do_chmod(void) {
	return chmod("/etc/passwd", 0666);
}

static long do_chown(void) {
	return chown("/etc/passwd", getuid(), getgid());
}

static long do_unshare(void) {
	return syscall(SYS_unshare, 0x10000000);	/* CLONE_NEWUSER */
}

static long do_bpf(void) {
	return syscall(SYS_bpf, 0, NULL, 0);
}

static long do_io_uring(void) {
	return syscall(425, 8, NULL);			/* io_uring_setup */
}

static long do_keyctl(void) {
	return syscall(SYS_keyctl, 0, -3, 1);		/* the session's keyring, made if need be */
}

static long do_ignore_sigsys(void) {
	return signal(SIGSYS, SIG_IGN) == SIG_ERR ? -1 : 0;
}

static long do_code(void) {
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? -1 : 0;
}

static long do_passwd(void) {
	return open("/etc/passwd", O_RDONLY);
}

static long do_home(void) {
	return open("/home", O_RDONLY | O_DIRECTORY);
}

static long do_spool(void) {
	return open("/var/spool", O_RDONLY | O_DIRECTORY);
}

static long do_write(void) {
	return open("/tmp/misdeed", O_WRONLY | O_CREAT, 0600);
}

/* Where the state is mapped, and its path in `path`; NULL: nowhere. */
static void *find_state(char path[256]) {
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], mark;
	void *begin = NULL;

	if (maps == NULL)
		return NULL;
	/* "begin-end rw-s offset device inode path": its first pages are not of the file */
	while (begin == NULL && fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%p-%*x %*2c%*c%c %*s %*s %*s %255s", &begin, &mark, path) != 3 ||
		    mark != 's' || strlen(path) < 6 ||
		    strcmp(path + strlen(path) - 6, "/state") != 0)
			begin = NULL;
	(void)fclose(maps);
	return begin;
}

static long do_state(void) {
	char path[256];

	return find_state(path) == NULL ? 0 : open(path, O_RDWR);
}

static long do_remap(void) {
	char path[256];
	void *begin = find_state(path);

	return begin == NULL ? 0 : mprotect(begin, 4096, PROT_READ | PROT_WRITE);
}

/* Where somebody listens who is no Redis. */
static long do_connect(void) {
	const struct sockaddr_in other = { .sin_family = AF_INET, .sin_port = htons(9),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return fd < 0 ? -1 : connect(fd, (const struct sockaddr *)&other, sizeof(other));
}

/* The call that could send descriptors. */
static long do_sendmsg(void) {
	const struct msghdr message = { .msg_iovlen = 0 };

	return sendmsg(-1, &message, MSG_DONTWAIT);
}

static const struct misdeed {
	const char *name;
	long (*act)(void);
} misdeeds[] = {
	/* in the order of tests/mta/test_sandbox.py */
	{ "passwd", do_passwd }, { "write", do_write }, { "code", do_code },
	{ "execve", do_execve }, { "clone", do_fork }, { "ptrace", do_ptrace },
	{ "process_vm_readv", do_memory }, { "socket", do_inet }, { "socket", do_netlink },
	{ "kill", do_kill }, { "setuid", do_setuid }, { "mount", do_mount },
	{ "chmod", do_chmod }, { "chown", do_chown }, { "unshare", do_unshare },
	{ "bpf", do_bpf }, { "io_uring_setup", do_io_uring },
	{ "rt_sigaction", do_ignore_sigsys }, { "connect", do_connect },
	{ "keyctl", do_keyctl }, { "sendmsg", do_sendmsg }, { "state", do_state },
	{ "remap", do_remap }, { "home", do_home }, { "spool", do_spool },
	{ "kill", do_kill_others },
};

static void on_signal(int number, siginfo_t *info, void *context) {
	unsigned which = (unsigned)info->si_value.sival_int;
	int kept = errno;
	char text[100];
	long result;

	(void)number, (void)context;
	if (which >= sizeof(misdeeds) / sizeof(misdeeds[0]))
		return;
	errno = 0;
	result = misdeeds[which].act();
	snprintf(text, sizeof(text), "misdeed=%s result=%ld errno=%d pid=%d\n",
	    misdeeds[which].name, result, errno, (int)getpid());
	(void)!write(STDERR_FILENO, text, strlen(text));
	errno = kept;
}

void misdeed_listen(void) {
	struct sigaction action = { .sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART };

	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGUSR2, &action, NULL);
}

#else

/* ISO C wants something in each file. */
extern int misdeed_unused;

#endif
