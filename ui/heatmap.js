// Hosts as a map of squares: the number and the filled part of a square are the part of the host's room that is used. Ten thousand fit on one canvas.

import { counted, h, state } from "./dom.js";

export const CLASSES = [["", "the scarcest"], ["VCPU", "processors"], ["MEMORY_MB", "memory"], ["DISK_GB", "disk"]];

/** The part of a host that is still free, from 0 to 1; null if it is not known. Without a class, of its scarcest resource. */
export function free(host, wanted = "") {
  const names = wanted ? [wanted] : ["VCPU", "MEMORY_MB", "DISK_GB"];
  const parts = names.map((name) => host.room?.[name]).filter((room) => room && room.capacity > 0);
  return parts.length ? Math.max(0, Math.min(...parts.map((room) => 1 - room.used / room.capacity))) : null;
}

/** Where each host's square is: rows of squares, cell by cell, each cell below its name. */
export function layout(cells, width) {
  const count = cells.reduce((sum, cell) => sum + cell.hosts.length, 0);
  const size = count > 4000 ? 9 : count > 1000 ? 13 : count > 200 ? 20 : 34;
  const columns = Math.max(1, Math.floor(width / size));
  const squares = [], names = [];
  let top = 0;
  for (const cell of cells) {
    if (!cell.hosts.length) continue;
    names.push({ text: `${cell.name}: ${counted(cell.hosts.length, "host")}, ${cell.health}`, top: top + 14 });
    top += 20;
    cell.hosts.forEach((host, index) => squares.push({
      host, cell, x: (index % columns) * size, y: top + Math.floor(index / columns) * size,
    }));
    top += Math.ceil(cell.hosts.length / columns) * size + 8;
  }
  return { squares, names, size, columns, height: Math.max(top, 20) };
}

/** Draws the squares. Down hosts have a cross, disabled ones a bar, forced ones both. */
export function draw(canvas, plan, wanted, cursor) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(plan.height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(plan.height * ratio);
    canvas.style.height = `${plan.height}px`;
  }
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const [ink, paper, quiet, rule, bad, full] = ["--ink", "--paper", "--quiet", "--rule", "--bad", "--ok"].map(colour);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, plan.height);
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = quiet;
  for (const name of plan.names) pen.fillText(name.text, 0, name.top);
  const inner = plan.size - (plan.size > 12 ? 3 : 1);
  for (const { host, x, y } of plan.squares) {
    const left = free(host, wanted);
    pen.fillStyle = rule;
    pen.fillRect(x, y, inner, inner);
    if (left !== null) {
      // A full host is a full square, so that the map reads without its colours.
      const used = Math.round(inner * (1 - left));
      pen.fillStyle = left < 0.1 ? bad : full;
      pen.fillRect(x, y + inner - used, inner, used);
    }
    pen.strokeStyle = ink;
    if (host.state !== "up") {
      pen.beginPath();
      pen.moveTo(x + 1, y + 1); pen.lineTo(x + inner - 1, y + inner - 1);
      pen.moveTo(x + inner - 1, y + 1); pen.lineTo(x + 1, y + inner - 1);
      pen.stroke();
    }
    if (host.status === "disabled") {
      pen.fillStyle = ink;
      pen.fillRect(x, y + inner / 2 - 1, inner, 2);
    }
    if (plan.size >= 34) {
      pen.fillStyle = ink;
      pen.font = "11px system-ui, sans-serif";
      pen.lineWidth = 3;
      pen.strokeStyle = paper;
      const text = left === null ? "?" : `${Math.round((1 - left) * 100)}`;
      pen.strokeText(text, x + 4, y + 13);
      pen.fillText(text, x + 4, y + 13);
      pen.lineWidth = 1;
    }
  }
  const chosen = plan.squares[cursor];
  if (chosen) {
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.strokeRect(chosen.x, chosen.y, inner, inner);
    pen.lineWidth = 1;
  }
}

/** The map with its keys: arrows choose a host, Enter opens it. `show(cells)` draws anew. */
export function heatmap(open) {
  const canvas = h("canvas", {
    id: "heatmap", tabindex: "0", role: "application", "aria-describedby": "heatmap-host",
    "aria-label": "Hosts by the room that is used. Arrow keys choose a host, Enter opens it.",
  });
  const told = h("p", { id: "heatmap-host", "aria-live": "polite" }, "Choose a host with the pointer or the arrow keys.");
  let plan = layout([], 100), cells = [], wanted = "", cursor = -1;
  const paint = () => {
    plan = layout(cells, canvas.clientWidth);
    draw(canvas, plan, wanted, cursor);
  };
  const choose = (index) => {
    if (index < 0 || index >= plan.squares.length || index === cursor) return;
    cursor = index;
    const { host, cell } = plan.squares[index];
    const left = free(host, wanted);
    const room = left === null ? "room unknown" : `${Math.round((1 - left) * 100)} % used`;
    const servers = host.servers === null ? "servers unknown" : counted(host.servers, "server");
    told.replaceChildren(h("a", { href: `#/hosts/${encodeURIComponent(host.name)}` }, host.name), ` in ${cell.name}: ${room}, ${servers}, `,
      state(host.state), host.status === "disabled" ? " disabled" : "", host.forced_down ? " forced down" : "");
    draw(canvas, plan, wanted, cursor);
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return plan.squares.findIndex((square) => x >= square.x && x < square.x + plan.size && y >= square.y && y < square.y + plan.size);
  };
  canvas.addEventListener("pointermove", (event) => choose(at(event)));
  canvas.addEventListener("click", (event) => { const index = at(event); if (index >= 0) open(plan.squares[index].host); });
  canvas.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: plan.columns, ArrowUp: -plan.columns, Home: -cursor, End: plan.squares.length - 1 - cursor };
    if (event.key === "Enter" && plan.squares[cursor]) open(plan.squares[cursor].host);
    else if (event.key in steps) {
      event.preventDefault();
      choose(cursor < 0 ? 0 : Math.max(0, Math.min(plan.squares.length - 1, cursor + steps[event.key])));
    }
  });
  new ResizeObserver(paint).observe(canvas);
  const show = (fresh) => { cells = fresh; paint(); };
  return { element: h("div", {}, canvas, told), show, by: (name) => { wanted = name; paint(); } };
}
