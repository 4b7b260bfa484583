/* SPDX-License-Identifier: ISC */
/* Every kind of mistake: severity, file, line and words. */
#include <sys/stat.h>
#include "tests/unit/test.h"
#include "config/compile/compile.h"

#define V "version = 1;\n"
#define C "classes = ( { name = \"c\"; match = \"*\"; hold_at = 1; } );\n"
/* Two mail servers that are driven. */
#define TWO(a, b) V "listen = { socketmap = \"unix:/m\"; syslog = \"unix:/s\"; };\n" \
    "mta = ( { kind = \"sendmail\"; name = \"a\"; drive = true; queue = \"" a "\"; log = \"\"; },\n" \
    "{ kind = \"sendmail\"; name = \"b\"; drive = true; queue = \"" b "\"; log = \"\"; } );\n" C
#define CLASS(settings) V "classes = ( { name = \"a\"; match = \"a.example\"; hold_at = 2;\n" \
	settings " },\n { name = \"z\"; match = \"*\"; hold_at = 1; } );\n"

#define CLUSTER(settings) V "cluster = { redis = \"unix:/r\"; node = \"a\"; nodes = 3;\n" \
	settings " };\nclasses = ( { name = \"c\"; match = \"*\"; hold_at = 6;\n" \
	"scope = \"cluster\"; } );\n"

/* The text, then the only message that is expected: "LINE: words" for an
 * error, "LINE: note: words" for a note, "" for none. */
