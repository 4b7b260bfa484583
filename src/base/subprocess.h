/* SPDX-License-Identifier: ISC */
/*
 * Other programs: an argument list, no shell, an environment of its own making, no descriptor
 * of ours but those that are given.  One thread (fork).
 */
#ifndef BASE_SUBPROCESS_H
#define BASE_SUBPROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#define SUBPROCESS_OUTPUT_MAX	65536	/* that is kept; a write of more fails */
#define SUBPROCESS_SAID_MAX	400

/* What its output goes to, where nothing else is given. */
#define SUBPROCESS_KEPT		(-1)	/* its output is kept: subprocess_bury returns a line */
#define SUBPROCESS_NULL		(-2)	/* /dev/null */

struct subprocess;
struct subprocess_end;

/* What its owner hears of one that stands in a list. */
struct subprocess_calls {
	void (*ended)(void *owner, struct subprocess *child, const struct subprocess_end *end);
	void (*late)(void *owner, const struct subprocess *child);	/* its time is over: it is
									 * ended; or NULL */
	const char *except;	/* of what it wrote, no line that has these words; or NULL */
};

LIST_HEAD(subprocess_list, subprocess);

struct subprocess_program {
	const char *path;	/* or NULL: arguments[0] */
	const char *const *arguments;	/* ends with NULL */
	const char *const *variables;	/* up to 12 "NAME=value" besides PATH and LC_ALL, then
					 * NULL; or NULL */
	const char *user;	/* for its groups, or NULL: it has none but gid */
	uid_t uid;
	gid_t gid;
	bool drop;		/* it runs as these; else as we do */
	bool outlives_us;	/* else it dies with us */
	int64_t life_ns;	/* it is ended after so long */
	int64_t grace_ns;	/* from SIGTERM to SIGKILL; 0: there is no SIGTERM */
	int stdin_fd;		/* the caller's, or 0: /dev/null */
	int stdout_fd, stderr_fd;	/* the caller's, or as above */
	const char *directory;	/* or NULL: / */
	struct subprocess_list *list;	/* that it stands in until it is buried; or NULL */
	const struct subprocess_calls *calls;	/* with list */
	void *owner;
};

struct subprocess {
	pid_t pid;		/* 0: none runs */
	int error_fd;		/* an errno comes by it if it cannot be executed */
	int output_fd;		/* what it wrote, in memory; or -1 */
	int64_t ends_ns;	/* when it is ended */
	int64_t grace_ns;
	bool ending;		/* its time was over: it was sent a signal */
	bool outlives_us;
	LIST_ENTRY(subprocess) listed;
	const struct subprocess_calls *calls;	/* NULL: it stands in no list */
	void *owner;
};

enum subprocess_how { SUBPROCESS_EXIT, SUBPROCESS_SIGNAL, SUBPROCESS_NOT_RUN };
struct subprocess_end {
	enum subprocess_how how;
	int number;		/* exit code, signal, errno */
	int status;		/* as waitpid(2) has it */
	pid_t pid;
	bool killed;		/* its time was over */
	char said[SUBPROCESS_SAID_MAX];	/* the first line that it wrote, or why it was not run */
};

/* In memory, and never larger than `size`; or -1 with errno. */
int subprocess_file(size_t size);

/* Its session is its own: what it starts is killed with it.  0, or -1 with errno: nothing runs,
 * and *child is as before. */
int subprocess_start(struct subprocess *child, const struct subprocess_program *program,
    int64_t now_ns);

/* Ends it when its time is over.  True: it was told so just now. */
bool subprocess_turn(struct subprocess *child, int64_t now_ns);
/* It was waited for.  `except`: no line that has these words, or NULL. */
void subprocess_bury(struct subprocess *child, int status, const char *except,
    struct subprocess_end *end);
/* For the log: `pid=7 exit=1 text="cannot ..."`, or signal=9 killed=yes. */
#define SUBPROCESS_END_TEXT_MAX	(2 * SUBPROCESS_SAID_MAX)
const char *subprocess_end_text(const struct subprocess_end *end,
    char out[SUBPROCESS_END_TEXT_MAX]);

/* As subprocess_turn, for all in a list; when there is something to do, or INT64_MAX; as
 * subprocess_bury: false, the child is none of these. */
void subprocess_list_turn(struct subprocess_list *list, int64_t now_ns);
int64_t subprocess_list_next_ns(const struct subprocess_list *list);
bool subprocess_list_bury(struct subprocess_list *list, pid_t pid, int status);

/* Kills all that are to die with us, and waits until they are gone. */
void subprocess_list_stop(struct subprocess_list *list);

#endif
