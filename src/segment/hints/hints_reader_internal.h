/* SPDX-License-Identifier: ISC */
/* What hints_reader.c and hints_reader_file.c share. */
#ifndef SEGMENT_HINTS_READER_INTERNAL_H
#define SEGMENT_HINTS_READER_INTERNAL_H

#include "segment/hints/given.h"
#include "segment/hints/hints_internal.h"

/* Canary and single message that a key's mail was given last: serials + 1; 0: not known. */
struct given {
	uint32_t canary, single;
};

/* A message that began lately. */
#define BEGUN_MAX	512
struct begun {
	int64_t at_ns;
	uint32_t group, place;		/* group and 1; 0: free */
};

/* What was taken of a pace. */
struct pace_taken {
	uint32_t stamp;			/* whose, and 1; 0: nothing is known */
	int64_t until_ns;
	struct {
		int64_t issued_ns, first_ns;
		uint32_t used;
	} passes[HINTS_PASSES];
};

/* A token that may be taken. */
struct pace_token {
	struct pace_taken *from;	/* NULL: none is needed */
	uint32_t pass;			/* or HINTS_PASSES: a token, and they are taken ... */
	int64_t until_ns;		/* ... until then; of a pass: its time */
	size_t length;			/* of the address */
};

struct hints_reader {
	char path[PATH_MAX];
	char boot_id[CLOCK_BOOT_ID];	/* "": unknown, nothing is believed */
	const struct hints_header *live;	/* mapped; or NULL */
	size_t bytes;
	struct hints_header header;	/* the copy, checked, where live is set */
	dev_t device;
	ino_t inode;
	int fd;				/* of it, where live is set */
	int64_t looked_ns;		/* whether it is whole */
	uint16_t since;			/* HINTS_MOMENT when it was mapped */
	uint32_t turn;			/* of lanes that share a key's mail */
	int64_t now_ns;			/* of the question */
	bool only_held;			/* as it is asked now */
	hints_has_transport *has_transport;	/* NULL: nothing may go by sources */
	const void *has_context;
	struct given_out *given_out;	/* of the file that is mapped; NULL: not open */
	int64_t given_ns;		/* when that was tried */
	struct begun begun[BEGUN_MAX];	/* in a ring; of the file that is mapped */
	uint32_t begun_next;
	struct given *given;		/* for each bucket */
	struct pace_taken *taken;	/* for each pace; NULL: none was met */
	/* The address that a token was taken for last.  Where it has an extension, the next
	 * question may be that about the same without it. */
	char paced[HINTS_ADDRESS_MAX];
	size_t paced_length;		/* 0: none, or mail of a pace was asked about since */
	int64_t paced_ns;
};

/* Is there a file that is alive?  It is mapped then. */
bool hints_reader_find_file(struct hints_reader *reader, int64_t now_ns);
/* Lets go of it. */
void hints_reader_forget(struct hints_reader *reader);

/* A text of the file; false: none, or it changes all the time. */
bool hints_reader_text(const struct hints_text *from, char text[HINTS_TEXT_MAX + 1]);

/* May mail for an address, in lower case, go at the pace of this number?  Then hints_reader_take
 * takes the token; else `text` says why not. */
bool hints_reader_may_go(struct hints_reader *reader, uint32_t number, const char *address,
    size_t length, struct pace_token *token, char text[HINTS_TEXT_MAX + 1]);
void hints_reader_take(struct hints_reader *reader, const struct pace_token *token);

/* The row of a pace's provider. */
uint32_t hints_reader_row(const struct hints_reader *reader, uint32_t number);
/* Takes a number of a source for mail of this row, or says what is to become of it.  False: it goes
 * on as without sources. */
bool hints_reader_send(struct hints_reader *reader, uint32_t row, struct hints_answer *answer);

#endif
