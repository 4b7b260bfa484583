// SPDX-License-Identifier: ISC
// What the page is made of: elements, numbers, meters, plots.  Whatever comes from the daemon
// becomes text nodes and attributes made here, never markup: names are strangers'.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

export const at = id => document.getElementById(id);

export const make = (tag, name, text) => {
	const element = document.createElement(tag);
	if (name)
		element.className = name;
	if (text !== undefined)
		element.textContent = text;
	return element;
};

export const draw = (tag, attributes) => {
	const element = document.createElementNS(SVG, tag);
	for (const [name, value] of Object.entries(attributes))
		element.setAttribute(name, value);
	return element;
};

export const write = (element, text) => {
	if (element.textContent !== text)
		element.textContent = text;
};

// A link to all about it.
export const link = (kind, name, text) => {
	const element = make("a", "", text ?? name);
	element.href = `#${kind}/${encodeURIComponent(name)}`;
	return element;
};

export const number = value => value === null || value === undefined ? "–" :
	value.toLocaleString("en-US", { maximumFractionDigits: value < 10 ? 1 : 0 });

// The number itself stays in the element, for whoever compares.
export const put = (element, value) => {
	element.dataset.value = value === null || value === undefined ? "" : String(value);
	write(element, number(value));
};

export const duration = s => {
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

export const bytes = n => {
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

export const clock = (date, seconds) => date.toLocaleTimeString([], { hour12: false,
	hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined });

// Children of `list`, one for each row, kept by their keys and in the rows' order.
export const keep = (list, rows, key, build, update) => {
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
export const part = (element, name) => {
	element.parts ??= new Map();
	if (!element.parts.has(name))
		element.parts.set(name, element.querySelector(`[data-field="${name}"]`));
	return element.parts.get(name);
};

export const field = (tag, name, style) => {
	const element = make(tag, style);
	element.dataset.field = name;
	return element;
};

export const cells = names => row => {
	const element = make("tr");
	for (const name of names)
		element.append(field("td", name.replace(/[#~]/g, ""), [name.includes("#") ? "n" : "",
			name.includes("~") ? "more" : ""].join(" ").trim()));
	return element;
};

// --- meters ---------------------------------------------------------------------------

const percent = (value, most) => `${Math.min(100, Math.max(0, 100 * value / most))}%`;

export const meter = () => {
	const element = make("div", "meter");
	element.setAttribute("role", "meter");
	for (const name of ["in", "out", "mark", "peak"])
		element.append(field("i", `bar-${name}`, name));
	return element;
};

// `mood`: "bad", "warn", "observe" or "".
export const remeter = (element, { inside, outside, mark, peak, most, mood, text }) => {
	const used = inside + outside, scale = Math.max(most, used, 1);
	part(element, "bar-in").style.width = percent(inside, scale);
	part(element, "bar-out").style.left = percent(inside, scale);
	part(element, "bar-out").style.width = percent(outside, scale);
	part(element, "bar-mark").hidden = mark === null || mark >= scale;
	part(element, "bar-mark").style.left = percent(mark ?? 0, scale);
	part(element, "bar-peak").hidden = !peak || peak >= scale;
	part(element, "bar-peak").style.left = percent(peak ?? 0, scale);
	element.className = `meter ${mood}`;
	element.setAttribute("aria-valuemin", "0");
	element.setAttribute("aria-valuemax", String(scale));
	element.setAttribute("aria-valuenow", String(used));
	element.setAttribute("aria-valuetext", text);
};

// --- sparklines -------------------------------------------------------------------------

const path = (values, most, place) => {
	let text = "", drawn = false;
	values.forEach((value, i) => {
		if (value === null || value === undefined) {
			drawn = false;
			return;
		}
		text += `${drawn ? "L" : "M"}${place(i).toFixed(1)} ${(100 - 100 * value / most).toFixed(1)}`;
		drawn = true;
	});
	return text;
};

export const spark = () => {
	const svg = draw("svg", { viewBox: "0 -4 100 108", preserveAspectRatio: "none",
		class: "sparkline", "aria-hidden": "true" });
	svg.append(draw("path", { class: "spark" }));
	return svg;
};

export const respark = (svg, values) => {
	const known = values.filter(value => value !== null), count = Math.max(2, values.length);
	svg.firstElementChild.setAttribute("d", path(values, Math.max(1, ...known),
		i => 100 * i / (count - 1)));
};

// --- plots over time ----------------------------------------------------------------------

const WIDTH = 600, HEIGHT = 150, LEFT = 58, BOTTOM = 18, TOP = 6;

// What is counted is shown a minute; a round top of the scale.
const round = value => {
	const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
	return [1, 2, 5, 10].map(step => step * power).find(step => step >= value) ?? value;
};

const stretches = rows => {
	const found = [];
	rows.forEach((row, i) => {
		if (row !== null)
			return;
		if (found.length > 0 && found[found.length - 1][1] === i)
			found[found.length - 1][1] = i + 1;
		else
			found.push([i, i + 1]);
	});
	return found;
};

// A figure for what /api/history answers; lines: [column, words, class] each.
export const plot = (title, data, lines) => {
	const figure = make("figure", "plot"), svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
		role: "img" });
	const count = data.rows.length, columns = lines.map(line => data.columns.indexOf(line[0]));
	const values = columns.map(column => data.rows.map(row => row === null ? null : row[column]));
	const most = round(Math.max(1, ...values.flat().filter(value => value !== null)));
	const x = i => LEFT + (WIDTH - LEFT - 4) * (i + 0.5) / count;
	const y = value => TOP + (HEIGHT - BOTTOM - TOP) * (1 - value / most);
	const time = i => new Date((data.minute + i * data.step) * 60000);
	for (const value of [0, most / 2, most]) {
		svg.append(draw("path", { class: "grid", d: `M${LEFT} ${y(value)}H${WIDTH - 4}` }));
		const label = draw("text", { x: LEFT - 4, y: y(value) + 4, class: "axis end" });
		label.textContent = number(value);
		svg.append(label);
	}
	for (const [from, to] of stretches(data.rows))
		svg.append(draw("rect", { class: "gap", x: x(from - 0.5), y: TOP,
			width: x(to - 0.5) - x(from - 0.5), height: HEIGHT - BOTTOM - TOP }));
	const every = Math.max(1, Math.round(count / 6));
	for (let i = Math.floor(every / 2); i < count; i += every) {
		const label = draw("text", { x: x(i), y: HEIGHT - 4, class: "axis middle" });
		label.textContent = clock(time(i));
		svg.append(label);
	}
	for (const [i, what] of data.marks) {
		const mark = draw("path", { class: `restart ${what}`, d: `M${x(i)} ${TOP}V${HEIGHT - BOTTOM}` });
		const words = draw("title", {});
		words.textContent = `${clock(time(i))}: ${what === "started" ? "posternd started" :
			"a worker was restarted"}`;
		mark.append(words);
		svg.append(mark);
	}
	values.forEach((line, i) => {
		let text = "", drawn = false;
		line.forEach((value, j) => {
			if (value === null) {
				drawn = false;
				return;
			}
			text += `${drawn ? "L" : "M"}${x(j).toFixed(1)} ${y(value).toFixed(1)}`;
			if (!drawn && (j + 1 === count || line[j + 1] === null))
				text += "h1";
			drawn = true;
		});
		svg.append(draw("path", { class: `line ${lines[i][2]}`, d: text }));
	});
	const cross = draw("path", { class: "cross" }), said = make("p", "readout");
	svg.append(cross);
	const caption = make("figcaption");
	caption.append(make("b", "", title));
	for (const [, words, name] of lines) {
		const key = make("span", "legend");
		key.append(make("span", `key line ${name}`), words);
		caption.append(key);
	}
	const tell = i => {
		cross.setAttribute("d", `M${x(i)} ${TOP}V${HEIGHT - BOTTOM}`);
		write(said, `${clock(time(i))}: ` + (data.rows[i] === null ? "no data" : lines.map((line, j) =>
			`${number(values[j][i])} ${line[1]}`).join(", ")));
	};
	// by pointer, and by arrow keys
	let chosen = count - 1;
	svg.addEventListener("pointermove", event => {
		const box = svg.getBoundingClientRect();
		const i = Math.floor(((event.clientX - box.left) * WIDTH / box.width - LEFT) * count /
			(WIDTH - LEFT - 4));
		if (i >= 0 && i < count)
			tell(chosen = i);
	});
	svg.setAttribute("tabindex", "0");
	svg.addEventListener("keydown", event => {
		const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60 }[event.key];
		if (step === undefined)
			return;
		event.preventDefault();
		tell(chosen = Math.min(count - 1, Math.max(0, chosen + step)));
	});
	said.setAttribute("aria-live", "polite");
	svg.setAttribute("aria-label", `${title}, from ${clock(time(0))} to ${clock(time(count - 1))}; ` +
		`arrow keys read values: ` + lines.map((line, i) =>
		`${line[1]} at most ${number(Math.max(0, ...values[i].filter(v => v !== null)))}`).join(", "));
	figure.append(caption, svg, said);
	if (data.rows.some(row => row !== null))
		tell(data.rows.findLastIndex(row => row !== null));
	return figure;
};
