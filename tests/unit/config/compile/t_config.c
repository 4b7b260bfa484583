/* SPDX-License-Identifier: ISC */
/* The compiler: what is accepted and what it becomes; every kind of mistake with
 * its file and line (t_config_mistakes.c has the table). */
#include <limits.h>
#include "tests/unit/test.h"
#include <libconfig.h>

#include "base/clock.h"
#include "config/generation/account_settings.h"
#include "config/read/restart_only.h"
#include "config/read/setting.h"
#include "tests/unit/config/compiled.h"

static const char design[] =
    "version = 1;\n"
    "state   = { path = \"/run/postern/shared/state\"; sessions = \"64k\"; destinations = \"64k\"; };\n"
    "listen  = { policy = [ \"unix:/var/spool/postfix/private/postern\" ];\n"
    "            milter = [ \"unix:/run/postern/milter\" ];\n"
    "            socketmap = [ \"unix:/run/postern/map\" ];\n"
    "            control = \"unix:/run/postern/control\";\n"
    "            metrics = \"inet:127.0.0.1:9471\"; };\n"
    "mta     = ( { name = \"out\"; kind = \"postfix\"; config_directory = \"/etc/postfix\";\n"
    "              log = \"/var/log/mail.log\"; syslog_name = \"postfix\"; ports = [ 25 ];\n"
    "              clone = \"smtp\"; lanes = [ 1, 2, 3, 5, 10, 20 ]; } );\n"
    "classes = (\n"
    "  { name = \"customer\"; match = [ \"*.customer.example\", \"198.51.100.0/24\" ];\n"
    "    hold_at = 8; refuse_at = 8; },\n"
    "  { name = \"everyone\"; match = [ \"*\" ]; ports = [ 25 ]; hold_at = 100; refuse_at = 80;\n"
    "    client = { sessions = 50; }; action = \"421\"; } );\n"
    "exempt  = [ \"127.0.0.0/8\", \"::1/128\" ];\n"
    "observe = true;\n"
    "outbound = { observe = true; };\n";

static struct generation *good(const char *text) {
	return compiled_well(config_compile_text(text, "t", fresh_messages()));
}

/* One class by its settings. */
static struct generation *with_class(const char *settings) {
	char text[2048];

	snprintf(text, sizeof(text), "version = 1; classes = ( { name = \"c\"; "
	    "match = \"*\"; %s } );", settings);
	return good(text);
}

TEST(the_design_is_accepted) {
	struct generation *g = good(design);
	const struct generation_class *class;

	assert_int_equal(g->class_count, 2);
	assert_int_equal(g->rule_count, 3);
	assert_int_equal(g->session_count, 65536);
	assert_int_equal(g->observe, 1);
	assert_int_equal(g->outbound_observe, 1);
	assert_int_equal(g->listener_count, 5);
	assert_string_equal(generation_text(g, g->listeners[0].address),
	    "unix:/var/spool/postfix/private/postern");
	assert_int_equal(g->listeners[2].kind, LISTENER_SOCKETMAP);
	assert_int_equal(g->listeners[2].mode, 0660);
	class = generation_class(g, 0);
	assert_string_equal(generation_text(g, class->name), "customer");
	assert_string_equal(generation_text(g, class->file), "t");
	assert_int_equal(class->line, 12);
	assert_int_equal(class->limits.sessions, 8);
	assert_int_equal(class->limits.inbound, 8);
	assert_int_equal(class->limits.client_sessions, LIMIT_NONE);
	assert_int_equal(class->record, GENERATION_NO_RECORD);
	assert_true(class->any_port);
	class = generation_class(g, 1);
	assert_int_equal(class->limits.inbound, 80);
	assert_int_equal(class->limits.client_sessions, 50);
	assert_true(class->has_client_limit);
	assert_int_equal(class->client_bits_v4, 32);
	assert_int_equal(class->client_bits_v6, 64);
	assert_int_equal(class->port_count, 1);
	assert_false(class->any_port);
	assert_int_equal(class->observe, 1);
	assert_int_equal(generation_rule(g, 1)->line, 12);
	assert_int_equal(generation_rule(g, 2)->class_index, 1);
}

