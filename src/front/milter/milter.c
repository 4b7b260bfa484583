/* SPDX-License-Identifier: ISC */
/*
 * The milter front end.
 *
 * MODEL: every step but connect is negotiated away, yet libmilter calls us when
 * the MTA's connection closes, and that is the end of the session: exact in every
 * case, a killed MTA process included.  For that an admitted session must be
 * answered CONTINUE: after any other answer the MTA closes at once.
 * ERRORS: a client that breaks the protocol never comes to a usable CONNECT; it
 * is counted when libmilter closes it.
 * THREADS: libmilter's, any of them for any callback of a session: nothing of a
 * session stands outside smfi_setpriv.  Beside them one that beats.
 * BUGS: a client that stops in the middle of a packet that is not its first holds a thread
 * of libmilter's until the timeout (front/milter/milter_gate.c).
 */
#include "front/milter/milter.h"

#include <libmilter/mfapi.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "base/log.h"
#include "base/nudge.h"
#include "config/generation/generation.h"
#include "front/policy/account_mail.h"
#include "front/decision/decision_log.h"
#include "front/milter/milter_gate.h"
#include "wire/ask/client_macros.h"

#define BACKLOG		1024
/* SMTP sessions without mail in them last, and we see nothing of them between
 * connect and close. */
#define TIMEOUT_S	7210
#define REPLY_TEXT_MAX	400
#define RUNNING_MAX	64
#define STUCK_NS	(2 * NS_PER_SECOND)
/* Of each thread of libmilter's: with the system's 8 MiB the C library keeps but five of
 * those that end for the next, and libmilter ends and begins them all the time. */
#define STACK_BYTES	((size_t)256 * 1024)

/* libmilter has no place for a pointer of ours but the session's. */
static struct {
	struct engine *engine;
	uint8_t listener;
	bool gated;
	_Atomic bool skips;	/* the mail server lets us skip the rest of a body */
	_Atomic bool rests;	/* the last heartbeat may be old */
	/* when callbacks that run now were entered; 0: free */
	_Atomic int64_t running_since_ns[RUNNING_MAX];
} front;

/* From connect to close. */
struct milter_session {
	struct session_ref ref;
};

