/* SPDX-License-Identifier: ISC */
/* The control server's answers to forget account and resume account.  The keeper's thread. */
#include <string.h>
#include <sysexits.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/account/account_health.h"
#include "engine/account/accounts.h"
#include "front/control/control_answer.h"
#include "front/control/control_row.h"

size_t control_answer_account(struct engine *engine, const struct control_frame *request,
    bool resumes, uid_t uid, char *out) {
#ifdef WITH_ACCOUNTS
	const char *login = control_frame_get(request, "login");
	char quoted[256], text[512];

	if (login == NULL || *login == '\0')
		return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_USAGE,
		    "login: the name is empty");
	log_quote(quoted, sizeof(quoted), login, strlen(login));
	if (!(resumes ? engine_account_resume : engine_account_forget)(engine, login,
	    strlen(login), clock_now_ns())) {
		text[0] = '\0';
		text_append(text, sizeof(text), 0, resumes ? "%s: this login is not held" :
		    "%s: unknown login; nothing to reset", quoted);
		return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_NOHOST, text);
	}
	log_event(EVENT_BY_HAND, "command=%s login=%s uid=%ld", resumes ? "resume" : "forget", quoted,
	    (long)(int32_t)uid);
	return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_OK, "");
#else
	(void)engine;
	(void)request;
	(void)resumes;
	(void)uid;
	return control_answer_end(out, CONTROL_ANSWER_BYTES, EX_UNAVAILABLE,
	    "this build has no accounts");
#endif
}
