// SPDX-License-Identifier: ISC
// The status page: asks /api/... every two seconds and draws what they answer, with the names
// of posternctl --json.  Lists are searched, sorted and cut by the daemon.
"use strict";
import { at, make, write, link, number, put, duration, bytes, clock, keep, part, field, cells,
	meter, remeter, spark, respark, plot } from "./parts.js";
import { showDetail, wanted, LINES } from "./detail.js";

const EVERY_MS = 2000, HIDDEN_MS = 10000, PATIENCE_MS = 8000, SLOW_MS = 60000, DETAIL_MS = 10000,
	CLASSES = 12, DESTINATIONS = 25, KEPT = 150;
const FAULTS = ["faults", "expired", "repairs", "untracked", "notes_lost", "levels_lost",
	"journal_failures", "journal_lost", "journal_damaged", "witness_errors",
	"reloads_refused", "role_restarts", "feed_wrong_clocks", "patterns_given_up",
	"windows_begun_anew"];
// what remote sites answered is no fault of ours
const FAULTY = /^(bad|stalled)_|_(evicted|full|uncounted|untracked|unusable|failures?|lost|bad|truncated)$/;
const isFault = name => FAULTS.includes(name) ||
	(FAULTY.test(name) && !name.startsWith("results_"));
const KINDS = ["refused", "deferred", "observed", "suspended", "failure", "back", "by-hand", "alert",
	"back-pressure", "window", "account", "untracked", "fault"];

const tiles = new Map();
const lists = { classes: { offset: 0, limit: CLASSES }, destinations: { offset: 0, limit: DESTINATIONS } };
let last = null;		// { time, wall, counters } of the turn before
let sparks = { classes: {}, destinations: {} };
let paused = false, busy = false, again = false, timer = 0, turns = 0, slow = -Infinity, detailed = 0;
let lost = false;

// --- the verdict ---------------------------------------------------------------------------

const SECTIONS = { classes: "classes-card", destinations: "destinations-card", mail: "mail",
	cluster: "cluster", workers: "workers", faults: "faults-card" };

const icon = mood => {
	const name = mood === "bad" ? "/icon-bad.svg" : mood === "warn" ? "/icon-warn.svg" : "/icon.svg";
	if (at("icon").getAttribute("href") !== name)
		at("icon").setAttribute("href", name);
};

const showVerdict = status => {
	const problems = status.problems;
	const mood = problems.some(one => one.severity === "bad") ? "bad" : problems.length > 0 ? "warn" : "good";
	const rows = problems.length > 0 ? problems :
		[{ severity: "good", text: "no problems", about: null, command: null }];
	keep(at("problems"), rows, (one) => `${one.severity} ${one.about} ${one.text.replace(/\d+/g, "")}`,
		one => {
			const element = make("li"), words = one.about === null ? make("span") : make("a");
			if (one.about !== null)
				words.href = `#${SECTIONS[one.about]}`;
			words.dataset.field = "text";
			element.append(words);
			if (one.command !== null)
				element.append(" ", field("code", "command"));
			return element;
		}, (element, one) => {
			element.className = `pill ${one.severity}`;
			write(part(element, "text"), one.text);
			if (one.command !== null)
				write(part(element, "command"), one.command);
		});
	const count = problems.filter(one => one.severity === "bad").length;
	document.title = `${count > 0 ? `(${count}) ` : ""}Postern ${location.hostname}: ${status.verdict}`;
	icon(mood);
};

// --- at a glance -----------------------------------------------------------------------------

const tile = (name, value, unit, mood) => {
	let one = tiles.get(name);
	if (one === undefined) {
		const element = make("div", "tile"), big = make("span", "big");
		const digits = field("span", "value"), units = make("span", "unit");
		big.append(digits, units);
		element.append(make("span", "name", name), big, spark());
		element.dataset.tile = name;
		at("tiles").append(element);
		one = { element, digits, units, line: element.querySelector("svg"), samples: [] };
		tiles.set(name, one);
	}
	one.samples.push(value);
	if (one.samples.length > KEPT)
		one.samples.shift();
	put(one.digits, value);
	write(one.units, unit ? ` ${unit}` : "");
	one.element.className = `tile ${value > 0 && mood || ""}`;
	respark(one.line, one.samples);
};

