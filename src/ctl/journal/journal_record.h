/* SPDX-License-Identifier: ISC */
/* Records of a journal, as the commands look at them.  One thread. */
#ifndef CTL_JOURNAL_RECORD_H
#define CTL_JOURNAL_RECORD_H

#include "base/map.h"
#include "view/writer.h"
#include "journal/record.h"

/* One that was read.  Texts point into the frame's payload. */
struct decoded {
	bool known;		/* its type is, and it is of no later version */
	bool spoiled;		/* its payload is not what its type says: nothing else is set */
	enum journal_type type;
	union journal_any record;
};

void journal_decode(const struct journal_frame *frame, struct decoded *out);

/* Is it of a message, so that its payload begins with a key? */
bool decoded_is_of_message(const struct decoded *decoded);

/* What is known of a message by its key. */
enum known_state { KNOWN_WAITS, KNOWN_WORKS, KNOWN_DONE };
struct known_message {
	uint64_t key;
	uint64_t sequence;	/* of the record that said so last */
	uint32_t bytes;		/* of its envelope, with what a run has written since */
	uint32_t id;		/* where its queue id stands; 0: not known */
	enum known_state state;
};
/* All zeros: none. */
struct known_messages {
	struct known_message *list;
	size_t count, room;
	struct map by_key;	/* which one of the list */
	char *ids;
	size_t ids_length, ids_room;
	bool no_memory;		/* what came then is not in it */
};
/* Takes in a record of a message that takes `bytes`; NULL: it is none, or no_memory. */
struct known_message *known_take(struct known_messages *known, const struct decoded *decoded,
    const struct journal_frame *frame, uint32_t bytes);
/* NULL: not known. */
const char *known_id(const struct known_messages *known, const struct known_message *message);
void known_free(struct known_messages *known);

/* The members of a record's payload, written to the open line.  `id`: of its message, or
 * NULL. */
void decoded_write(const struct decoded *decoded, const char *id, struct writer *writer);

/* Wall clock: not known where it is 0, "for-ever" where it is INT64_MAX; UTC. */
#define JOURNAL_TIME_MAX	32
struct value journal_time_value(int64_t wall_ns, char space[JOURNAL_TIME_MAX]);

#endif
