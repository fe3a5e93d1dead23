// The overview: what waits for people, the cells with the moves between them, how fast requests are answered, the last hour, and the room on hosts.

import { nextOf, query, recent } from "./api.js";
import { age, choice, field, h, link, put, section, state, table } from "./dom.js";
import { cloudMap } from "./cloudmap.js";
import { CLASSES, heatmap } from "./heatmap.js";
import { history } from "./history.js";
import { follow, watch } from "./live.js";
import { trafficTiles, waitingTiles } from "./tiles.js";
import { unconfirmed } from "./waiting.js";

const WINDOW = 15_000;
/** A map of more hosts than these is read less often. */
const MANY = 1000;
const MOVES = "resize,live_migrate,revert,evacuate,unshelve";

export function view(main, page) {
  page.title("Overview");
  const people = h("div", { class: "tiles", id: "waits" }), traffic = h("div", { class: "tiles" });
  const cells = table("Cells", ["cell", "health", "for", ["hosts up", "n"], ["servers", "n"], "why"]);
  const cloud = cloudMap();
  const map = heatmap((host) => { location.hash = `#/hosts/${encodeURIComponent(host.name)}`; });
  const by = choice(CLASSES, "", map.by, { id: "heatmap-class" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const ofCells = page.may("ops:cells");
  main.append(trouble, section("Waits for people", people));
  if (ofCells) main.append(section("Cells, and the moves between them", cloud.element));
  main.append(section("What the service does", traffic), section("The last hour", history(page)));
  if (ofCells) {
    main.append(section("Cells", cells.element), section("Room on hosts", h("p", { class: "key" }, field("Of", by), h("span", {}, "the number and the filled part: percent used; "),
      h("span", {}, "a cross: down; "), h("span", {}, "a bar: disabled")), map.element));
  }
  const readings = [];
  let known = [], hosts = [], moves = [], waiting = [];

  const say = (work) => () => work().catch((error) => { if (error.name !== "AbortError") trouble.textContent = error.message; });
  const every = (work, interval, pause) => follow(say(work), page.signal, interval, pause);

  function paint() {
    cloud.show(known.filter((cell) => cell.host_counts.total), moves, waiting.map(({ source, target }) => ({ from: source.cell, to: target.cell })));
    const of = new Map(known.map((cell) => [cell.name, []]));
    for (const host of hosts) of.get(host.cell)?.push(host);
    map.show(known.map((cell) => ({ ...cell, hosts: of.get(cell.name) })));
  }

  every(async () => {
    const read = await recent("/ops/v1/summary", page.signal);
    if (readings.at(-1)?.at !== read.at) readings.push(read);
    while (readings.length > 2 && Date.parse(read.at) - Date.parse(readings[1].at) >= WINDOW) readings.shift();
    put(people, waitingTiles(read));
    put(traffic, trafficTiles(read, readings.length === 1 ? null : readings[0]));
    trouble.textContent = "";
  }, 2000, 1000);
  if (!ofCells) return;
  every(async () => {
    known = (await recent("/ops/v1/cells?hosts=false", page.signal)).cells;
    cells.show(known, (cell) => cell.uuid, cellRow);
    paint();
  }, 4000, 2000);
  const pause = (usual) => () => (hosts.length > MANY ? 30_000 : usual);
  every(async () => {
    const all = [];
    for (let path = "/ops/v1/hosts?limit=1000"; path;) {
      const part = await recent(path, page.signal);
      all.push(...part.hosts);
      path = nextOf(part.hosts_links);
    }
    hosts = all;
    paint();
  }, pause(4000), pause(2000));
  if (page.may("ops:migrations")) {
    const inFlight = (status) => recent(`/ops/v1/migrations${query({ status, saga: MOVES, limit: 1000 })}`, page.signal);
    const again = every(async () => {
      moves = (await Promise.all([inFlight("running"), inFlight("unwinding")])).flatMap((read) => read.migrations);
      paint();
    }, 3000, 1000);
    let due = null;
    // Steps come faster than a drawing needs them.
    watch(() => { due ??= setTimeout(() => { due = null; if (!page.signal.aborted) again(); }, 500); }, page.signal);
    every(async () => { waiting = await unconfirmed(page.signal); paint(); }, 4000, 2000);
  }
}

function cellRow(cell) {
  return [link(cell.name, `#/cells?cell=${encodeURIComponent(cell.name)}`), [state(cell.health), cell.disabled ? [" ", state("disabled")] : null],
    age(cell.since), `${cell.host_counts.up} of ${cell.host_counts.total}`, cell.servers === null ? "unknown" : String(cell.servers), cell.reason ?? ""];
}