/* Returns a place in running_since_ns, or RUNNING_MAX when all are taken. */
static unsigned callback_enter(int64_t now_ns) {
	unsigned i;

	if (atomic_load_explicit(&front.rests, memory_order_relaxed)) {
		atomic_store(&front.rests, false);
		engine_heartbeat(front.engine, now_ns);
	}
	for (i = 0; i < RUNNING_MAX; i++) {
		int64_t none = 0;

		if (atomic_load_explicit(&front.running_since_ns[i],
		    memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong(&front.running_since_ns[i],
		    &none, now_ns))
			break;
	}
	return i;
}

static void callback_leave(unsigned place) {
	if (place < RUNNING_MAX)
		atomic_store(&front.running_since_ns[place], 0);
}

static bool any_callback_is_stuck(int64_t now_ns) {
	for (unsigned i = 0; i < RUNNING_MAX; i++) {
		int64_t since = atomic_load(&front.running_since_ns[i]);

		if (since != 0 && now_ns - since > STUCK_NS)
			return true;
	}
	return false;
}

static void await_beat(void) {
	struct pollfd nudge = { .fd = engine_nudge_fd(front.engine), .events = POLLIN };
	bool rests = front.gated && milter_gate_is_empty() && engine_is_at_rest(front.engine);

	atomic_store(&front.rests, rests);
	if (poll(&nudge, 1, (int)((rests ? ENGINE_REST_NS : NS_PER_SECOND) / NS_PER_MS)) == 1 &&
	    !nudge_take(nudge.fd))
		(void)poll(NULL, 0, 1000);	/* nobody gives any: we are to end */
}

static void *milter_beat(void *unused) {
	(void)unused;
	for (;;) {
		int64_t now_ns = clock_now_ns();

		if (!any_callback_is_stuck(now_ns))
			engine_heartbeat(front.engine, now_ns);
		log_flush();
		await_beat();
	}
	return NULL;
}

static sfsistat on_negotiate(SMFICTX *ctx, unsigned long actions,
    unsigned long steps, unsigned long f2, unsigned long f3,
    unsigned long *wanted_actions, unsigned long *unwanted_steps,
    unsigned long *wanted_f2, unsigned long *wanted_f3) {
	static char macros[] = "j _ {daemon_addr} {daemon_port} {if_addr} "
	    "{client_addr} {client_port} {client_name} {client_ptr} "
	    "{client_resolve}";

	(void)f2, (void)f3;
	*wanted_actions = 0;
	/* where it is not offered, the MTA's own list has to do */
	if ((actions & SMFIF_SETSYMLIST) != 0 &&
	    smfi_setsymlist(ctx, SMFIM_CONNECT, macros) == MI_SUCCESS)
		*wanted_actions = SMFIF_SETSYMLIST;
	*unwanted_steps = steps & (SMFIP_NOHELO | SMFIP_NOMAIL | SMFIP_NORCPT |
	    SMFIP_NODATA | SMFIP_NOHDRS | SMFIP_NOEOH | SMFIP_NOBODY |
	    SMFIP_NOUNKNOWN);
	*wanted_f2 = *wanted_f3 = 0;
	return SMFIS_CONTINUE;
}

static bool take_client(const _SOCK_ADDR *from, struct question *question) {
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	const struct sockaddr *address = (const struct sockaddr *)from;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;

	if (address == NULL)
		return false;
	switch (address->sa_family) {
	case AF_INET:
		memcpy(&in, address, sizeof(in));
		memcpy(question->client.bytes, mapped, sizeof(mapped));
		memcpy(question->client.bytes + 12, &in.sin_addr, 4);
		question->client_port = ntohs(in.sin_port);
		return true;
	case AF_INET6:
		memcpy(&in6, address, sizeof(in6));
		memcpy(question->client.bytes, &in6.sin6_addr, 16);
		question->client_port = ntohs(in6.sin6_port);
		return !address_is_unknown(&question->client);
	default:
		return false;	/* a local client */
	}
}

static size_t length_of(const char *text) {
	return text == NULL ? 0 : strlen(text);
}

static void take_server(SMFICTX *ctx, struct question *question) {
	static char daemon_addr[] = "{daemon_addr}", if_addr[] = "{if_addr}",
	    daemon_port[] = "{daemon_port}";
	const char *daemon = smfi_getsymval(ctx, daemon_addr);
	const char *interface = smfi_getsymval(ctx, if_addr);
	const char *port = smfi_getsymval(ctx, daemon_port);

	if (!client_macros_server(daemon, length_of(daemon), &question->server))
		(void)client_macros_server(interface, length_of(interface),
		    &question->server);
	question->server_port = client_macros_port(port, length_of(port));
}

static void take_name(SMFICTX *ctx, const char *name, struct question *question) {
	static char client_resolve[] = "{client_resolve}";
	const char *resolve = smfi_getsymval(ctx, client_resolve);

	if (!client_macros_verified(name, length_of(name), resolve, length_of(resolve)))
		return;
	question->name = name;
	question->name_length = strlen(name);
}

static void end_session(const struct milter_session *session, int64_t now_ns) {
	const struct generation *generation;

	if (session->ref.slot == 0)
		return;
	generation = engine_pin(front.engine);
	engine_session_ended(front.engine, generation, &session->ref,
	    OWNER_MILTER, now_ns);
	engine_unpin(front.engine, generation);
}

/* smfi_setreply takes '%' for the start of a format. */
static void escape_percent(const char *text, char *escaped, size_t size) {
	size_t length = 0;

	for (; *text != '\0' && length + 3 < size; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '%')
			escaped[length++] = '%';
		escaped[length++] = c < 0x20 || c == 0x7f ? ' ' : *text;
	}
	escaped[length] = '\0';
}

