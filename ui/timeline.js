// A move as a drawing: a bar for each try of each act and undo, the steps to come, the pivot, and the faults by their names.

import { h, s, span } from "./dom.js";
import { ahead } from "./story.js";

const ROW = 20, LANE = 16, END = 10;
/** The longest list of faults that are named; their lines are all drawn. */
const NAMED = 6;
/** The width of a letter, about. */
const LETTER = 5.8;

const kind = (step) => {
  if (!step.ended_at && !step.outcome) return "open";
  if (step.outcome === "ok") return step.side === "undo" ? "undo" : "ok";
  return ["failed", "skipped"].includes(step.outcome) ? step.outcome : "unknown";
};

/** "try 2" of the same side of a step; nothing for the first. */
function tries(steps, index) {
  const same = steps.slice(0, index).filter((step) => step.step === steps[index].step && step.side === steps[index].side).length;
  return same ? `try ${same + 1}` : "";
}

/** What a bar means, in words: its title, and the text of the table below the drawing. */
export function told(step) {
  const end = step.outcome ?? "runs";
  const took = step.ended_at ? `, ${span(Date.parse(step.ended_at) - Date.parse(step.begun_at))}` : "";
  return `${step.side} of ${step.step}, attempt ${step.attempt}: ${end}${took}${step.error ? `: ${step.error}` : ""}`;
}

/** The marks of an axis of so many milliseconds: some five round ones, the first of them 0. */
export function ticks(total, most = 6) {
  const rough = Math.max(1, total / most);
  const round = [1, 2, 5].flatMap((digit) => [0, 1, 2, 3].map((power) => digit * 10 ** power)).concat([15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400]
    .map((seconds) => seconds * 1000)).sort((one, other) => one - other);
  const step = round.find((candidate) => candidate >= rough) ?? rough;
  return Array.from({ length: Math.floor(total / step) + 1 }, (_, index) => index * step);
}

/** The text of a mark: 0, "500 ms", "2 s", "1 min 30 s". */
function markText(milliseconds) {
  if (milliseconds === 0) return "0";
  if (milliseconds < 1000) return `${milliseconds} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${Number(seconds.toFixed(1))} s`;
  const rest = seconds % 60;
  return `${Math.floor(seconds / 60)} min${rest ? ` ${rest} s` : ""}`;
}

