// Cells, and their hosts as a table in pages, with filters.

import { change, get, nextOf, query } from "./api.js";
import { ago, ask, button, choice, counted, facts, field, h, hostLink, put, section, state, table, tell } from "./dom.js";
import { free } from "./heatmap.js";
import { follow } from "./live.js";

const PAGE = 100;
/** The number of hosts that a sentence names. */
const NAMED = 5;
/** What one may ask the hosts to be, as the filters of the route. */
const STANDINGS = [["", "all", {}], ["up", "up", { state: "up" }], ["down", "down", { state: "down" }], ["unknown", "unknown", { state: "unknown" }],
  ["disabled", "disabled", { disabled: true }], ["forced", "forced down", { forced_down: true }]];

export function view(main, page) {
  page.title("Cells and hosts");
  const [trouble, unlisted] = [1, 2].map(() => h("p", { class: "trouble", role: "alert" }));
  const overview = h("div", {});
  const hosts = table("Hosts", ["host", "cell", "zone", "state", "service", ["servers", "n"], ["room used", "n"]], "No host fits the filter.");
  const text = h("input", { id: "host-filter", type: "search", placeholder: "a part of its name", oninput: () => narrowed() });
  let cell = page.query.get("cell") ?? "", standing = {}, pages = [], later = null, typing = null;
  const where = h("span", {});
  const count = h("p", { class: "quiet", role: "status" });
  const next = button("Next hosts", () => { pages.push(later); listed(); }, { id: "next-hosts" });
  const first = button("First hosts", () => { pages = []; listed(); });
  main.append(trouble, section("Cells", overview), section("Hosts",
    h("div", { class: "filters" }, field("Host", text), where, field("That are", choice(STANDINGS.map(([word, name]) => [word, name]), "", (value) => {
      standing = STANDINGS.find(([word]) => word === value)[2];
      narrowed();
    }, { id: "standing" }))),
    unlisted, count, hosts.element, h("p", { class: "buttons" }, first, next)));

  /** Asks anew a moment after the filters have changed. */
  function narrowed() {
    pages = [];
    clearTimeout(typing);
    typing = setTimeout(listed, 250);
  }

  async function place(cell, disabled) {
    const what = disabled ? `${cell.name} is disabled` : `${cell.name} is enabled`;
    if (disabled && !(await ask(`Disable ${cell.name}?`, "No new server is placed in it. Its servers stay, and may move within it.", "Disable"))) return;
    try {
      await change("PUT", `/ops/v1/cells/${encodeURIComponent(cell.name)}`, { disabled });
      tell(disabled ? what : `${what}${await stayDisabled(cell.name)}`);
    } catch (error) {
      tell(`${what} – refused: ${error.message}`, "trouble");
    }
    again();
  }

  /** Names the hosts of a cell that are disabled by themselves. */
  async function stayDisabled(cell) {
    const { hosts } = await get(`/ops/v1/hosts${query({ cell, disabled: true, limit: NAMED + 1 })}`, page.signal);
    if (!hosts.length) return "";
    const names = hosts.slice(0, NAMED).map((host) => host.name).join(", ");
    return `; ${hosts.length === 1 ? `its host ${names} stays` : `its hosts ${names}${hosts.length > NAMED ? ", …" : ""} stay`} disabled`;
  }

  const say = (into, work) => work().then(() => { into.textContent = ""; }, (error) => {
    if (error.name !== "AbortError") into.textContent = error.message;
  });
  const again = follow(() => say(trouble, async () => {
    const { cells } = await get("/ops/v1/cells?hosts=false", page.signal);
    put(overview, cells.map((one) => cellFacts(one, page.may("ops:cells:update") ? place : null, page.may("ops:drains"))));
    if (!where.firstChild) {
      const names = [["", "all"], ...cells.map((one) => [one.name, one.name])];
      where.append(field("Cell", choice(names, cell, (value) => { cell = value; narrowed(); }, { id: "cell" })));
    }
  }), page.signal, 4000, 1500);
  const listed = follow(() => say(unlisted, async () => {
    const asked = pages.length;
    const path = pages.at(-1) ?? `/ops/v1/hosts${query({ cell, name: text.value.trim(), ...standing, limit: PAGE })}`;
    const read = await get(path, page.signal);
    if (asked !== pages.length) return;
    later = nextOf(read.hosts_links);
    next.hidden = !later;
    first.hidden = pages.length === 0;
    count.textContent = `${counted(read.hosts.length, "host")} ${read.hosts.length === 1 ? "is" : "are"} shown${later ? "; there are more" : ""}.`;
    hosts.show(read.hosts, (host) => host.name, hostRow);
  }), page.signal, 4000, 1500);
}

function cellFacts(cell, place, drains) {
  const leads = (text, view, label) => button(text, () => { location.hash = `#/${view}?cell=${encodeURIComponent(cell.name)}`; },
    { id: `${view}-${cell.name}`, "aria-label": label.replace("CELL", cell.name) });
  return facts([[cell.name, [state(cell.health), ", changed ", ago(cell.since)]], ["hosts up", `${cell.host_counts.up} of ${cell.host_counts.total}`],
    cell.disabled ? ["placing", state("disabled", "disabled: no new servers")] : null, cell.reason ? ["why", cell.reason] : null,
    place && cell.host_counts.total ? ["new servers", button(cell.disabled ? "Enable" : "Disable…", () => place(cell, !cell.disabled),
      { id: `place-${cell.name}`, "aria-label": `${cell.disabled ? "Enable" : "Disable"} ${cell.name}` })] : null,
    drains && cell.host_counts.total ? ["all its hosts", [leads("Drain…", "drain", "Drain CELL"), " ", leads("Does it fit elsewhere?", "capacity", "Does CELL fit elsewhere?")]] : null]);
}

function hostRow(host) {
  const left = free(host);
  return [hostLink(host.name), host.cell, host.availability_zone, [state(host.state), host.discovered ? " discovered" : host.forced_down ? " forced" : ""],
    host.status ? state(host.status) : "–", host.servers === null ? "?" : String(host.servers),
    left === null ? "?" : `${Math.round((1 - left) * 100)} %`];
}
