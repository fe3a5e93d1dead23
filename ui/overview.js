// The overview: what is in flight, owed and waiting, how fast requests are answered, and the cells with the room on their hosts.

import { nextOf, recent } from "./api.js";
import { ago, choice, field, h, link, put, section, span, state, table } from "./dom.js";
import { CLASSES, heatmap } from "./heatmap.js";
import { follow } from "./live.js";

/** A percentile of the answers between two readings of the buckets, in milliseconds; null without answers. */
export function percentile(before, after, part) {
  const counts = after.buckets.map(([bound, count], index) => [bound, count - (before?.buckets[index]?.[1] ?? 0)]);
  const total = counts.reduce((sum, [, count]) => sum + count, 0) + after.beyond - (before?.beyond ?? 0);
  if (total <= 0) return null;
  let passed = 0, lower = 0;
  for (const [bound, count] of counts) {
    if (count > 0 && passed + count >= part * total) {
      return (lower + (bound - lower) * ((part * total - passed) / count)) * 1000;
    }
    passed += count;
    lower = bound;
  }
  return lower * 1000;
}

const WINDOW = 15_000;
/** A map of more hosts than these is read less often. */
const MANY = 1000;

export function view(main, page) {
  page.title("Overview");
  const numbers = h("div", { class: "tiles" });
  const cells = table("Cells", ["cell", "health", "since", ["hosts up", "n"], ["servers", "n"], "why"]);
  const map = heatmap((host) => { location.hash = `#/hosts/${encodeURIComponent(host.name)}`; });
  const by = choice(CLASSES, "", map.by, { id: "heatmap-class" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  main.append(trouble, numbers, section("Cells", cells.element),
    section("Room on hosts", h("p", { class: "key" }, field("Of", by), h("span", {}, "a full square: no room; "),
      h("span", {}, "a cross: down; "), h("span", {}, "a bar: disabled")), map.element));
  const readings = [];

  const summary = async () => {
    const read = await recent("/ops/v1/summary", page.signal);
    if (readings.at(-1)?.at !== read.at) readings.push(read);
    while (readings.length > 2 && Date.parse(read.at) - Date.parse(readings[1].at) >= WINDOW) readings.shift();
    put(numbers, tiles(read, readings.length === 1 ? null : readings[0]));
    trouble.textContent = "";
  };
  let known = [], hosts = [];
  const paint = () => {
    const of = new Map(known.map((cell) => [cell.name, []]));
    for (const host of hosts) of.get(host.cell)?.push(host);
    map.show(known.map((cell) => ({ ...cell, hosts: of.get(cell.name) })));
  };
  const health = async () => {
    known = (await recent("/ops/v1/cells?hosts=false", page.signal)).cells;
    cells.show(known, (cell) => cell.uuid, cellRow);
    paint();
  };
  const rooms = async () => {
    const read = [];
    for (let path = "/ops/v1/hosts?limit=1000"; path;) {
      const part = await recent(path, page.signal);
      read.push(...part.hosts);
      path = nextOf(part.hosts_links);
    }
    hosts = read;
    paint();
  };
  const say = (work) => work().catch((error) => {
    if (error.name === "AbortError") return;
    trouble.textContent = error.message;
  });
  follow(() => say(summary), page.signal, 2000, 1000);
  if (!page.may("ops:cells")) { cells.fail(new Error("Your roles do not allow ops:cells.")); return; }
  follow(() => say(health), page.signal, 4000, 2000);
  const pause = (usual) => () => (hosts.length > MANY ? 30_000 : usual);
  follow(() => say(rooms), page.signal, pause(4000), pause(2000));
}

function cellRow(cell) {
  return [link(cell.name, `#/cells?cell=${encodeURIComponent(cell.name)}`), [state(cell.health), cell.disabled ? [" ", state("disabled")] : null],
    ago(cell.since), `${cell.host_counts.up} of ${cell.host_counts.total}`, cell.servers === null ? "unknown" : String(cell.servers), cell.reason ?? ""];
}

function tile(name, value, href, kind) {
  const inner = [h("span", { class: "value" }, value), h("span", { class: "label" }, name)];
  return href ? h("a", { class: `tile ${kind ?? ""}`, href }, inner) : h("div", { class: `tile ${kind ?? ""}` }, inner);
}

function tiles(read, before) {
  const { operations, debts } = read;
  const waiting = operations.needs_operator + debts.needs_operator;
  const made = [
    tile("operations forward", String(operations.running), "#/moves?status=running"),
    tile("operations going back", String(operations.unwinding), "#/moves?status=unwinding"),
    tile("need an operator", String(waiting), "#/moves?status=needs_operator", waiting ? "bad" : ""),
    tile(debts.oldest_since ? "debts, the oldest since " : "debts", String(debts.waiting + debts.needs_operator), null, ""),
    tile("deletes that wait", String(read.queued_deletes)),
  ];
  if (debts.oldest_since) made[3].lastChild.append(ago(debts.oldest_since));
  const left = read.left_alone;
  const counts = [[left.operations, ""], [left.debts, " debts"]].filter(([count]) => count).map(([count, name]) => `${count}${name}`).join(", ");
  if (counts) made.push(tile(`left alone, of another release: ${left.remedy}`, counts, "#/moves?status=running", "bad"));
  if (!read.requests) return [...made, tile("requests: metrics are switched off", "–")];
  if (!before?.requests || before.requests.answered > read.requests.answered) return [...made, tile("requests a second", "…")];
  const seconds = (Date.parse(read.at) - Date.parse(before.at)) / 1000;
  const rate = (read.requests.answered - before.requests.answered) / seconds;
  const at = (part) => { const found = percentile(before.requests, read.requests, part); return found === null ? "–" : span(found); };
  return [...made, tile("requests a second", rate.toFixed(rate < 10 ? 1 : 0)), tile("median answer", at(0.5)), tile("99th percentile", at(0.99)),
    tile("requests in flight", String(read.requests.in_flight))];
}
