// The moves and all other operations, newest first, as a table that changes with them.

import { get, nextOf, query } from "./api.js";
import { ago, button, choice, field, h, moveLink, place, serverLink, state, table } from "./dom.js";
import { follow, tellsOperations, watch } from "./live.js";

const STATES = [["", "all"], ["running", "running"], ["unwinding", "unwinding"], ["done", "done"], ["unwound", "unwound"], ["needs_operator", "need an operator"]];
const PAGE = 100;
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

  // The stream tells all but how far copies are and what debts are paid.
  const pause = () => (tellsOperations() && !rows.some((move) => move.copied || move.debts.length) ? 10_000 : 2500);
  const again = follow(async () => {
    try {
      const path = pages.at(-1) ?? `/ops/v1/migrations${query({ status, server: server.value.trim(), limit: PAGE })}`;
      const read = await get(path, page.signal);
      const told = new Map(rows.map((move) => [move.uuid, move]));
      rows = read.migrations.map((move) => newer(told.get(move.uuid), move));
      later = nextOf(read.migrations_links);
      next.hidden = !later;
      first.hidden = pages.length === 0;
      trouble.textContent = "";
      render();
    } catch (error) { if (error.name !== "AbortError") trouble.textContent = error.message; }
  }, page.signal, pause, null);

  let painting = false, asking = false;
  watch((move) => {
    if (!move) {
      if (asking) return;
      asking = true;
      setTimeout(() => { asking = false; if (!page.signal.aborted) again(); }, 1000);
      return;
    }
    const fits = (!status || move.state === status) && (!server.value.trim() || move.server === server.value.trim());
    const isKnown = rows.some((one) => one.uuid === move.uuid);
    if (!isKnown && (!fits || pages.length)) return;
    const others = rows.filter((one) => one.uuid !== move.uuid);
    rows = fits ? [...others, move].sort((one, other) => Date.parse(other.started_at) - Date.parse(one.started_at)).slice(0, PAGE) : others;
    if (painting) return;
    painting = true;
    requestAnimationFrame(() => { painting = false; render(); });
  }, page.signal);
}

/** An answer may have been overtaken by the stream. */
function newer(told, read) {
  return told && Date.parse(told.updated_at) > Date.parse(read.updated_at) ? told : read;
}

function row(move) {
  const debts = move.debts.length ? String(move.debts.length) : "";
  return [moveLink(move.uuid), state(move.state), move.saga.replaceAll("_", " "), serverLink(move.server), place(move.source), place(move.target), move.step,
    [h("progress", { max: 100, value: move.progress, "aria-label": "Steps that are done" }), ` ${move.progress} %`], debts, ago(move.started_at), ago(move.updated_at)];
}
