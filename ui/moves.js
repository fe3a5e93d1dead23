// The moves and all other operations, newest first, as a live table.

import { get, nextOf, query } from "./api.js";
import { ago, button, choice, field, h, moveLink, place, serverLink, state, table } from "./dom.js";
import { follow } from "./live.js";

const STATES = [["", "all"], ["running", "running"], ["unwinding", "unwinding"], ["done", "done"], ["unwound", "unwound"], ["needs_operator", "need an operator"]];
const MOVES = ["resize", "live_migrate", "confirm", "revert", "evacuate", "unshelve"];

export function view(main, page) {
  page.title("Moves");
  let status = page.query.get("status") ?? "", pages = [], rows = [], later = null;
  const kind = choice([["", "all operations"], ["moves", "moves"], ...["create", "delete", ...MOVES].map((one) => [one, one.replaceAll("_", " ")])], "", () => render(), { id: "kind" });
  const text = h("input", { id: "move-filter", type: "search", placeholder: "host, step or id", oninput: () => render() });
  const server = h("input", { id: "server-filter", type: "search", placeholder: "its whole id", value: page.query.get("server") ?? "",
    onchange: () => { pages = []; again(); } });
  const moves = table("Operations", ["operation", "state", "kind", "server", "from", "to", "step", ["done", "n"], ["debts", "n"], "began", "last change"],
    "No operation fits the filters.");
  const next = button("Older", () => { pages.push(later); again(); });
  const first = button("Newest", () => { pages = []; again(); });
  const trouble = h("p", { class: "trouble", role: "alert" });
  main.append(h("div", { class: "filters" },
    field("State", choice(STATES, status, (value) => { status = value; pages = []; again(); }, { id: "state" })),
    field("Kind", kind), field("Server", server), field("Contains", text)), trouble, moves.element, h("p", { class: "buttons" }, first, next));

  function render() {
    const wanted = text.value.trim().toLowerCase();
    const fits = (move) => (kind.value === "" || (kind.value === "moves" ? MOVES.includes(move.saga) : move.saga === kind.value)) &&
      JSON.stringify([move.uuid, move.server, move.source, move.target, move.step]).toLowerCase().includes(wanted);
    moves.show(rows.filter(fits), (move) => move.uuid, row);
  }

  const again = follow(async () => {
    try {
      const path = pages.at(-1) ?? `/ops/v1/migrations${query({ status, server: server.value.trim(), limit: 100 })}`;
      const read = await get(path, page.signal);
      rows = read.migrations;
      later = nextOf(read.migrations_links);
      next.hidden = !later;
      first.hidden = pages.length === 0;
      trouble.textContent = "";
      render();
    } catch (error) { if (error.name !== "AbortError") trouble.textContent = error.message; }
  }, page.signal, 2500);
}

function row(move) {
  const debts = move.debts.length ? String(move.debts.length) : "";
  return [moveLink(move.uuid), state(move.state), move.saga.replaceAll("_", " "), serverLink(move.server), place(move.source), place(move.target), move.step,
    [h("progress", { max: 100, value: move.progress, "aria-label": "Steps that are done" }), ` ${move.progress} %`], debts, ago(move.started_at), ago(move.updated_at)];
}