static void milter_refuse(SMFICTX *ctx, const char *text) {
	char code[] = "421", dsn[] = "4.7.0", other[] = "Too many sessions";
	char escaped[REPLY_TEXT_MAX + 3];

	escape_percent(text, escaped, sizeof(escaped));
	if (smfi_setreply(ctx, code, dsn, escaped) != MI_SUCCESS)
		(void)smfi_setreply(ctx, code, dsn, other);
}

static sfsistat milter_ask(SMFICTX *ctx, const char *name, const _SOCK_ADDR *from,
    struct milter_session *session, int64_t now_ns) {
	struct question question = {
		.listener = front.listener,
		.owner = OWNER_MILTER,
		.connect_only = true,
	};
	const struct generation *generation;
	sfsistat verdict = SMFIS_CONTINUE;
	struct answer answer;
	char text[REPLY_TEXT_SIZE];

	if (!take_client(from, &question))
		return SMFIS_CONTINUE;
	take_server(ctx, &question);
	take_name(ctx, name, &question);
	generation = engine_pin(front.engine);
	engine_owner_proof(front.engine, generation, &question,
	    milter_gate_socket());
	engine_session_open(front.engine, generation, &question, now_ns, &answer);
	session->ref = answer.session;
	decision_log(front.engine, generation, &question, &answer,
	    DECISION_AT_CONNECT);
	if (answer.decision.verdict != VERDICT_ADMIT) {
		(void)decision_client_text(generation, &question, &answer, text);
		milter_refuse(ctx, text);
		verdict = SMFIS_TEMPFAIL;
	}
	engine_unpin(front.engine, generation);
	return verdict;
}

static sfsistat on_connect(SMFICTX *ctx, char *name, _SOCK_ADDR *from) {
	int64_t now_ns = clock_now_ns();
	struct milter_session *session = smfi_getpriv(ctx);
	sfsistat verdict;
	unsigned place;

	if (front.gated)
		milter_gate_goes_on();
	if (session != NULL) {
		/* a second CONNECT: the first one's session is over */
		end_session(session, now_ns);
		memset(session, 0, sizeof(*session));
	} else {
		session = calloc(1, sizeof(*session));
		if (session == NULL || smfi_setpriv(ctx, session) != MI_SUCCESS) {
			free(session);
			return SMFIS_CONTINUE;
		}
	}
	place = callback_enter(now_ns);
	verdict = milter_ask(ctx, name, from, session, now_ns);
	(void)engine_timed(front.engine, TIMING_MILTER, 1, now_ns);
	callback_leave(place);
	return verdict;
}

static sfsistat on_close(SMFICTX *ctx) {
	int64_t now_ns = clock_now_ns();
	struct milter_session *session = smfi_getpriv(ctx);
	unsigned place;

	if (front.gated)
		milter_gate_left();
	if (session == NULL) {
		engine_count(front.engine, COUNTER_BAD_MILTER_SESSIONS, 1);
		log_event(EVENT_BAD_REQUEST, "from=milter listener=%u "
		    "text=\"the connection ended before a usable CONNECT\"",
		    front.listener);
		return SMFIS_CONTINUE;
	}
	place = callback_enter(now_ns);
	end_session(session, now_ns);
	callback_leave(place);
	(void)smfi_setpriv(ctx, NULL);
	free(session);
	return SMFIS_CONTINUE;
}

static void use_small_stacks(void) {
	pthread_attr_t attributes;

	if (pthread_attr_init(&attributes) != 0)
		return;
	if (pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0)
		(void)pthread_setattr_default_np(&attributes);
	(void)pthread_attr_destroy(&attributes);
}

static bool open_socket(int fd) {
	char place[32];

	snprintf(place, sizeof(place), "fd:%d", fd);
	return smfi_setconn(place) == MI_SUCCESS && smfi_opensocket(0) == MI_SUCCESS;
}

static void on_stalled(void) {
	engine_count(front.engine, COUNTER_BAD_MILTER_SESSIONS, 1);
	log_event(EVENT_CLIENT_LIMIT, "from=milter listener=%u text=\"the client sends "
	    "nothing\" action=close", front.listener);
}

static void on_too_many(unsigned waiting, unsigned inside) {
	log_event(EVENT_CLIENT_LIMIT, "from=milter listener=%u waiting=%u connections=%u "
	    "text=\"too many connections\" action=close", front.listener, waiting, inside);
}

