// Does a cell fit into others? One dry run over the chosen cells together says how many of its servers would find a host there.

import { post } from "./api.js";
import { h, put, section, state, table } from "./dom.js";
import { drainFields } from "./drainform.js";
import { fills, outcome, reasonList, timeOf } from "./drainplan.js";

export async function view(main, page) {
  const cell = page.query.get("cell");
  page.title(`Does ${cell} fit elsewhere?`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const answer = h("div", { role: "status" });
  main.append(h("p", { class: "quiet" }, `The answer is a dry run of a drain of ${cell} to these cells together: nothing is changed, and each planned move takes its room from the next ones.`), trouble);
  let fields;
  try { fields = await drainFields({ cell }, cell, page.signal, clear); } catch (error) {
    if (error.name !== "AbortError") trouble.textContent = error.message;
    return;
  }
  const boxes = fields.cells.map((name) => h("input", { type: "checkbox", name: "into", value: name, checked: true, onchange: clear }));
  const chosen = () => boxes.filter((box) => box.checked).map((box) => box.value);
  const ask = h("button", { type: "submit", class: "main", id: "fits" }, "Does it fit?");
  const into = h("fieldset", { id: "into" }, h("legend", {}, "Into"), boxes.length ? boxes.map((box) => h("label", { class: "check" }, box, ` ${box.value}`)) : "There is no other cell.");
  main.append(h("form", { onsubmit: (event) => { event.preventDefault(); tryIt(); } }, into, fields.map, h("p", { class: "buttons" }, ask)), answer);
  clear();

  function clear() {
    answer.replaceChildren();
    ask.disabled = !chosen().length;
  }

  async function tryIt() {
    const cells = chosen();
    [ask.disabled, trouble.textContent] = [true, ""];
    answer.replaceChildren(h("p", { class: "quiet" }, "Choosing a host for each server…"));
    try { show(cells, await post("/ops/v1/drains", { ...fields.wishTo({ to_cells: cells }), dry_run: true })); } catch (error) {
      clear();
      if (error.name !== "AbortError") trouble.textContent = error.message;
    }
    ask.disabled = !chosen().length;
  }

  function show(cells, plan) {
    const shares = table("Where its servers would go", ["cell", ["servers", "n"]], "None.");
    const taken = (name) => plan.servers.filter((server) => server.kind && server.cell === name).length;
    shares.show(cells.map((name) => ({ name, servers: taken(name) })), (row) => row.name, (row) => [row.name, String(row.servers)]);
    put(answer, section(`Into ${cells.join(", ")}`, h("p", { id: "fit" }, plan.stays ? state("broken", "does not fit") : state("held", "fits"), `: ${outcome(plan)}`),
      reasonList(plan.reasons), shares.element, plan.targets.length ? [h("p", {}, timeOf(plan.time)), fills(plan)] : null));
  }
}