TEST(everything_else_has_a_default) {
	struct generation *g = with_class("hold_at = 1;");

	assert_string_equal(generation_text(g, g->user), "postern");
	assert_string_equal(generation_text(g, g->group), "");
	assert_string_equal(generation_text(g, g->state_path), POSTERN_RUNSTATEDIR "/shared/state");
	assert_string_equal(generation_text(g, g->file), "t");
	assert_int_equal(g->session_count, 65536);
	assert_int_equal(g->destination_count, 65536);
	assert_int_equal(g->record_count, 1024);
	assert_string_equal(generation_text(g, g->journal.path),
	    POSTERN_LOCALSTATEDIR "/lib/postern");
	assert_int_equal(g->journal.file_size, 16 << 20);
	assert_int_equal(g->journal.sync_delay_ns, NS_PER_SECOND / 10);
	assert_int_equal(g->journal.envelope_delay_ns, NS_PER_SECOND);
	assert_int_equal(g->policy_processes, 2);
	assert_int_equal(g->policy_connections, 1000);
	assert_int_equal(g->lease_owner_ns, 3600 * NS_PER_SECOND);
	assert_int_equal(g->lease_orphan_ns, 60 * NS_PER_SECOND);
	assert_int_equal(g->count_unannounced, UNANNOUNCED_OUTAGE);
	assert_int_equal(g->fail_mode, FAIL_OPEN);
	assert_int_equal(g->observe, 0);
	assert_int_equal(g->outbound_observe, 0);
	assert_int_equal(g->witness_port_count, 1);
	assert_int_equal(g->witness_ports[0], 25);
	assert_int_equal(g->exempt_index, 0);
	assert_int_equal(g->listener_count, 3);
	assert_int_equal(g->listeners[0].kind, LISTENER_POLICY);
	assert_int_equal(g->listeners[0].mode, 0660);
	assert_int_equal(g->listeners[1].kind, LISTENER_MILTER);
	assert_int_equal(g->listeners[2].kind, LISTENER_CONTROL);
	assert_int_equal(g->listeners[2].mode, 0660);
	assert_int_equal(g->listeners[2].proof, PROOF_AUTO);
	assert_string_equal(generation_text(g, generation_class(g, 0)->text),
	    "Too many sessions; try again in {retry} seconds (id={id})");
	assert_int_equal(generation_class(g, 0)->retry_s, 60);
	assert_int_equal(g->gate_word_count, 0);
}