static const struct milter_gate_calls gate_calls = { on_stalled, on_too_many };

static char filter_name[] = "postern";

#ifdef WITH_ACCOUNTS
/* --- accounts ------------------------------------------------------------------------ */

static sfsistat on_mail_negotiate(SMFICTX *ctx, unsigned long actions, unsigned long steps,
    unsigned long f2, unsigned long f3, unsigned long *wanted_actions,
    unsigned long *unwanted_steps, unsigned long *wanted_f2, unsigned long *wanted_f3) {
	static char at_connect[] = "{client_addr} {client_port} {client_resolve} {daemon_port}",
	    at_mail[] = "i {auth_authen}";

	(void)f2, (void)f3;
	*wanted_actions = 0;
	if ((actions & SMFIF_SETSYMLIST) != 0 &&
	    smfi_setsymlist(ctx, SMFIM_CONNECT, at_connect) == MI_SUCCESS &&
	    smfi_setsymlist(ctx, SMFIM_ENVFROM, at_mail) == MI_SUCCESS)
		*wanted_actions = SMFIF_SETSYMLIST;
	front.skips = (steps & SMFIP_SKIP) != 0;
	*unwanted_steps = steps & (SMFIP_NOHELO | SMFIP_NODATA | SMFIP_NOHDRS | SMFIP_NOEOH |
	    SMFIP_NOUNKNOWN | SMFIP_SKIP);
	*wanted_f2 = *wanted_f3 = 0;
	return SMFIS_CONTINUE;
}

static sfsistat on_mail_connect(SMFICTX *ctx, char *name, _SOCK_ADDR *from) {
	struct account_mail_session *session = smfi_getpriv(ctx);
	struct question question = { .listener = front.listener };

	if (front.gated)
		milter_gate_goes_on();
	if (session == NULL)
		session = calloc(1, sizeof(*session));
	if (session == NULL || smfi_setpriv(ctx, session) != MI_SUCCESS) {
		free(session);
		return SMFIS_ACCEPT;
	}
	account_mail_over(session, front.engine, clock_now_ns());
	(void)take_client(from, &question);
	take_server(ctx, &question);
	take_name(ctx, name, &question);
	session->client = question.client;
	session->client_port = question.client_port;
	session->server_port = question.server_port;
	session->name_length = question.name_length < sizeof(session->name) ?
	    question.name_length : 0;
	if (session->name_length > 0)
		memcpy(session->name, question.name, session->name_length);
	return SMFIS_CONTINUE;
}

static sfsistat mail_refused(SMFICTX *ctx, const struct account_reply *reply) {
	char code[4], enhanced[8], text[2 * REPLY_TEXT_SIZE];

	snprintf(code, sizeof(code), "%s", reply->code);
	snprintf(enhanced, sizeof(enhanced), "%s", reply->enhanced);
	escape_percent(reply->text, text, sizeof(text));
	(void)smfi_setreply(ctx, code, enhanced, text);
	return reply->code[0] == '5' ? SMFIS_REJECT : SMFIS_TEMPFAIL;
}

static sfsistat on_mail_from(SMFICTX *ctx, char **words) {
	static char auth_authen[] = "{auth_authen}";
	struct account_mail_session *session = smfi_getpriv(ctx);

	if (session != NULL)
		account_mail_from(session, front.engine, smfi_getsymval(ctx, auth_authen),
		    words[0], clock_now_ns());
	return SMFIS_CONTINUE;
}

static sfsistat on_mail_recipient(SMFICTX *ctx, char **words) {
	struct account_mail_session *session = smfi_getpriv(ctx);
	int64_t now_ns = clock_now_ns();
	struct account_reply reply;
	bool good = true;
	unsigned place;

	if (session == NULL)
		return SMFIS_CONTINUE;
	place = callback_enter(now_ns);
	good = account_mail_recipient(session, front.engine, front.listener, words[0], now_ns,
	    &reply);
	callback_leave(place);
	return good ? SMFIS_CONTINUE : mail_refused(ctx, &reply);
}

