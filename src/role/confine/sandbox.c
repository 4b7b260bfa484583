/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Restrict a role's system calls, with libseccomp.
 * MODEL    An allow list for each kind of role (defs/sandbox.def).  A call that is not in it
 *          raises SIGSYS: a handler sends its number to the supervisor, and the process
 *          dies of the same signal.  The handler cannot be exchanged from inside, and a
 *          SIGSYS that is blocked kills at once.
 * ERRORS   A filter that cannot be loaded is no filter: the role does not start.
 * THREADS  One, which all later ones inherit from.
 */
#include "role/confine/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lifeline.h"
#include "role/confine/sandbox_files.h"

#ifdef HAVE_SECCOMP
#include <seccomp.h>
#endif

/* What isatty() asks of late; <asm/termbits.h>, which has it, cannot stand beside others. */
#define TERMINAL_2	_IOC(_IOC_READ, 'T', 0x2a, 44)

/* The kernel's own O_LARGEFILE, which F_GETFL tells and F_SETFL passes over; the C library's is
 * 0 on 64-bit processors. */
#if defined(__arm__) || defined(__aarch64__)
#define LARGE_FILE	0400000
#elif defined(__powerpc__)
#define LARGE_FILE	0200000
#elif defined(__mips__)
#define LARGE_FILE	0x2000
#else
#define LARGE_FILE	0100000
#endif

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define POSTERN_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define POSTERN_SANITIZED
#endif
#endif

#ifdef HAVE_SECCOMP

enum condition {
	FREELY,
	TO_READ,	/* opened for reading alone */
	NO_SET_ID,	/* no file that gives its user or group away */
	OF_ITS_OWN,	/* fcntl: no locks, no signals to others, no flag but O_NONBLOCK */
	TO_LOCK,	/* fcntl: by a descriptor that allows it */
	OF_A_CONNECTION,	/* setsockopt: what spoils no listener */
	OF_BYTES,	/* ioctl: those that libraries use */
	OF_THIS_HOST,	/* unix sockets */
	TO_REDIS,	/* TCP, to connect */
	NO_CODE,	/* not executable; else EPERM */
	A_THREAD,	/* not a process */
	NOT_SIGSYS,
	OF_ITSELF,	/* no other process */
	A_NAME,		/* prctl: names of threads and memory */
	TO_ASK,		/* not to change */
	AS_UNKNOWN,	/* ENOSYS, as an older kernel says */
};

#define SIGNALS_MOST	64	/* a power of two */

#define BIT(kind)	(1u << (kind))
#define EVERY		UINT32_MAX
#define KEEPER		BIT(ROLE_KEEPER)
#define FEED		BIT(ROLE_FEED)
#define WRITERS		(KEEPER | FEED | BIT(ROLE_QUEUE))
#define READERS		(~WRITERS)
#define THREADED	(WRITERS | BIT(ROLE_MILTER))
#define UNCOMPILING	(~FEED)
/* The cluster role where its Redis is not of this host. */
#define FAR		BIT(ROLE_KINDS)

static const struct call {
	const char *name;
	uint32_t roles;
	enum condition condition;
} calls[] = {
#define CALL(name, roles, condition) { #name, roles, condition },
#include "defs/sandbox.def"
#undef CALL
};

/* The argument of clone that holds its flags. */
#if defined(__s390__) || defined(__CRIS__)
#define CLONE_FLAGS_AT 1
#else
#define CLONE_FLAGS_AT 0
#endif

/* socketcall(2) has the arguments in memory, where no filter sees them. */
#ifdef __i386__
#define SOCKET_ARGUMENTS_SEEN false
#else
#define SOCKET_ARGUMENTS_SEEN true
#endif

static int own_lifeline_fd = -1;

/* Async-signal-safe. */
static void on_sigsys(int number, siginfo_t *info, void *context) {
	(void)context;
	lifeline_stopped(own_lifeline_fd, info->si_syscall);
	/* a forbidden call, with SIGSYS blocked as long as it is handled: that kills */
	(void)signal(number, SIG_DFL);
	(void)raise(number);
	_exit(128 + number);
}

/* All that add rules return 0 or a negative errno. */
static int allow_where(scmp_filter_ctx filter, int number, struct scmp_arg_cmp first) {
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 1, first);
}

static int allow_each(scmp_filter_ctx filter, int number, unsigned argument,
    const uint64_t *values, size_t count) {
	int error = 0;

	for (size_t i = 0; i < count && error == 0; i++)
		error = allow_where(filter, number,
		    SCMP_CMP(argument, SCMP_CMP_EQ, values[i], 0));
	return error;
}

static int add_open(scmp_filter_ctx filter, int number, bool at) {
	static const uint64_t writing = O_ACCMODE | O_CREAT | O_TRUNC;

	return allow_where(filter, number,
	    SCMP_CMP(at ? 2 : 1, SCMP_CMP_MASKED_EQ, writing, O_RDONLY));
}

