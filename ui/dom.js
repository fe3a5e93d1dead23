// Makes elements, tables, times and dialogs. Text of the service is only ever set as text.

export { serverLink } from "./names.js";

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("a", {href: "#/x", onclick}, "text", child)`. Null attributes and children are left out. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (["value", "checked", "disabled", "selected"].includes(name) && name in element) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Changes the inside of an element. The focus stays at the same link or button, and what was unfolded stays so. */
function keeping(element, work) {
  const inside = () => [...element.querySelectorAll("a,button,input,select,summary,[tabindex]")];
  const focused = inside().indexOf(document.activeElement);
  const unfolded = [...element.querySelectorAll("details")].map((details) => details.open);
  work();
  element.querySelectorAll("details").forEach((details, index) => { details.open = unfolded[index] ?? false; });
  if (focused >= 0) inside()[focused]?.focus({ preventScroll: true });
}

/** Replaces the contents of an element, unless they would look the same. */
export function put(element, ...children) {
  const fresh = document.createElement(element.tagName);
  fresh.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  const [now, before] = [fresh.childNodes, element.childNodes];
  const same = now.length === before.length && [...now].every((node, index) => node.isEqualNode(before[index]));
  // A button that looks the same may do something else.
  if (same && !fresh.querySelector("button,input,select")) return;
  keeping(element, () => element.replaceChildren(...fresh.childNodes));
}

const MOMENTS = [[1, "s"], [60, "min"], [3600, "h"], [86400, "d"]];

/** A duration in words: "350 ms", "12 s", "3 min". */
export function span(milliseconds) {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const [unit, name] = MOMENTS.findLast(([unit]) => seconds >= unit * (unit > 1 ? 2 : 1));
  return `${Math.floor(seconds / unit)} ${name}`;
}

/** A number with its noun: "1 host", "2 hosts". */
export const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** A number of bytes in words. */
export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, number > 0 ? Math.floor(Math.log2(number) / 10) : 0);
  return `${(number / 1024 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

function agoText(instant, behind) {
  const passed = Date.now() - instant;
  if (passed < 1000) return behind ? "now" : "a moment";
  return `${span(Math.floor(passed / 1000) * 1000).replace(".0", "")}${behind}`;
}

/** A moment as "12 s ago", which goes on counting; the whole time is its title. */
export const ago = (text, otherwise = "–") => passing(text, otherwise, " ago");

/** The time since a moment as "12 s", which goes on counting; the whole time is its title. */
export const age = (text, otherwise = "–") => passing(text, otherwise, "");

function passing(text, otherwise, behind) {
  if (!text) return otherwise;
  const instant = Date.parse(text.endsWith("Z") || /[+-]\d\d:\d\d$/.test(text) ? text : `${text}Z`);
  if (Number.isNaN(instant)) return text;
  const whole = new Date(instant).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  return h("time", { datetime: new Date(instant).toISOString(), title: whole, "data-ago": behind }, agoText(instant, behind));
}

setInterval(() => {
  for (const time of document.querySelectorAll("time[data-ago]")) {
    const text = agoText(Date.parse(time.getAttribute("datetime")), time.dataset.ago);
    if (time.textContent !== text) time.textContent = text;
  }
}, 1000);

const SIGNS = {
  running: ["▶", "go"], unwinding: ["↩", "warn"], done: ["✓", "good"], unwound: ["⟲", "undone"], needs_operator: ["!", "bad"],
  up: ["✓", "good"], down: ["✕", "bad"], probing: ["?", "warn"], unknown: ["?", "warn"], enabled: ["✓", "good"], disabled: ["–", "warn"],
  ok: ["✓", "good"], failed: ["✕", "bad"], timeout: ["…", "warn"], paused: ["‖", "warn"], cancelled: ["–", "undone"],
  active: ["▶", "good"], error: ["✕", "bad"], shutoff: ["■", "undone"], verify_resize: ["?", "go"], held: ["✓", "good"], broken: ["✕", "bad"],
  incomplete: ["?", "warn"], moved: ["✓", "good"], pending: ["…", "undone"], moving: ["▶", "go"], refused: ["✕", "bad"], over: ["✓", "good"],
  reserving: ["…", "go"], confirming: ["▶", "go"], returning: ["↩", "warn"], returned: ["⟲", "undone"],
  undoing: ["↩", "warn"], undone: ["⟲", "undone"], stayed: ["!", "warn"], ending: ["…", "warn"], clean: ["✓", "good"], violations: ["✕", "bad"], confirmed: ["✓", "good"],
};

/** A state as a word with a sign: colour says it a third time. */
export function state(word, told = word) {
  const [sign, kind] = SIGNS[String(word).toLowerCase()] ?? ["•", "undone"];
  return h("span", { class: `state ${kind}` }, h("span", { "aria-hidden": "true" }, sign), ` ${String(told).replaceAll("_", " ")}`);
}

/** The beginning of an id, with the whole as its title; a link if an address is given. */
export function id(text, href) {
  if (!text) return "–";
  const short = h("code", { title: text }, text.slice(0, 8));
  return href ? h("a", { href, title: text, "aria-label": text }, short) : short;
}

export const link = (text, href, attributes = {}) => h("a", { href, ...attributes }, text);
export const moveLink = (uuid) => id(uuid, `#/moves/${uuid}`);
export const hostLink = (host) => (host ? link(host, `#/hosts/${encodeURIComponent(host)}`) : "–");

/** A place of a move: cell and host. */
export function place(place) {
  return place ? [h("span", { class: "quiet" }, `${place.cell} / `), hostLink(place.host)] : "–";
}

/**
 * A table whose rows stay while their contents do. `columns` are names, or [name, class]. `show(rows, key, cells)` shows rows:
 * `key(row)` names a row, and `cells(row)` makes its cells. `heads` are the cells of the table's head.
 */
export function table(caption, columns, none = "There are none.") {
  const head = columns.map((column) => {
    const [name, kind] = Array.isArray(column) ? column : [column, null];
    return name ? h("th", { scope: "col", class: kind }, name) : h("td", {});
  });
  const body = h("tbody");
  const empty = h("p", { class: "quiet" }, "Loading…");
  const whole = h("table", { hidden: true }, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), body);
  const element = h("div", { class: "wide", role: "region", "aria-label": caption, tabindex: "0" }, whole, empty);
  const known = new Map();
  const show = (rows, key, cells) => {
    whole.hidden = rows.length === 0;
    empty.hidden = rows.length > 0;
    empty.textContent = none;
    const wanted = new Set(rows.map(key));
    for (const [name, { element: row }] of known) {
      if (!wanted.has(name)) { row.remove(); known.delete(name); }
    }
    let before = body.firstChild;
    for (const row of rows) {
      const name = key(row);
      const text = JSON.stringify(row);
      let entry = known.get(name);
      if (!entry) known.set(name, (entry = { element: h("tr"), text: null }));
      if (entry.text !== text) {
        const made = cells(row).map((cell, column) => {
          const [name, kind] = Array.isArray(columns[column]) ? columns[column] : [columns[column], null];
          // A narrow screen shows a row as a card, whose lines begin with the names of the columns.
          return h("td", { class: kind, "data-label": name || null }, h("div", {}, cell));
        });
        keeping(entry.element, () => entry.element.replaceChildren(...made));
        entry.text = text;
      }
      if (entry.element === before) before = before.nextSibling;
      else body.insertBefore(entry.element, before);
    }
  };
  const fail = (error) => {
    whole.hidden = true;
    empty.hidden = false;
    empty.textContent = error.message;
  };
  return { element, show, fail, heads: head };
}

/** A list of facts. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value ?? "–"))));
}

export function section(title, ...children) {
  return h("section", {}, h("h2", {}, title), children);
}

export function button(text, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, text);
}

/** A labelled input. */
export function field(label, input) {
  return h("label", { class: "field" }, h("span", {}, label), input);
}

export function choice(options, chosen, onchange, attributes = {}) {
  const made = options.map(([value, text]) => h("option", { value, selected: value === chosen }, text));
  return h("select", { onchange: (event) => onchange?.(event.target.value), ...attributes }, made);
}

/** Says something for some seconds, and to screen readers. */
export function tell(text, kind = "") {
  const line = h("p", { class: kind }, text);
  document.getElementById("told").append(line);
  setTimeout(() => line.remove(), 8000);
}

/** Asks whether to do something. Resolves to the form's fields, or to null. */
export function ask(title, text, label, ...fields) {
  return new Promise((resolve) => {
    const close = button("Cancel", () => dialog.close());
    const form = h("form", { method: "dialog" }, h("h2", { id: "asked" }, title), text ? h("p", {}, text) : null, fields,
      h("p", { class: "buttons" }, h("button", { type: "submit", class: "main" }, label), close));
    const dialog = h("dialog", { "aria-labelledby": "asked" }, form);
    let answer = null;
    form.addEventListener("submit", () => { answer = Object.fromEntries(new FormData(form)); });
    dialog.addEventListener("close", () => { dialog.remove(); resolve(answer); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
