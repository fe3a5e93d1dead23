// A move as a drawing, as the verdict of an experiment shows it: a bar for each try of each act and undo, the pivot, and faults.

import { s, span } from "./dom.js";

const LEFT = 300, RIGHT = 1140, ROW = 20;

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

/** Draws a move's tries. `faults` are `{at, text}` in milliseconds; `now` is the end while it runs. */
export function timeline(move, faults, now) {
  const steps = move.steps ?? [];
  const began = Date.parse(move.started_at);
  const moments = steps.flatMap((step) => [Date.parse(step.begun_at), step.ended_at ? Date.parse(step.ended_at) : null]).filter(Boolean);
  const end = Math.max(began + 1, now ?? 0, ...moments);
  const x = (instant) => LEFT + ((Math.min(Math.max(instant, began), end) - began) / (end - began)) * (RIGHT - LEFT);
  const height = steps.length * ROW, base = height + 16;
  const label = `${move.saga}: ${steps.length} tries of its steps, ${move.state.replaceAll("_", " ")}. The table below says the same.`;
  const drawing = s("svg", { viewBox: `0 0 ${RIGHT + 10} ${base + 6}`, role: "img", "aria-label": label, class: "timeline" });
  steps.forEach((step, index) => {
    const top = index * ROW;
    const stop = step.ended_at ? Date.parse(step.ended_at) : step.outcome ? Date.parse(steps[index + 1]?.begun_at ?? move.updated_at) : end;
    const from = x(Date.parse(step.begun_at));
    drawing.append(s("line", { class: "grid", x1: 0, x2: RIGHT, y1: top + ROW, y2: top + ROW }),
      s("text", { x: 0, y: top + 14 }, `${step.side === "undo" ? "↩ " : ""}${step.step} `, s("tspan", {}, tries(steps, index))),
      s("rect", { class: kind(step), x: from.toFixed(1), y: top + 4, width: Math.max(2, x(stop) - from).toFixed(1), height: ROW - 8, rx: 2 },
        s("title", {}, told(step))));
  });
  const pivot = steps.find((step) => step.step === move.pivot && step.side === "act" && step.outcome === "ok");
  if (pivot) {
    const at = x(Date.parse(pivot.ended_at));
    drawing.append(s("line", { class: "pivot", x1: at, x2: at, y1: 0, y2: height }, s("title", {}, "The pivot: from here it only goes forward.")),
      s("text", { class: "mark", x: Math.max(LEFT + 60, at - 4), y: base, "text-anchor": "end" }, "pivot"));
  }
  for (const fault of faults.filter((fault) => fault.at >= began - 1000 && fault.at <= end)) {
    drawing.append(s("line", { class: "fault", x1: x(fault.at), x2: x(fault.at), y1: 0, y2: base }, s("title", {}, `fault: ${fault.text}`)));
  }
  drawing.append(s("text", { class: "mark", x: LEFT, y: base }, "0"), s("text", { class: "mark", x: RIGHT, y: base, "text-anchor": "end" }, span(end - began)));
  return drawing;
}

/** The key to the colours and lines. */
export const KEY = [["ok", "act done"], ["undo", "undo done"], ["skipped", "nothing to do"], ["failed", "failed"], ["unknown", "end unknown or too late"], ["open", "runs, or no end recorded"],
  ["faultkey", "a fault"], ["pivotkey", "the pivot"]];
