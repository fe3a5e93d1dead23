// The moves and all other operations, newest first, as a table that changes with them.

import { nextOf, query, recent } from "./api.js";
import { ago, button, choice, field, h, moveLink, place, serverLink, state, table } from "./dom.js";
import { follow, tellsOperations, watch } from "./live.js";

const STATES = [["", "all"], ["running", "running"], ["unwinding", "unwinding"], ["done", "done"], ["unwound", "unwound"], ["needs_operator", "need an operator"]];
const PAGE = 100;
/** How old an answer may be, with some room. */
const ANSWERS_AGE = 1500;
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
    const isWanted = (move) => (kind.value === "" || (kind.value === "moves" ? MOVES.includes(move.saga) : move.saga === kind.value)) &&
      JSON.stringify([move.uuid, move.server, move.source, move.target, move.step]).toLowerCase().includes(wanted);
    moves.show(rows.filter(isWanted), (move) => move.uuid, row);
  }

  const fits = (move) => (!status || move.state === status) && (!server.value.trim() || move.server === server.value.trim());
  /** The operations that the stream told last, and when. */
  const heard = new Map();
  /** An answer with what the stream has told since it was made, or may have. */
  function overtaken(listed, made) {
    const moves = new Map(listed.map((move) => [move.uuid, move]));
    for (const [uuid, { move, at }] of heard) {
      const known = moves.get(uuid);
      if (at < made) heard.delete(uuid);
      else if (known ? Date.parse(known.updated_at) >= Date.parse(move.updated_at) : pages.length) continue;
      else if (fits(move)) moves.set(uuid, move);
      else moves.delete(uuid);
    }
    return latest([...moves.values()]);
  }
  // The stream tells all but how far copies are and what debts are paid.
  const pause = () => (tellsOperations() && !rows.some((move) => move.copied || move.debts.length) ? 10_000 : 2500);
  const again = follow(async () => {
    try {
      const path = pages.at(-1) ?? `/ops/v1/migrations${query({ status, server: server.value.trim(), limit: PAGE })}`;
      const asked = performance.now();
      const read = await recent(path, page.signal);
      rows = overtaken(read.migrations, asked - ANSWERS_AGE);
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
    heard.set(move.uuid, { move, at: performance.now() });
    const isKnown = rows.some((one) => one.uuid === move.uuid);
    if (!isKnown && (!fits(move) || pages.length)) return;
    const others = rows.filter((one) => one.uuid !== move.uuid);
    rows = fits(move) ? latest([...others, move]) : others;
    if (painting) return;
    painting = true;
    requestAnimationFrame(() => { painting = false; render(); });
  }, page.signal);
}

/** The newest of these, as many as a page has. */
function latest(moves) {
  return moves.sort((one, other) => Date.parse(other.started_at) - Date.parse(one.started_at)).slice(0, PAGE);
}

function row(move) {
  const debts = move.debts.length ? String(move.debts.length) : "";
  return [moveLink(move.uuid), state(move.state), move.saga.replaceAll("_", " "), serverLink(move.server, move.server_name), place(move.source), place(move.target), move.step,
    [h("progress", { max: 100, value: move.progress, "aria-label": "Steps that are done" }), ` ${move.progress} %`], debts, ago(move.started_at), ago(move.updated_at)];
}
