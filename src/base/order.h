/* SPDX-License-Identifier: ISC */
/* What stands before what, as qsort(3) wants it. */
#ifndef BASE_ORDER_H
#define BASE_ORDER_H

#include <stdint.h>

/* Of numbers of one type: the smaller one first. */
#define ORDER(one, other)	(((one) > (other)) - ((one) < (other)))

/* By the second where the first does not tell. */
static inline int order_then(int first, int second) {
	return first != 0 ? first : second;
}

static inline int order_u64(const void *one, const void *other) {
	return ORDER(*(const uint64_t *)one, *(const uint64_t *)other);
}

#endif
