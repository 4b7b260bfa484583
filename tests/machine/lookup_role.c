/* SPDX-License-Identifier: ISC */
/* postern-lookup: it maps the hints file, and nothing else of ours. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/machine/mail.h"
#include "tests/machine/role.h"

void lookup_main(struct role *role) {
	char path[128];
	struct hints_reader *reader;

	snprintf(path, sizeof(path), "%s.hints", role->state_path);
	reader = hints_reader_open(path);
	MUST(reader != NULL);
	for (;;) {
		struct hints_answer answer;
		struct message message;

		while (role_next(role, &message)) {
			hints_reader_ask(reader, MAIL_MTA, message.request, strlen(message.request),
			    false, clock_now_ns(), &answer);
			mail_answered(message.place, (uint32_t)message.pid, &answer);
			free(message.request);
		}
		fiber_sleep(clock_now_ns() + NS_PER_SECOND);
	}
}