const rate = (counters, seconds, ...names) => {
	if (last === null || seconds <= 0)
		return null;
	const sum = names.reduce((all, name) =>
		all + counters[name] - (last.counters[name] ?? 0), 0);
	return Math.max(0, sum / seconds);
};

const glance = (status, seconds) => {
	const counters = status.counters, tables = Object.fromEntries(status.tables.map(t => [t.table, t.used]));
	const would = status.would_suspend + status.would_hold;
	tile("sessions", tables.sessions, "");
	tile("admitted", rate(counters, seconds, "admitted", "uncounted"), "/s");
	tile("refused or deferred", rate(counters, seconds, "refused", "deferred"), "/s", "bad");
	tile("would refuse or defer", rate(counters, seconds, "observed", "window_holds_observed"), "/s", "warn");
	tile("deliveries in flight", tables.flights, "");
	if (would > 0)
		tile("would suspend", would, "", "warn");
	tile("suspended or held", status.destinations_suspended + status.destinations_held +
		status.recipients_held + status.classes_held, "", "bad");
};

const CLUSTER = { joined: "good", connecting: "warn", waiting: "warn" };

// as /healthz has it
const isAway = role => role.pid === null || role.heartbeat_age >= 3;

const head = status => {
	const health = at("health");
	const live = status.health === "live" || status.health === "behind", away = status.roles.filter(isAway);
	const idle = away.every(role => role.role.startsWith("queue.") && ["none", "refused"].includes(status.queue));
	const bad = (status.problems ?? []).filter(one => one.severity === "bad").length;
	write(health, !live ? status.health : bad > 0 ? `${bad} problem${bad === 1 ? "" : "s"}` :
		!idle ? "a worker is not running" : status.health);
	health.className = `pill ${status.health === "live" && idle && bad === 0 ? "good" : "bad"}`;
	write(at("facts"), `up ${duration(status.uptime)} · configuration ${status.generation}`);
	write(at("faults-since"), status.state_age === null ? "" :
		`since ${new Date(Date.now() - status.state_age * 1000).toLocaleString([], { hour12: false })}`);
};

// What to do next, where nothing is there to see.
const showSteps = status => {
	const counters = status.counters, steps = [];
	if (counters.questions === 0 && counters.admitted === 0 && counters.uncounted === 0)
		steps.push(["No mail server has asked Postern yet. Attach it:",
			"postern-postfix-setup make", "postern-sendmail-setup make"]);
	if (status.mtas.length === 0)
		steps.push(["No mail log is read, so nothing is learned of outbound mail. In postern.conf: " +
			"mta = ( { name = \"postfix\"; } ); then", "posternctl reload"]);
	for (const mta of status.mtas.filter(one => /^(no hints|windows are not enforced)/.test(one.note ?? "")))
		steps.push([`${mta.mta}: ${mta.note}`]);
	if (status.observe && counters.questions > 0 && counters.observed === 0)
		steps.push(["Observe mode: nothing would have been refused so far. When that is right for some " +
			"days, set observe = false; in postern.conf, then", "posternctl reload"]);
	at("start").hidden = steps.length === 0;
	keep(at("steps"), steps, step => step.join(), step => {
		const element = make("li", "", `${step[0]} `);
		for (const [number, command] of step.slice(1).entries())
			element.append(number > 0 ? " or " : "", make("code", "", command));
		return element;
	}, () => {});
};

// --- lists ------------------------------------------------------------------------------------

