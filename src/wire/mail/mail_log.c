/* SPDX-License-Identifier: ISC */
/*
 * The head is read once, and decides who reads on.  The program's token is told by its own
 * form, not by its place: the forms of dates are many.  What another program wrote is never
 * searched for one, as others choose what stands there.
 */
#include "wire/mail/mail_log.h"

#include "wire/mail/log_cursor.h"
#include "wire/mail/postfix_log.h"
#include "wire/mail/sendmail_log.h"

#define TOKENS_MAX	9	/* "Nov 21 05:48:22.123 2026 host PROGRAM[1]:", with some to spare */
#define HEADER_MAX	512	/* bytes in which the program stands */

static bool is_program_byte(char c) {
	return is_letter(c) || is_digit(c) || c == '/' || c == '-' || c == '_' || c == '.' ||
	    c == '+' || c == '@' || c == '=' || c == '~' || c == '%';
}

/* The name at the start of `token`, and how long it is. */
static size_t read_name(struct span token, struct log_line *out) {
	const char *slash = NULL, *at = token.text, *end = token.text + token.length;

	for (; at < end && is_program_byte(*at); at++)
		if (*at == '/')
			slash = at;
	out->program = span_of(token.text, at);
	out->daemon = slash == NULL ? out->program : span_of(slash + 1, at);
	out->pid = 0;
	return out->program.length;
}

/* "NAME/PROGRAM[PID]:", or "NAME/PROGRAM:" where the name has a part before. */
static bool read_program(struct span token, struct log_line *out) {
	struct cursor c = { token.text + read_name(token, out), token.text + token.length };
	bool numbered;

	numbered = TAKE(&c, "[") && take_number(&c, INT32_MAX, &out->pid) && TAKE(&c, "]");
	return out->daemon.length > 0 && TAKE(&c, ":") && c.at == c.end && (numbered ||
	    (out->pid == 0 && (out->daemon.length < out->program.length ||
	    SPAN_IS(out->program, "sendmail") || begins(&(struct cursor){ token.text, c.end },
	    "sm-", 3))));
}

/* "[NAME/PROGRAM]", as some collectors write it. */
static bool read_bracketed(struct span token, struct log_line *out) {
	struct span inside = { token.text + 1, token.length - 2 };

	return token.length >= 3 && token.text[token.length - 1] == ']' &&
	    read_name(inside, out) == inside.length && out->daemon.length > 0 &&
	    out->daemon.length < out->program.length;
}

static struct span next_token(struct cursor *c) {
	const char *space, *start;

	while (c->at < c->end && *c->at == ' ')
		c->at++;
	start = c->at;
	space = memchr(start, ' ', left(c));
	c->at = space ? space + 1 : c->end;
	return span_of(start, space ? space : c->end);
}

/* RFC 5424, behind "<22>1": DATE HOST PROGRAM PID ID DATA, each "-" where there
 * is none. */
static bool take_numbered_head(struct cursor *c, struct log_line *out) {
	struct span program, pid;
	struct cursor number;

	(void)next_token(c);
	(void)next_token(c);
	program = next_token(c);
	pid = next_token(c);
	(void)next_token(c);
	if (read_name(program, out) != program.length || out->daemon.length == 0 || !take_data(c))
		return false;
	number = (struct cursor){ pid.text, pid.text + pid.length };
	(void)take_number(&number, INT32_MAX, &out->pid);
	(void)TAKE(c, "\357\273\277");
	return true;
}

/* Solaris: "[ID 197553 mail.info] " */
static void pass_message_id(struct cursor *c) {
	const char *close;

	if (!BEGINS(c, "[ID "))
		return;
	close = memchr(c->at, ']', left(c));
	if (close != NULL && close + 1 < c->end && close[1] == ' ')
		c->at = close + 2;
}

/* "05:48:22:", "2001:db8::": a date or a host, which may end so, too. */
static bool is_numbers(struct span token) {
	for (size_t i = 0; i < token.length; i++)
		if (!is_digit(token.text[i]) && strchr(":.+-/TZabcdef", token.text[i]) == NULL)
			return false;
	return !is_letter(token.text[0]);
}

/* Goes to what the program wrote. */
static bool take_head(struct cursor *c, struct log_line *out) {
	struct cursor head = { c->at, left(c) > HEADER_MAX ? c->at + HEADER_MAX : c->end };

	for (unsigned tokens = 0; tokens < TOKENS_MAX; tokens++) {
		struct span token = next_token(&head);

		if (token.length == 0)
			return false;
		if (tokens == 0 && token.text[0] == '<' && token.length >= 4 &&
		    memcmp(token.text + token.length - 2, ">1", 2) == 0) {
			if (!take_numbered_head(&head, out))
				return false;
			break;
		}
		if (token.text[0] == '[') {
			if (read_bracketed(token, out))
				break;
		} else if (token.text[token.length - 1] == ':') {
			if (read_program(token, out))
				break;
			/* another program's: all behind it is its message */
			if (!is_numbers(token))
				return false;
		}
		if (tokens == TOKENS_MAX - 1)
			return false;
	}
	out->head = span_of(c->at, out->program.text);
	c->at = head.at;
	return true;
}

/* "sendmail", "sendmail-in", "sm-mta", "sm-msp-queue", "sm.mta" */
static bool is_sendmail(struct span program) {
	struct cursor c = { program.text, program.text + program.length };

	return TAKE(&c, "sendmail") || TAKE(&c, "sm-") || TAKE(&c, "sm.");
}

enum log_line_kind mail_log_scan(const char *line, size_t length, struct log_line *out) {
	struct cursor c = { line, line + length };
	bool is_postfix;

	/* the end of a line, of somebody else's making */
	while (c.end > c.at && (c.end[-1] == '\r' || c.end[-1] == '\n' || c.end[-1] == '\0'))
		c.end--;
	out->kind = LOG_LINE_FOREIGN;
	out->why = NULL;
	if (!take_head(&c, out))
		return out->kind;
	pass_message_id(&c);
	out->message = span_of(c.at, c.end);
	out->queue_id = (struct span){ c.at, 0 };
	is_postfix = out->daemon.length < out->program.length;
	if (!is_postfix && !is_sendmail(out->program))
		return out->kind;
	out->kind = LOG_LINE_OTHER;
	return is_postfix ? postfix_log_read(out) : sendmail_log_read(out);
}
