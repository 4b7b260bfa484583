/* SPDX-License-Identifier: ISC */
/* CRC32C (Castagnoli; RFC 3720, appendix B.4), with the processor's instruction where
 * there is one. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes that follow those of `crc` (0: none): of "123456789" it is 0xe3069283.  Any
 * thread. */
uint32_t crc32c(uint32_t crc, const void *data, size_t length);

/* The same without the instruction: for tests. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t length);

#endif