TEST(settings_are_kept) {
	struct generation *g = good(
	    "version = 1; user = \"u\"; group = \"g\"; count_unannounced = \"never\"; fail_mode = \"closed\";\n"
	    "state = { path = \"/x/y\"; sessions = \"1M\"; classes = 7; };\n"
	    "policy = { processes = 3; connections = \"2k\"; }; log = { facility = \"local7\"; };\n"
	    "witness = { ports = [ 25, 587 ]; netns = [ \"a\", \"/run/netns/b\" ]; };\n"
	    "lease = { owner = \"90s\"; orphan = \"2d\"; }; session_proof = \"owner\"; exempt = \"::1\";\n"
	    "listen = { policy = ( \"unix:/a\",\n"
	    "  { address = \"inet:127.0.0.1:1\"; session_proof = \"lease\"; mode = 0640; owner = \"o\";\n"
	    "    group = \"h\"; } ); milter = []; control = { address = \"unix:/c\"; mode = \"0600\"; }; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; text = \"go away\";\n"
	    "  retry = \"90500ms\"; burst = 3;\n"
	    "  action = \"defer\"; rate = \"5/s\"; ports = [ 587, 25, 25 ];\n"
	    "  client = { rate = \"60/1m\"; burst = 70; ipv4 = 24; ipv6 = 48; }; } );");
	const struct generation_class *class = generation_class(g, 0);
	const uint16_t *ports = (const uint16_t *)(const void *)
	    generation_text(g, class->ports);

	assert_string_equal(generation_text(g, g->user), "u");
	assert_string_equal(generation_text(g, g->group), "g");
	assert_string_equal(generation_text(g, g->state_path), "/x/y");
	assert_int_equal(g->count_unannounced, UNANNOUNCED_NEVER);
	assert_int_equal(g->fail_mode, FAIL_CLOSED);
	assert_int_equal(g->session_count, 1048576);
	assert_int_equal(g->record_count, 7);
	assert_int_equal(g->policy_processes, 3);
	assert_int_equal(g->policy_connections, 2048);
	assert_int_equal(generation_log_facility(g), 23 << 3);
	assert_int_equal(g->lease_owner_ns, 90 * NS_PER_SECOND);
	assert_int_equal(g->lease_orphan_ns, 2 * 86400 * NS_PER_SECOND);
	assert_int_equal(g->witness_port_count, 2);
	assert_int_equal(g->witness_ports[1], 587);
	assert_int_equal(g->netns_count, 2);
	assert_string_equal(generation_text(g, g->netns[1]), "/run/netns/b");
	assert_int_equal(g->listener_count, 3);
	assert_int_equal(g->listeners[0].proof, PROOF_OWNER);
	assert_int_equal(g->listeners[0].mode, 0660);
	assert_int_equal(g->listeners[1].proof, PROOF_LEASE);
	assert_int_equal(g->listeners[1].mode, 0640);
	assert_string_equal(generation_text(g, g->listeners[1].owner), "o");
	assert_string_equal(generation_text(g, g->listeners[1].group), "h");
	assert_int_equal(g->listeners[1].line, 7);
	assert_int_equal(g->listeners[2].kind, LISTENER_CONTROL);
	assert_int_equal(g->listeners[2].mode, 0600);
	assert_string_equal(generation_text(g, class->text), "go away");
	assert_int_equal(class->action, CLASS_ACTION_DEFER);
	assert_int_equal(class->limits.rate.count, 5);
	assert_int_equal(class->limits.rate.period_ns, NS_PER_SECOND);
	assert_int_equal(class->limits.rate.burst, 3);
	assert_int_equal(class->limits.client_rate.burst, 70);
	assert_int_equal(class->retry_s, 91);
	assert_int_equal(class->limits.client_rate.count, 60);
	assert_int_equal(class->client_bits_v4, 24);
	assert_int_equal(class->client_bits_v6, 48);
	assert_int_equal(class->port_count, 2);
	assert_int_equal(ports[0], 25);
	assert_int_equal(ports[1], 587);
}

TEST(the_gate_knows_its_words_and_whom_to_spare) {
	struct generation *g = good("version = 1;\n"
	    "gate = { command = [ \"/bin/sh\", \"-x\" ]; };\n"
	    "exempt = [ \"127.0.0.0/8\", \"192.0.2.*\", \"::1\", \"2001:db8::/32\" ];\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );");

	assert_int_equal(g->gate_word_count, 2);
	assert_string_equal(generation_text(g, g->gate_words[0]), "/bin/sh");
	assert_string_equal(generation_text(g, g->gate_words[1]), "-x");
	assert_string_equal(generation_text(g, g->gate_exempt4), "127.0.0.0/8 192.0.2.0/24");
	assert_string_equal(generation_text(g, g->gate_exempt6), "::1/128 2001:db8::/32");
}