/* Sendmail says at no step how large a message is.  Of others nothing is read. */
static sfsistat on_mail_body(SMFICTX *ctx, unsigned char *bytes, size_t length) {
	struct account_mail_session *session = smfi_getpriv(ctx);

	(void)bytes;
	if (session == NULL || session->login_length == 0)
		return atomic_load(&front.skips) ? SMFIS_SKIP : SMFIS_CONTINUE;
	session->bytes += length;
	return SMFIS_CONTINUE;
}

static sfsistat on_mail_end(SMFICTX *ctx) {
	static char i[] = "i";
	struct account_mail_session *session = smfi_getpriv(ctx);
	int64_t now_ns = clock_now_ns();
	struct account_reply reply;
	bool good = true;
	unsigned place;

	if (session == NULL)
		return SMFIS_CONTINUE;
	place = callback_enter(now_ns);
	good = account_mail_end(session, front.engine, front.listener, smfi_getsymval(ctx, i),
	    now_ns, &reply);
	callback_leave(place);
	return good ? SMFIS_CONTINUE : mail_refused(ctx, &reply);
}

static sfsistat on_mail_abort(SMFICTX *ctx) {
	struct account_mail_session *session = smfi_getpriv(ctx);

	if (session != NULL)
		account_mail_over(session, front.engine, clock_now_ns());
	return SMFIS_CONTINUE;
}

static sfsistat on_mail_close(SMFICTX *ctx) {
	if (front.gated)
		milter_gate_left();
	(void)on_mail_abort(ctx);
	free(smfi_getpriv(ctx));
	(void)smfi_setpriv(ctx, NULL);
	return SMFIS_CONTINUE;
}

static const struct smfiDesc accounts_description = {
	.xxfi_name = filter_name,
	.xxfi_version = SMFI_VERSION,
	.xxfi_flags = SMFIF_SETSYMLIST,
	.xxfi_connect = on_mail_connect,
	.xxfi_envfrom = on_mail_from,
	.xxfi_envrcpt = on_mail_recipient,
	.xxfi_body = on_mail_body,
	.xxfi_eom = on_mail_end,
	.xxfi_abort = on_mail_abort,
	.xxfi_close = on_mail_close,
	.xxfi_negotiate = on_mail_negotiate,
};
#endif

static const struct smfiDesc sessions_description = {
	.xxfi_name = filter_name,
	.xxfi_version = SMFI_VERSION,
	.xxfi_flags = SMFIF_SETSYMLIST,
	.xxfi_connect = on_connect,
	.xxfi_close = on_close,
	.xxfi_negotiate = on_negotiate,
};

static struct smfiDesc description_of(bool for_accounts) {
#ifdef WITH_ACCOUNTS
	if (for_accounts)
		return accounts_description;
#endif
	(void)for_accounts;
	return sessions_description;
}

int milter_front_run(struct engine *engine, int fd, uint8_t listener, bool for_accounts,
    struct diag *diag) {
	int gate;

	front.engine = engine;
	front.listener = listener;
	gate = milter_gate_open(fd, &gate_calls, diag);
	if (gate < 0)
		return -1;
	if (smfi_setbacklog(BACKLOG) != MI_SUCCESS ||
	    smfi_settimeout(TIMEOUT_S) != MI_SUCCESS ||
	    smfi_register(description_of(for_accounts)) != MI_SUCCESS)
		return diag_set(diag, 0, "libmilter refuses the configuration");
	front.gated = open_socket(gate) && milter_gate_is_used();
	if (!front.gated) {
		log_event(EVENT_SYSTEM, "text=\"libmilter bypasses the connection gate: each "
		    "idle connection occupies a thread\"");
		if (!open_socket(fd))
			return diag_set(diag, 0, "libmilter refuses socket %d", fd);
	}
	if (thread_start(milter_beat, NULL, diag) != 0)
		return -1;
	use_small_stacks();
	if (smfi_main() != MI_SUCCESS)
		return diag_set(diag, 0, "libmilter failed");
	return diag_set(diag, 0, "libmilter ended");
}