const pager = (name, answer) => {
	const box = at(`${name}-pager`), list = lists[name];
	if (box.children.length === 0) {
		for (const [step, word] of [[-1, "Previous"], [1, "Next"]]) {
			const button = make("button", "", word);
			button.type = "button";
			button.dataset.field = word;
			button.addEventListener("click", () => {
				list.offset = Math.max(0, list.offset + step * list.limit);
				go();
			});
			box.append(button);
		}
		box.insertBefore(field("span", "where", "legend"), box.lastElementChild);
	}
	if (list.offset > 0 && list.offset >= answer.found) {
		list.offset = 0;
		again = true;
	}
	box.hidden = answer.found <= list.limit && list.offset === 0;
	part(box, "Previous").disabled = list.offset === 0;
	part(box, "Next").disabled = list.offset + list.limit >= answer.found;
	write(part(box, "where"), `${number(answer.offset + 1)} to ${number(answer.offset + answer.rows.length)}` +
		` of ${number(answer.found)}`);
	write(at(`${name}-count`), answer.found === answer.total ? number(answer.total) :
		`${number(answer.found)} of ${number(answer.total)}`);
};

const buildClass = c => {
	const element = make("tr", "class"), name = make("th"), bar = make("td", "bar");
	name.scope = "row";
	name.append(link("class", c.name), " ", field("span", "modes"));
	bar.append(meter());
	bar.firstElementChild.dataset.field = "bar";
	element.append(name, bar);
	for (const [which, style] of [["open", "n"], ["open_inbound", "n more"], ["open_outbound", "n more"],
		["limit", "n"], ["peak", "n more"], ["admitted", "n more"], ["refusing", "n"], ["refused", "n mid"],
		["deferred", "n more"], ["observed", "n more"]])
		element.append(field("td", which, style));
	const trend = make("td", "more trend");
	trend.append(spark());
	element.append(trend);
	element.dataset.class = c.name;
	return element;
};

const updateClass = (element, c) => {
	const limits = [c.refuse_at, c.hold_at].filter(limit => limit !== null);
	const most = Math.max(1, ...limits, limits.length === 0 ? c.peak : 0), shared = c.scope === "cluster";
	const full = shared ? c.share : limits.length === 0 ? null : Math.min(...limits);
	for (const name of ["open", "open_inbound", "open_outbound", "peak", "admitted", "refused",
		"deferred", "observed", "refusing"])
		put(part(element, name), c[name]);
	const words = limits.length === 0 ? "no limit" : shared ? `${number(c.share)}, share of ${number(most)}` :
		c.refuse_at === c.hold_at || c.refuse_at === null || c.hold_at === null ? number(limits[0]) :
		`${number(c.refuse_at)} in, ${number(c.hold_at)} total`;
	write(part(element, "limit"), words);
	const used = c.open, over = full !== null && used >= full;
	remeter(part(element, "bar"), { inside: c.open_inbound, outside: c.open_outbound,
		mark: shared ? c.share : c.refuse_at, peak: c.peak, most,
		mood: over && c.observe ? "observe" : over ? "bad" : full !== null && used >= 0.8 * full ? "warn" : "",
		text: `${number(used)} of ${words}` });
	part(element, "bar").setAttribute("aria-label", `open sessions of class ${c.name}`);
	const modes = part(element, "modes"), mode = c.removed ? "removed" :
		c.observe ? "observe mode" : !shared || c.lease === "held" ? "" :
		c.lease === "alone" ? "alone" : "no lease";
	modes.className = mode === "" ? "" : "pill warn";
	write(modes, mode);
	if (c.observe && c.refusing > 0)
		write(part(element, "refusing"), `would: ${number(c.refusing)}`);
	part(element, "refusing").classList.toggle("hot", c.refusing > 0 && !c.observe);
	respark(element.querySelector(".trend svg"), sparks.classes[c.name] ?? []);
};

const showClasses = (answer, status) => {
	// a name that was taken away may be configured anew while sessions of the first live
	keep(at("classes"), answer.rows, c => c.removed ? `${c.name} removed` : c.name, buildClass, updateClass);
	at("no-classes").hidden = answer.rows.length > 0;
	write(at("no-classes"), answer.total === 0 ?
		"No class is configured: add one to classes in postern.conf." : "No class matches.");
	pager("classes", answer);
};

const STOPS = { dead: ["suspended", "would suspend"], held: ["held", "would hold"] };
const effect = d => STOPS[d.state]?.[d.enforced === false ? 1 : 0] ?? d.state ?? "";