/* A mode counts where a file may be made. */
static int add_modes(scmp_filter_ctx filter, int number, unsigned mode_at) {
	static const uint64_t making = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);
	int error = allow_where(filter, number,
	    SCMP_CMP(mode_at, SCMP_CMP_MASKED_EQ, S_ISUID | S_ISGID, 0));

	return error != 0 || mode_at == 1 ? error : allow_where(filter, number,
	    SCMP_CMP(mode_at - 1, SCMP_CMP_MASKED_EQ, making, 0));
}

static int add_options(scmp_filter_ctx filter, int number) {
	/* none of a listener's: TCP_MD5SIG would let nobody connect */
	static const uint64_t options[][2] = { { SOL_SOCKET, SO_KEEPALIVE },
		{ SOL_SOCKET, SO_REUSEADDR }, { IPPROTO_TCP, TCP_NODELAY },
		{ IPPROTO_TCP, TCP_KEEPIDLE }, { IPPROTO_TCP, TCP_KEEPINTVL },
		{ IPPROTO_TCP, TCP_KEEPCNT } };
	int error = 0;

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]) && error == 0; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 2,
		    SCMP_CMP(1, SCMP_CMP_EQ, options[i][0], 0),
		    SCMP_CMP(2, SCMP_CMP_EQ, options[i][1], 0));
	return error;
}

static int add_fcntl(scmp_filter_ctx filter, int number) {
	static const uint64_t commands[] = { F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD,
		F_GETFL, F_GET_SEALS };
	static const uint64_t others = ~(uint64_t)(O_ACCMODE | O_NONBLOCK | LARGE_FILE) &
	    UINT32_MAX;
	int error = allow_each(filter, number, 1, commands,
	    sizeof(commands) / sizeof(commands[0]));

	return error != 0 ? error : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 2,
	    SCMP_CMP(1, SCMP_CMP_EQ, F_SETFL, 0),
	    SCMP_CMP(2, SCMP_CMP_MASKED_EQ, others, 0));
}

/* One of its bits is another.  The kernel looks at half of them alone, so "not equal", which
 * compares all, would let SIGSYS through. */
static int add_signals(scmp_filter_ctx filter, int number) {
	int error = 0;

	for (uint64_t bit = 1; bit <= SIGNALS_MOST && error == 0; bit <<= 1)
		error = allow_where(filter, number,
		    SCMP_CMP(0, SCMP_CMP_MASKED_EQ, bit, bit & ~(uint64_t)SIGSYS));
	return error;
}

static int add_code(scmp_filter_ctx filter, int number, bool only_logs) {
	int error = allow_where(filter, number, SCMP_CMP(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));

	return error != 0 || only_logs ? error : seccomp_rule_add(filter,
	    SCMP_ACT_ERRNO(EPERM), number, 1,
	    SCMP_CMP(2, SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
}

static int add_tcp(scmp_filter_ctx filter, int number) {
	static const uint64_t families[] = { AF_INET, AF_INET6 };
	static const uint64_t types = ~(uint64_t)(SOCK_NONBLOCK | SOCK_CLOEXEC) & UINT32_MAX;
	int error = 0;

	for (size_t i = 0; i < 2 && error == 0; i++)
		error = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 2,
		    SCMP_CMP(0, SCMP_CMP_EQ, families[i], 0),
		    SCMP_CMP(1, SCMP_CMP_MASKED_EQ, types, SOCK_STREAM));
	return error;
}

static int add_call(scmp_filter_ctx filter, const struct call *call, int number,
    bool only_logs) {
	static const uint64_t byte_requests[] = { FIONREAD, FIONBIO, TCGETS,
		TERMINAL_2 };
	static const uint64_t naming[] = { PR_SET_NAME, PR_GET_NAME, PR_SET_VMA };
	uint64_t self = (uint64_t)getpid();
	enum condition condition = call->condition;

	if (!SOCKET_ARGUMENTS_SEEN && (condition == OF_A_CONNECTION ||
	    condition == OF_THIS_HOST || condition == TO_REDIS))
		condition = FREELY;
	switch (condition) {
	case FREELY:
		return seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	case NO_SET_ID:
		return add_modes(filter, number, strcmp(call->name, "openat") == 0 ? 3 :
		    strcmp(call->name, "open") == 0 ? 2 : 1);
	case OF_ITS_OWN:
		return add_fcntl(filter, number);
	case TO_LOCK:
		return allow_where(filter, number, SCMP_CMP(1, SCMP_CMP_EQ, F_OFD_SETLK, 0));
	case OF_A_CONNECTION:
		return add_options(filter, number);
	case TO_READ:
		return add_open(filter, number, strcmp(call->name, "openat") == 0);
	case OF_BYTES:
		return allow_each(filter, number, 1, byte_requests,
		    sizeof(byte_requests) / sizeof(byte_requests[0]));
	case OF_THIS_HOST:
		return allow_where(filter, number, SCMP_CMP(0, SCMP_CMP_EQ, AF_UNIX, 0));
	case TO_REDIS:
		return add_tcp(filter, number);
	case NO_CODE:
		return add_code(filter, number, only_logs);
	case A_THREAD:
		return allow_where(filter, number, SCMP_CMP(CLONE_FLAGS_AT,
		    SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
	case NOT_SIGSYS:
		return add_signals(filter, number);
	case OF_ITSELF:
		return allow_where(filter, number, SCMP_CMP(0, SCMP_CMP_EQ, self, 0));
	case A_NAME:
		return allow_each(filter, number, 0, naming, sizeof(naming) / sizeof(naming[0]));
	case TO_ASK:
		return allow_where(filter, number, SCMP_CMP(2, SCMP_CMP_EQ, 0, 0));
	case AS_UNKNOWN:
		return seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), number, 0);
	}
	return -EINVAL;
}

/* What this kernel does not have (an old name, another processor's) is no error. */
static int add_calls(scmp_filter_ctx filter, uint32_t roles, bool only_logs,
    struct diag *diag) {
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		int number = seccomp_syscall_resolve_name(calls[i].name), error;

		if ((calls[i].roles & roles) == 0 || number == __NR_SCMP_ERROR)
			continue;
		error = add_call(filter, &calls[i], number, only_logs);
		if (error != 0 && error != -EDOM && number >= 0)
			return diag_set(diag, -error, "no rule for system call %s",
			    calls[i].name);
	}
	return 0;
}