static const struct {
	const char *text, *expected;
} mistakes[] = {
	/* the file as a whole */
	{ C, "0: note: version = 1; is missing: assuming version 1" },
	{ V, "0: classes is missing: no sessions are counted" },
	{ V "classes = ();", "2: note: classes is empty: no sessions are counted" },
	{ "version = 2;\n" C, "1: version: \"2\" is not within 1..1" },
	/* syntax */
	{ V C "classes = ();", "3: classes is set twice in this group" },
	{ V "a = [ 1, \"x\" ];\n", "2: mismatched element type in array" },
	{ V "state = {\n", "3: syntax error here or just before" },
	{ V "observe = true\n}\n", "3: syntax error" },
	{ V "classes = ( 1\n; );\n", "3: syntax error" },
	{ V "user = \"x\n\n\n", "2: missing closing \" for the text that starts here" },
	{ V "\n/* x * /\n\n", "3: missing end of the comment that starts here" },
	{ V "@include \"x.conf\"\n" C, "2: this text cannot include a file" },
	/* unknown settings */
	{ V "observe = true;\nobserve = false;\n" C, "3: observe is set twice in this group" },
	{ V "observe = true; observe = false;\n" C, "2: duplicate setting name" },
	{ V "exempt = [ \"\" ];\n" C, "2: exempt: bad mask \"\": a mask is empty" },
	{ V "obsrve = true;\n" C, "2: unknown setting obsrve: did you mean observe?" },
	{ V "state = { session = \"1k\"; };\n" C,
	    "2: unknown setting state.session: did you mean state.sessions?" },
	{ V "processes = 2;\n" C,
	    "2: unknown setting processes: did you mean policy.processes?" },
	{ V "somethingelse = 2;\n" C, "2: unknown setting somethingelse" },
	/* by the name that it had in the previews */
	{ CLASS("sesions = 3;"), "3: unknown setting classes.sesions: did you mean classes.hold_at?" },
	{ CLASS("client = { sessions = 1; ipv5 = 3; };"),
	    "3: unknown setting classes.client.ipv5: did you mean classes.client.ipv4?" },
	{ V "listen = { policy = { address = \"unix:/x\"; mod = 1; }; };\n" C,
	    "2: unknown setting listen.mod: did you mean listen.mode?" },
	{ V "mta = ( { name = \"a\"; kind = \"sendmail\"; log = \"/l\"; },\n"
	    "{ name = \"b\"; kind = \"sendmail\"; log = \"/l\"; } );\n" C,
	    "3: note: mta b: its deliveries look like those of the mta in line 2: same log, same "
	    "syslog_name" },
#ifdef WITH_ACCOUNTS
	/* which mail server asks */
	{ V "listen = { policy = { address = \"unix:/x\"; mta = \"b\"; }; };\n"
	    "mta = ( { name = \"a\"; log = \"/l\"; } );\n" C, "2: listen.policy: no mta has the name b" },
	{ V "listen = { milter = { address = \"unix:/x\"; mta = \"a\"; }; };\n"
	    "mta = ( { name = \"a\"; log = \"/l\"; } );\n" C,
	    "2: listen.milter: mta is for listen.policy and listen.milter_accounts only" },
	{ V "listen = { policy = \"unix:/x\"; };\n"
	    "mta = ( { name = \"a\"; log = \"/l\"; }, { name = \"b\"; log = \"/m\"; } );\n" C
	    "accounts = ( { name = \"a\"; match = \"*\"; health = { }; } );\n",
	    "2: note: listen.policy: several mail servers could ask here: without mta, results of "
	    "their mail count for no login" },
	{ V "listen = { milter = \"unix:/x\"; };\nclasses = ( { name = \"a\"; match = \"10.0.0.0/8\"; "
	    "hold_at = 9; },\n{ name = \"b\"; match = \"*\"; recipients = \"9/1h\"; } );\n",
	    "4: note: class b: no mail server can ask about recipients, messages or bytes; set "
	    "listen.policy (Postfix) or listen.milter_accounts (Sendmail)" },
	{ V "listen = { milter = \"unix:/x\"; };\nclasses = ( { name = \"b\"; match = \"*\"; "
	    "client = { bytes = \"9M/1h\"; }; } );\n", "3: note: class b: no mail server can ask" },
	{ V "listen = { milter_accounts = \"unix:/x\"; };\nclasses = ( { name = \"b\"; "
	    "match = \"*\"; client = { bytes = \"9M/1h\"; }; } );\n", "" },
	{ V "listen = { milter = \"unix:/x\"; };\n" C
	    "accounts = ( { name = \"a\"; match = \"*\"; each = { bytes = \"9M/1h\"; }; } );\n",
	    "4: note: accounts: no mail server can ask; set listen.policy" },
	{ V "mta = ( { name = \"a\"; log = \"/l\"; }, { name = \"b\"; log = \"/m\"; } );\n" C
	    "accounts = ( { name = \"a\"; match = \"*\"; health = { }; } );\n",
	    "0: note: listen.policy: several mail servers could ask here: without mta, results of "
	    "their mail count for no login" },
	{ V "listen = { policy = ( { address = \"unix:/x\"; mta = \"a\"; }, { address = \"unix:/y\"; "
	    "mta = \"b\"; } ); };\n"
	    "mta = ( { name = \"a\"; log = \"/l\"; }, { name = \"b\"; log = \"/m\"; } );\n" C
	    "accounts = ( { name = \"a\"; match = \"*\"; health = { }; } );\n", "" },
#endif
	/* types */
	{ V "observe = 1;\n" C, "2: observe: must be true or false, not a bare number" },
	{ V "observe = \"true\";\n" C, "2: observe: must be true or false, not text" },
	{ V "user = 65534;\n" C, "2: user: must be text in quotes, not a bare number" },
	{ V "state = \"x\";\n" C, "2: state: must be a group { ... }" },
	{ V "state = { path = [ \"/x\" ]; };\n" C,
	    "2: state.path: must be text in quotes, not an array [ ]" },
	{ V "lease = { owner = 60; };\n" C,
	    "2: lease.owner: must be a time in quotes, such as \"90s\", not a bare number" },
	{ V "classes = { name = \"c\"; };\n",
	    "2: classes: must be a list of groups, ( { ... }, { ... } )" },
	{ V "classes = ( 1 );\n", "2: classes: each element must be a group { ... }" },
	{ CLASS("burst = 5;"), "3: class a: burst needs a rate" },
	{ CLASS("client = { sessions = 1; burst = 5; };"), "3: class a: burst needs a rate" },
	{ CLASS("rate = \"5/s\"; burst = 0;"), "3: classes.burst: \"0\" is not within 1..16M" },
	{ CLASS("text = \"later {when}\";"), "3: class a: text: unknown placeholder {when}; "
	    "use {retry}, {id}, {class} or {client}" },
	{ CLASS("text = \"{client}{client}{client}{client}{client}{client}{client}{client}"
	    "{client}\";"), "3: class a: text can exceed 400 characters after substitution of "
	    "its placeholders" },
	{ CLASS("retry = \"0s\";"), "3: classes.retry: \"0s\" is not within 1s..30d" },
	{ V "gate = { command = \"gate\"; };\n" C,
	    "2: gate.command: \"gate\" must be an absolute path" },
	{ V "gate = { command = []; };\n" C, "2: gate.command: needs a path and at most 14 "
	    "arguments, not 0 words" },
	{ V "alert = { command = \"alert\"; };\n" C,
	    "2: alert.command: \"alert\" must be an absolute path" },
	/* what has no effect */
	{ V "window = { destination_concurrency_negative_feedback = \"1/4\"; };\n" C, "2: note: "
	    "window.destination_concurrency_negative_feedback has no effect: law probe does not use it" },
	{ V "window = { law = \"postfix\"; believe = \"9s\"; };\n" C, "2: note: window.believe has no "
	    "effect: law postfix does not use it" },
	{ V "window = { law = \"document\"; suspend = \"9s\";\n"
	    "destination_concurrency_negative_feedback = \"1/4\"; };\n" C, "" },
	{ V "window = { canary = \"9s\"; destination_concurrency_positive_feedback = \"1/4\"; };\n"
	    "destinations = ( { match = \"d\"; window = { law = \"postfix\"; }; } );\n" C, "" },
	{ V "outbound = { observe = true; };\nmta = ( { name = \"a\"; kind = \"sendmail\"; log = \"\"; } );\n"
	    C, "2: note: classes.hold_at holds back no outbound mail: outbound.observe is on" },
	{ V "observe = true; outbound = { observe = true; };\n"
	    "mta = ( { name = \"a\"; kind = \"sendmail\"; log = \"\"; } );\n" C, "" },
	{ V "alert = { command = \"/nowhere/alert\"; };\n" C, "2: note: alert.command: "
	    "/nowhere/alert cannot be run: no alerts will be sent" },
	{ V "alert = { command = \"/tmp\"; };\n" C, "2: note: alert.command: /tmp cannot be run" },
	{ V "alert = { command = \"/bin/sh\"; on = [ ]; };\n" C,
	    "2: note: alert.on is empty: no event triggers an alert" },
	{ V "alert = { interval = \"1m\"; };\n" C,
	    "2: note: alert.command is missing: no alerts will be sent" },
	{ V "alert = { command = \"/bin/sh\"; on = [ \"gate\", \"suspend\" ]; };\n" C,
	    "2: alert.on: \"suspend\" is not one of "
	    "suspended|ceiling|reply|gate|fault|role|cluster|journal|account" },
	{ V "alert = { command = \"/bin/sh\"; processes = 17; };\n" C,
	    "2: alert.processes: \"17\" is not within 1..16" },
	{ V "gate = { command = \"/nowhere/gate\"; };\n" C, "2: note: gate.command: "
	    "/nowhere/gate cannot be run: full classes will only be logged" },
	{ V "gate = { command = \"/bin/sh\"; };\nexempt = [ \"::1\",\n\"a.example\" ];\n" C,
	    "4: note: exempt: gate.command in the kernel cannot use host names; only addresses "
	    "and prefixes are exempt there" },
	/* other machines */
#ifndef WITH_CLUSTER
	{ CLUSTER(""), "2: cluster: this posternd was built without clusters" },
	{ CLASS("scope = \"cluster\";"), "3: class a: scope \"cluster\": this posternd was built "
	    "without clusters" },
#elif !defined(HAVE_HIREDIS)
	{ CLUSTER(""), "2: cluster: this build has no hiredis" },
#else
	{ CLUSTER(""), "" },
	{ CLUSTER("redis = \"unix:/q\";"), "3: redis is set twice in this group" },
	{ CLUSTER("lease = \"1s\";"), "3: cluster.lease: \"1s\" is not within 2s..10m" },
	{ CLUSTER("lease = \"11m\";"), "3: cluster.lease: \"11m\" is not within 2s..10m" },
	{ CLUSTER("lease = 15;"), "3: cluster.lease: must be a time in quotes" },
	{ CLUSTER("fraction = 101;"), "3: cluster.fraction: \"101\" is not within 0..100" },
	{ CLUSTER("when_unreachable = \"nothing\";"),
	    "3: cluster.when_unreachable: \"nothing\" is not one of fraction|alone" },
	{ CLUSTER("prefix = \"p*:\";"), "3: cluster.prefix: p*: may only have letters, digits, "
	    "colon, point, hyphen and underscore" },
	{ CLUSTER("prefix = \"123456789012345678901234567890123\";"),
	    "3: cluster.prefix: must have 1..32 characters, not 33" },
	{ CLUSTER("user = \"postern\";"),
	    "3: note: cluster.user is set without password_file: no password is sent" },
	{ CLUSTER("passwort_file = \"/x\";"), "3: unknown setting cluster.passwort_file: did you "
	    "mean cluster.password_file?" },
	{ CLUSTER("password_file = \"x\";"), "3: cluster.password_file: \"x\" must be an "
	    "absolute path" },
	{ CLUSTER("fraction = 0;"), "5: note: class c: cluster.fraction is 0: without the "
	    "server, all sessions are refused" },
	{ V "cluster = { redis = \"unix:/r\"; node = \"a\"; nodes = 3; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 5; scope = \"cluster\"; } );\n",
	    "3: note: class c: 5 sessions are too few for one on each of 3 nodes: without the "
	    "server, all sessions are refused" },
	{ CLUSTER("fraction = 0; when_unreachable = \"alone\";"), "" },
	{ V "cluster = { node = \"a\"; nodes = 2; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 9; scope = \"cluster\"; } );\n",
	    "2: cluster.redis is missing" },
	{ V "cluster = { redis = \"inet:127.0.0.1:6379\"; node = \"mx 1\"; nodes = 2; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 9; scope = \"cluster\"; } );\n",
	    "2: cluster.node: \"mx 1\" may only have printable ASCII characters without spaces" },
	{ V "cluster = { redis = \"inet:redis.example:6379\"; node = \"a\"; nodes = 2; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 9; scope = \"cluster\"; } );\n",
	    "2: cluster.redis:" },
	{ V "cluster = { redis = \"unix:/r\"; node = \"-a\"; nodes = 2; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 9; scope = \"cluster\"; } );\n",
	    "2: cluster.node: -a may only have letters, digits, point, hyphen and underscore, "
	    "and cannot start with point or hyphen" },
	{ V "cluster = { redis = \"unix:/r\"; node = \"a:b\"; nodes = 2; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 9; scope = \"cluster\"; } );\n",
	    "2: cluster.node: a:b may only have letters, digits, point, hyphen and underscore, "
	    "and cannot start with point or hyphen" },
	{ V "cluster = { redis = \"unix:/r\"; node = \"a\"; nodes = 65; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; hold_at = 9; scope = \"cluster\"; } );\n",
	    "2: cluster.nodes: \"65\" is not within 1..64" },
	{ V "cluster = { redis = \"unix:/r\"; node = \"a\"; nodes = 2; };\n" C, "2: note: no "
	    "class has scope = \"cluster\": only destination state is shared" },
	{ CLASS("scope = \"cluster\";"), "3: class a: scope \"cluster\" needs the group cluster" },
	{ V "window = { scope = \"cluster\"; };\n" C, "2: window: scope \"cluster\" needs the group "
	    "cluster" },
	{ V "destinations = ( { match = \"a.example\";\nwindow = { scope = \"cluster\"; }; } );\n" C,
	    "3: window: scope \"cluster\" needs the group cluster" },
	{ CLASS("scope = \"all\";"), "3: classes.scope: \"all\" is not one of node|cluster" },
	{ V "cluster = { redis = \"unix:/r\"; node = \"a\"; nodes = 2; };\n"
	    "classes = ( { name = \"c\"; match = \"*\"; client = { sessions = 1; };\n"
	    "scope = \"cluster\"; hold_at = 9; } );\n", "4: note: class c: rate and client "
	    "limits apply to each node separately, whatever scope is" },
	{ CLUSTER("") "window = { scope = \"cluster\"; };\n", "" },
	{ CLUSTER("") "destinations = ( { match = [ \"a.example\" ];\n"
	    "window = { scope = \"cluster\";\ndestination_concurrency_limit = 0; }; } );\n",
	    "7: note: window.scope: destination_concurrency_limit is 0: only learned ceilings "
	    "are divided" },
#endif
	{ V "window = {\nscope = \"node\"; };\n" C, "" },
	{ V "window = {\nscope = \"all\"; };\n" C,
	    "3: window.scope: \"all\" is not one of node|cluster" },
	{ CLASS("rate = 5;"),
	    "3: classes.rate: must be a rate in quotes, such as \"60/1m\", not a bare number" },
	{ CLASS("action = 421;"), "3: classes.action: must be text in quotes, not a bare number" },
	{ CLASS("refuse_at = 1.5;"),
	    "3: classes.refuse_at: must be a number, not a number with a decimal point" },
	{ CLASS("ports = { };"), "3: classes.ports: must be port numbers" },
	{ V "exempt = [ 1 ];\n" C, "2: exempt: must be masks in quotes" },
	{ V "listen = { control = 5; };\n" C,
	    "2: listen.control: must be an address in quotes, such as \"unix:/path\"" },
	/* bounds and forms */
	{ V "state = { sessions = \"1\"; };\n" C, "2: state.sessions: \"1\" is not within 64..16M" },
	{ V "state = { sessions = \"64q\"; };\n" C,
	    "2: state.sessions: \"64q\" is not a number such as \"300\" or \"64k\"" },
	{ V "state = { sessions = -5; };\n" C, "2: state.sessions: \"-5\" is not within 64..16M" },
	{ V "journal = { path = \"lib/postern\"; };\n" C,
	    "2: journal.path: \"lib/postern\" must be an absolute path, beginning with /, or none" },
	{ V "journal = { file_size = \"1k\"; };\n" C,
	    "2: journal.file_size: \"1k\" is not within 64k..1G" },
	{ V "journal = { sync_delay = \"1m\"; };\n" C,
	    "2: journal.sync_delay: \"1m\" is not within 1ms..10s" },
	{ V "journal = { envelope_delay = \"0s\"; };\n" C,
	    "2: journal.envelope_delay: \"0s\" is not within 1ms..60s" },
	{ V "state = { path = \"run/state\"; };\n" C,
	    "2: state.path: \"run/state\" must be an absolute path" },
	{ V "policy = { processes = 33; };\n" C, "2: policy.processes: \"33\" is not within 1..32" },
	{ V "lease = { orphan = \"10\"; };\n" C, "2: lease.orphan: \"10\" is not a time such as" },
	{ V "lease = { orphan = \"31d\"; };\n" C, "2: lease.orphan: \"31d\" is not within 1s..30d" },
	{ V "adopt = \"never\";\n" C, "2: note: count_unannounced is the new name of adopt" },
	{ V "classes = ( { name = \"a\"; match = \"*\";\nsessions = 3; } );",
	    "3: note: classes.hold_at is the new name of sessions" },
	{ V "classes = ( { name = \"a\"; match = \"*\";\nsessions = 3; hold_at = 2; } );",
	    "3: classes.hold_at is set too, which is the new name of sessions" },
	{ V "count_unannounced = \"sometimes\";\n" C,
	    "2: count_unannounced: \"sometimes\" is not one of outage|always|never" },
	{ V "user = \"\";\n" C, "2: user: must have 1..32 characters, not 0" },
	{ V "user = \"a b\";\n" C, "2: user: \"a b\" may only have printable ASCII characters" },
	{ CLASS("ports = [ 0 ];"), "3: classes.ports: \"0\" is not within 1..65535" },
	{ CLASS("ports = [ 25, 65536 ];"), "3: classes.ports: \"65536\" is not within" },
	{ CLASS("ports = [ ];"), "3: class a: ports is empty" },
	{ CLASS("rate = \"60\";"), "3: classes.rate: \"60\" is not a rate such as \"60/1m\"" },
	{ CLASS("text = \"a\\nb\";"), "3: classes.text: \"a\\x0ab\" may only have printable "
	    "ASCII characters" },
	{ CLASS("text = \"\";"), "3: classes.text: must have 1..200 characters, not 0" },
	{ CLASS("client = { sessions = 1; ipv4 = 33; };"), "3: classes.client.ipv4: \"33\" is not within 0..32" },
	{ CLASS("client = { sessions = 0; };"), "3: classes.client.sessions: \"0\" is not within" },
	{ CLASS("action = \"550\";"), "3: classes.action: \"550\" is not one of 421|defer" },
	/* numbers that libconfig would wrap */
	{ CLASS("refuse_at = 4294967297;"), "3: the number 4294967297 is too large: bare numbers "
	    "end at 2147483647; write sizes in quotes, such as \"64k\"" },
	{ CLASS("refuse_at = 2147483648;"), "3: the number 2147483648 is too large: bare numbers "
	    "end at 2147483647; write sizes in quotes, such as \"64k\"" },
	{ CLASS("refuse_at = -2147483648;"), "3: the number -2147483648 is too large: bare "
	    "numbers end at 2147483647; write sizes in quotes, such as \"64k\"" },
	{ CLASS("refuse_at = 0x1ffffffff;"), "3: the number 0x1ffffffff is too large: bare "
	    "numbers end at 2147483647; write sizes in quotes, such as \"64k\"" },
	{ CLASS("refuse_at = 99999999999999999999999L;"), "3: the number 99999999999999999999999L" },
	{ CLASS("refuse_at = 4294967297L;"), "3: classes.refuse_at: \"4294967297\" is not within" },
	{ CLASS("ports = [ 25, 4294967321 ];"), "3: the number 4294967321 is too large: bare "
	    "numbers end at 2147483647; write sizes in quotes, such as \"64k\"" },
	{ V "state = { sessions = 4294967297; };\n" C, "2: the number 4294967297 is too large: "
	    "bare numbers end at 2147483647; write sizes in quotes, such as \"64k\"" },
	{ CLASS("refuse_at = \"4294967297\";"), "3: classes.refuse_at: \"4294967297\" is not within" },
	/* addresses to listen on */
	{ V "listen = { policy = \"/run/x\"; };\n" C,
	    "2: listen.policy: \"/run/x\" is not an address: it must start with unix:" },
	{ V "listen = { control = ( \"unix:/a\",\n \"unix:b\"\n ); };\n" C,
	    "3: listen.control: \"unix:b\" is not an address" },
	{ V "listen = { policy = { mode = \"0660\"; }; };\n" C,
	    "2: listen: a group must have an address" },
	{ V "listen = { policy = { address = \"unix:/x\"; mode = \"888\"; }; };\n" C,
	    "2: listen.mode: \"888\" is not a mode such as \"0660\"" },
	{ V "listen = { policy = { address = \"unix:/x\"; mode = 0x1b0; }; };\n" C,
	    "2: listen.mode: must be a mode in quotes, such as \"0660\", not a bare number" },
	{ V "listen = { policy = { address = \"unix:/x\"; session_proof = \"no\"; }; };\n" C,
	    "2: listen.session_proof: \"no\" is not one of auto|witness|owner|lease" },
	{ V "listen = { policy = [ \"unix:/x\",\n \"unix:/x\" ]; };\n" C,
	    "3: listen.policy: the address is already used in listen, line 2" },
	{ V "listen = { policy = { address = \"unix:/x\"; read_group = \"a\"; }; };\n" C,
	    "2: listen.policy: read_group is for listen.control and listen.queue only" },
	{ V "listen = { control = { address = \"inet:127.0.0.1:1\"; write_group = \"a\"; }; };\n" C,
	    "2: listen.control: write_group: inet:127.0.0.1:1 is not a unix socket: only these "
	    "identify the user" },
	{ V "sandbox = \"strict\";\n" C, "2: sandbox: \"strict\" is not one of "
	    "on|required|log|off" },
	{ V "listen = { socketmap = \"inet:127.0.0.1:1\"; };\n" C,
	    "2: listen.socketmap: inet:127.0.0.1:1 is not a unix socket: only these" },
	/* classes */
	{ V "classes = (\n{ match = \"*\"; hold_at = 1; } );\n", "3: a class has no name" },
	{ V "classes = ( { name = \"a b\"; match = \"*\"; hold_at = 1; } );\n",
	    "2: classes.name: \"a b\" may only have printable ASCII characters" },
	{ V "classes = (\n{ name = \"a\"; match = \"a\"; hold_at = 1; },\n"
	    "{ name = \"a\"; match = \"*\"; hold_at = 1; } );\n",
	    "4: class name a is already used by the class at t:3" },
	{ V "classes = (\n{ name = \"-\"; match = [ \"*\" ]; hold_at = 5; } );",
	    "3: class name - is reserved: it means no class" },
	{ V "classes = ( { name = \"a\";\nmatch = [];\nhold_at = 1; },\n"
	    "{ name = \"z\"; match = \"*\"; hold_at = 1; } );\n",
	    "3: class a has no masks; set match" },
	{ V "classes = (\n{ name = \"a\"; hold_at = 1; },\n"
	    "{ name = \"z\"; match = \"*\"; hold_at = 1; } );\n",
	    "3: class a has no masks; set match" },
	{ V "classes = ( { name = \"a\"; match = [ \"*\",\n \"192.0.2.1/24\"\n]; hold_at = 1; } );\n",
	    "3: classes.match: bad mask \"192.0.2.1/24\": " },
	{ V "classes = ( { name = \"a\"; match = [ \"*\", \"2001:db8::/129\"\n]; hold_at = 1; } );\n",
	    "2: classes.match: bad mask \"2001:db8::/129\": " },
	{ V "classes = ( { name = \"a\"; match = [ \"*\", \"a.*.b\" ]; hold_at = 1; } );\n",
	    "2: classes.match: bad mask \"a.*.b\": " },
	{ V "exempt = ( \"10.0.0.0-10.0.0.255\" );\n" C,
	    "2: exempt: bad mask \"10.0.0.0-10.0.0.255\": a range of addresses is written as prefixes" },
	{ V "exempt = ( \"!192.0.2.1\" );\n" C, "2: exempt: bad mask \"!192.0.2.1\": a mask cannot be negated" },
	{ V "exempt = ( \".customer.example\" );\n" C, "2: exempt: bad mask \".customer.example\": a domain and "
	    "all names below it is written *.domain: did you mean \"*.customer.example\"?" },
	{ V "exempt = ( \"hash:/etc/postfix/customers\" );\n" C,
	    "2: exempt: bad mask \"hash:/etc/postfix/customers\": files and lookup tables are not read" },
	{ CLASS("client = { sessions = 3; };"), "3: note: class a: client.sessions (3) is above refuse_at (2): "
	    "one client can fill the class" },
	{ V "exempt = [ \"127.0.0.1/8\" ];\n" C, "2: exempt: bad mask \"127.0.0.1/8\": " },
	{ V "exempt = \"*\";\n" C, "2: note: exempt: \"*\" exempts every client" },
	{ V "state = { classes = 1; };\n"
	    "classes = (\n{ name = \"a\"; match = \"a\"; hold_at = 1; },\n"
	    "{ name = \"z\"; match = \"*\"; hold_at = 1; } );\n",
	    "3: 2 classes, but state.classes is 1" },
	/* what can never match */
	{ V "classes = ( { name = \"a\"; match = [ \"*\" ]; hold_at = 1; },\n"
	    "{ name = \"b\"; match = [ \"b.example\", \"192.0.2.0/24\" ]; hold_at = 1; } );\n",
	    "3: class b can never match: earlier classes match all its masks (\"*\" of class a "
	    "at t:2 matches \"b.example\")" },
	{ V "classes = ( { name = \"a\"; match = [ \"*.example\" ]; hold_at = 1; },\n"
	    "{ name = \"b\"; match = [ \"b.example\",\n\"*\" ]; hold_at = 1; } );\n",
	    "3: note: mask \"b.example\" can never match: \"*.example\" of class a at t:2 "
	    "matches first" },
	{ V "classes = ( { name = \"a\"; match = [ \"10.0.0.0/8\",\n\"10.1.0.0/16\", \"*\" ];\n"
	    "hold_at = 1; } );\n",
	    "3: note: mask \"10.1.0.0/16\" can never match: \"10.0.0.0/8\" of the same class at t:2" },
	{ V "classes = ( { name = \"a\"; match = \"*\"; ports = [ 25 ]; hold_at = 1; },\n"
	    "{ name = \"b\"; match = \"*.x\"; ports = [ 25 ]; hold_at = 1; } );\n",
	    "3: class b can never match" },
	{ V "classes = ( { name = \"a\"; match = \"*\"; ports = [ 25 ]; hold_at = 1; },\n"
	    "{ name = \"b\"; match = \"*\"; ports = [ 587 ]; hold_at = 1; } );\n", "" },
	{ V "classes = ( { name = \"a\"; match = \"*\"; ports = [ 25 ]; hold_at = 1; },\n"
	    "{ name = \"b\"; match = \"*\"; ports = [ 25, 587 ]; hold_at = 1; } );\n", "" },
	{ V "classes = ( { name = \"a\"; match = \"*\"; ports = [ 25 ]; hold_at = 1; },\n"
	    "{ name = \"b\"; match = \"*\"; hold_at = 1; } );\n", "" },
	{ V "classes = ( { name = \"a\"; match = \"a.example\"; ports = [ 25 ]; hold_at = 1; },\n"
	    "{ name = \"b\"; match = \"*\"; ports = [ 25 ]; hold_at = 1; },\n"
	    "{ name = \"c\"; match = \"*.c\"; hold_at = 1; },\n"
	    "{ name = \"d\"; match = \"*\"; hold_at = 1; } );\n", "" },
	/* legal but unusual */
	{ CLASS("refuse_at = 3;"), "3: note: class a: refuse_at (3) is above hold_at (2): valid "
	    "but unusual; outbound connections are held first" },
	{ V "classes = (\n{ name = \"a\"; match = \"a.example\"; hold_at = 1; } );\n",
	    "2: note: no class matches all hosts (match = \"*\"): hosts that match no class "
	    "are admitted uncounted" },
	{ V "classes = (\n{ name = \"a\"; match = \"*\"; } );\n",
	    "3: note: class a sets no limit (hold_at, refuse_at, rate, client); its sessions "
	    "are only counted" },
	{ CLASS("action = \"defer\";"), "3: note: class a: action \"defer\" means 421 for "
	    "sessions reported by milter, because milter asks at connect only" },
	{ V "listen = { milter = []; };\nclasses = ( { name = \"a\"; match = \"*\"; hold_at = 1; "
	    "action = \"defer\"; } );\n", "" },
	/* accepted, without effect in this version */
	{ V "listen = { policy = { address = \"inet:127.0.0.1:1\";\n mode = \"0600\"; }; };\n" C,
	    "3: note: listen.policy: mode has no effect for inet:127.0.0.1:1" },
	{ V "listen = { policy = { address = \"inet:127.0.0.1:1\";\n group = \"mail\"; }; };\n" C,
	    "3: note: listen.policy: group has no effect for inet:127.0.0.1:1" },
	{ V "listen = { control = { address = \"unix:/c\";\n session_proof = \"lease\"; }; };\n" C,
	    "3: note: listen.control: session_proof has no effect here: this socket has no sessions" },
	{ V "listen = { metrics = { address = \"inet:127.0.0.1:1\";\n session_proof = \"lease\"; }; };\n" C,
	    "3: note: listen.metrics: session_proof has no effect here: this socket has no sessions" },
	{ CLASS("client = { ipv4 = 24; };"), "3: note: class a: client sets no limit; set "
	    "sessions or rate" },
	{ V "policy = {\n processes = 32; };\nlisten = { policy = \"unix:/p\"; milter = [ \"unix:/1\", "
	    "\"unix:/2\", \"unix:/3\", \"unix:/4\", \"unix:/5\", \"unix:/6\", \"unix:/7\", "
	    "\"unix:/8\", \"unix:/9\", \"unix:/10\", \"unix:/11\", \"unix:/12\" ]; };\n" C,
	    "3: policy.processes and listen.milter need 44 processes; the maximum is 43" },
	{ V "listen = { metrics = \"inet:0.0.0.0:9471\"; };\n" C,
	    "2: listen.metrics: inet:0.0.0.0:9471 is not a loopback address (127.0.0.1, ::1): "
	    "other hosts could read there" },
	{ V "listen = { syslog = \"inet:0.0.0.0:514\"; };\n" C,
	    "2: listen.syslog: inet:0.0.0.0:514 is not a loopback address (127.0.0.1, ::1): "
	    "other hosts could send there" },
	{ V "mta = ( { lanes = [ 5, 2 ]; } );\n" C,
	    "2: note: mta.lanes: the smallest lane is 2: smaller windows are not enforced" },
	{ V "mta = ( { lanes = [ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 ]; "
	    "} );\n" C, "2: mta.lanes: more than 16 lanes" },
	/* queues that are driven */
#ifndef WITH_QUEUE
	{ V "listen = { socketmap = \"unix:/m\"; };\nmta = ( { kind = \"sendmail\";\n drive = true; "
	    "} );\n" C, "4: mta.drive: this posternd was built without the managed queue" },
	{ V "mta = ( { kind = \"sendmail\";\n drive = false; } );\n" C, "" },
	{ V "listen = { queue = \"unix:/q\"; };\n" C, "2: listen.queue: unix:/q cannot be used: this "
	    "posternd was built without the managed queue" },
#else
	{ V "mta = ( { kind = \"sendmail\";\n drive = true; } );\n" C,
	    "3: mta.drive needs listen.socketmap" },
	{ V "listen = { socketmap = \"unix:/m\"; };\nmta = ( { kind = \"sendmail\";\n drive = true; "
	    "log = \"\"; } );\n" C, "4: mta.drive needs the results of deliveries: mta.log, or" },
	{ V "listen = { socketmap = \"unix:/m\"; syslog = \"unix:/s\"; };\n"
	    "mta = ( { kind = \"sendmail\"; drive = true; log = \"\"; } );\n" C, "" },
	{ TWO("/q/m", "/q/m"), "4: mta.queue: /q/m is already managed for the mta in line 3" },
	{ TWO("/q/m*", "/q/m1"), "4: mta.queue: /q/m1 is already managed for the mta in line 3" },
	{ TWO("/q/m", "/q/m*"), "4: mta.queue: /q/m* is already managed for the mta in line 3" },
	{ TWO("/q/m1*", "/q/m*"), "4: mta.queue: /q/m* is already managed for the mta in line 3" },
	{ TWO("/q/m*", "/q/m/x"), "" },
	{ TWO("/q/m1", "/q/m2"), "" },
	{ TWO("/q/m1*", "/q/m2*"), "" },
	{ TWO("/q/m", "/q/m1"), "" },
	{ V "mta = ( { kind = \"sendmail\"; stall = \"20s\";\n run_limit = \"10s\"; } );\n" C,
	    "3: note: mta.run_limit is shorter than mta.stall" },
	{ V "mta = ( { kind = \"sendmail\";\n queue = \"mqueue\"; } );\n" C,
	    "3: mta.queue: mqueue must be an absolute path" },
	{ V "mta = ( { kind = \"sendmail\";\n queue = [ \"/q/a*b\", \"/q/x*\" ]; } );\n" C,
	    "3: mta.queue: /q/a*b may have a * only at its end" },
	{ V "mta = ( { kind = \"sendmail\";\n queue = []; } );\n" C, "3: mta.queue is empty" },
	{ V "mta = ( { kind = \"sendmail\";\n processes = 0; } );\n" C, "3: mta.processes" },
	{ V "mta = ( { kind = \"sendmail\";\n retry = \"1h\"; } );\n" C,
	    "3: mta.retry is longer than mta.retry_most" },
	{ V "listen = { queue = \"inet:127.0.0.1:1\"; };\n" C,
	    "2: listen.queue: inet:127.0.0.1:1 is not a unix socket: only these" },
#endif
	{ V "listen = { socketmap = \"unix:/m\"; };\nmta = ( {\n drive = true; } );\n" C,
	    "4: mta.drive: only kind sendmail can be managed; Postfix has its own scheduler" },
	{ V "mta = ( {\n processes = 4; } );\n" C,
	    "3: note: mta.processes has no effect for kind postfix" },
	{ V "schedule = {\n discipline = \"lifo\"; };\n" C,
	    "3: schedule.discipline: \"lifo\" is not one of preemptive|first-come" },
	{ V "schedule = {\n delivery_slot_discount = 101; };\n" C, "3: schedule.delivery_slot_discount" },
	/* mail servers */
	{ V "mta = ( { name = \"x\"; kind = \"sendmail\"; } );\n" C, "" },
	{ V "mta = { };\n" C, "2: mta: must be a list of groups" },
	{ V "mta = ( { kind = \"exim\"; } );\n" C,
	    "2: mta.kind: \"exim\" is not one of postfix|sendmail" },
	{ V "mta = ( { name = \"a/b\"; } );\n" C,
	    "2: mta.name: a/b may only have letters, digits, point, hyphen and underscore, and "
	    "cannot start with point or hyphen" },
	{ V "mta = ( { name = \"-a\"; } );\n" C, "2: mta.name: -a may only have letters, "
	    "digits, point, hyphen and underscore, and cannot start with point or hyphen" },
	{ V "mta = ( { name = \"..\"; } );\n" C, "2: mta.name: .. may only have letters, "
	    "digits, point, hyphen and underscore, and cannot start with point or hyphen" },
	{ V "mta = (\n{ log = \"/a\"; },\n{ log = \"/b\"; } );\n" C,
	    "4: mta name postfix is already used in line 3" },
	{ V "mta = (\n{ name = \"a\"; },\n{ name = \"b\"; } );\n" C,
	    "4: note: mta b: its deliveries look like those of the mta in line 3" },
	{ V "mta = (\n{ name = \"a\"; },\n{ name = \"b\"; syslog_name = \"postfix-b\"; } );\n" C,
	    "" },
	{ V "mta = ( { }, { name = \"a\"; log = \"/a\"; }, { name = \"b\"; log = \"/b\"; },"
	    "{ name = \"c\"; log = \"/c\"; }, { name = \"d\"; log = \"/d\"; },"
	    "{ name = \"e\"; log = \"/e\"; }, { name = \"f\"; log = \"/f\"; },"
	    "{ name = \"g\"; log = \"/g\"; },\n{ name = \"h\"; log = \"/h\"; } );\n" C,
	    "3: mta: more than 8 mail servers" },
	{ V "mta = ( { ports = []; } );\n" C, "2: mta.ports is empty; omit it for port 25" },
	{ V "mta = ( { ports = [ 70000 ]; } );\n" C, "2: mta.ports: \"70000\" is not within" },
	{ V "mta = ( { log = \"journal:postfix\"; } );\n" C,
	    "2: mta.log must be \"journal:\", or that and unit=, identifier=, user= or directory=" },
#ifdef HAVE_SD_JOURNAL
	{ V "mta = ( { log = \"journal:user=no.such.user\"; } );\n" C,
	    "2: mta.log: there is no user no.such.user" },
#else
	{ V "mta = ( { log = \"journal:\"; } );\n" C,
	    "2: mta.log: this build cannot read systemd's journal" },
#endif
	{ V "mta = ( { log = \"mail.log\"; } );\n" C,
	    "2: mta.log: \"mail.log\" must be an absolute path" },
	{ V "mta = ( { kind = \"sendmail\";\nuser = \"no-such-user\"; } );\n" C,
	    "3: mta.user: there is no user no-such-user" },
	{ V "mta = ( {\nuser = \"root\"; } );\n" C,
	    "3: note: mta.user has no effect for kind postfix" },
	{ V "mta = ( { kind = \"sendmail\";\nclone = \"smtp\"; } );\n" C,
	    "3: note: mta.clone has no effect for kind sendmail" },
	{ V "mta = ( { pots = 25; } );\n" C,
	    "2: unknown setting mta.pots: did you mean mta.ports?" },
};