const buildDestination = d => {
	const element = make("tr", "destination"), name = make("th"), state = make("td"), bar = make("td", "bar");
	name.scope = "row";
	name.append(link("destination", d.name));
	state.append(field("span", "state", "pill"));
	bar.append(meter());
	bar.firstElementChild.dataset.field = "bar";
	element.append(name, state, bar);
	for (const [which, style] of [["in_flight", "n"], ["window", "n"], ["ceiling", "n more"], ["until", "n"]])
		element.append(field("td", which, style));
	const trend = make("td", "more trend");
	trend.append(spark());
	element.append(trend, field("td", "reason", "more reason"));
	element.dataset.destination = d.name;
	return element;
};

const updateDestination = (element, d) => {
	const state = part(element, "state"), word = effect(d);
	state.className = `pill ${word === "suspended" ? "bad" : STOPS[d.state] ? "warn" :
		d.state === "open" ? "good" : ""}`;
	state.hidden = d.state === null;
	write(state, word);
	state.dataset.value = d.state ?? "";
	state.title = d.not_enforced ?? "";
	for (const name of ["in_flight", "window", "ceiling"])
		put(part(element, name), d[name]);
	write(part(element, "until"), d.until === null ? "" : duration(d.until));
	remeter(part(element, "bar"), { inside: d.in_flight ?? 0, outside: 0, mark: d.ceiling, peak: 0,
		most: Math.max(1, d.window ?? 1), mood: "", text: `${number(d.in_flight)} of ${number(d.window)}` });
	part(element, "bar").setAttribute("aria-label", `deliveries in flight to ${d.name}`);
	const reason = [d.not_enforced, d.reason].filter(text => text).join(": ");
	write(part(element, "reason"), reason);
	part(element, "reason").title = reason;
	respark(element.querySelector(".trend svg"), sparks.destinations[d.name] ?? []);
};

const showDestinations = (answer, status) => {
	keep(at("destinations"), answer.rows, d => d.name, buildDestination, updateDestination);
	at("no-destinations").hidden = answer.rows.length > 0;
	write(at("no-destinations"), answer.total > 0 ? "No destination matches." : status.mtas.length === 0 ?
		"No mail log is read: set mta in postern.conf." : "No delivery was read from the logs yet.");
	pager("destinations", answer);
};

// --- decisions -----------------------------------------------------------------------------------

const MOODS = { refused: "bad", deferred: "warn", observed: "", suspended: "bad", failure: "warn",
	back: "good", "by-hand": "", alert: "warn", fault: "bad", "back-pressure": "warn", window: "" };

const buildDecision = d => {
	const element = make("li", "decision"), what = make("span", "what");
	element.append(field("time", "time"), field("span", "kind", "pill"), what, link("decision", d.id));
	what.append(field("span", "about"), field("span", "said"), field("span", "text", "said quoted"));
	element.lastElementChild.className = "id";
	element.lastElementChild.dataset.field = "id";
	return element;
};

const updateDecision = (element, d) => {
	const when = new Date(d.time), time = part(element, "time"), id = part(element, "id");
	time.dateTime = d.time;
	write(time, isNaN(when) ? d.time : clock(when, true));
	write(part(element, "kind"), d.observed && d.kind === "suspended" ? "would suspend" : d.kind);
	part(element, "kind").className = `pill ${d.observed ? "" : MOODS[d.kind] ?? ""}`;
	if (element.dataset.decision !== d.id) {
		element.dataset.decision = d.id;
		id.href = `#decision/${d.id}`;
		write(id, d.id);
		part(element, "about").replaceChildren(...d.about === null ? [] : [link(d.subject, d.about), ": "]);
	}
	/* its name stands before it already */
	const what = d.what.startsWith(`${d.about}: `) ? d.what.slice(d.about.length + 2) : d.what;
	write(part(element, "said"), d.count === 1 ? what :
		`${number(d.count)} like this in ${duration(Math.max(d.first, 1))}; the last: ${what}`);
	write(part(element, "text"), d.text ?? "");
	part(element, "text").hidden = d.text === null;
};

