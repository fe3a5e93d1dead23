// The last hour, as the service keeps it in memory: requests, failures, moves, and the room of each cell, as small drawings.

import { query, recent } from "./api.js";
import { h, s } from "./dom.js";
import { follow } from "./live.js";

const WIDTH = 320, HEIGHT = 90, FOOT = 16, HOUR = 3600_000;
/** Cells whose lines are drawn: the fullest. */
const LINES = 6;

/** The used part of a cell's scarcest class, from 0 to 1; null if it is not known. */
export function fullness(room) {
  const parts = Object.values(room ?? {}).filter(({ capacity }) => capacity > 0).map(({ used, capacity }) => used / capacity);
  return parts.length ? Math.max(...parts) : null;
}

/** The highest value of an axis: 1, 2 or 5 with zeros. */
export function ceiling(highest) {
  const power = 10 ** Math.floor(Math.log10(Math.max(highest, 1e-9)));
  return highest > 0 ? [1, 2, 5, 10].map((digit) => digit * power).find((round) => round >= highest * 0.999) : 1;
}

/** Makes a drawing over the last hour: `lines` are `{name, kind, values}` with a value, or null, for each sample. */
function chart(title, newest, samples, lines, most, unit) {
  const now = Date.parse(samples.at(-1).at);
  const x = (sample) => WIDTH * (1 - (now - Date.parse(sample.at)) / HOUR);
  const y = (value) => HEIGHT - (HEIGHT - 12) * (value / most);
  const drawing = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + FOOT}`, role: "img", "aria-label": `${title} in the last hour; now ${newest}`, class: "chart" });
  for (const minutes of [60, 45, 30, 15, 0]) {
    const at = WIDTH * (1 - minutes / 60);
    drawing.append(s("line", { class: "grid", x1: at, x2: at, y1: 0, y2: HEIGHT }),
      s("text", { x: at, y: HEIGHT + 12, "text-anchor": minutes === 60 ? "start" : minutes ? "middle" : "end" }, minutes ? `−${minutes} min` : "now"));
  }
  drawing.append(s("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT, y2: HEIGHT }), s("text", { x: 2, y: 10 }, `${Number(most.toFixed(2))}${unit}`));
  for (const { kind, values } of lines) {
    let path = "", pen = false;
    samples.forEach((sample, index) => {
      const value = values[index];
      if (value === null) { pen = false; return; }
      path += `${pen ? "L" : "M"}${x(sample).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = true;
    });
    // A single sample is a point.
    drawing.append(s("path", { class: kind, d: samples.length === 1 && path ? `${path}h1` : path }));
  }
  const key = lines.length > 1 ? h("p", { class: "key" }, lines.map(({ name, kind }) => h("span", {}, h("i", { class: kind }), name))) : null;
  return h("figure", {}, h("figcaption", {}, `${title}: `, h("b", {}, newest)), drawing, key);
}

/** The drawings of these samples. */
export function charts(samples, seconds) {
  const last = samples.at(-1);
  const series = (name) => samples.map((sample) => (sample[name] === null ? null : sample[name]));
  const top = (...all) => ceiling(Math.max(0, ...all.flat().filter((value) => value !== null)));
  const made = [];
  if (last.requests !== null) {
    const rate = series("requests").map((count) => (count === null ? null : count / seconds));
    const [failures, moves, back] = [series("failures"), series("moves"), series("moves_back")];
    const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
    made.push(chart("Requests a second", rate.at(-1).toFixed(1), samples, [{ name: "requests", kind: "l0", values: rate }], top(rate), ""),
      chart("Failed requests", `${sum(failures)} in the hour`, samples, [{ name: "failures", kind: "bad", values: failures }], top(failures), ""),
      chart("Moves that ended", `${sum(moves)} arrived, ${sum(back)} went back`, samples,
        [{ name: "arrived", kind: "l0", values: moves }, { name: "went back", kind: "back", values: back }], top(moves, back), ""));
  }
  const cells = Object.keys(last.room).filter((cell) => fullness(last.room[cell]) !== null)
    .sort((one, other) => fullness(last.room[other]) - fullness(last.room[one])).slice(0, LINES);
  const lines = cells.map((cell, index) => ({ name: cell, kind: `l${index}`,
    values: samples.map((sample) => { const part = fullness(sample.room[cell]); return part === null ? null : part * 100; }) }));
  if (lines.length) {
    made.push(chart("Room used, of what is scarcest", lines.map(({ name, values }) => `${name} ${Math.round(values.at(-1))} %`).slice(0, 3).join(", "),
      samples, lines, 100, " %"));
  }
  return made;
}

/** The section of the overview, which follows the hour. */
export function history(page) {
  const drawings = h("div", { class: "charts" }), trouble = h("p", { class: "quiet" });
  let samples = [];
  follow(async () => {
    try {
      const read = await recent(`/ops/v1/history${query({ since: samples.at(-1)?.at })}`, page.signal);
      if (!read.samples.length) return;
      const from = Date.parse(read.samples.at(-1).at) - HOUR;
      samples = [...samples, ...read.samples].filter((sample) => Date.parse(sample.at) >= from);
      drawings.replaceChildren(...charts(samples, read.step_seconds));
      trouble.textContent = "";
    } catch (error) { if (error.name !== "AbortError") trouble.textContent = error.message; }
  }, page.signal, 10_000, null);
  return h("div", {}, trouble, drawings);
}