TEST(alerts_are_kept) {
	const char *list = setting_find("alert.on")->allowed;
	struct generation *g = good("version = 1; classes = ();\n"
	    "alert = { command = [ \"/bin/sh\", \"root\" ]; on = [ \"gate\", \"role\" ];\n"
	    "  interval = \"1m\"; rate = \"3/1h\"; processes = 4; timeout = \"2s\"; };");

	assert_int_equal(g->alert.word_count, 2);
	assert_string_equal(generation_text(g, g->alert.words[1]), "root");
	assert_int_equal(g->alert.on, 1u << ALERT_GATE | 1u << ALERT_ROLE);
	assert_int_equal(g->alert.interval_ns, 60 * NS_PER_SECOND);
	assert_int_equal(g->alert.rate.count, 3);
	assert_int_equal(g->alert.rate.period_ns, 3600 * NS_PER_SECOND);
	assert_int_equal(g->alert.processes, 4);
	assert_int_equal(g->alert.timeout_ns, 2 * NS_PER_SECOND);
	g = good("version = 1; classes = ();");
	assert_int_equal(g->alert.word_count, 0);
	assert_int_equal(g->alert.on, (1u << ALERT_KINDS) - 1);
	assert_int_equal(g->alert.interval_ns, 600 * NS_PER_SECOND);
	/* the words of the setting are those of alerts.def, in its order */
	for (unsigned i = 0; i < ALERT_KINDS; i++) {
		const char *word = generation_alert_word((enum alert_kind)i);

		assert_memory_equal(list, word, strlen(word));
		list += strlen(word);
		assert_true(*list == (i + 1 == ALERT_KINDS ? '\0' : '|'));
		list++;
	}
}

TEST(mail_servers_are_kept) {
	struct generation *g = good(
	    "version = 1; classes = ();\n"
	    "mta = ( { name = \"out\"; log = \"/l\"; syslog_name = \"postfix-out\"; clone = \"relay\";\n"
	    "  config_directory = \"/etc/postfix-out\"; ports = [ 587, 25, 25 ]; site = \"/s\"; },\n"
	    "{ name = \"sm\"; kind = \"sendmail\"; cf = \"/etc/x.cf\"; ports = 2525; } );");
	const struct generation_mta *mta = &g->mtas[0];
	const char *reason;

	assert_int_equal(g->mta_count, 2);
	assert_string_equal(generation_text(g, mta->name), "out");
	assert_int_equal(mta->kind, MTA_POSTFIX);
	assert_int_equal(mta->line, 2);
	assert_string_equal(generation_text(g, mta->log), "/l");
	assert_string_equal(generation_text(g, mta->syslog_name), "postfix-out");
	assert_string_equal(generation_text(g, mta->clone_program), "postfix-out/smtp");
	assert_string_equal(generation_text(g, mta->clone), "relay");
	assert_string_equal(generation_text(g, mta->config_directory), "/etc/postfix-out");
	assert_string_equal(generation_text(g, mta->site), "/s");
	assert_int_equal(mta->port_count, 2);
	assert_int_equal(mta->ports[0], 25);
	assert_int_equal(mta->ports[1], 587);
	assert_false(mta->site_known);
	assert_false(generation_site_excludes(g, mta, "a.example", 9, &reason));
	assert_true(generation_site_lists(g, mta, "a.example", 9));
	mta = &g->mtas[1];
	assert_int_equal(mta->kind, MTA_SENDMAIL);
	assert_true(mta->uid_known);
	assert_int_equal(mta->uid, 0);
	assert_string_equal(generation_text(g, mta->log), "/var/log/mail.log");
	assert_int_equal(g->remote_port_count, 3);
	assert_int_equal(g->remote_ports[0], 25);
	assert_int_equal(g->remote_ports[1], 587);
	assert_int_equal(g->remote_ports[2], 2525);
	g = good("version = 1; classes = (); mta = ( { } );");
	assert_string_equal(generation_text(g, g->mtas[0].name), "postfix");
	assert_string_equal(generation_text(g, g->mtas[0].site),
	    POSTERN_LOCALSTATEDIR "/lib/postern/postfix.site");
	assert_int_equal(g->remote_port_count, 1);
	g = good("version = 1; classes = ();");
	assert_int_equal(g->mta_count, 0);
	assert_int_equal(g->remote_port_count, 0);
}

