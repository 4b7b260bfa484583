/* SPDX-License-Identifier: ISC */
/* Is this compiled with ThreadSanitizer?  For what it does not understand. */
#ifndef BASE_TSAN_H
#define BASE_TSAN_H

#if defined(__SANITIZE_THREAD__)
#define BASE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BASE_TSAN 1
#endif
#endif

#endif
