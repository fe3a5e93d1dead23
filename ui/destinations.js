// Where a server could go now, the best hosts first; and why it cannot go elsewhere, with the hosts of each reason together.

import { get } from "./api.js";
import { button, counted, h, hostLink, section, table } from "./dom.js";

/** The hosts that are listed of those that fit, and named of those with the same reason. */
const BEST = 10, NAMED = 5;

/** The refused hosts by their reasons, those of the most hosts first. */
export function byReason(destinations) {
  const groups = new Map();
  for (const { host, refusals } of destinations.filter((destination) => destination.refusals.length)) {
    const key = JSON.stringify(refusals.map(({ rule, reason }) => [rule, reason]));
    if (!groups.has(key)) groups.set(key, { refusals, hosts: [] });
    groups.get(key).hosts.push(host);
  }
  return [...groups.values()].sort((one, other) => other.hosts.length - one.hosts.length);
}

const decimals = (weight) => weight.toFixed(2).replace(/^-(0\.00)$/, "$1");

/** The section with the question, and its answer once it was asked. `server` gives the id. */
export function destinations(page, server) {
  const fitting = table("Where it could go, the best first", ["host", "cell", ["weight", "n"]], "No host would take it.");
  const refused = table("Why not elsewhere", [["hosts", "n"], "refused because", "such as"], "No host refuses it.");
  const answer = h("div", { hidden: true }), told = h("p", { role: "status" });
  answer.append(fitting.element, refused.element);

  async function explain() {
    told.textContent = "Asking the scheduler…";
    try {
      const read = await get(`/ops/v1/servers/${encodeURIComponent(server())}/destinations`, page.signal);
      const fit = read.destinations.filter((destination) => !destination.refusals.length);
      fitting.show(fit.slice(0, BEST), (one) => one.host, (one) => [hostLink(one.host), one.cell, one.weight === null ? "–" : decimals(one.weight)]);
      refused.show(byReason(read.destinations), (group) => JSON.stringify(group.refusals), row);
      answer.hidden = false;
      told.textContent = [fit.length > BEST ? `${counted(fit.length - BEST, "more host")} fit${fit.length - BEST === 1 ? "s" : ""}.` : "",
        read.may_leave_cell ? "" : `The policy keeps it in ${read.cell}.`,
        ...read.silent_cells.map((cell) => `${cell} does not answer: none of its hosts would be chosen.`)].join(" ");
    } catch (error) { if (error.name !== "AbortError") told.textContent = error.message; }
  }

  return section("Destinations", h("p", { class: "buttons" }, button("Where could the server go, and why not elsewhere?", explain, { id: "explain" })), told, answer);
}

function row({ hosts, refusals }) {
  return [String(hosts.length), refusals.map(({ rule, reason }) => h("div", {}, h("b", {}, `${rule}: `), reason)),
    [hosts.slice(0, NAMED).map((host, index) => [index ? ", " : "", hostLink(host)]), hosts.length > NAMED ? ", …" : ""]];
}