#ifdef WITH_QUEUE
TEST(the_transports_of_a_queue_have_their_own) {
	struct generation *g = good(
	    "version = 1; classes = (); listen = { socketmap = \"unix:/m\"; };\n"
	    "mta = ( { kind = \"sendmail\"; drive = true; processes = 4;\n"
	    "  queue = [ \"/q/q*\", \"/q/local\" ]; local_queue = \"/q/local\"; local_processes = 7;\n"
	    "  schedule = { delivery_slot_cost = 0; recipient_limit = \"2k\"; };\n"
	    "  local_schedule = { recipient_refill_delay = \"9s\"; }; },\n"
	    " { name = \"b\"; kind = \"sendmail\"; processes = 3; queue = \"/r\"; } );");
	const struct generation_mta *mta = &g->mtas[0];

	assert_int_equal(mta->queue_count, 2);
	assert_string_equal(generation_text(g, mta->queues[0]), "/q/local");
	assert_string_equal(generation_text(g, mta->queues[1]), "/q/q*");
	assert_int_equal(mta->local_queues, 1);
	assert_int_equal(mta->local_processes, 7);
	assert_int_equal(mta->transports[0].delivery_slot_cost, 0);
	assert_int_equal(mta->transports[0].recipient_limit, 2048);
	assert_int_equal(mta->transports[0].recipient_refill_delay_ns, INT64_C(5000000000));
	assert_int_equal(mta->transports[1].delivery_slot_cost, 5);
	assert_int_equal(mta->transports[1].recipient_refill_delay_ns, INT64_C(9000000000));
	/* without any: those of all, and as many processes again */
	assert_int_equal(g->mtas[1].local_queues, 0);
	assert_int_equal(g->mtas[1].local_processes, 3);
	assert_memory_equal(&g->mtas[1].transports[0], &g->schedule.job,
	    sizeof(g->schedule.job));
}

TEST(a_driven_queue_is_kept) {
	struct generation *g = good(
	    "version = 1; classes = (); listen = { socketmap = \"unix:/m\"; };\n"
	    "mta = ( { kind = \"sendmail\"; drive = true; cf = \"/etc/x.cf\"; processes = 4;\n"
	    "  queue = [ \"/q/a*\", \"/q/b\", \"/q/b\" ]; retry = \"1m\"; run_limit = \"1h\"; } );\n"
	    "schedule = { discipline = \"first-come\"; qmgr_message_active_limit = \"1k\"; };");
	const struct generation_mta *mta = &g->mtas[0];
	unsigned queue_listeners = 0;

	assert_true(generation_drives(g));
	assert_int_equal(mta->processes, 4);
	assert_string_equal(generation_text(g, mta->cf), "/etc/x.cf");
	assert_string_equal(generation_text(g, mta->sendmail), "/usr/sbin/sendmail");
	assert_string_equal(generation_text(g, mta->user), "root");
	assert_int_equal(mta->queue_count, 2);
	assert_string_equal(generation_text(g, mta->queues[0]), "/q/a*");
	assert_string_equal(generation_text(g, mta->queues[1]), "/q/b");
	assert_int_equal(mta->retry_ns, INT64_C(60000000000));
	assert_int_equal(mta->retry_most_ns, INT64_C(1800000000000));
	assert_int_equal(mta->stall_ns, INT64_C(10000000000));
	assert_int_equal(mta->run_limit_ns, INT64_C(3600000000000));
	assert_int_equal(mta->exactly_once, EXACTLY_ONCE_OBSERVE);
	assert_int_equal(g->schedule.discipline, DISCIPLINE_FIRST_COME);
	assert_int_equal(g->schedule.pool.message_active_limit, 1024);
	assert_int_equal(g->schedule.job.delivery_slot_cost, 5);
	assert_int_equal(g->schedule.job.minimum_delivery_slots, 3);
	assert_int_equal(g->schedule.job.delivery_slot_discount, 50);
	assert_int_equal(g->schedule.job.delivery_slot_loan, 3);
	assert_int_equal(g->schedule.job.recipient_refill_delay_ns, INT64_C(5000000000));
	for (uint32_t i = 0; i < g->listener_count; i++)
		queue_listeners += g->listeners[i].kind == LISTENER_QUEUE;
	assert_int_equal(queue_listeners, 1);
	g = good("version = 1; classes = (); mta = ( { kind = \"sendmail\"; } );");
	assert_false(generation_drives(g));
	assert_string_equal(generation_text(g, g->mtas[0].queues[0]), "/var/spool/mqueue");
	for (uint32_t i = 0; i < g->listener_count; i++)
		assert_int_not_equal(g->listeners[i].kind, LISTENER_QUEUE);
}
#endif

