/* SPDX-License-Identifier: ISC */
/*
 * Queue files of Sendmail.
 *
 * MODEL: a line is whole when the first byte of the next one is known, as that may be a
 * blank and go on with it.  Of kinds that nobody wants only the first byte is looked at,
 * so that they may have any length.
 * ERRORS: what Sendmail itself would not take makes the whole file bad (a version that it
 * does not know, no time, no end, something behind the end); a recipient that cannot be
 * used is left out and counted.
 * THREADS: pure.
 */
#include "wire/queue/sendmail_queue_file.h"

#include <string.h>

#include "wire/mail/log_cursor.h"

enum state {
	AT_LINE,	/* the next byte is the first of a line, or of the last one's rest */
	IN_WANTED,	/* in a line that is kept */
	IN_PASSED,	/* in one that is passed over */
	ENDED,		/* by its point */
	BAD,
};

#define VERSION_KIND	'V'
#define HEADER_KIND	'H'
#define END_KIND	'.'

void sendmail_queue_begin(struct sendmail_queue_reader *reader) {
	memset(reader, 0, offsetof(struct sendmail_queue_reader, sender_text));
	reader->state = AT_LINE;
	reader->sender.text = reader->sender_text;
}

void sendmail_queue_resume(struct sendmail_queue_reader *reader, uint64_t place) {
	sendmail_queue_begin(reader);
	reader->message.version = SENDMAIL_QUEUE_VERSION;
	reader->offset = place;
	reader->line = 1;
	reader->has_made = true;
}

static enum sendmail_queue_step bad(struct sendmail_queue_reader *reader, const char *fault) {
	reader->state = BAD;
	reader->fault = fault;
	return SENDMAIL_QUEUE_BAD;
}

static bool is_wanted(const struct sendmail_queue_reader *reader, char kind) {
	return kind == HEADER_KIND ? !reader->has_received :
	    kind != '\0' && strchr("VTKNPqSR.", kind) != NULL;
}

/* All of the line behind its kind is a number. */
static bool number_of(const struct sendmail_queue_reader *reader, int64_t *out) {
	struct cursor c = { reader->text + 1, reader->text + reader->length };
	bool negative = TAKE(&c, "-");
	int64_t number = 0;

	if (reader->is_long || left(&c) == 0 || left(&c) > 18)
		return false;
	for (; c.at < c.end; c.at++) {
		if (!is_digit(*c.at))
			return false;
		number = number * 10 + (*c.at - '0');
	}
	*out = negative ? -number : number;
	return true;
}

static bool count_of(const struct sendmail_queue_reader *reader, uint32_t *out) {
	int64_t number;

	if (!number_of(reader, &number) || number < 0 || number > UINT32_MAX)
		return false;
	*out = (uint32_t)number;
	return true;
}

static bool is_blank(char c) {
	return c == ' ' || c == '\t';
}

/* "<b@example.org>" */
static struct span address_in(const char *start, const char *end) {
	while (start < end && is_blank(*start))
		start++;
	while (start < end && is_blank(end[-1]))
		end--;
	if (end - start >= 2 && *start == '<' && end[-1] == '>') {
		start++;
		end--;
	}
	return span_of(start, end);
}

static bool is_clean(struct span text) {
	for (size_t i = 0; i < text.length; i++)
		if (is_control(text.text[i]))
			return false;
	return text.length > 0;
}

/* "RPFD:<b@example.org>" */
static enum sendmail_queue_step take_recipient(struct sendmail_queue_reader *reader,
    struct sendmail_recipient *out) {
	const char *end = reader->text + reader->length;
	const char *colon = memchr(reader->text, ':', reader->length);

	reader->message.recipient_count++;
	if (reader->is_long || colon == NULL ||
	    !is_clean(out->address = address_in(colon + 1, end))) {
		reader->message.left_out++;
		return SENDMAIL_QUEUE_MORE;
	}
	out->domain = domain_of(out->address);
	out->place = reader->offset;
	return SENDMAIL_QUEUE_RECIPIENT;
}

