/* SPDX-License-Identifier: ISC */
/* Words that others look at meanwhile, and that say nothing of any other word. */
#ifndef BASE_RELAXED_H
#define BASE_RELAXED_H

#include <stdatomic.h>

#define RELAXED(word)		atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value)	atomic_store_explicit(&(word), value, memory_order_relaxed)

#endif