TEST(one_limit_stands_for_both) {
	struct generation *g = with_class("hold_at = 9;");

	assert_int_equal(generation_class(g, 0)->limits.inbound, 9);
	g = with_class("refuse_at = 7;");
	assert_int_equal(generation_class(g, 0)->limits.sessions, 7);
	g = with_class("client = { sessions = 3; };");
	assert_int_equal(generation_class(g, 0)->limits.sessions, LIMIT_NONE);
	assert_int_equal(generation_class(g, 0)->limits.inbound, LIMIT_NONE);
	g = with_class("hold_at = 0;");
	assert_int_equal(generation_class(g, 0)->limits.inbound, 0);
}

TEST(innermost_observe_wins) {
	/* top, class, client, outbound: -1 is left out */
	static const int rows[][7] = {
		{ -1, -1, -1, -1, 0, 0, 0 },
		{ 1, -1, -1, -1, 1, 1, 1 },
		{ 1, 0, -1, -1, 0, 0, 0 },
		{ 0, 1, -1, -1, 1, 1, 1 },
		{ 0, 1, 0, -1, 1, 0, 1 },
		{ 1, 0, 1, -1, 0, 1, 0 },
		{ 1, 0, -1, 1, 0, 0, 1 },
		{ 1, 1, 1, 0, 1, 1, 0 },
		{ -1, -1, -1, 1, 0, 0, 1 },
	};
	static const char *const words[] = { "", "observe = false;", "observe = true;" };

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct generation_class *class;
		struct generation *g;
		char text[512];

		snprintf(text, sizeof(text), "version = 1; %s outbound = { %s }; classes = "
		    "( { name = \"c\"; match = \"*\"; hold_at = 3; %s client = { sessions = 1; %s }; } );",
		    words[rows[i][0] + 1], words[rows[i][3] + 1], words[rows[i][1] + 1],
		    words[rows[i][2] + 1]);
		g = good(text);
		class = generation_class(g, 0);
		assert_int_equal(class->observe, rows[i][4]);
		assert_int_equal(class->client_observe, rows[i][5]);
		assert_int_equal(class->outbound_observe, rows[i][6]);
	}
}

TEST(a_name_in_quotes_of_any_list_keeps_its_line) {
	struct generation *g = good("version = 1;\n/* a\n comment */\nclasses = (\n {\n name = \"c\";"
	    " hold_at = 1;\n match = [\n \"a.example\"\n , \"b.example\" # \"x\" ]\n\n,"
	    "\"*.c.example\"\n\n ]\n }\n ,\n { name = \"d\"\n match = ( \"d.example\"\n );\n"
	    " refuse_at = 1 } );");

	assert_int_equal(generation_class(g, 0)->line, 5);
	assert_int_equal(generation_rule(g, 0)->line, 8);
	assert_int_equal(generation_rule(g, 1)->line, 9);
	assert_int_equal(generation_rule(g, 2)->line, 11);
	assert_int_equal(generation_class(g, 1)->line, 16);
	assert_int_equal(generation_rule(g, 3)->line, 17);
}

