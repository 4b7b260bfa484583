/* SPDX-License-Identifier: ISC */
/*
 * The socketmap protocol of Sendmail and Postfix (socketmap_table(5)), sans I/O:
 * netstrings "LENGTH:mapname key," and "LENGTH:STATUS text,".
 */
#ifndef WIRE_SOCKETMAP_H
#define WIRE_SOCKETMAP_H

#include <stddef.h>

#define SOCKETMAP_REQUEST_MAX	8192	/* bytes between the colon and the comma */
#define SOCKETMAP_REPLY_MAX	1024

/* A request; the spans lie in the caller's data. */
struct socketmap_request {
	const char *map;
	size_t map_length;
	const char *key;	/* everything after the first blank */
	size_t key_length;
};

struct socketmap_error {
	const char *reason;	/* static text */
	size_t offset;		/* in the data */
};

/* The request at the start of `data`: how many bytes it takes, 0 when it is not
 * all there, -1 with *error when no continuation can make it one. */
long socketmap_parse(const char *data, size_t length,
    struct socketmap_request *request, struct socketmap_error *error);

enum socketmap_status { SOCKETMAP_OK, SOCKETMAP_NOTFOUND };

/* Writes a reply with a text (OK's must not be empty: Sendmail leaves mail
 * undelivered then); bytes that are not printable ASCII
 * become '?', what is too long is cut.  Returns the length. */
size_t socketmap_reply(char out[SOCKETMAP_REPLY_MAX],
    enum socketmap_status status, const char *text);

#endif