static void render(const struct config_message *message, char *out, size_t size) {
	snprintf(out, size, "%d: %s%s", message->line,
	    message->severity == MESSAGE_NOTE ? "note: " : "", message->text);
	assert_string_equal(message->file, "t");
}

TEST(each_mistake_is_named) {
	unsigned failed = 0;

	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
		const char *expected = mistakes[i].expected;
		struct config_messages messages;
		struct generation *g = config_compile_text(mistakes[i].text, "t", &messages);
		char said[512] = "";

		assert_int_equal(g == NULL, messages.errors > 0);
		if (messages.count > 0)
			render(&messages.list[0], said, sizeof(said));
		if (strncmp(said, expected, strlen(expected)) != 0 ||
		    messages.count != (*expected != '\0') ||
		    messages.count != messages.errors + messages.notes) {
			failed++;
			print_message("%s\n  expected %s\n", mistakes[i].text, expected);
			for (size_t k = 0; k < messages.count; k++) {
				render(&messages.list[k], said, sizeof(said));
				print_message("  said     %s\n", said);
			}
		}
		config_messages_free(&messages);
		free(g);
	}
	assert_int_equal(failed, 0);
}

TEST(all_mistakes_in_one_run_and_in_order) {
	static const char text[] = "version = 3;\nuser = \"\";\nstat = 1;\n"
	    "classes = ( { name = \"a\"; match = [ \"*\",\n\"..\" ]; hold_at = 99999999999; },\n"
	    "{ name = \"a\"; match = \"x\"; colour = 1; } );\nexempt = \"1.2.3\";\n";
	static const int lines[] = { 1, 2, 3, 5, 5, 6, 6, 6, 6, 7 };
	struct config_messages messages;
	struct generation *g = config_compile_text(text, "t", &messages);

	assert_null(g);
	for (size_t i = 0; i < messages.count; i++) {
		char said[512];

		render(&messages.list[i], said, sizeof(said));
		if (i >= sizeof(lines) / sizeof(lines[0]) || messages.list[i].line != lines[i])
			print_message("unexpected: %s\n", said);
	}
	assert_int_equal(messages.count, sizeof(lines) / sizeof(lines[0]));
	for (size_t i = 0; i < messages.count; i++)
		assert_int_equal(messages.list[i].line, lines[i]);
	config_messages_free(&messages);
}

