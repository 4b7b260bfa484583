/* SPDX-License-Identifier: ISC */
/*
 * PURPOSE  Logins as one is told from another.
 * MODEL    The key is a hash under two fixed keys: it has to be the same in any segment.
 * ERRORS   None.
 * THREADS  No state.
 */
#include "base/login.h"

#include "base/siphash.h"
#include "base/text.h"

bool login_fold(const char *login, size_t length, char out[LOGIN_MAX]) {
	if (length == 0 || length > LOGIN_MAX)
		return false;
	text_lower(out, login, length);
	return true;
}

struct login_key login_key(const char *folded, size_t length) {
	static const struct siphash_key keys[2] = {
		{ UINT64_C(0x706f737465726e20), UINT64_C(0x6c6f67696e732031) },
		{ UINT64_C(0x706f737465726e20), UINT64_C(0x6c6f67696e732032) },
	};

	return (struct login_key){ {
		siphash13(&keys[0], folded, length) | 1,	/* 0 is none */
		siphash13(&keys[1], folded, length),
	} };
}
