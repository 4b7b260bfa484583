/* SPDX-License-Identifier: ISC */
/* Descriptors of a role's links to the supervisor, taken from its process.  Needs root. */
#ifndef ATTACK_TAKEN_LINKS_H
#define ATTACK_TAKEN_LINKS_H

#include <sys/types.h>

#define LINKS_MAX	8

enum link_kind { LINK_ORDERS, LINK_MTA, LINK_QUEUE, LINK_LIFELINE };

struct link {
	int fd;
	enum link_kind kind;
	ino_t inode;
};

/* The supervisor's child of that title ("postern-keeper0"); 0: there is none now. */
pid_t find_role(pid_t supervisor, const char *title);

/* How many; the descriptors are the caller's. */
unsigned take_links(pid_t supervisor, pid_t pid, const char *title,
    struct link links[LINKS_MAX]);

/* What /proc/PID/fd/NUMBER is called; "" if it is gone. */
void name_of(char *out, size_t size, long pid, const char *number);

#endif