const showDecisions = decisions => {
	keep(at("changes"), decisions.changes, d => d.id, buildDecision, updateDecision);
	at("no-changes").hidden = decisions.changes.length > 0;
	keep(at("decisions"), decisions.groups, d => `${d.kind} ${d.subject} ${d.about} ${d.count === 1 ? d.id : ""}`,
		buildDecision, updateDecision);
	at("no-decisions").hidden = decisions.groups.length > 0;
	write(at("no-decisions"), at("kind").value !== "" || at("decision-find").value !== "" ?
		"No decision of the last 10 minutes matches." :
		"Nothing was refused, deferred or suspended in the last 10 minutes.");
};

// --- the rest ---------------------------------------------------------------------------------------

const showRoles = status => {
	keep(at("roles"), status.roles, role => role.role, cells(["role", "#uptime", "#heartbeat_age",
		"#restarts"]), (element, role) => {
		element.dataset.role = role.role;
		write(part(element, "role"), role.role);
		write(part(element, "uptime"), role.pid === null ? "down" : duration(role.uptime));
		write(part(element, "heartbeat_age"), duration(role.heartbeat_age));
		put(part(element, "restarts"), role.restarts);
		element.className = isAway(role) ? "bad" : "";
	});
};

const showCluster = cluster => {
	const there = cluster !== null && cluster.state !== "none";
	at("cluster").hidden = !there;
	if (!there)
		return;
	const state = at("cluster-state"), joined = cluster.state === "joined";
	state.className = `pill ${CLUSTER[cluster.state] ?? "bad"}`;
	write(state, cluster.state);
	// what is told of others is old where it is not joined
	write(at("cluster-facts"), [`${cluster.node} by ${cluster.server ?? "–"}`,
		joined ? `${cluster.nodes_alive} of ${cluster.nodes_most} alive` : "",
		`lease ${duration(cluster.lease)}`,
		cluster.leased_for === null ? "no lease" : `leased for ${duration(cluster.leased_for)}`,
		!joined || cluster.round_trip_median_ms === null ? "" :
			`response time ${cluster.round_trip_median_ms} ms`,
		cluster.overhang > 0 ? `${number(cluster.overhang)} sessions over the share` : ""]
		.filter(fact => fact !== "").join(" · "));
	const trouble = [joined || cluster.error === null ? "" : `${cluster.error}: ${cluster.error_text ?? ""}`,
		cluster.alone ? "Not connected: this node enforces the whole limits on its own." : "",
		cluster.differs === null ? "" : `Other nodes have different limits for class ${cluster.differs}.`]
		.filter(text => text !== "").join(" ");
	at("cluster-trouble").hidden = trouble === "";
	write(at("cluster-trouble"), trouble);
	at("cluster-nodes").hidden = cluster.nodes.length === 0;
	keep(at("nodes"), cluster.nodes, node => node.node, cells(["node", "alive", "#last_word",
		"#leased", "#open"]), (element, node) => {
		write(part(element, "node"), node.itself ? `${node.node} (this node)` : node.node);
		write(part(element, "alive"), !joined ? "unknown" : node.alive ? "active" : "expired");
		write(part(element, "last_word"), duration(node.last_word));
		put(part(element, "leased"), node.leased);
		put(part(element, "open"), node.open);
		element.className = !joined ? "" : node.alive ? "" : "bad";
	});
};

const showAccounts = accounts => {
	at("accounts").hidden = accounts === null;
	if (accounts === null)
		return;
	at("no-logins").hidden = accounts.length > 0;
	keep(at("logins"), accounts, row => row.login, cells(["login", "~account", "state", "#used", "#limit",
		"~of", "~#free_in", "~#refused"]), (element, row) => {
		const full = row.limit !== null && row.used >= row.limit;
		element.dataset.login = row.login;
		write(part(element, "login"), row.login);
		write(part(element, "account"), row.account ?? "–");
		write(part(element, "state"), row.held ? "held" : full ? "at a limit" : "below it");
		for (const name of ["used", "limit", "refused"])
			put(part(element, name), row[name]);
		write(part(element, "of"), row.what === null ? "–" : `${row.what} in ${row.window}`);
		write(part(element, "free_in"), full ? duration(row.free_in) : "–");
		element.className = row.held ? "bad" : full ? "warn" : "";
	});
};

