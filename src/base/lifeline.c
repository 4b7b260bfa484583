/* SPDX-License-Identifier: ISC */
/*
 * MODEL: words of four bytes, which a pipe never divides: 0 is a heartbeat, n the system
 * call n - 1.  A role may write anything: what is no whole word at the end is dropped.
 */
#include "base/lifeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#define READS_MOST	64	/* of 1024 bytes: all that a pipe holds as Linux makes it */

int lifeline_open(int fds[2], struct diag *diag) {
	return pipe2(fds, O_NONBLOCK | O_CLOEXEC) == 0 ? 0 :
	    diag_set(diag, errno, "cannot create a pipe");
}

static void lifeline_write(int fd, uint32_t word) {
	int kept = errno;

	(void)!write(fd, &word, sizeof(word));
	errno = kept;
}

void lifeline_beat(int fd) {
	lifeline_write(fd, 0);
}

void lifeline_stopped(int fd, int call) {
	lifeline_write(fd, (uint32_t)call + 1);
}

struct lifeline_news lifeline_read(int fd) {
	struct lifeline_news news = { .stopped_call = -1 };
	uint32_t words[256];

	for (unsigned reads = 0; reads < READS_MOST; reads++) {
		ssize_t length = read(fd, words, sizeof(words));

		if (length <= 0)
			break;
		for (size_t i = 0; i < (size_t)length / sizeof(words[0]); i++) {
			if (words[i] == 0)
				news.beat = true;
			else if (words[i] <= INT32_MAX)
				news.stopped_call = (int)(words[i] - 1);
		}
	}
	return news;
}
