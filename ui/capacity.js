// Does a cell fit into the others? A dry run for each of them says how many of its servers would find a host there.

import { post } from "./api.js";
import { h, put, section, state, table } from "./dom.js";
import { drainFields } from "./drainform.js";
import { fills, outcome, reasonList, timeOf } from "./drainplan.js";

export async function view(main, page) {
  const cell = page.query.get("cell");
  page.title(`Does ${cell} fit elsewhere?`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const answers = table("Where the servers would fit", ["into", "answer", ["would move", "n"], ["would stay", "n"]], "Not asked yet.");
  const details = h("div", { role: "status" });
  main.append(h("p", { class: "quiet" }, `Each answer is a dry run of a drain of ${cell}: nothing is changed, and no answer takes room from the next.`), trouble);
  let fields;
  try { fields = await drainFields({ cell }, cell, page.signal, clear); } catch (error) {
    if (error.name !== "AbortError") trouble.textContent = error.message;
    return;
  }
  const ask = h("button", { type: "submit", class: "main", id: "fits" }, "Ask each other cell");
  main.append(h("form", { onsubmit: (event) => { event.preventDefault(); askAll(); } }, fields.map, h("p", { class: "buttons" }, ask)), answers.element, details);
  clear();

  function clear() {
    answers.show([], String, () => []);
    details.replaceChildren();
  }

  async function askAll() {
    [ask.disabled, trouble.textContent] = [true, ""];
    clear();
    const rows = [];
    for (const [option, label] of fields.options.filter(([option]) => option.startsWith("cell "))) {
      try { rows.push({ label, plan: await post("/ops/v1/drains", { ...fields.wishFor(option), dry_run: true }) }); } catch (error) { rows.push({ label, refusal: error.message }); }
      if (page.signal.aborted) return;
      show(rows);
    }
    ask.disabled = false;
  }

  function show(rows) {
    answers.show(rows, (row) => row.label, ({ label, plan, refusal }) => {
      if (refusal) return [label, [state("unknown", "not known: "), refusal], "–", "–"];
      return [label, plan.stays ? state("broken", "does not fit") : state("held", "fits"), String(plan.servers.filter((server) => server.kind).length), String(plan.stays)];
    });
    put(details, rows.filter(({ plan }) => plan).map(({ label, plan }) => section(`Into ${label}`, h("p", {}, outcome(plan)), reasonList(plan.reasons),
      plan.targets.length ? [h("p", {}, timeOf(plan.time)), fills(plan)] : null)));
  }
}
