// The audit: run it, and read what does not hold, with links to what is meant.

import { get } from "./api.js";
import { ago, button, counted, facts, h, id, link, moveLink, put, section, serverLink, state, table } from "./dom.js";

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** An id as its name, with the whole id as its title. The word before it says what it is: servers and operations have pages. */
function called(uuid, noun, names) {
  if (noun === "server") return serverLink(uuid, names[uuid]);
  if (["migration", "saga", "operation"].includes(noun)) return [moveLink(uuid), names[uuid] ? ` (${names[uuid]})` : ""];
  return names[uuid] ? h("span", { title: uuid }, names[uuid]) : id(uuid);
}

/** A text in which names stand in the place of ids, and lead to the pages of servers and operations. */
export function linked(text, names = {}) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(UUID)) {
    const noun = /([a-z]+) $/i.exec(text.slice(0, found.index))?.[1].toLowerCase();
    parts.push(text.slice(from, found.index), called(found[0], noun, names));
    from = found.index + found[0].length;
  }
  return [...parts, text.slice(from)].flat();
}

/** The numbers of what was compared, in words. */
export const compared = (counts) => Object.entries(counts).map(([kind, count]) => {
  const words = kind.replaceAll("_", " ").replace("sagas", "operations");
  return `${count} ${count === 1 ? words.replace(/ies\b/, "y").replace(/s\b/, "") : words}`;
}).join(", ");

export function view(main, page) {
  page.title("Audit");
  const about = h("div", { role: "status" }, h("p", { class: "quiet" }, "The audit compares the records of all cells and services with what the hosts report."));
  const wrong = table("Violations", ["invariant", "subject", "what is wrong"], "No violation was found.");
  const debts = table("Known debts", ["migration", "server", "step", "side", "why", "operator"], "Nothing is owed.");
  const run = button("Run the audit", () => audit(""), { id: "run", class: "main" });
  const deep = button("Run it, and read all bytes", () => audit("?deep=true"), { id: "run-deep" });
  const results = h("div", { hidden: true }, section("Violations", wrong.element), section("Debts", debts.element));
  const lacking = page.may("ops:heal_allocations") ? h("p", {}, "Ports may ask for more than their servers hold: ", link("look, and heal them", "#/healing"), ".") : null;
  main.append(h("p", { class: "buttons" }, run, deep), ...[lacking].filter(Boolean), about, results);

  async function audit(query) {
    run.disabled = deep.disabled = true;
    put(about, h("p", {}, query ? "Reading all bytes…" : "Comparing…"));
    try {
      const report = await get(`/ops/v1/audit${query}`, page.signal);
      const { checked, violations } = report;
      put(about, facts([["verdict", report.clean ? state("clean") : state("violations", counted(violations.length, "violation"))], ["at", ago(report.at)],
        ["compared", compared(checked.counts)],
        ["busy meanwhile", checked.busy.length ? checked.busy.map((server) => [serverLink(server, checked.names[server]), " "]) : "no server"],
        ["did not answer", checked.unreachable.length ? checked.unreachable.join("; ") : "nobody"]]));
      wrong.show(violations, (one) => `${one.invariant} ${one.subject} ${one.message}`, (one) => [one.invariant, linked(one.subject, checked.names), linked(one.message, checked.names)]);
      debts.show(checked.debts, (debt) => `${debt.migration} ${debt.step} ${debt.side}`, (debt) => [moveLink(debt.migration), serverLink(debt.server, checked.names[debt.server]), debt.step, debt.side, debt.reason,
        debt.needs_operator ? state("needs_operator") : "not needed yet"]);
      results.hidden = false;
    } catch (error) {
      if (error.name !== "AbortError") put(about, h("p", { class: "trouble" }, error.message));
    }
    run.disabled = deep.disabled = false;
  }
}
