/* SPDX-License-Identifier: ISC */
/* System calls of which the arguments decide: a role that makes one is ended by SIGSYS. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#define TEST_OWN_MAIN
#include "tests/unit/test.h"
#include "role/confine/sandbox.h"
#include "tests/unit/own_site.h"

#define CLASSES "classes = ( { name = \"all\"; match = \"*\"; hold_at = 9; } );\n"

static char made[128];
static int listener, own_file, lifeline[2];

static int begin(void **state) {
	struct sockaddr_in any = { .sin_family = AF_INET };

	site_open(&site, 64, CLASSES);
	snprintf(made, sizeof(made), "%s/made", site.directory);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	own_file = memfd_create("own", MFD_CLOEXEC);
	return own_file >= 0 && bind(listener, (struct sockaddr *)&any, sizeof(any)) == 0 &&
	    listen(listener, 8) == 0 && pipe2(lifeline, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : -1;
}

static int end(void **state) {
	(void)unlink(made);
	close(own_file);
	close(listener);
	close(lifeline[0]);
	close(lifeline[1]);
	site_close(&site);
	return 0;
}

/* Makes the call in a process that is this role: 0, or the signal that ended it. */
static int signal_of(enum role_kind kind, void (*call)(void)) {
	const struct rlimit none = { 0, 0 };
	struct diag diag;
	uint32_t what;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)setrlimit(RLIMIT_CORE, &none);
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		    sandbox_enter(site.generation, kind, lifeline[1], &what, &diag) != 0 ||
		    (what & ROLE_SANDBOX_CALLS) == 0)
			_exit(99);
		call();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
		skip();
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void handles_sigsys(void) {
	char action[256] = { 0 };

	(void)syscall(SYS_rt_sigaction, SIGSYS | UINT64_C(1) << 32, action, NULL, 8);
}

static void handles_another_signal(void) {
	(void)signal(SIGUSR1, SIG_IGN);
	(void)signal(SIGRTMAX, SIG_IGN);
}

/* The kernel looks at half of the number. */
TEST_IN(begin, end, sigsys_is_not_handled_by_a_number_of_64_bits) {
	assert_int_equal(signal_of(ROLE_KEEPER, handles_sigsys), SIGSYS);
	assert_int_equal(signal_of(ROLE_KEEPER, handles_another_signal), 0);
}

static void makes_set_user_id(void) {
	(void)syscall(SYS_openat, AT_FDCWD, made, O_WRONLY | O_CREAT, 04755);
}

static void turns_set_user_id(void) {
	(void)fchmod(open(made, O_WRONLY | O_CREAT | O_CLOEXEC, 0600), 02755);
}

static void makes_a_file(void) {
	int fd = open(made, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);

	if (fchmod(fd, 0600) != 0)
		_exit(1);
	/* without O_CREAT the mode is anything */
	(void)syscall(SYS_openat, AT_FDCWD, made, O_RDONLY, -1L);
}

TEST_IN(begin, end, no_file_gives_its_user_away) {
	struct stat status;

	assert_int_equal(signal_of(ROLE_KEEPER, makes_set_user_id), SIGSYS);
	assert_int_equal(signal_of(ROLE_KEEPER, turns_set_user_id), SIGSYS);
	assert_int_equal(signal_of(ROLE_KEEPER, makes_a_file), 0);
	assert_int_equal(stat(made, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
}

static void shuts_down(void) {
	(void)shutdown(listener, SHUT_RDWR);
}

static void listens_again(void) {
	(void)listen(listener, 0);
}

#ifndef __i386__	/* where no filter sees which option it is */
static void locks_its_filter(void) {
	static const int on = 1;

	(void)setsockopt(listener, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on));
}

/* Of all addresses: then nobody's connection is taken who has not the key. */
static void sets_a_key(void) {
	const struct tcp_md5sig key = { .tcpm_flags = TCP_MD5SIG_FLAG_PREFIX, .tcpm_keylen = 1,
		.tcpm_addr = { .ss_family = AF_INET } };

	(void)setsockopt(listener, IPPROTO_TCP, TCP_MD5SIG_EXT, &key, sizeof(key));
}
#endif

static void sets_keepalive(void) {
	static const int on = 1, seconds = 9;

	if (setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)) != 0 ||
	    setsockopt(listener, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds)) != 0 ||
	    setsockopt(listener, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds)) != 0 ||
	    setsockopt(listener, IPPROTO_TCP, TCP_KEEPCNT, &seconds, sizeof(seconds)) != 0 ||
	    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
		_exit(1);
}