static void take_sender(struct sendmail_queue_reader *reader) {
	struct span sender = address_in(reader->text + 1, reader->text + reader->length);

	if (sender.length >= sizeof(reader->sender_text))
		sender.length = sizeof(reader->sender_text) - 1;
	memcpy(reader->sender_text, sender.text, sender.length);
	reader->sender = (struct span){ reader->sender_text, sender.length };
}

/* "H??Received: from client by host with ESMTP id 6AR1RQPP000151; date": Sendmail's own header
 * stands before all that the sender wrote. */
static void take_header(struct sendmail_queue_reader *reader) {
	static const char name[] = "Received:", mark[] = "id";
	const char *at = reader->text + 1, *end = reader->text + reader->length, *word;

	if (at < end && *at == '?') {
		at = memchr(at + 1, '?', (size_t)(end - at) - 1);
		at = at == NULL ? end : at + 1;
	}
	if ((size_t)(end - at) < sizeof(name) - 1 ||
	    strncasecmp(at, name, sizeof(name) - 1) != 0)
		return;
	reader->has_received = true;
	for (at += sizeof(name) - 1; at < end; at = word) {
		const char *start = at;

		while (start < end && is_blank(*start))
			start++;
		for (word = start; word < end && !is_blank(*word) && *word != ';'; word++)
			;
		if (*reader->origin == '?') {
			if (!sendmail_queue_id_is_sound(start, (size_t)(word - start)))
				break;
			memcpy(reader->origin, start, (size_t)(word - start));
			reader->origin[word - start] = '\0';
			return;
		}
		if ((size_t)(word - start) == sizeof(mark) - 1 &&
		    memcmp(start, mark, sizeof(mark) - 1) == 0)
			*reader->origin = '?';
		word += word < end && *word == ';';
	}
	*reader->origin = '\0';
}

static enum sendmail_queue_step take_version(struct sendmail_queue_reader *reader) {
	struct sendmail_message *message = &reader->message;

	if (!count_of(reader, &message->version))
		return bad(reader, "the version is not a number");
	if (message->version < 1 || message->version > SENDMAIL_QUEUE_VERSION)
		return bad(reader, "unknown version");
	return SENDMAIL_QUEUE_MORE;
}

static enum sendmail_queue_step take_end(struct sendmail_queue_reader *reader) {
	if (reader->length != 1)
		return bad(reader, "data follows the point");
	if (!reader->has_made)
		return bad(reader, "line T (creation time) is missing");
	reader->state = ENDED;
	return SENDMAIL_QUEUE_END;
}

/* The line in text is whole.  MORE: it was no recipient. */
static enum sendmail_queue_step take_line(struct sendmail_queue_reader *reader,
    struct sendmail_recipient *recipient) {
	struct sendmail_message *message = &reader->message;
	char kind = reader->length > 0 ? reader->text[0] : '\0';

	if (kind == VERSION_KIND)
		return take_version(reader);
	switch (kind) {
	case 'T':
		reader->has_made = number_of(reader, &message->made_s) && message->made_s >= 0;
		return reader->has_made ? SENDMAIL_QUEUE_MORE :
		    bad(reader, "the time in line T is invalid");
	case 'K':
		return number_of(reader, &message->tried_s) ? SENDMAIL_QUEUE_MORE :
		    bad(reader, "the time in line K is invalid");
	case 'N':
		return count_of(reader, &message->tries) ? SENDMAIL_QUEUE_MORE :
		    bad(reader, "line N is not a number");
	case 'P':
		return number_of(reader, &message->priority) ? SENDMAIL_QUEUE_MORE :
		    bad(reader, "line P is not a number");
	case 'q':
		message->is_quarantined = true;
		return SENDMAIL_QUEUE_MORE;
	case 'S':
		take_sender(reader);
		return SENDMAIL_QUEUE_MORE;
	case 'R':
		return take_recipient(reader, recipient);
	case HEADER_KIND:
		take_header(reader);
		return SENDMAIL_QUEUE_MORE;
	case END_KIND:
		return take_end(reader);
	default:
		return SENDMAIL_QUEUE_MORE;
	}
}