TEST(a_thousand_messages_are_kept_and_all_are_counted) {
	size_t room = 1 << 16, length = 0;
	char *text = malloc(room);
	struct config_messages messages;

	assert_non_null(text);
	for (int i = 0; i < 3000; i++)
		length += (size_t)snprintf(text + length, room - length, "x%d = 1;\n", i);
	assert_null(config_compile_text(text, "t", &messages));
	assert_int_equal(messages.errors, 3001);
	assert_int_equal(messages.count, 1000);
	config_messages_free(&messages);
	free(text);
}

/* --- files --- */

static char directory[64];

static const char *file_of(const char *name) {
	static char path[2][160];
	static int turn;

	turn = !turn;
	snprintf(path[turn], sizeof(path[turn]), "%s/%s", directory, name);
	return path[turn];
}

static void write_file(const char *name, const char *text, size_t length) {
	FILE *file = fopen(file_of(name), "w");

	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

/* Compiles the file; the first message must be of FILE:LINE with the words. */
static void expect(const char *name, const char *file, int line, const char *words) {
	struct config_messages messages;
	struct generation *g = config_compile(file_of(name), &messages);

	assert_int_equal(g == NULL, messages.errors > 0);
	if (words == NULL) {
		for (size_t i = 0; i < messages.count; i++)
			print_message("%s\n", messages.list[i].text);
		assert_non_null(g);
	} else {
		assert_true(messages.count > 0);
		if (strstr(messages.list[0].text, words) == NULL)
			fail_msg("%s", messages.list[0].text);
		assert_string_equal(messages.list[0].file, file_of(file));
		assert_int_equal(messages.list[0].line, line);
	}
	config_messages_free(&messages);
	free(g);
}

#define WRITE(name, text) write_file(name, text, strlen(text))

static int make_directory(void **state) {
	snprintf(directory, sizeof(directory), "/tmp/t_config.XXXXXX");
	return mkdtemp(directory) == NULL;
}

static int remove_directory(void **state) {
	static const char *const names[] = { "main", "classes", "deep", "self", "bad", "nul",
	    "string", "fifo", "cf", "driven", "none", "ends", "places" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(file_of(names[i]));
	return rmdir(directory);
}

TEST(included_files_are_named) {
	struct config_messages messages;
	struct generation *g;

	WRITE("classes", "# one\nclasses = (\n { name = \"c\"; match = [ \"a.example\"\n, \"*\"\n ];"
	    " hold_at = 1; } );\nobserve = 1;");
	WRITE("main", V "  @include \"classes\" \n  oops = 1;\n");
	g = config_compile(file_of("main"), &messages);
	assert_null(g);
	assert_int_equal(messages.count, 2);
	assert_string_equal(messages.list[0].file, file_of("classes"));
	assert_int_equal(messages.list[0].line, 6);
	assert_string_equal(messages.list[1].file, file_of("main"));
	assert_int_equal(messages.list[1].line, 3);
	config_messages_free(&messages);

	WRITE("classes", "# one\nclasses = (\n { name = \"c\"; match = [ \"a.example\"\n, \"*\"\n ];"
	    " hold_at = 1; } );");
	WRITE("main", V "@include \"classes\"\nobserve = true;\n# @include \"none\"\n"
	    "/*\n@include \"none\"\n*/ user = \"nobody\";\n");
	g = config_compile(file_of("main"), &messages);
	assert_non_null(g);
	assert_string_equal(generation_text(g, generation_rule(g, 1)->file), file_of("classes"));
	assert_int_equal(generation_rule(g, 1)->line, 4);
	assert_string_equal(generation_text(g, g->file), file_of("main"));
	config_messages_free(&messages);
	free(g);
}

TEST(bad_includes) {
	WRITE("main", V "\n@include \"none\"\n" C);
	expect("main", "main", 3, "cannot include");
	WRITE("main", V "@include \".\"\n" C);		/* libconfig would exit here */
	expect("main", "main", 2, "not a regular file");
	WRITE("main", V "@include \"self\"\n" C);
	WRITE("self", "# x\n@include \"self\"\n");
	expect("main", "self", 2, "too deeply");
	WRITE("main", V "@include \"bad\"\n" C);
	WRITE("bad", "\n\nuser = ;\n");
	expect("main", "bad", 3, "syntax error");
	WRITE("bad", "\n\nuser = \"x");
	expect("main", "bad", 3, "missing closing \" for the text that starts here");
	WRITE("main", V C "@include \"ends\"");
	WRITE("ends", "observe = true; # no newline");
	expect("main", "main", 0, NULL);
	WRITE("main", V "user = \"\n@include \\\"none\\\"\n\";\n" C);
	expect("main", "main", 2, "printable");
}

TEST(files_that_are_none) {
	expect("missing", "missing", 0, "cannot be read: No such file or directory");
	WRITE("main", "");
	expect("main", "main", 0, "version = 1; is missing");
	write_file("nul", V "user = \"a\0b\";\n", sizeof(V "user = \"a\0b\";\n") - 1);
	expect("nul", "nul", 2, "the file contains a NUL byte: it is not a text file");
	assert_int_equal(mkfifo(file_of("fifo"), 0600), 0);
	expect("fifo", "fifo", 0, "not a regular file");
	expect(".", ".", 0, "not a regular file");
}

/* Nobody but its owner and group may read it, and it has to hold one. */
TEST(passwords_that_are_none) {
	static const struct {
		const char *text;
		mode_t mode;
		const char *words;	/* "": none */
	} files[] = {
		{ "secret\n", 0640, "" },
		{ "secret", 0400, "" },
		{ "secret\r\n", 0600, " ends with a carriage return" },
		{ "secret \n", 0600, " ends with a blank" },
		{ "secret\n", 0644, " is accessible to all users; run chmod 0640" },
		{ "secret\n", 0602, " is accessible to all users; run chmod 0640" },
		{ "", 0600, " is empty" },
		{ "\nsecret\n", 0600, " is empty" },
	};
	char text[1024], words[512];
	unsigned i;

#ifndef HAVE_HIREDIS
	skip();
#endif
	snprintf(text, sizeof(text), CLUSTER("user = \"u\"; password_file = \"%s\";"),
	    file_of("password"));
	write_file("main", text, strlen(text));
	(void)unlink(file_of("password"));
	expect("main", "main", 3, ": No such file or directory");
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct config_messages messages;

		write_file("password", files[i].text, strlen(files[i].text));
		assert_int_equal(chmod(file_of("password"), files[i].mode), 0);
		snprintf(words, sizeof(words), "%s", files[i].words);
		if (files[i].words[0] != '\0') {
			expect("main", "main", 3, words);
		} else {
			free(config_compile(file_of("main"), &messages));
			assert_int_equal(messages.count, 0);
			config_messages_free(&messages);
		}
		(void)unlink(file_of("password"));
	}
	memset(words, 'x', 300);
	write_file("password", words, 300);
	assert_int_equal(chmod(file_of("password"), 0600), 0);
	expect("main", "main", 3, " is longer than 255 bytes");
	(void)unlink(file_of("password"));
	assert_int_equal(mkdir(file_of("password"), 0700), 0);
	expect("main", "main", 3, " is not a regular file");
	assert_int_equal(rmdir(file_of("password")), 0);
}

#ifdef WITH_QUEUE
/* A directory that only sendmail.cf names would wait for the mail server's slow runs. */
TEST(queues_that_are_not_driven) {
	char text[1024];
	size_t i;
	static const struct {
		const char *cf, *queue, *words, *once;
	} cases[] = {
		{ "O QueueDirectory=/q/m\nR$*\t$@ OK\n", "/q/m", "has no line RDISCARD "
		    "(sendmail-outbound.mc), so recipients that were delivered", "enforce" },
		{ "O QueueDirectory=/q/m\nRDISCARD $*\t$#discard $: $1\n", "/q/m", NULL, "enforce" },
		{ "O QueueDirectory=/q/m*\n#O QueueDirectory=/no\n", "/q/m*", NULL, NULL },
		{ "O QueueDirectory=/q/m*\n", "/q/m",
		    "mta.queue does not list /q/m*, which is a queue of", NULL },
		{ "Qmqueue, P=/q/a, F=f\nO QueueDirectory=/q/m\n", "/q/m",
		    "mta.queue does not list /q/a, which is a queue of", NULL },
		{ "Qmqueue, F=f, r=40\nO QueueDirectory=/q/m \n", "/q/m", NULL, NULL },
		{ NULL, "/q/m", "cannot be read, so mta.queue is not checked against it:", NULL },
	};

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (cases[i].cf != NULL)
			WRITE("cf", cases[i].cf);
		snprintf(text, sizeof(text), V "providers = \"%s\";\nlisten = { socketmap = "
		    "\"unix:/m\"; };\nmta = ( { kind = \"sendmail\"; cf = \"%s\"; queue = \"%s\";\n"
		    "drive = true; exactly_once = \"%s\"; } );\n" C, file_of("none"),
		    file_of(cases[i].cf != NULL ? "cf" : "no-cf"), cases[i].queue,
		    cases[i].once != NULL ? cases[i].once : "observe");
		WRITE("driven", text);
		WRITE("none", "version = 1;\n");
		expect("driven", "driven", 5, cases[i].words);
	}
}

