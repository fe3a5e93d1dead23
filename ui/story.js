// Says in sentences how an operation stands: why it went back, what is ahead of it, and what it waits for.

import { counted, hostLink } from "./dom.js";

const isOver = (move) => !["running", "unwinding"].includes(move.state);
const STANDING = ["ok", "skipped"];

/** The last act of an operation that went back: the one that turned it, unless that act was done. */
export function turn(move) {
  const act = (move.steps ?? []).findLast((step) => step.side === "act");
  return act && act.outcome && !STANDING.includes(act.outcome) ? act : null;
}

/** The acts and undos to come, as `{step, side}`. Without a plan (another release's table) there are none. */
export function ahead(move) {
  const steps = move.steps ?? [];
  if (!move.plan || isOver(move)) return [];
  if (move.state === "unwinding") {
    const undone = new Set(steps.filter((step) => step.side === "undo").map((step) => step.step));
    const begun = new Set(steps.filter((step) => step.side === "act" && step.outcome !== "skipped").map((step) => step.step));
    return move.plan.filter((step) => begun.has(step) && !undone.has(step)).reverse().map((step) => ({ step, side: "undo" }));
  }
  const last = steps.findLast((step) => step.side === "act");
  return move.plan.slice(move.plan.indexOf(last?.step) + 1).map((step) => ({ step, side: "act" }));
}

/** Names a host with its cell, as a link. */
const at = (place) => (place ? [` ${place.cell} / `, hostLink(place.host)] : " where it was");

const ENDS = { failed: (step) => `${step} failed`, timeout: (step) => `${step} took too long`, unknown: (step) => `it is not known whether ${step} was done` };
/** An error as a part of a sentence: "host h1: the host did not answer" says "host" twice. */
export const sentence = (error) => error.replace(/\b(host \S+): the host /, "$1 ");

/** Why the operation turned back, without a full stop. */
function cause(move) {
  const act = turn(move);
  const error = move.error ?? act?.error;
  if (!act) return error ? sentence(error) : "it was cancelled";
  const end = (ENDS[act.outcome] ?? ENDS.failed)(act.step);
  return error ? `${end}: ${sentence(error)}` : end;
}

function debts(move) {
  if (!move.debts.length) return "";
  const waits = move.debts.some((debt) => debt.needs_operator);
  return ` It owes ${counted(move.debts.length, "step")}, tried again by itself${waits ? "; a refused one needs an operator" : ""}.`;
}

/** The sentences on top of the page, as children for `h`; null if the facts below say it all. */
export function story(move, server) {
  const full = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);
  if (move.state === "unwound") return ["It went back because ", full(cause(move)), move.source ? [" The server is at", at(move.source), "."] : "", debts(move)];
  if (move.state === "unwinding") {
    const left = ahead(move).length;
    return ["It goes back because ", full(cause(move)), left ? ` ${counted(left, "undo")} to come.` : "", debts(move)];
  }
  if (move.state === "needs_operator") {
    const back = (move.steps ?? []).some((step) => step.side === "undo");
    return ["It needs an operator: ", full(move.reason ?? move.debts.find((debt) => debt.needs_operator)?.reason ?? "see its debts"), back ? [" It went back because ", full(cause(move))] : ""];
  }
  if (move.state === "done") {
    const waits = server?.status === "VERIFY_RESIZE" && ["resize", "migrate"].includes(move.saga);
    return waits ? ["It is done, and waits for a confirm or a revert. Until then it holds the room at", at(move.source), "."] : debts(move) ? [debts(move).trim()] : null;
  }
  const place = (move.plan ?? []).indexOf(move.step), pivot = (move.plan ?? []).indexOf(move.pivot);
  if (place < 0) return null;
  const reached = `Step ${place + 1} of ${move.plan.length}: ${move.step}.`;
  if (pivot < 0) return [reached];
  return [reached, place <= pivot ? ` Until ${move.pivot}, the pivot, is done, it can go back.` : ` The pivot, ${move.pivot}, is done: it only goes forward.`];
}
