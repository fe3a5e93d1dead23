// Cells and their hosts, as a table with a filter.

import { change, get } from "./api.js";
import { ago, ask, button, choice, facts, field, h, hostLink, put, section, state, table, tell } from "./dom.js";
import { begin } from "./drains.js";
import { free } from "./heatmap.js";
import { follow } from "./live.js";

const PAGE = 100;

export function view(main, page) {
  page.title("Cells and hosts");
  const trouble = h("p", { class: "trouble", role: "alert" });
  const overview = h("div", {}), report = h("div", { role: "status" });
  const hosts = table("Hosts", ["host", "cell", "zone", "state", "service", ["servers", "n"], ["room left", "n"]], "No host fits the filter.");
  const text = h("input", { id: "host-filter", type: "search", placeholder: "a part of its name", oninput: () => { shown = PAGE; render(); } });
  let cells = [], shown = PAGE, cell = page.query.get("cell") ?? "", standing = "";
  const where = h("span", {});
  const count = h("p", { class: "quiet", role: "status" });
  const more = button("Show more", () => { shown += PAGE; render(); });
  const standings = [["", "all"], ["up", "up"], ["down", "down"], ["disabled", "disabled"], ["forced", "forced down"]];
  main.append(trouble, section("Cells", overview, report), section("Hosts",
    h("div", { class: "filters" }, field("Host", text), where,
      field("That are", choice(standings, "", (value) => { standing = value; shown = PAGE; render(); }))),
    count, hosts.element, more));

  function render() {
    const wanted = text.value.trim().toLowerCase();
    const all = cells.flatMap((one) => one.hosts.map((host) => ({ ...host, cell: one.name })));
    const fits = (host) => host.name.toLowerCase().includes(wanted) && (!cell || host.cell === cell) && stands(host, standing);
    const found = all.filter(fits);
    hosts.show(found.slice(0, shown), (host) => host.name, hostRow);
    more.hidden = found.length <= shown;
    count.textContent = `${Math.min(shown, found.length)} of ${found.length} hosts that fit, of ${all.length}`;
  }

  async function place(cell, disabled) {
    const what = disabled ? `${cell.name} is disabled` : `${cell.name} is enabled`;
    if (disabled && !(await ask(`Disable ${cell.name}?`, "No new server is placed in it. Its servers stay, and may move within it.", "Disable"))) return;
    try {
      await change("PUT", `/ops/v1/cells/${encodeURIComponent(cell.name)}`, { disabled });
      tell(what);
    } catch (error) {
      tell(`${what} – refused: ${error.message}`, "trouble");
    }
    again();
  }

  const again = follow(async () => {
    try {
      cells = (await get("/ops/v1/cells", page.signal)).cells;
      trouble.textContent = "";
    } catch (error) {
      if (error.name !== "AbortError") trouble.textContent = error.message;
      return;
    }
    const drain = (one) => (page.may("ops:drains") ? () => begin({ cell: one.name }, one.name, cells, report) : null);
    put(overview, cells.map((one) => cellFacts(one, page.may("ops:cells:update") ? place : null, drain(one))));
    if (!where.firstChild) {
      const names = [["", "all"], ...cells.map((one) => [one.name, one.name])];
      where.append(field("Cell", choice(names, cell, (value) => { cell = value; shown = PAGE; render(); })));
    }
    render();
  }, page.signal, 4000, 1500);
}

function stands(host, standing) {
  if (standing === "disabled") return host.status === "disabled";
  if (standing === "forced") return host.forced_down === true;
  return !standing || host.state === standing;
}

function cellFacts(cell, place, drain) {
  const up = cell.hosts.filter((host) => host.state === "up").length;
  return facts([[cell.name, [state(cell.health), " since ", ago(cell.since)]], ["hosts up", `${up} of ${cell.hosts.length}`],
    cell.disabled ? ["placing", state("disabled", "disabled: no new servers")] : null, cell.reason ? ["why", cell.reason] : null,
    place && cell.hosts.length ? ["new servers", button(cell.disabled ? "Enable" : "Disable…", () => place(cell, !cell.disabled),
      { id: `place-${cell.name}`, "aria-label": `${cell.disabled ? "Enable" : "Disable"} ${cell.name}` })] : null,
    drain && cell.hosts.length ? ["all its hosts", button("Drain…", drain, { id: `drain-${cell.name}`, "aria-label": `Drain ${cell.name}` })] : null]);
}

function hostRow(host) {
  const left = free(host);
  return [hostLink(host.name), host.cell, host.availability_zone, [state(host.state), host.forced_down ? " forced" : ""],
    host.status ? state(host.status) : "–", host.servers === null ? "?" : String(host.servers),
    left === null ? "?" : `${Math.round(left * 100)} %`];
}
