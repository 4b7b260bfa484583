/* SPDX-License-Identifier: ISC */
/*
 * A datagram of syslog.  The line lies in it or in the scratch space, holds no newline,
 * and the readers of log lines bear it; a bad one has a reason.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "wire/mail/mail_log.h"
#include "wire/mail/syslog_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
	size_t room = size + SYSLOG_HEAD_MAX;
	char *datagram = malloc(size ? size : 1), *scratch = malloc(room);
	const char *why;
	struct log_line read;
	struct span line;

	if (datagram == NULL || scratch == NULL)
		abort();
	memcpy(datagram, data, size);
	if (!syslog_frame_read(datagram, size, scratch, &line, &why))
		MUST(why != NULL);
	else
		MUST(why == NULL && line.length > 0);
	MUST(line.length == 0 ||
	    (line.text >= datagram && line.text + line.length <= datagram + size) ||
	    (line.text >= scratch && line.text + line.length <= scratch + room));
	MUST(memchr(line.text, '\n', line.length) == NULL);
	(void)mail_log_scan(line.text, line.length, &read);
	free(datagram);
	free(scratch);
	return 0;
}