/* Without them nothing would be delivered, and nobody told. */
TEST(a_program_and_a_queue_that_are_not_there) {
	static const char format[] = V "providers = \"%s\";\nlisten = { socketmap = "
	    "\"unix:/m\"; };\nmta = ( { kind = \"sendmail\"; cf = \"%s\"; queue = \"%s\";\n"
	    "sendmail = \"%s\"; drive = true; } );\n" C;
	char text[1024];

	WRITE("none", "version = 1;\n");
	WRITE("cf", "# nothing\n");
	snprintf(text, sizeof(text), format, file_of("none"), file_of("cf"), "/usr/b*", "/bin/sh");
	WRITE("driven", text);
	expect("driven", "driven", 5, NULL);
	snprintf(text, sizeof(text), format, file_of("none"), file_of("cf"), "/usr", "/no/sendmail");
	WRITE("driven", text);
	expect("driven", "driven", 5, "mta.sendmail: /no/sendmail cannot be run, so no mail is "
	    "delivered: ");
	snprintf(text, sizeof(text), format, file_of("none"), file_of("cf"), "/no/q*", "/bin/sh");
	WRITE("driven", text);
	expect("driven", "driven", 5, "mta.queue: /no/ is not a directory: it is not managed");
}
#endif

/* Nothing was learned, and nothing said why. */
TEST(a_log_that_is_not_there_is_noted) {
	char text[1024];

	WRITE("none", "version = 1;\n");
	snprintf(text, sizeof(text), V "providers = \"%s\";\n"
	    "mta = ( { name = \"a\"; log = \"/no/such.log\"; } );\n" C, file_of("none"));
	WRITE("main", text);
	expect("main", "main", 3, "mta.log: /no/such.log does not exist");
	snprintf(text, sizeof(text), V "providers = \"%s\";\n"
	    "mta = ( { name = \"a\"; log = \"/dev/null\"; } );\n" C, file_of("none"));
	WRITE("main", text);
	expect("main", "main", 3, "mta.log: /dev/null is not a regular file");
}

