/* SPDX-License-Identifier: ISC */
/*
 * Logins of mail clients.  One rule: ASCII letters count in lower case, all other bytes as
 * they are; "Alice@EXAMPLE.org" and "alice@example.org" are one login.  Any thread.
 */
#ifndef BASE_LOGIN_H
#define BASE_LOGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOGIN_MAX	1024	/* bytes; a longer one has no account */

/* What tells one login from another, on every machine and after every restart: two logins of
 * one key are not to be expected.  The first word is never 0. */
struct login_key {
	uint64_t words[2];
};

/* Copies it in lower case; no NUL behind it.  False: empty, or too long. */
bool login_fold(const char *login, size_t length, char out[LOGIN_MAX]);

/* Of a folded one. */
struct login_key login_key(const char *folded, size_t length);

#endif
