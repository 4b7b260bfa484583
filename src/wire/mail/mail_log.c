/* SPDX-License-Identifier: ISC */
/* The head is read once, and decides who reads on. */
#include "wire/mail/mail_log.h"

#include "wire/mail/log_cursor.h"
#include "wire/mail/postfix_log.h"
#include "wire/mail/sendmail_log.h"

/* "sendmail", "sendmail-in", "sm-mta", "sm-msp-queue", "sm.mta" */
static bool is_sendmail(struct span program) {
	struct cursor c = { program.text, program.text + program.length };

	return TAKE(&c, "sendmail") || TAKE(&c, "sm-") || TAKE(&c, "sm.");
}

enum log_line_kind mail_log_scan(const char *line, size_t length, struct log_line *out) {
	if (!log_line_head(line, length, out))
		return out->kind;
	if (out->daemon.length < out->program.length)
		return postfix_log_read(out);
	if (is_sendmail(out->program))
		return sendmail_log_read(out);
	out->kind = LOG_LINE_FOREIGN;
	return out->kind;
}
