// The overview's tiles: what waits for people, and what the service does.

import { age, h, span } from "./dom.js";
import { roomWords } from "./waiting.js";

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

function tile(value, label, href, kind = "") {
  const inner = [h("span", { class: "value" }, value), h("span", { class: "label" }, label)];
  return href ? h("a", { class: `tile ${kind}`, href }, inner) : h("div", { class: `tile ${kind}` }, inner);
}

const plural = (count, thing) => (count === 1 ? thing : `${thing}s`);

function confirms({ count, oldest_since: since, room }) {
  if (!count) return tile("0", "moves wait for a confirm", "#/waiting/confirms");
  return tile(String(count), [`${plural(count, "move")} to confirm, the oldest for `, age(since), `; held: ${roomWords(room)}`], "#/waiting/confirms", "warn");
}

function hosts({ hosts_down: down, silent_cells: silent }) {
  if (down) return tile(`✕ ${down} down`, plural(down, "host"), "#/waiting/hosts", "bad");
  return silent.length ? tile("? unknown", `hosts of ${silent.join(", ")}, which does not answer`, "#/cells", "warn") : tile("✓ all up", "hosts", "#/cells");
}

function drains({ paused, waiting, running }) {
  const standing = paused + waiting;
  if (!standing) return tile("0", running ? `drains that stand; ${running} on the way` : "drains that stand", "#/waiting/drains");
  return tile(String(standing), `${plural(standing, "drain")} that stand${standing === 1 ? "s" : ""}`, "#/waiting/drains", "warn");
}

/** What waits for people, as the summary counts it. */
export function waitingTiles(read) {
  const { operations, debts, queued_deletes: deletes, left_alone: left } = read;
  const stuck = operations.needs_operator + debts.needs_operator, owed = debts.waiting + debts.needs_operator;
  const made = [confirms(read.unconfirmed_moves),
    tile(String(stuck), stuck === 1 ? "operation needs an operator" : "operations need an operator", "#/moves?status=needs_operator", stuck ? "bad" : ""),
    tile(String(owed), debts.oldest_since ? [`${plural(owed, "debt")}, the oldest for `, age(debts.oldest_since)] : "debts", "#/waiting/debts", owed ? "warn" : ""),
    tile(String(deletes), `${plural(deletes, "delete")} that wait${deletes === 1 ? "s" : ""}`, "#/waiting/deletes", deletes ? "warn" : ""), hosts(read), drains(read.drains)];
  const alone = [[left.operations, ""], [left.debts, " debts"]].filter(([count]) => count).map(([count, name]) => `${count}${name}`).join(", ");
  if (alone) made.push(tile(alone, `left alone, of another release: ${left.remedy}`, "#/moves?status=running", "bad"));
  return made;
}

/** What the service does, from two readings of the summary; `before` is null after the first. */
export function trafficTiles(read, before) {
  const made = [
    tile(String(read.operations.running), "operations forward", "#/moves?status=running"),
    tile(String(read.operations.unwinding), "operations going back", "#/moves?status=unwinding"),
  ];
  if (!read.requests) return [...made, tile("–", "requests: metrics are switched off")];
  if (!before?.requests || before.requests.answered > read.requests.answered) return [...made, tile("…", "requests a second")];
  const seconds = (Date.parse(read.at) - Date.parse(before.at)) / 1000;
  const rate = (read.requests.answered - before.requests.answered) / seconds;
  const at = (part) => { const milliseconds = percentile(before.requests, read.requests, part); return milliseconds === null ? "–" : span(milliseconds); };
  return [...made, tile(rate.toFixed(rate < 10 ? 1 : 0), "requests a second"), tile(at(0.5), "median answer"), tile(at(0.99), "99th percentile"),
    tile(String(read.requests.in_flight), "requests in flight")];
}