/* A reload went well, and the next start, of a reboot perhaps, did not. */
TEST(users_and_groups_that_are_not_here) {
	static const struct {
		const char *text, *words;
		int line;
	} cases[] = {
		{ V "user = \"no-such\";\n" C, "user: there is no user no-such on this host: posternd "
		    "would not start", 2 },
		{ V "user = \"root\";\n" C, "user: the workers must not run as root", 2 },
		{ V "user = \"0\";\n" C, "user: the workers must not run as root", 2 },
		{ V "group = \"no-such\";\n" C, "group: there is no group no-such on this host", 2 },
		{ V "hints = { group = \"no-such\"; };\n" C, "hints.group: there is no group", 2 },
		{ V "listen = { control = { address = \"unix:/x\";\nread_group = \"no-such\"; }; };\n"
		    C, "listen.control: read_group: there is no group no-such on this host", 3 },
		{ V "listen = { control = { address = \"unix:/x\";\nwrite_group = \"no-such\"; }; };\n"
		    C, "listen.control: write_group: there is no group no-such on this host", 3 },
		{ V "listen = { policy = { address = \"unix:/x\";\nowner = \"no-such\"; }; };\n" C,
		    "listen.policy: owner: there is no user no-such on this host: posternd would", 3 },
		{ V "listen = { metrics = { address = \"unix:/x\";\ngroup = \"no-such\"; }; };\n" C,
		    "listen.metrics: group: there is no group no-such on this host: posternd "
		    "will start without this socket", 3 },
	};
	static const char known[] = V "listen = { control = { address = \"unix:/x\"; owner = \"0\";"
	    " group = \"root\"; read_group = \"4711\"; }; };\nuser = \"postern\";\n" C;
	struct config_messages messages;
	char text[1024];

	WRITE("none", "version = 1;\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%sproviders = \"%s\";\n", cases[i].text,
		    file_of("none"));
		WRITE("main", text);
		expect("main", "main", cases[i].line, cases[i].words);
	}
	snprintf(text, sizeof(text), "%sproviders = \"%s\";\n", known, file_of("none"));
	WRITE("main", text);
	free(config_compile(file_of("main"), &messages));
	assert_int_equal(messages.count, 0);
	config_messages_free(&messages);
}