/* It has the socket from the supervisor, for all that come after it. */
TEST_IN(begin, end, a_listener_is_not_spoiled) {
	assert_int_equal(signal_of(ROLE_POLICY, shuts_down), SIGSYS);
	assert_int_equal(signal_of(ROLE_POLICY, listens_again), SIGSYS);
#ifndef __i386__
	assert_int_equal(signal_of(ROLE_POLICY, locks_its_filter), SIGSYS);
	assert_int_equal(signal_of(ROLE_POLICY, sets_a_key), SIGSYS);
#endif
	assert_int_equal(signal_of(ROLE_POLICY, sets_keepalive), 0);
}

static void sends_a_descriptor(void) {
	const struct msghdr message = { .msg_iovlen = 0 };

	(void)sendmsg(-1, &message, MSG_DONTWAIT);
}

static void sends_many(void) {
	struct mmsghdr messages = { .msg_len = 0 };

	(void)sendmmsg(-1, &messages, 1, MSG_DONTWAIT);
}

/* To a process outside, by which a lock or a listener would outlive the role. */
TEST_IN(begin, end, no_role_sends_a_descriptor) {
	static const enum role_kind kinds[] = { ROLE_POLICY, ROLE_MILTER, ROLE_KEEPER, ROLE_FEED,
		ROLE_QUEUE, ROLE_METRICS, ROLE_CLUSTER };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		assert_int_equal(signal_of(kinds[i], sends_a_descriptor), SIGSYS);
		assert_int_equal(signal_of(kinds[i], sends_many), SIGSYS);
	}
}

static void watches(void) {
	(void)inotify_add_watch(own_file, "/", IN_CREATE);
}

/* What watches it has is root's, and so would be those that it added. */
TEST_IN(begin, end, the_queue_role_uses_up_no_watches_of_root) {
	assert_int_equal(signal_of(ROLE_QUEUE, watches), SIGSYS);
	assert_int_equal(signal_of(ROLE_FEED, watches), 0);
}

static void signals_another(void) {
	(void)fcntl(listener, F_SETOWN, 1);
}

static void locks_by_fcntl(void) {
	struct flock lock = { .l_type = F_RDLCK };

	(void)fcntl(listener, F_SETLK, &lock);
}

/* As on a qf file of Sendmail's, which it has for reading. */
static void locks_what_it_reads(void) {
	(void)flock(listener, LOCK_EX | LOCK_NB);
}

static void locks_its_own(void) {
	struct flock lock = { .l_type = F_WRLCK };

	if (fcntl(own_file, F_OFD_SETLK, &lock) != 0)
		_exit(1);
}

static void does_not_block(void) {
	if (fcntl(listener, F_SETFL, fcntl(listener, F_GETFL) | O_NONBLOCK) != 0 ||
	    fcntl(listener, F_GETFD) < 0)
		_exit(1);
}

/* Of a log that it shares: lines of any length and place are refused then. */
static void writes_directly(void) {
	(void)fcntl(own_file, F_SETFL, O_RDWR | O_DIRECT);
}

TEST_IN(begin, end, a_role_changes_no_flag_but_to_wait) {
	assert_int_equal(signal_of(ROLE_POLICY, writes_directly), SIGSYS);
	assert_int_equal(signal_of(ROLE_POLICY, does_not_block), 0);
}

/* Before Linux 6.12 Landlock does not see signals of a descriptor. */
TEST_IN(begin, end, a_descriptor_signals_and_locks_nobody) {
	assert_int_equal(signal_of(ROLE_QUEUE, signals_another), SIGSYS);
	assert_int_equal(signal_of(ROLE_QUEUE, locks_by_fcntl), SIGSYS);
	assert_int_equal(signal_of(ROLE_QUEUE, locks_what_it_reads), SIGSYS);
	assert_int_equal(signal_of(ROLE_QUEUE, locks_its_own), 0);
	assert_int_equal(signal_of(ROLE_METRICS, locks_its_own), SIGSYS);
	assert_int_equal(signal_of(ROLE_QUEUE, does_not_block), 0);
}

int main(void) {
	if (sandbox_lacks_calls() != NULL) {
		printf("no sandbox here: %s\n", sandbox_lacks_calls());
		return 77;
	}
	return test_run();
}
