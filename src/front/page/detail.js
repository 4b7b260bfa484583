// SPDX-License-Identifier: ISC
// All about one class, destination, client or decision: #class/NAME and so on.
"use strict";
import { at, make, write, link, number, duration, plot, clock } from "./parts.js";

const KINDS = { class: "Class", destination: "Destination", client: "Client",
	decision: "Decision" };
const SHOWN = ["kind", "time", "stage", "observed", "class", "client", "name", "relay", "mta",
	"reason", "count", "limit", "rule", "by", "for", "window_before", "window", "ceiling_before",
	"ceiling", "code", "text", "note", "node", "lease"];
export const LINES = {
	sessions: [["admitted", "admitted", "good"], ["refused", "refused", "bad"],
		["deferred", "deferred", "warn"], ["open", "open", "in"]],
	outbound: [["ok", "delivered", "good"], ["failed", "failed", "bad"],
		["in_flight", "in flight", "in"]],
	destination: [["ok", "delivered", "good"], ["failed", "failed", "bad"],
		["window", "window", "warn"], ["in_flight", "in flight", "in"]],
};

// { kind, name } of the address, or null.
export const wanted = () => {
	const found = /^#(class|destination|client|decision)\/(.+)$/.exec(location.hash);
	try {
		return found === null ? null : { kind: found[1], name: decodeURIComponent(found[2]) };
	} catch {
		return null;
	}
};

const place = row => row.file === null || row.file === undefined ? "" : `${row.file}:${row.line}`;

const table = (head, rows) => {
	const wrap = make("div", "wrap"), element = make("table"), line = make("tr"), body = make("tbody");
	for (const name of head) {
		const cell = make("th", "", name);
		cell.scope = "col";
		line.append(cell);
	}
	element.append(make("thead"));
	element.firstElementChild.append(line);
	for (const row of rows) {
		const one = make("tr");
		for (const value of row) {
			const cell = make("td");
			cell.append(value ?? "–");
			one.append(cell);
		}
		body.append(one);
	}
	element.append(body);
	wrap.append(element);
	return wrap;
};

const copied = button => {
	write(button, "Copied");
	setTimeout(() => write(button, "Copy"), 1500);
};

const command = text => {
	const line = make("li", "command"), code = make("code", "", text);
	const button = make("button", "", "Copy");
	button.type = "button";
	button.setAttribute("aria-label", `Copy: ${text}`);
	button.addEventListener("click", async () => {
		try {
			await navigator.clipboard.writeText(text);
			copied(button);
		} catch {		// not a secure origin: it is chosen, to be copied by hand
			const range = document.createRange();
			range.selectNodeContents(code);
			getSelection().removeAllRanges();
			getSelection().addRange(range);
			write(button, "Selected");
		}
	});
	line.append(code, button);
	return line;
};

const heading = text => make("h3", "", text);

const limits = data => {
	const parts = [heading("Binding now"), make("p", "binds", data.binds)];
	if (data.limits.length > 0)
		parts.push(heading("Limits"), table(["limit", "value", "where"],
			data.limits.map(row => [row.limit, row.value, place(row)])));
	return parts;
};

const decisionBody = data => {
	const list = make("dl");
	for (const name of SHOWN) {
		const value = name === "rule" && data.rule !== null ? `${data.rule} ${place(data)}` : data[name];
		if (value === null || value === undefined)
			continue;
		const told = make("dd");
		told.append(name === "class" || name === "client" ? link(name, String(value)) :
			name === "for" ? duration(value) : String(value));
		list.append(make("dt", "", name.replaceAll("_", " ")), told);
	}
	const parts = [make("p", "binds", data.what), list];
	if (data.because.length > 0)
		parts.push(heading("Because"), table(["time", "decision", "what", "reply"],
			data.because.map(row => [clock(new Date(row.time), true), link("decision", row.id),
				row.what, row.text])));
	return parts;
};

const bodies = {
	class: limits,
	destination: limits,
	client: data => [make("p", "binds", data.sessions_found === 1 ? "1 session" :
		`${number(data.sessions_found)} sessions`), table(["class", "state", "client port", "port",
		"age"], data.sessions.map(row => [link("class", row.class), row.state,
		String(row.client_port), String(row.port), duration(row.age)]))],
	decision: decisionBody,
};

const commands = data => {
	const list = make("ul", "commands");
	list.append(...data.commands.map(command));
	return data.commands.length === 0 ? [] : [heading("Commands"), list];
};

const alike = decisions => {
	const once = new Map(decisions.changes.concat(decisions.groups).map(row => [row.id, row]));
	const rows = [...once.values()].sort((a, b) => a.time < b.time ? 1 : -1);
	return rows.length === 0 ? [] : [heading("Decisions"), table(["time", "decision", "count", "what", "reply"],
		rows.slice(0, 20).map(row => [clock(new Date(row.time), true), link("decision", row.id),
			number(row.count), row.what, row.text]))];
};

let shown = "", asked = 0;

// Draws what is wanted; `ask` is of page.js.
export const showDetail = async ask => {
	const want = wanted(), panel = at("detail"), key = want === null ? "" : location.hash;
	const turn = ++asked;
	if (want === null) {
		panel.hidden = true;
		shown = "";
		return;
	}
	const name = encodeURIComponent(want.name), of_list = want.kind !== "decision";
	const [data, decisions, past] = await Promise.all([
		ask(`${want.kind}?${of_list ? "name" : "id"}=${name}`),
		of_list ? ask(`decisions?limit=20&about=${name}`) : null,
		want.kind === "class" || want.kind === "destination" ?
			ask(`history?minutes=1440&step=4&${want.kind}=${name}`) : null]);
	if (turn !== asked)
		return;
	write(at("detail-title"), `${KINDS[want.kind]} ${want.name}`);
	const state = data?.effect ?? "";
	at("detail-state").hidden = state === "";
	write(at("detail-state"), state);
	at("detail-state").className = `pill ${/^suspended/.test(state) ? "bad" :
		/would|held/.test(state) ? "warn" : ""}`;
	const parts = data === null ? [make("p", "empty", want.kind === "decision" ?
		`No longer in memory: posternctl why ${want.name} shows it from the journal.` :
		"Unknown to Postern.")] : bodies[want.kind](data);
	if (data !== null)
		parts.push(...commands(data));
	if (past !== null)
		parts.push(plot("24 hours, per 4 minutes", past, want.kind === "class" ? LINES.sessions :
			LINES.destination));
	if (decisions !== null)
		parts.push(...alike(decisions));
	at("detail-body").replaceChildren(...parts);
	panel.hidden = false;
	if (shown !== key) {
		panel.scrollIntoView({ block: "start" });
		panel.focus({ preventScroll: true });
	}
	shown = key;
};
