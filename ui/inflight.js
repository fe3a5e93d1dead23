// The moves in flight: read now and then, and changed by the stream at each of their steps.

import { query, recent } from "./api.js";
import { follow, tellsOperations, watch } from "./live.js";

const MOVES = ["resize", "live_migrate", "revert", "evacuate", "unshelve"];
/** The longest list that is read. The stream tells of further moves when they take a step. */
const READ = 100;
/** The pause before a change is drawn: steps come faster than a drawing needs them. */
const PAUSE = 300;
/** The ended moves that are remembered. */
const ENDED = 1000;

/** Follows the moves in flight and calls `draw` after changes. Returns a function that gives the moves. */
export function movesInFlight(page, draw) {
  const moves = new Map(), ended = new Set();
  if (!page.may("ops:migrations")) return () => [];
  const isInFlight = (move) => MOVES.includes(move.saga) && ["running", "unwinding"].includes(move.state);
  const list = async (status) => (await recent(`/ops/v1/migrations${query({ status, saga: MOVES.join(","), limit: READ })}`, page.signal)).migrations;
  const again = follow(async () => {
    const lists = await Promise.all([list("running"), list("unwinding")]);
    if (lists.every((part) => part.length < READ)) moves.clear();
    // An answer of the last second may have a move that has ended since.
    for (const move of lists.flat()) if (!ended.has(move.uuid)) moves.set(move.uuid, move);
    draw();
  }, page.signal, () => (tellsOperations() ? 10_000 : 3000), null);

  let due = null, isMissing = false;
  watch((move) => {
    if (!move) isMissing = true;
    else if (isInFlight(move)) moves.set(move.uuid, move);
    else {
      moves.delete(move.uuid);
      if (ended.size >= ENDED) ended.clear();
      ended.add(move.uuid);
    }
    due ??= setTimeout(() => {
      due = null;
      if (page.signal.aborted) return;
      if (isMissing) again();
      else draw();
      isMissing = false;
    }, PAUSE);
  }, page.signal);
  return () => [...moves.values()];
}