/* Why the source looks at bare numbers before libconfig does: 1.5 wraps them, 1.7 makes
 * another type of them. */
TEST(libconfig_takes_numbers_that_do_not_fit_in_silence) {
	config_t config;
	int value = -1;

	config_init(&config);
	assert_int_equal(config_read_string(&config,
	    "a = 4294967297; b = 2147483648; c = 0x1ffffffff;"), CONFIG_TRUE);
	if (config_setting_type(config_lookup(&config, "a")) == CONFIG_TYPE_INT) {
		assert_int_equal(config_lookup_int(&config, "a", &value), CONFIG_TRUE);
		assert_int_equal(value, sizeof(long) > sizeof(int) ? 1 : INT32_MAX);
		assert_int_equal(config_lookup_int(&config, "b", &value), CONFIG_TRUE);
		assert_int_equal(value, sizeof(long) > sizeof(int) ? INT32_MIN : INT32_MAX);
	} else {
		assert_int_equal(config_setting_type(config_lookup(&config, "a")), CONFIG_TYPE_INT64);
		assert_int_equal(config_setting_type(config_lookup(&config, "b")), CONFIG_TYPE_INT64);
	}
	config_destroy(&config);
}

struct differences {
	char text[256];
};

static void gather(void *context, const char *setting) {
	struct differences *d = context;
	size_t length = strlen(d->text);

	snprintf(d->text + length, sizeof(d->text) - length, "%s ", setting);
}

TEST(the_journal_has_a_directory_for_each_role_or_none) {
	struct generation *some = good("version = 1; classes = ( );\n"
	    "journal = { path = \"/j\"; file_size = \"64k\"; };"), *none, *other;
	char path[PATH_MAX];

	assert_true(generation_journal_directory(some, JOURNAL_ROOM_FEED, path));
	assert_string_equal(path, "/j/feed");
	assert_true(generation_journal_directory(some, JOURNAL_ROOM_KEEPER, path));
	assert_string_equal(path, "/j/keeper");
	assert_true(generation_journal_directory(some, JOURNAL_ROOM_QUEUE, path));
	assert_string_equal(path, "/j/queue");
	other = good("version = 1; state = { path = \"/x/state\"; }; classes = ( );");
	assert_true(generation_journal_directory(other, JOURNAL_ROOM_FEED, path));
	assert_string_equal(path, "/x/state.journal/feed");
	none = good("version = 1; journal = { path = \"none\"; }; classes = ( );");
	assert_false(generation_journal_directory(none, JOURNAL_ROOM_FEED, path));
	assert_string_equal(path, "");
}

TEST(differences_that_wait_for_a_restart) {
	static const struct {
		const char *settings, *expected;
	} rows[] = {
		{ "", "" },
		{ "observe = true; count_unannounced = \"never\"; lease = { owner = \"5m\"; };", "" },
		{ "witness = { ports = [ 26 ]; };", "" },
		{ "session_proof = \"lease\";", "" },
		{ "user = \"x\"; group = \"y\";", "user group " },
		{ "state = { path = \"/x\"; sessions = \"1k\"; classes = 9; };",
		    "state.path state.sessions state.classes journal.path " },
		{ "state = { destinations = \"1k\"; };", "state.destinations " },
		{ "policy = { processes = 4; connections = 5; };", "policy.processes " },
		{ "journal = { path = \"none\"; file_size = \"1M\"; sync_delay = \"10ms\"; "
		    "envelope_delay = \"2s\"; };",
		    "journal.path journal.file_size journal.sync_delay journal.envelope_delay " },
		{ "log = { facility = \"daemon\"; };", "log.facility " },
		{ "witness = { netns = \"a\"; };", "witness.netns " },
		{ "listen = { policy = []; control = { address = \"unix:" POSTERN_RUNSTATEDIR "/control\"; "
		    "mode = \"0666\"; }; };", "listen.policy listen.milter listen.control " },
		{ "listen = { milter = [ \"unix:" POSTERN_RUNSTATEDIR "/milter\", \"unix:/x\" ]; };",
		    "listen.policy listen.milter " },
	};
	struct generation *base = with_class("hold_at = 1;");

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct differences d = { "" };
		struct generation *g;
		char text[1024];

		snprintf(text, sizeof(text), "version = 1; %s classes = ( { name = \"c\"; "
		    "match = \"*\"; hold_at = 2; } );", rows[i].settings);
		g = good(text);
		restart_only_differences(base, g, gather, &d);
		assert_string_equal(d.text, rows[i].expected);
	}
}

