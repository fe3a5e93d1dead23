// The cloud as a drawing: each cell a box with its room, and the moves in flight as arrows between them, as thick as they are many.

import { counted, h, put, s, state } from "./dom.js";

/** The thickest arrow in pixels, and an arrow of one move while there are few. */
const THICKEST = 22, OF_ONE = 4;
const CLASSES = [["VCPU", "vCPUs", (amount) => String(amount)], ["MEMORY_MB", "memory", (amount) => `${Math.round(amount / 1024)} GiB`], ["DISK_GB", "disk", (amount) => `${amount} GiB`]];
const WORDS = { forward: "on the way", back: "going back", held: "waiting for a confirm" };

/** The moves of a kind from cell to cell, as `{from, to, kind, count}`; a move that goes back points home. Moves within a cell have the same ends. */
export function flows(moves, waiting) {
  const sums = new Map();
  const add = (from, to, kind) => {
    const key = JSON.stringify([from, to, kind]);
    sums.set(key, (sums.get(key) ?? 0) + 1);
  };
  for (const { source, target, state } of moves) {
    if (!source || !target) continue;
    if (state === "unwinding") add(target.cell, source.cell, "back");
    else add(source.cell, target.cell, "forward");
  }
  for (const { from, to } of waiting) if (from && to && from !== to) add(from, to, "held");
  return [...sums].map(([key, count]) => { const [from, to, kind] = JSON.parse(key); return { from, to, kind, count }; });
}

/** How thick an arrow is: in proportion to its moves. */
export const thickness = (count, most) => count * Math.min(OF_ONE, THICKEST / Math.max(1, most));

const words = ({ from, to, kind, count }) => `${count} ${count === 1 ? "move" : "moves"} from ${from} to ${to}, ${WORDS[kind]}`;

/** Where an arrow leaves and reaches two boxes, a little beside the line between their middles, so that both directions are seen. */
function ends(one, other, shift) {
  const middle = (box) => ({ x: box.x + box.width / 2, y: box.y + box.height / 2 });
  const [from, to] = [middle(one), middle(other)];
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  const [dx, dy] = [(to.x - from.x) / length, (to.y - from.y) / length];
  const edge = (box) => Math.min(dx ? box.width / 2 / Math.abs(dx) : Infinity, dy ? box.height / 2 / Math.abs(dy) : Infinity);
  const [out, into] = [edge(one) + 3, length - edge(other) - 3];
  const at = (way) => ({ x: from.x + dx * way - dy * shift, y: from.y + dy * way + dx * shift });
  return { start: at(out), end: at(into), dx, dy };
}

function arrow(flow, boxes, most) {
  const [one, other] = [boxes.get(flow.from), boxes.get(flow.to)];
  // A drawing that is not on the page has boxes without a size.
  if (!one?.width || !other?.width || one === other) return null;
  const thick = thickness(flow.count, most), head = thick + 5;
  const { start, end, dx, dy } = ends(one, other, { forward: -16, back: 16, held: -38 }[flow.kind]);
  const neck = { x: end.x - dx * head, y: end.y - dy * head };
  const corner = (side) => `${(neck.x - dy * side * head * 0.7).toFixed(1)},${(neck.y + dx * side * head * 0.7).toFixed(1)}`;
  return s("g", { class: `flow ${flow.kind}` }, s("title", {}, words(flow)),
    s("line", { x1: start.x, y1: start.y, x2: neck.x, y2: neck.y, "stroke-width": thick.toFixed(1) }),
    s("polygon", { points: `${end.x.toFixed(1)},${end.y.toFixed(1)} ${corner(1)} ${corner(-1)}` }),
    s("text", { x: (start.x + neck.x) / 2, y: (start.y + neck.y) / 2 + 4, "text-anchor": "middle" }, String(flow.count)));
}

function bar([name, label, text], room) {
  const { used, capacity } = room[name];
  const part = capacity > 0 ? used / capacity : 0;
  return h("div", { class: "roomline" }, h("span", {}, label),
    h("meter", { min: 0, max: capacity || 1, high: (capacity || 1) * 0.9, value: used, "aria-label": `${label} used` }),
    h("span", { class: "n" }, `${Math.round(part * 100)} % of ${text(capacity)} used`));
}

function box(cell, within) {
  const { up, total, down } = cell.host_counts;
  return h("a", { class: `cell ${cell.health === "up" ? "" : "bad"}`, href: `#/cells?cell=${encodeURIComponent(cell.name)}`, "data-cell": cell.name },
    h("span", { class: "cellname" }, h("b", {}, cell.name), " ", state(cell.health), cell.disabled ? [" ", state("disabled")] : null),
    h("span", { class: down ? "trouble" : "quiet" }, `${up} of ${total} hosts up, ${cell.servers === null ? "servers unknown" : counted(cell.servers, "server")}`),
    cell.room ? CLASSES.filter(([name]) => cell.room[name]).map((kind) => bar(kind, cell.room)) : h("span", { class: "quiet" }, "room unknown"),
    within.length ? h("span", {}, within.map(({ kind, count }) => `${count} within, ${WORDS[kind]}`).join("; ")) : null);
}

/** The drawing. `show(cells, moves, waiting)` draws: `waiting` are `{from, to}` of moves that wait for a confirm. */
export function cloudMap() {
  const boxes = h("div", { class: "cells" });
  const arrows = s("svg", { class: "flows", role: "img", "aria-label": "No move is in flight." });
  const element = h("div", { class: "cloudmap" }, boxes, arrows);
  let drawn = [];
  const paint = () => {
    const origin = element.getBoundingClientRect();
    const places = new Map([...boxes.children].map((child) => {
      const { left, top, width, height } = child.getBoundingClientRect();
      return [child.dataset.cell, { x: left - origin.left, y: top - origin.top, width, height }];
    }));
    arrows.setAttribute("viewBox", `0 0 ${Math.max(1, origin.width)} ${Math.max(1, origin.height)}`);
    const most = Math.max(1, ...drawn.map(({ count }) => count));
    arrows.replaceChildren(...drawn.map((flow) => arrow(flow, places, most)).filter(Boolean));
    arrows.setAttribute("aria-label", drawn.length ? drawn.map(words).join("; ") : "No move is in flight.");
  };
  new ResizeObserver(paint).observe(element);
  const show = (cells, moves, waiting) => {
    drawn = flows(moves, waiting);
    put(boxes, cells.map((cell) => box(cell, drawn.filter(({ from, to }) => from === cell.name && to === cell.name))));
    paint();
  };
  return { element, show };
}
