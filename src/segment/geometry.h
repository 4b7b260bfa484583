/* SPDX-License-Identifier: ISC */
/* Where everything lies in a segment of given sizes, and what tells one layout
 * from another. */
#ifndef SEGMENT_GEOMETRY_H
#define SEGMENT_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "segment/file/layout.h"

/* A hash over the declarations of layout.h (sizes and offsets): another value,
 * another layout. */
uint64_t segment_layout_hash(void);

/* Fills the sizes and offsets of `header` (record_count ... bytes) for so many
 * class records, sessions, destinations, and logins (0: no accounts).  False: beyond what a segment can
 * hold. */
bool segment_geometry(struct segment_header *header, uint32_t record_count,
    uint64_t session_count, uint64_t destination_count, uint64_t account_count);

/* Are the sizes and offsets in `header` the very ones that segment_geometry
 * gives, in a file of file_bytes?  The test before anything else is believed. */
bool segment_geometry_valid(const struct segment_header *header,
    uint64_t file_bytes);

#endif
