/* SPDX-License-Identifier: ISC */
#ifndef TESTS_ADDRESS_IS_H
#define TESTS_ADDRESS_IS_H

#include "policy/limit/address.h"
#include "tests/unit/check.h"

/* Its text; "unknown": it is none. */
static inline void address_is(const struct address *address, const char *wanted) {
	char text[ADDRESS_TEXT_MAX];

	address_format(address, text);
	assert_string_equal(text, wanted);
}

#endif
