// The overview: what waits for people, the cells with the moves between them, how fast requests are answered, the last hour, and the room on hosts.

import { nextOf, recent } from "./api.js";
import { age, choice, field, h, link, put, section, state, table } from "./dom.js";
import { cloudMap } from "./cloudmap.js";
import { CLASSES, heatmap } from "./heatmap.js";
import { history } from "./history.js";
import { movesInFlight } from "./inflight.js";
import { follow } from "./live.js";
import { trafficTiles, waitingTiles } from "./tiles.js";
import { unconfirmed } from "./waiting.js";

const WINDOW = 15_000;
/** A map of more hosts than these is read less often. */
const MANY = 1000;

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
  let allCells = [], hosts = [], waiting = [];
  const moves = movesInFlight(page, drawCloud);

  const say = (work) => () => work().catch((error) => { if (error.name !== "AbortError") trouble.textContent = error.message; });
  const every = (work, interval, pause) => follow(say(work), page.signal, interval, pause);

  function drawCloud() {
    cloud.show(allCells.filter((cell) => cell.host_counts.total), moves(), waiting.map(({ source, target }) => ({ from: source.cell, to: target.cell })));
  }

  function paint() {
    drawCloud();
    const of = new Map(allCells.map((cell) => [cell.name, []]));
    for (const host of hosts) of.get(host.cell)?.push(host);
    map.show(allCells.map((cell) => ({ ...cell, hosts: of.get(cell.name) })));
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
    allCells = (await recent("/ops/v1/cells?hosts=false", page.signal)).cells;
    cells.show(allCells, (cell) => cell.uuid, cellRow);
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
  if (page.may("ops:migrations")) every(async () => { waiting = await unconfirmed(page.signal); drawCloud(); }, 5000, 5000);
}

function cellRow(cell) {
  return [link(cell.name, `#/cells?cell=${encodeURIComponent(cell.name)}`), [state(cell.health), cell.disabled ? [" ", state("disabled")] : null],
    age(cell.since), `${cell.host_counts.up} of ${cell.host_counts.total}`, cell.servers === null ? "unknown" : String(cell.servers), cell.reason ?? ""];
}
