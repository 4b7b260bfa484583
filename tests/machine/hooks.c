/* SPDX-License-Identifier: ISC */
/*
 * What the compiler calls at each load and store of the product's code, which is built with
 * -fsanitize=thread for this; ThreadSanitizer itself is not there.  Before each one that is of
 * the segment, another fiber may go on.  All are carried out in order: what a weaker memory
 * would do is not simulated.
 */
#include "tests/machine/fiber.h"

#include <string.h>

void __tsan_init(void);
void __tsan_init(void) {
}

#define PLAIN(bytes) \
	void __tsan_read##bytes(void *at); \
	void __tsan_write##bytes(void *at); \
	void __tsan_unaligned_read##bytes(void *at); \
	void __tsan_unaligned_write##bytes(void *at); \
	void __tsan_read##bytes(void *at) { fiber_touches(at); } \
	void __tsan_write##bytes(void *at) { fiber_touches(at); } \
	void __tsan_unaligned_read##bytes(void *at) { fiber_touches(at); } \
	void __tsan_unaligned_write##bytes(void *at) { fiber_touches(at); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *at, unsigned long bytes);
void __tsan_read_range(void *at, unsigned long bytes) {
	(void)bytes;
	fiber_touches(at);
}

void __tsan_write_range(void *at, unsigned long bytes);
void __tsan_write_range(void *at, unsigned long bytes) {
	(void)bytes;
	fiber_touches(at);
}

/* clang's; gcc calls the library. */
void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
	fiber_touches(to);
	fiber_touches(from);
	return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, size_t bytes);
void *__tsan_memmove(void *to, const void *from, size_t bytes) {
	fiber_touches(to);
	fiber_touches(from);
	return memmove(to, from, bytes);
}

void *__tsan_memset(void *to, int value, size_t bytes);
void *__tsan_memset(void *to, int value, size_t bytes) {
	fiber_touches(to);
	return memset(to, value, bytes);
}

void __tsan_func_entry(void *from);
void __tsan_func_entry(void *from) {
	(void)from;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void) {
}

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order) {
	(void)order;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order) {
	(void)order;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#define CHANGE(bits, type, name, builtin) \
	type __tsan_atomic##bits##_##name(volatile type *at, type value, int order); \
	type __tsan_atomic##bits##_##name(volatile type *at, type value, int order) { \
		(void)order; \
		fiber_touches(at); \
		return builtin(at, value, __ATOMIC_SEQ_CST); \
	}
#define EXCHANGE(bits, type, name) \
	int __tsan_atomic##bits##_##name(volatile type *at, type *expected, type wanted, \
	    int order, int failure); \
	int __tsan_atomic##bits##_##name(volatile type *at, type *expected, type wanted, \
	    int order, int failure) { \
		(void)order, (void)failure; \
		fiber_touches(at); \
		return __atomic_compare_exchange_n(at, expected, wanted, false, \
		    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
	}
#define ATOMIC(bits, type) \
	type __tsan_atomic##bits##_load(const volatile type *at, int order); \
	type __tsan_atomic##bits##_load(const volatile type *at, int order) { \
		(void)order; \
		fiber_touches(at); \
		return __atomic_load_n(at, __ATOMIC_SEQ_CST); \
	} \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order); \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order) { \
		(void)order; \
		fiber_touches(at); \
		__atomic_store_n(at, value, __ATOMIC_SEQ_CST); \
	} \
	CHANGE(bits, type, exchange, __atomic_exchange_n) \
	CHANGE(bits, type, fetch_add, __atomic_fetch_add) \
	CHANGE(bits, type, fetch_sub, __atomic_fetch_sub) \
	CHANGE(bits, type, fetch_and, __atomic_fetch_and) \
	CHANGE(bits, type, fetch_or, __atomic_fetch_or) \
	CHANGE(bits, type, fetch_xor, __atomic_fetch_xor) \
	EXCHANGE(bits, type, compare_exchange_strong) \
	EXCHANGE(bits, type, compare_exchange_weak) \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, \
	    type wanted, int order, int failure); \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type expected, \
	    type wanted, int order, int failure) { \
		(void)__tsan_atomic##bits##_compare_exchange_strong(at, &expected, wanted, \
		    order, failure); \
		return expected; \
	}
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)
