// A new drain of a host or of a cell: its fields, what it would do, and only then the button that begins it.

import { get, post } from "./api.js";
import { button, h, put, section, tell } from "./dom.js";
import { drainFields } from "./drainform.js";
import { planView } from "./drainplan.js";

export async function view(main, page) {
  const host = page.query.get("host"), cell = page.query.get("cell");
  page.title(host ? `Drain host ${host}` : `Drain cell ${cell}`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const plan = h("div", { role: "status" });
  main.append(h("p", { class: "quiet" }, "No new server starts there, and each server moves away: live if it runs and stays in its cell, else cold. ",
    "The dry run says what would happen, and changes nothing."), trouble);
  const say = (error) => { if (error.name !== "AbortError") trouble.textContent = error.message; };
  let fields;
  try {
    const home = cell ?? (await get(`/ops/v1/hosts/${encodeURIComponent(host)}`, page.signal)).host.cell;
    fields = await drainFields(host ? { host } : { cell }, home, page.signal, outdated);
  } catch (error) { say(error); return; }
  const ask = h("button", { type: "submit", class: "main", id: "preview" }, "See what it would do");
  main.append(h("form", { onsubmit: (event) => { event.preventDefault(); preview(); } }, h("div", { class: "filters" }, fields.where, fields.most, fields.confirms), fields.map,
    h("p", { class: "buttons" }, ask)), plan);

  /** What was planned for other fields says nothing of these. */
  function outdated() { plan.replaceChildren(); }

  async function preview() {
    [ask.disabled, trouble.textContent] = [true, ""];
    plan.replaceChildren(h("p", { class: "quiet" }, "Choosing a host for each server…"));
    const wish = fields.wish();
    try {
      const answer = await post("/ops/v1/drains", { ...wish, dry_run: true });
      const count = answer.servers.filter((server) => server.kind).length;
      put(plan, section("What it would do", planView(answer)), h("p", { class: "buttons" },
        button(answer.stays ? `Drain: ${count} move, ${answer.stays} stay` : "Drain", () => begin(wish), { class: "main", id: "begin" })));
    } catch (error) { outdated(); say(error); }
    ask.disabled = false;
  }

  async function begin(wish) {
    try { location.hash = `#/drains/${(await post("/ops/v1/drains", wish)).id}`; } catch (error) { tell(error.message, "trouble"); }
  }
}