const showSources = sources => {
	at("sources").hidden = sources === null;
	if (sources === null)
		return;
	keep(at("warm-ups"), sources, row => `${row.source} ${row.provider}`, cells(["source", "provider", "state",
		"#sent", "#number", "~#throttled", "~verdict", "~#next_day"]), (element, row) => {
		element.dataset.source = row.source;
		for (const name of ["source", "provider", "state", "verdict"])
			write(part(element, name), row[name]);
		for (const name of ["sent", "number", "throttled"])
			put(part(element, name), row[name]);
		write(part(element, "next_day"), duration(row.next_day));
		element.className = row.state === "early" ? "warn" : "";
	});
};

const showCounters = (list, counters, names) => {
	keep(list, names, name => name, name => {
		const element = make("li");
		element.append(make("span", "", name), field("b", "value"));
		element.dataset.counter = name;
		return element;
	}, (element, name) => {
		put(part(element, "value"), counters[name]);
		element.classList.toggle("moved", last !== null && counters[name] > (last.counters[name] ?? 0));
	});
};

const showRest = status => {
	const names = Object.keys(status.counters);
	const faults = names.filter(name => status.counters[name] > 0 && isFault(name));
	showCounters(at("faults"), status.counters, faults);
	at("no-faults").hidden = faults.length > 0;
	showCounters(at("counters"), status.counters, names.filter(name => status.counters[name] > 0));
	at("mail").hidden = status.mtas.length === 0;
	keep(at("mtas"), status.mtas, mta => mta.mta, cells(["mta", "kind", "#log_unread", "#lanes",
		"note"]), (element, mta) => {
		element.dataset.mta = mta.mta;
		write(part(element, "mta"), mta.mta);
		write(part(element, "kind"), mta.kind);
		write(part(element, "log_unread"), bytes(mta.log_unread));
		write(part(element, "lanes"), mta.lanes ?? "–");
		write(part(element, "note"), mta.note ?? "");
	});
	keep(at("tables"), status.tables, table => table.table, table => {
		const element = make("li"), numbers = make("span", "n"), bar = meter();
		numbers.append(field("b", "used"), " of ", field("span", "size"));
		bar.dataset.field = "bar";
		element.append(make("span", "", table.table), bar, numbers);
		element.dataset.table = table.table;
		return element;
	}, (element, table) => {
		put(part(element, "used"), table.used);
		put(part(element, "size"), table.size);
		remeter(part(element, "bar"), { inside: table.used, outside: 0, mark: null, peak: 0,
			most: Math.max(1, table.size), text: `${table.used} of ${table.size}`,
			mood: table.used >= table.size ? "bad" : table.used >= 0.9 * table.size ? "warn" : "" });
		part(element, "bar").setAttribute("aria-label", `use of table ${table.table}`);
	});
};

// --- turns ---------------------------------------------------------------------------------------------

const patient = () => AbortSignal.timeout(PATIENCE_MS);

const ask = async name => {
	const answer = await fetch(`/api/${name}`, { signal: patient(), cache: "no-store" });
	if (answer.status === 404)
		return null;
	if (!answer.ok)
		throw new Error((await answer.text()).trim() || `HTTP ${answer.status}`);
	return answer.json();
};

const query = (name, find, sort, more) => {
	const list = lists[name];
	return `${name}?limit=${list.limit}&offset=${list.offset}&sort=${at(sort).value}` +
		`&find=${encodeURIComponent(at(find).value.trim())}${more}`;
};

const showHistory = async () => {
	const first = slow === -Infinity, minutes = at("span").value, step = Math.max(1, minutes / 360);
	const [past, classes, destinations] = await Promise.all([`history?minutes=${minutes}&step=${step}`,
		"sparks?kind=classes", "sparks?kind=destinations"].map(ask));
	slow = performance.now();
	if (first && minutes > 60 && past !== null &&
		past.rows.slice(0, -Math.ceil(60 / step)).every(row => row === null)) {
		at("span").value = "60";	// nothing is older
		return showHistory();
	}
	sparks = { classes: classes ?? {}, destinations: destinations ?? {} };
	at("no-history").hidden = past !== null && past.rows.some(row => row !== null);
	const unit = step > 1 ? `per ${step} minutes` : "per minute";
	at("plots").replaceChildren(...past === null ? [] : [
		plot(`Sessions ${unit}`, past, LINES.sessions), plot(`Deliveries ${unit}`, past, LINES.outbound)]);
};