/* Who looks for the daemon does not wait for 60,000 classes, nor for what is wrong in them. */
TEST(its_places_are_found_whatever_the_classes_are) {
	static const char text[] = "state = { path = \"/run/other/state\"; };\n"
	    "listen = { control = \"unix:/run/other/control\"; };\n"
	    "classes = ( { name = 1; match = [ \"300.1.1.1/99\" ]; } );\n";
	struct config_messages messages;
	struct generation *g;

	write_file("places", text, sizeof(text) - 1);
	assert_null(config_compile(file_of("places"), &messages));
	config_messages_free(&messages);
	g = config_compile_places(file_of("places"), &messages);
	assert_non_null(g);
	assert_string_equal(generation_text(g, g->state_path), "/run/other/state");
	assert_string_equal(generation_text(g, g->journal.path), "/run/other/state.journal");
	assert_true(g->listener_count >= 1);
	assert_int_equal(g->class_count, 0);
	config_messages_free(&messages);
	free(g);
}

TEST(random_bytes_give_a_clean_error) {
	uint64_t seed = 42;

	for (int round = 0; round < 300; round++) {
		struct config_messages messages;
		char bytes[512];

		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			bytes[i] = (char)(seed >> 56);
		}
		write_file("bad", bytes, sizeof(bytes));
		assert_null(config_compile(file_of("bad"), &messages));
		assert_true(messages.errors > 0);
		config_messages_free(&messages);
	}
}

TEST_GROUP(make_directory, remove_directory)
