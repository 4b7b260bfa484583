// SPDX-License-Identifier: ISC
// The status page: asks /api/... every two seconds and draws what they tell, with the names
// of posternctl --json.  Whatever comes from there becomes text nodes and attributes made
// here, never markup: names are strangers'.
"use strict";
(() => {

const EVERY_MS = 2000, HIDDEN_MS = 10000, PATIENCE_MS = 8000, KEPT = 150, LEAST = 14,
	SHOWN = 25;
const SVG = "http://www.w3.org/2000/svg";
const FAULTS = ["faults", "expired", "repairs", "untracked", "notes_lost", "levels_lost",
	"journal_failures", "journal_lost", "journal_damaged", "witness_errors",
	"reloads_refused", "role_restarts", "feed_wrong_clocks", "patterns_given_up",
	"windows_begun_anew"];
// what remote sites answered is no fault of ours
const FAULTY = /^(bad|stalled)_|_(evicted|full|uncounted|untracked|unusable|failures?|lost|bad|truncated)$/;
const isFault = name => FAULTS.includes(name) ||
	(FAULTY.test(name) && !name.startsWith("results_"));

const at = id => document.getElementById(id);
const history = new Map();	// of each destination: samples, the newest last
const tiles = new Map();
let last = null;		// { time, counters } of the turn before
let paused = false, busy = false, all = false, timer = 0, turns = 0;

// --- elements ---------------------------------------------------------------------

const make = (tag, name, text) => {
	const element = document.createElement(tag);
	if (name)
		element.className = name;
	if (text !== undefined)
		element.textContent = text;
	return element;
};

const draw = (tag, attributes) => {
	const element = document.createElementNS(SVG, tag);
	for (const [name, value] of Object.entries(attributes))
		element.setAttribute(name, value);
	return element;
};

const write = (element, text) => {
	if (element.textContent !== text)
		element.textContent = text;
};

const number = value => value === null || value === undefined ? "–" :
	value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 1 : 0 });

// The number itself stays in the element, for whoever compares.
const put = (element, value) => {
	element.dataset.value = value === null || value === undefined ? "" : String(value);
	write(element, number(value));
};