const lose = error => {
	lost = true;
	const gone = ["TimeoutError", "AbortError", "TypeError"].includes(error.name);
	write(at("trouble"), !gone ? error.message : last === null ? "Connection lost. No data yet." :
		`Connection to posternd lost. Last update ${clock(new Date(last.wall), true)} ` +
		`(${duration(Math.round((Date.now() - last.wall) / 1000))} ago).`);
	at("trouble").hidden = false;
	at("health").className = "pill bad";
	write(at("health"), "connection lost");
	document.body.classList.add("lost");
	document.title = `(!) Postern ${location.hostname}: connection lost`;
	icon("bad");
};

const turn = async () => {
	try {
		const [status, classes, destinations, decisions, cluster, accounts, sources] = await Promise.all([ask("status"),
			ask(query("classes", "class-find", "class-sort", "")),
			ask(query("destinations", "find", "destination-sort", `&show=${at("destination-show").value}`)),
			ask(`decisions?limit=40&kind=${at("kind").value}` +
				`&find=${encodeURIComponent(at("decision-find").value.trim())}`),
			ask("cluster"), ask("accounts"), ask("sources")]);
		const time = performance.now();
		if (time - slow >= SLOW_MS)
			await showHistory();
		turns++;
		head(status);
		showVerdict(status);
		showSteps(status);
		glance(status, last === null ? 0 : (time - last.time) / 1000);
		showClasses(classes, status);
		showDestinations(destinations, status);
		showDecisions(decisions);
		showCluster(cluster);
		showAccounts(accounts);
		showSources(sources);
		showRoles(status);
		showRest(status);
		last = { time, wall: Date.now(), counters: status.counters };
		lost = false;
		at("trouble").hidden = true;
		document.body.classList.remove("lost");
		document.body.dataset.turns = String(turns);
		if (wanted() !== null && time - detailed >= DETAIL_MS && !at("detail").contains(document.activeElement)) {
			detailed = time;
			await showDetail(ask);
		}
	} catch (error) {
		lose(error);
	}
};

const go = async () => {
	if (busy) {
		again = true;
		return;
	}
	clearTimeout(timer);
	busy = true;
	do {
		again = false;
		if (!paused)
			await turn();
	} while (again && !paused && !lost);
	busy = false;
	clearTimeout(timer);
	timer = setTimeout(go, document.hidden ? HIDDEN_MS : EVERY_MS);
};

const changed = name => () => {
	if (name !== null)
		lists[name].offset = 0;
	go();
};

at("pause").addEventListener("click", () => {
	paused = !paused;
	at("pause").setAttribute("aria-pressed", String(paused));
	write(at("pause"), paused ? "Resume" : "Pause");
	if (!paused)
		go();
});
for (const [id, what, name] of [["class-find", "input", "classes"], ["class-sort", "change", "classes"],
	["find", "input", "destinations"], ["destination-sort", "change", "destinations"],
	["destination-show", "change", "destinations"], ["kind", "change", null],
	["decision-find", "input", null]])
	at(id).addEventListener(what, changed(name));
at("span").addEventListener("change", () => showHistory().catch(lose));
for (const kind of KINDS) {
	const option = make("option", "", kind);
	option.value = kind;
	at("kind").append(option);
}
const detail = () => {
	detailed = performance.now();
	return showDetail(ask).catch(lose);
};
addEventListener("hashchange", detail);
document.addEventListener("keydown", event => {
	if (event.key === "Escape" && wanted() !== null)
		location.hash = "";
});
document.addEventListener("visibilitychange", () => {
	if (!document.hidden)
		go();
});
write(at("host"), location.hostname);
go();
if (wanted() !== null)
	detail();