static void keep_bytes(struct sendmail_queue_reader *reader, const char *data, size_t length) {
	size_t room = sizeof(reader->text) - reader->length;

	if (length > room) {
		reader->is_long = true;
		length = room;
	}
	memcpy(reader->text + reader->length, data, length);
	reader->length += length;
}

/* A new line begins with `kind`. */
static enum sendmail_queue_step begin_line(struct sendmail_queue_reader *reader, char kind) {
	reader->line++;
	reader->length = 0;
	reader->is_long = false;
	if (reader->message.version == 0 && kind != VERSION_KIND)
		return bad(reader, "it does not start with its version");
	reader->state = is_wanted(reader, kind) ? IN_WANTED : IN_PASSED;
	return SENDMAIL_QUEUE_MORE;
}

/* Takes what belongs to the line that is being read. */
static void take_bytes(struct sendmail_queue_reader *reader, const char **data, size_t *length) {
	const char *newline = memchr(*data, '\n', *length);
	size_t used = newline == NULL ? *length : (size_t)(newline - *data);

	if (reader->state == IN_WANTED)
		keep_bytes(reader, *data, used);
	if (newline != NULL) {
		if (reader->state == IN_PASSED)
			reader->length = 0;
		reader->state = AT_LINE;
		used++;
	}
	*data += used;
	*length -= used;
	reader->offset += used;
}

/* The line before is whole, or goes on. */
static enum sendmail_queue_step at_line(struct sendmail_queue_reader *reader, char next,
    struct sendmail_recipient *recipient) {
	enum sendmail_queue_step step = SENDMAIL_QUEUE_MORE;

	if (reader->line > 0 && is_blank(next)) {
		reader->line++;
		reader->state = reader->length > 0 ? IN_WANTED : IN_PASSED;
		return SENDMAIL_QUEUE_MORE;
	}
	if (reader->length > 0)
		step = take_line(reader, recipient);
	reader->length = 0;
	if (step == SENDMAIL_QUEUE_END)
		return bad(reader, "data follows the end");
	return step != SENDMAIL_QUEUE_MORE ? step : begin_line(reader, next);
}

enum sendmail_queue_step sendmail_queue_next(struct sendmail_queue_reader *reader,
    const char **data, size_t *length, struct sendmail_recipient *recipient) {
	enum sendmail_queue_step step;

	while (*length > 0) {
		switch (reader->state) {
		case BAD:
			return SENDMAIL_QUEUE_BAD;
		case ENDED:
			return bad(reader, "data follows the end");
		case AT_LINE:
			step = at_line(reader, **data, recipient);
			if (step != SENDMAIL_QUEUE_MORE)
				return step;
			break;
		default:
			take_bytes(reader, data, length);
			break;
		}
	}
	return reader->state == BAD ? SENDMAIL_QUEUE_BAD : SENDMAIL_QUEUE_MORE;
}

enum sendmail_queue_step sendmail_queue_finish(struct sendmail_queue_reader *reader) {
	struct sendmail_recipient recipient;

	if (reader->state == BAD)
		return SENDMAIL_QUEUE_BAD;
	if (reader->state == ENDED)
		return SENDMAIL_QUEUE_END;
	/* the point is the last line, and its own line is whole */
	if (reader->state == AT_LINE && reader->length > 0 && reader->text[0] == END_KIND)
		return take_line(reader, &recipient);
	reader->cut = true;
	return bad(reader, "it ends too early");
}

bool sendmail_queue_id_is_sound(const char *text, size_t length) {
	if (length < 1 || length > SENDMAIL_QUEUE_ID_MAX)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!is_digit(text[i]) && !is_letter(text[i]))
			return false;
	return true;
}

bool sendmail_queue_is_name(const char *name) {
	return name[0] == 'q' && name[1] == 'f' &&
	    sendmail_queue_id_is_sound(name + 2, strlen(name + 2));
}