const duration = s => {
	if (s === null || s === undefined)
		return "–";
	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h ${Math.floor(s / 60) % 60} min`;
	return `${Math.floor(s / 86400)} d ${Math.floor(s / 3600) % 24} h`;
};

const bytes = n => {
	const units = ["B", "kB", "MB", "GB", "TB"];
	let unit = 0;
	if (n === null || n === undefined)
		return "–";
	while (n >= 1024 && unit + 1 < units.length) {
		n /= 1024;
		unit++;
	}
	return `${number(n)} ${units[unit]}`;
};

// Children of `list`, one for each row, kept by their keys and in the rows' order.
const keep = (list, rows, key, build, update) => {
	const there = new Map();
	for (const child of [...list.children])
		if (there.has(child.dataset.key))
			child.remove();
		else
			there.set(child.dataset.key, child);
	let before = null;
	for (const row of rows) {
		let child = there.get(key(row));
		if (child === undefined) {
			child = build(row);
			child.dataset.key = key(row);
		} else {
			there.delete(key(row));
		}
		update(child, row);
		const place = before === null ? list.firstElementChild : before.nextElementSibling;
		if (place !== child)
			list.insertBefore(child, place);
		before = child;
	}
	for (const child of there.values())
		child.remove();
};

// Parts of an element by their data-field.
const part = (element, name) => {
	element.parts ??= new Map();
	if (!element.parts.has(name))
		element.parts.set(name, element.querySelector(`[data-field="${name}"]`));
	return element.parts.get(name);
};

const field = (tag, name, style) => {
	const element = make(tag, style);
	element.dataset.field = name;
	return element;
};

const percent = (value, most) => `${Math.min(100, Math.max(0, 100 * value / most))}%`;

// --- plots --------------------------------------------------------------------------

// Newest at the right edge; what is there fills the width, once it is half a minute.
const place = (i, count) => 100 - (count - 1 - i) * 100 / Math.max(LEAST, count - 1);

const path = (values, most, step) => {
	let text = "", drawn = false;
	values.forEach((value, i) => {
		if (value === null || value === undefined) {
			drawn = false;
			return;
		}
		const x = place(i, values.length), y = 100 - 100 * value / most;
		text += !drawn ? `M${x.toFixed(2)} ${y.toFixed(2)}` :
			step ? `H${x.toFixed(2)}V${y.toFixed(2)}` : `L${x.toFixed(2)} ${y.toFixed(2)}`;
		drawn = true;
	});
	return text;
};

const spark = () => {
	const svg = draw("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none",
		"aria-hidden": "true" });
	svg.append(draw("path", { class: "spark" }));
	return svg;
};

const plot = () => {
	const svg = draw("svg", { viewBox: "0 -4 100 108", preserveAspectRatio: "none",
		role: "img" });
	for (const name of ["area", "top", "line"])
		svg.append(draw("path", { class: name }));
	return svg;
};

const replot = (svg, samples) => {
	const most = 1.1 * Math.max(1, ...samples.map(s =>
		Math.max(s.window ?? 0, s.ceiling ?? 0, s.in_flight ?? 0)));
	const flights = samples.map(s => s.in_flight ?? 0);
	const begin = place(0, samples.length);
	const [area, top, line] = svg.children;
	area.setAttribute("d", `${path(flights, most, true)}V100H${begin.toFixed(2)}Z`);
	top.setAttribute("d", path(samples.map(s => s.ceiling), most, true));
	line.setAttribute("d", path(samples.map(s => s.window), most, true));
};

// --- at a glance -----------------------------------------------------------------------

const tile = (name, value, unit, mood) => {
	let one = tiles.get(name);
	if (one === undefined) {
		const element = make("div", "tile"), big = make("span", "big");
		const digits = field("span", "value"), units = make("span", "unit");
		big.append(digits, units);
		element.append(make("span", "name", name), big, spark());
		element.dataset.tile = name;
		at("tiles").append(element);
		one = { element, digits, units, line: element.querySelector("path"), samples: [] };
		tiles.set(name, one);
	}
	one.samples.push(value);
	if (one.samples.length > KEPT)
		one.samples.shift();
	put(one.digits, value);
	write(one.units, unit ? ` ${unit}` : "");
	one.element.className = `tile ${value > 0 && mood || ""}`;
	one.line.setAttribute("d", path(one.samples, 1.15 * Math.max(1, ...one.samples), false));
};

const rate = (counters, seconds, ...names) => {
	if (last === null || seconds <= 0)
		return null;
	const sum = names.reduce((all, name) =>
		all + counters[name] - (last.counters[name] ?? 0), 0);
	return Math.max(0, sum / seconds);
};

const glance = (status, classes, destinations, seconds) => {
	const counters = status.counters;
	tile("open sessions", classes.reduce((sum, c) => sum + c.open, 0), "");
	tile("admitted", rate(counters, seconds, "admitted", "uncounted"), "/s");
	tile("refused or deferred", rate(counters, seconds, "refused", "deferred"), "/s", "warn");
	tile("observed only", rate(counters, seconds, "observed",
		"window_holds_observed"), "/s");
	tile("deliveries in flight", destinations.reduce((sum, d) =>
		sum + (d.in_flight ?? 0), 0), "");
	tile("suspended or held", status.destinations_suspended + status.destinations_held +
		status.recipients_held + status.classes_held, "", "bad");
};

const CLUSTER = { joined: "good", connecting: "warn", waiting: "warn" };

// as /healthz has it
const isAway = role => role.pid === null || role.heartbeat_age >= 3;

const head = status => {
	const modes = at("modes"), health = at("health");
	const live = status.health === "live" || status.health === "behind", away = status.roles.filter(isAway);
	const idle = away.every(role => role.role.startsWith("queue.") && ["none", "refused"].includes(status.queue));
	write(health, live && !idle ? "a worker is not running" : status.health);
	health.className = `pill ${status.health === "live" && idle ? "good" : "bad"}`;
	const shown = [];
	if (status.gate === "shut")
		shown.push(["all classes full", "bad"]);
	if (status.observe)
		shown.push(["observe mode", "warn"]);
	if (status.outbound_observe)
		shown.push(["observe mode (outbound)", "warn"]);
	if (["away", "refused"].includes(status.queue))
		shown.push(["queue not managed", "bad"]);
	if (!["none", "joined"].includes(status.cluster))
		shown.push([`cluster: ${status.cluster}`, CLUSTER[status.cluster] ?? "bad"]);
	if (status.sites_changed > 0)
		shown.push(["Postfix settings changed", "warn"]);
	for (const journal of status.journal)
		if (journal.state === "failed")
			shown.push([`journal ${journal.directory}: ${journal.error}`, "bad"]);
	keep(modes, shown, mode => mode[0], () => make("span"), (element, mode) => {
		element.className = `pill ${mode[1]}`;
		write(element, mode[0]);
	});
	write(at("facts"), `up ${duration(status.uptime)} · configuration ${status.generation}` +
		` · ${location.host}`);
};

// --- classes ------------------------------------------------------------------------------

const meter = () => {
	const element = make("div", "meter");
	element.setAttribute("role", "meter");
	for (const name of ["in", "out", "mark", "peak"])
		element.append(field("i", `bar-${name}`, name));
	return element;
};

const remeter = (element, { inside, outside, mark, peak, most, full }) => {
	const used = inside + outside;
	part(element, "bar-in").style.width = percent(inside, most);
	part(element, "bar-out").style.left = percent(inside, most);
	part(element, "bar-out").style.width = percent(outside, most);
	part(element, "bar-mark").hidden = mark === null || mark >= most;
	part(element, "bar-mark").style.left = percent(mark ?? 0, most);
	part(element, "bar-peak").hidden = !peak || peak >= most;
	part(element, "bar-peak").style.left = percent(peak ?? 0, most);
	element.className = `meter ${full !== null && used >= full ? "bad" :
		full !== null && used >= 0.8 * full ? "warn" : ""}`;
	element.setAttribute("aria-valuemin", "0");
	element.setAttribute("aria-valuemax", String(most));
	element.setAttribute("aria-valuenow", String(used));
};

const buildClass = c => {
	const element = make("li", "class"), name = make("span", "name"), side = make("span", "side");
	const numbers = make("span", "numbers"), bar = meter();
	name.append(make("span", "", c.name), field("span", "modes"));
	numbers.append(field("b", "open"), " of ", field("span", "limit"));
	bar.dataset.field = "bar";
	for (const [which, word] of [["open_inbound", "in"], ["open_outbound", "out"],
		["peak", "peak"], ["admitted", "admitted"], ["refused", "refused"],
		["deferred", "deferred"], ["observed", "observed"],
		["refused_share", "refused because of the share"], ["overhang", "overhang"]]) {
		const fact = make("span");
		fact.append(`${word} `, field("b", which));
		side.append(fact);
	}
	element.append(name, bar, numbers, side);
	element.dataset.class = c.name;
	return element;
};

const updateClass = (element, c) => {
	const limits = [c.refuse_at, c.hold_at].filter(limit => limit !== null);
	const most = Math.max(1, ...limits, limits.length === 0 ? c.peak : 0);
	const shared = c.scope === "cluster";
	const full = shared ? c.share : limits.length === 0 ? null : Math.min(...limits);
	for (const name of ["open", "open_inbound", "open_outbound", "peak", "admitted", "refused",
		"deferred", "observed", "refused_share", "overhang"])
		put(part(element, name), c[name]);
	part(element, "limit").dataset.sessions = c.hold_at ?? "";
	part(element, "limit").dataset.inbound = c.refuse_at ?? "";
	write(part(element, "limit"), limits.length === 0 ? "no limit" :
		shared ? `${number(c.share)}, share of ${number(most)}` :
		c.refuse_at === c.hold_at || c.refuse_at === null || c.hold_at === null ?
		number(limits[0]) : `${number(c.refuse_at)} inbound (${number(c.hold_at)} total)`);
	remeter(part(element, "bar"), { inside: c.open_inbound, outside: c.open_outbound,
		mark: shared ? c.share : c.refuse_at, peak: c.peak, most, full });
	part(element, "bar").setAttribute("aria-label", `open sessions of class ${c.name}`);
	const modes = part(element, "modes"), mode = c.removed ? "removed" :
		c.observe ? "observe mode" : !shared || c.lease === "held" ? "" :
		c.lease === "alone" ? "alone" : "no lease";
	modes.className = mode === "" ? "" : "pill warn";
	write(modes, mode);
	element.classList.toggle("removed", c.removed);
	for (const name of ["open_outbound", "refused", "deferred", "observed", "refused_share",
		"overhang"]) {
		const fact = part(element, name).parentNode;
		fact.hidden = !c[name];
		fact.className = name === "overhang" || (name === "refused" &&
			(element.refused ?? c.refused) < c.refused) ? "hot" : "";
	}
	element.refused = c.refused;
};

// --- destinations ----------------------------------------------------------------------------

const MOODS = { dead: "bad", held: "bad", limited: "", open: "good" };
const WORDS = { dead: "suspended", held: "held", limited: "limited", open: "open" };

const buildDestination = d => {
	const element = make("li", "destination"), who = make("div"), states = make("div", "states");
	const numbers = make("div", "numbers"), svg = plot();
	states.append(field("span", "state", "pill"), field("span", "law"), field("span", "until"));
	who.append(make("div", "name", d.name), states);
	for (const [which, word] of [["in_flight", "in flight"], ["window", "window"],
		["ceiling", "ceiling"]]) {
		const cell = make("span");
		cell.append(field("b", which), word);
		numbers.append(cell);
	}
	svg.dataset.field = "plot";
	element.append(who, svg, numbers, field("p", "reason", "reason"));
	element.dataset.destination = d.name;
	return element;
};

const updateDestination = (element, d) => {
	const samples = history.get(d.name), state = part(element, "state");
	state.className = `pill ${MOODS[d.state] ?? ""}`;
	state.hidden = d.state === null;
	write(state, WORDS[d.state] ?? d.state ?? "");
	state.dataset.value = d.state ?? "";
	write(part(element, "law"), d.law ?? "");
	write(part(element, "until"), d.until === null ? "" : `${duration(d.until)} left`);
	for (const name of ["in_flight", "window", "ceiling"])
		put(part(element, name), d[name]);
	part(element, "plot").setAttribute("aria-label",
		`${d.name}: window ${d.window}, ceiling ${d.ceiling ?? "unknown"}, ` +
		`${d.in_flight} in flight`);
	replot(part(element, "plot"), samples);
	part(element, "reason").hidden = d.reason === null;
	write(part(element, "reason"), d.reason ?? "");
};

const remember = destinations => {
	for (const d of destinations) {
		let samples = history.get(d.name);
		if (samples === undefined)
			history.set(d.name, samples = []);
		samples.push({ turn: turns, window: d.window, ceiling: d.ceiling,
			in_flight: d.in_flight });
		if (samples.length > KEPT)
			samples.shift();
	}
	for (const [name, samples] of history)
		if (turns - samples[samples.length - 1].turn > KEPT)
			history.delete(name);
};

const WEIGHTS = { dead: 0, held: 0 };
const showDestinations = destinations => {
	const wanted = at("find").value.trim().toLowerCase();
	// domains of a provider have no window of their own
	let rows = destinations.filter(d => wanted === "" ? d.state !== null :
		d.name.toLowerCase().includes(wanted) ||
		(d.reason ?? "").toLowerCase().includes(wanted));
	// what is stopped comes first; the rest by name, so that rows do not jump
	rows.sort((a, b) => (WEIGHTS[a.state] ?? 1) - (WEIGHTS[b.state] ?? 1));
	const found = rows.length;
	if (!all && wanted === "")
		rows = rows.slice(0, SHOWN);
	const stopped = rows.filter(d => WEIGHTS[d.state] === 0);
	const going = rows.filter(d => WEIGHTS[d.state] !== 0)
		.sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
	keep(at("destinations"), stopped.concat(going), d => d.name, buildDestination,
		updateDestination);
	at("no-destinations").hidden = found > 0;
	write(at("no-destinations"), wanted === "" ? "No deliveries yet." :
		"No destination matches.");
	at("more").hidden = found <= SHOWN || wanted !== "";
	write(at("more"), all ? `Show ${SHOWN}` : `Show all ${found}`);
};

// --- decisions ---------------------------------------------------------------------------------

const DECIDED = { refused: "bad", deferred: "warn", observed: "", suspended: "bad",
	failure: "warn", back: "good", "by-hand": "", alert: "warn", fault: "bad",
	"back-pressure": "warn", "recipient-held": "warn", window: "" };

const buildDecision = d => {
	const element = make("li", "decision"), time = make("time");
	const when = new Date(d.time);
	time.dateTime = d.time;
	time.textContent = isNaN(when) ? d.time : when.toLocaleTimeString([], { hour12: false });
	const kind = make("span");
	kind.append(make("span", `pill ${DECIDED[d.kind] ?? ""}`, d.kind));
	const what = make("span", "what", d.what);
	if (d.text !== null)
		what.append(" ", make("span", "said", d.text));
	element.append(time, kind, what, make("span", "id", d.id));
	element.dataset.decision = d.id;
	return element;
};

const showDecisions = decisions => {
	at("decided").hidden = decisions === null;
	if (decisions === null)
		return;
	keep(at("decisions"), decisions.reverse(), d => d.id, buildDecision, () => {});
	at("no-decisions").hidden = decisions.length > 0;
};

// --- the rest ------------------------------------------------------------------------------------

const cells = names => row => {
	const element = make("tr");
	for (const name of names)
		element.append(field("td", name.replace("#", ""), name.startsWith("#") ? "n" : ""));
	return element;
};

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
		cluster.leased_for === null ? "no lease" :
			`leased for ${duration(cluster.leased_for)}`,
		!joined || cluster.round_trip_median_ms === null ? "" :
			`response time ${cluster.round_trip_median_ms} ms`,
		cluster.overhang > 0 ? `${number(cluster.overhang)} sessions over the share` : ""]
		.filter(fact => fact !== "").join(" · "));
	const trouble = [joined || cluster.error === null ? "" :
		`${cluster.error}: ${cluster.error_text ?? ""}`,
		cluster.alone ? "This node uses whole limits alone." : "",
		cluster.differs === null ? "" :
			`Other nodes have different limits for class ${cluster.differs}.`]
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
		element.className = !joined ? "removed" : node.alive ? "" : "bad";
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
		element.classList.toggle("moved",
			last !== null && counters[name] > (last.counters[name] ?? 0));
	});
};

const showRest = status => {
	const names = Object.keys(status.counters);
	const faults = names.filter(name => status.counters[name] > 0 && isFault(name));
	showCounters(at("faults"), status.counters, faults);
	at("no-faults").hidden = faults.length > 0;
	showCounters(at("counters"), status.counters, names.filter(name =>
		status.counters[name] > 0));
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
		const element = make("li", "class"), numbers = make("span", "numbers"), bar = meter();
		numbers.append(field("b", "used"), " of ", field("span", "size"));
		bar.dataset.field = "bar";
		element.append(make("span", "name", table.table), bar, numbers);
		element.dataset.table = table.table;
		return element;
	}, (element, table) => {
		put(part(element, "used"), table.used);
		put(part(element, "size"), table.size);
		remeter(part(element, "bar"), { inside: table.used, outside: 0, mark: null, peak: 0,
			most: Math.max(1, table.size), full: table.size });
		part(element, "bar").setAttribute("aria-label", `use of table ${table.table}`);
	});
};

// --- turns -----------------------------------------------------------------------------------------

const ask = async (name, signal) => {
	const answer = await fetch(`/api/${name}`, { signal, cache: "no-store" });
	if (answer.status === 404)
		return null;
	if (!answer.ok)
		throw new Error((await answer.text()).trim() || `HTTP ${answer.status}`);
	return answer.json();
};

let shown = { destinations: [] };

const turn = async () => {
	const give_up = new AbortController();
	const patience = setTimeout(() => give_up.abort(), PATIENCE_MS);
	try {
		const [status, classes, destinations, decisions, cluster] = await Promise.all(
			["status", "classes", "destinations", "decisions", "cluster"].map(name =>
				ask(name, give_up.signal)));
		const time = performance.now();
		turns++;
		remember(destinations);
		shown = { destinations };
		head(status);
		glance(status, classes, destinations, last === null ? 0 : (time - last.time) / 1000);
		// a name that was taken away may be configured anew while sessions of the first live
		keep(at("classes"), classes, c => c.removed ? `${c.name} removed` : c.name,
			buildClass, updateClass);
		at("no-classes").hidden = classes.length > 0;
		showDestinations(destinations);
		showDecisions(decisions);
		showCluster(cluster);
		showRoles(status);
		showRest(status);
		last = { time, wall: Date.now(), counters: status.counters };
		at("trouble").hidden = true;
		document.body.classList.remove("lost");
		document.body.dataset.turns = String(turns);
	} catch (error) {
		write(at("trouble"), error.name === "AbortError" || error.name === "TypeError" ?
			last === null ? "Connection lost. No data yet." : `Connection lost. Last update ${
				new Date(last.wall).toLocaleTimeString([], { hour12: false })}.` : error.message);
		at("trouble").hidden = false;
		at("health").className = "pill bad";
		write(at("health"), "connection lost");
		document.body.classList.add("lost");
	} finally {
		clearTimeout(patience);
	}
};

const go = async () => {
	if (busy)
		return;
	clearTimeout(timer);
	busy = true;
	if (!paused)
		await turn();
	busy = false;
	clearTimeout(timer);
	timer = setTimeout(go, document.hidden ? HIDDEN_MS : EVERY_MS);
};

at("pause").addEventListener("click", () => {
	paused = !paused;
	at("pause").setAttribute("aria-pressed", String(paused));
	write(at("pause"), paused ? "Resume" : "Pause");
	if (!paused)
		go();
});
at("more").addEventListener("click", () => {
	all = !all;
	showDestinations(shown.destinations);
});
at("find").addEventListener("input", () => showDestinations(shown.destinations));
document.addEventListener("visibilitychange", () => {
	if (!document.hidden)
		go();
});
go();

})();