static int load_filter(uint32_t roles, bool only_logs, struct diag *diag) {
	scmp_filter_ctx filter = seccomp_init(only_logs ? SCMP_ACT_LOG : SCMP_ACT_TRAP);
	int error;

	if (filter == NULL)
		return diag_set(diag, 0, "libseccomp cannot create a filter");
	/* the way round by another processor's calls */
	(void)seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH,
	    only_logs ? SCMP_ACT_LOG : SCMP_ACT_KILL_PROCESS);
#if SCMP_VER_MAJOR * 100 + SCMP_VER_MINOR >= 205
	(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
#endif
	if (add_calls(filter, roles, only_logs, diag) != 0) {
		seccomp_release(filter);
		return -1;
	}
	error = seccomp_load(filter);
	seccomp_release(filter);
	return error == 0 ? 0 : diag_set(diag, -error, "the kernel refuses the filter");
}

static int restrict_calls(const struct generation *generation, enum role_kind kind,
    bool only_logs, int lifeline_fd, struct diag *diag) {
	bool is_far = kind == ROLE_CLUSTER && sandbox_port(generation) != 0;
	struct sigaction action = { .sa_sigaction = on_sigsys,
		.sa_flags = SA_SIGINFO };

	own_lifeline_fd = lifeline_fd;
	sigemptyset(&action.sa_mask);
	if (!only_logs && sigaction(SIGSYS, &action, NULL) != 0)
		return diag_set(diag, errno, "cannot handle SIGSYS");
	return load_filter(BIT(kind) | (is_far ? FAR : 0), only_logs, diag);
}

const char *sandbox_call_name(int call) {
	static char name[64];
	char *found = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);

	if (found == NULL)
		snprintf(name, sizeof(name), "%d", call);
	else
		snprintf(name, sizeof(name), "%s", found);
	free(found);
	return name;
}

const char *sandbox_lacks_calls(void) {
#ifdef POSTERN_SANITIZED
	return "this build has sanitizers, which make other system calls";
#else
	/* with filters it looks for one at NULL; without, it knows no such mode */
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) != 0 && errno == EFAULT)
		return NULL;
	return "the kernel has no seccomp filters";
#endif
}

#else /* no libseccomp */

static int restrict_calls(const struct generation *generation, enum role_kind kind,
    bool only_logs, int lifeline_fd, struct diag *diag) {
	(void)generation, (void)kind, (void)only_logs, (void)lifeline_fd;
	return diag_set(diag, 0, "%s", sandbox_lacks_calls());
}

const char *sandbox_call_name(int call) {
	static char name[16];

	snprintf(name, sizeof(name), "%d", call);
	return name;
}

const char *sandbox_lacks_calls(void) {
	return "this build has no libseccomp";
}

#endif

const char *sandbox_lacks_files(void) {
#ifdef POSTERN_SANITIZED
	return "this build has sanitizers, which open other files";
#else
	return sandbox_files_can() ? NULL : "the kernel has no Landlock";
#endif
}

int sandbox_enter(const struct generation *generation, enum role_kind kind,
    int lifeline_fd, uint32_t *what, struct diag *diag) {
	bool only_logs = generation->sandbox == SANDBOX_LOG;

	*what = 0;
	if (generation->sandbox == SANDBOX_OFF)
		return 0;
	if (sandbox_lacks_files() == NULL && !only_logs) {
		if (sandbox_files_restrict(generation, kind, diag) != 0)
			return -1;
		*what |= ROLE_SANDBOX_FILES;
	}
	if (sandbox_lacks_calls() != NULL)
		return generation->sandbox != SANDBOX_REQUIRED ? 0 :
		    diag_set(diag, 0, "sandbox is required, but %s", sandbox_lacks_calls());
	if (restrict_calls(generation, kind, only_logs, lifeline_fd, diag) != 0)
		return -1;
	*what |= only_logs ? ROLE_SANDBOX_LOG : ROLE_SANDBOX_CALLS;
	return 0;
}
