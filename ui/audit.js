// The audit: run it, and read what does not hold, with links to what is meant.

import { get } from "./api.js";
import { ago, button, counted, facts, h, link, moveLink, put, section, serverLink, state, table } from "./dom.js";

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** A text in which each id leads to the server of this id. */
export function linked(text) {
  const parts = [];
  let from = 0;
  for (const found of text.matchAll(UUID)) {
    parts.push(text.slice(from, found.index), /\b(migration|saga|operation) $/i.test(text.slice(0, found.index)) ? moveLink(found[0]) : serverLink(found[0]));
    from = found.index + found[0].length;
  }
  return [...parts, text.slice(from)];
}

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
        ["compared", Object.entries(checked.counts).map(([name, count]) => `${count} ${name.replaceAll("_", " ")}`).join(", ")],
        ["busy meanwhile", checked.busy.length ? checked.busy.map((server) => [serverLink(server), " "]) : "no server"],
        ["did not answer", checked.unreachable.length ? checked.unreachable.join("; ") : "nobody"]]));
      wrong.show(violations, (one) => `${one.invariant} ${one.subject} ${one.message}`, (one) => [one.invariant, linked(one.subject), linked(one.message)]);
      debts.show(checked.debts, (debt) => `${debt.migration} ${debt.step} ${debt.side}`, (debt) => [moveLink(debt.migration), serverLink(debt.server), debt.step, debt.side, debt.reason,
        debt.needs_operator ? state("needs_operator") : "not needed yet"]);
      results.hidden = false;
    } catch (error) {
      if (error.name !== "AbortError") put(about, h("p", { class: "trouble" }, error.message));
    }
    run.disabled = deep.disabled = false;
  }
}