/* 100,000 masks; all of them are found. */
TEST(many_masks) {
	size_t room = 4 << 20, length = 0;
	char *text = malloc(room);
	struct generation *g;

	assert_non_null(text);
	length += (size_t)snprintf(text, room, "version = 1; classes = ( { name = \"c\"; "
	    "hold_at = 1; match = [");
	for (unsigned i = 0; i < 100000; i++)
		length += (size_t)snprintf(text + length, room - length,
		    i % 2 ? "%s\"10.%u.%u.0/24\"" : "%s\"*.d%u-%u.example\"", i ? ",\n" : "",
		    i >> 9, i >> 1 & 255);
	snprintf(text + length, room - length, "]; } );");
	g = good(text);
	assert_int_equal(g->rule_count, 100000);
	for (unsigned i = 0; i < 100000; i += 997) {
		struct address address = { { 0 } };
		char name[64];
		int n = snprintf(name, sizeof(name), i % 2 ? "10.%u.%u.7" : "a.d%u-%u.example",
		    i >> 9, i >> 1 & 255);

		if (i % 2)
			assert_true(address_parse(name, (size_t)n, &address));
		assert_int_equal(generation_match_inbound(g, 25, &address, name,
		    i % 2 ? 0 : (size_t)n), i);
	}
	free(text);
}

#ifdef WITH_ACCOUNTS
/* Who asks at each of: policy, policy with a name, milter_accounts. */
TEST(the_mail_server_that_asks) {
#define ASKS "listen = { policy = ( \"unix:/p\", { address = \"unix:/q\"; mta = \"b\"; } );\n" \
	"  milter_accounts = \"unix:/a\"; };\nclasses = ();\n"
#define B "{ name = \"b\"; log = \"/b\"; }"
	static const struct {
		const char *mtas;
		const char *names[3];
	} cases[] = {
		{ B, { "b", "b", "b" } },
		{ B ", { name = \"s\"; kind = \"sendmail\"; log = \"/s\"; }", { "b", "b", "s" } },
		{ B ", { name = \"c\"; log = \"/c\"; }", { NULL, "b", NULL } },
		{ B ", { name = \"c\"; log = \"/c\"; }, { name = \"s\"; kind = \"sendmail\"; "
		    "log = \"/s\"; }", { NULL, "b", "s" } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct generation *g;
		char text[1024];

		snprintf(text, sizeof(text), "version = 1;\n" ASKS "mta = ( %s );\n",
		    cases[i].mtas);
		g = good(text);
		for (unsigned at = 0; at < g->listener_count; at++) {
			const char *address = generation_text(g, g->listeners[at].address);
			const char *name = generation_asking_mta(g, at);
			const char *wanted = cases[i].names[address[6] == 'p' ? 0 :
			    address[6] == 'q' ? 1 : 2];

			if (strlen(address) != 7)
				continue;	/* control */
			assert_int_equal(name == NULL, wanted == NULL);
			if (wanted != NULL)
				assert_string_equal(name, wanted);
		}
	}
}
#endif