/** Draws a move's tries. `faults` are `{at, text}` in milliseconds; `now` is the end while it runs; `width` is the drawing's in pixels. */
export function timeline(move, faults, now, width = 1150) {
  const left = width < 700 ? 185 : 300, right = width - END;
  const steps = move.steps ?? [], coming = ahead(move);
  const began = Date.parse(move.started_at);
  const moments = steps.flatMap((step) => [Date.parse(step.begun_at), step.ended_at ? Date.parse(step.ended_at) : null]).filter(Boolean);
  const end = Math.max(began + 1, now ?? 0, ...moments);
  const x = (instant) => left + ((Math.min(Math.max(instant, began), end) - began) / (end - began)) * (right - left);
  const top = Math.min(faults.length, NAMED) * LANE;
  const height = top + (steps.length + coming.length) * ROW, base = height + 16;
  const label = `${move.saga}: ${steps.length} tries of its steps, ${coming.length} steps to come, ${move.state.replaceAll("_", " ")}. The table below says the same.`;
  const drawing = s("svg", { viewBox: `0 0 ${width} ${base + 6}`, role: "img", "aria-label": label, class: "timeline" });
  const name = (step, side, row, more) => s("text", { x: 0, y: top + row * ROW + 14 }, `${side === "undo" ? "↩ " : ""}${step} `,
    s("tspan", {}, [more, step === move.pivot && side === "act" ? "◆ the pivot" : ""].filter(Boolean).join(", ")));
  const line = (row) => s("line", { class: "grid", x1: 0, x2: right, y1: top + (row + 1) * ROW, y2: top + (row + 1) * ROW });
  for (const mark of ticks(end - began, width < 700 ? 3 : 6)) {
    const at = x(began + mark);
    drawing.append(s("line", { class: "grid", x1: at, x2: at, y1: top, y2: height }),
      s("text", { class: "mark", x: at, y: base, "text-anchor": at > right - 30 ? "end" : mark ? "middle" : "start" }, markText(mark)));
  }
  steps.forEach((step, row) => {
    const stop = step.ended_at ? Date.parse(step.ended_at) : step.outcome ? Date.parse(steps[row + 1]?.begun_at ?? move.updated_at) : end;
    const from = x(Date.parse(step.begun_at));
    drawing.append(line(row), name(step.step, step.side, row, tries(steps, row)),
      s("rect", { class: kind(step), x: from.toFixed(1), y: top + row * ROW + 4, width: Math.max(2, x(stop) - from).toFixed(1), height: ROW - 8, rx: 2 },
        s("title", {}, told(step))));
  });
  coming.forEach(({ step, side }, index) => {
    const row = steps.length + index;
    drawing.append(line(row), s("g", { class: "coming" }, name(step, side, row, "")),
      s("circle", { class: "coming", cx: right - 4, cy: top + row * ROW + 10, r: 3 }, s("title", {}, `${side} of ${step}: to come`)));
  });
  const pivot = steps.find((step) => step.step === move.pivot && step.side === "act" && step.outcome === "ok");
  if (pivot) {
    const at = x(Date.parse(pivot.ended_at));
    drawing.append(s("line", { class: "pivot", x1: at, x2: at, y1: top, y2: height }, s("title", {}, "The pivot: from here it only goes forward.")));
  }
  faults.forEach((fault, index) => {
    const at = x(fault.at), turned = at > (left + right) / 2;
    const room = Math.floor((turned ? at : width - at) / LETTER) - 2, text = `fault: ${fault.text}`;
    drawing.append(s("line", { class: "fault", x1: at, x2: at, y1: Math.min(index, NAMED) * LANE, y2: height }, s("title", {}, `fault: ${fault.text}`)));
    if (index < NAMED) drawing.append(s("text", { class: "faultname", x: turned ? at - 4 : at + 4, y: index * LANE + 12, "text-anchor": turned ? "end" : "start" },
      text.length > room ? `${text.slice(0, room - 1)}…` : text));
  });
  return drawing;
}

/** A place for a timeline, which is drawn anew when its width changes. `show` takes what `timeline` does, without the width. */
export function timelineBoard(label) {
  const element = h("div", { class: "wide", role: "region", tabindex: "0", "aria-label": label });
  let parts = null, drawn = "";
  const paint = () => {
    if (!parts || !element.clientWidth) return;
    const width = Math.max(340, element.clientWidth), [move, faults, now] = parts;
    const looks = JSON.stringify([move.steps, move.state, faults, now, width]);
    if (looks !== drawn) element.replaceChildren(timeline(move, faults, now, width), faultList(move, faults));
    drawn = looks;
  };
  new ResizeObserver(paint).observe(element);
  return { element, show: (...fresh) => { parts = fresh; paint(); } };
}

/** The faults in full: their names in the drawing may be cut. */
function faultList(move, faults) {
  const began = Date.parse(move.started_at);
  return h("ul", { class: "plain" }, faults.map((fault) => h("li", {}, h("b", {}, `Fault ${fault.at < began ? "before the beginning" : `at ${span(fault.at - began)}`}: `), fault.text)));
}

/** The key to the colours and lines. */
export const KEY = [["ok", "act done"], ["undo", "undo done"], ["skipped", "nothing to do"], ["failed", "failed"], ["unknown", "end unknown or too late"], ["open", "runs, or no end recorded"],
  ["comingkey", "to come"], ["faultkey", "a fault"], ["pivotkey", "the pivot: from there it only goes forward"]];
