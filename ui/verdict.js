// The verdict of the experiment: what was expected and what came, its faults, and each move that they met as a drawing.

import { get } from "./api.js";
import { facts, h, link, moveLink, put, section, serverLink, span, state, table } from "./dom.js";
import { follow } from "./live.js";
import { sentence } from "./story.js";
import { timelineBoard } from "./timeline.js";

const CONCLUSIONS = { held: "All invariants and expectations held.", broken: "An invariant or an expectation did not hold.",
  incomplete: "Nothing was broken, but the experiment gave up, or a part did not answer." };

export function view(main, page) {
  page.title("Verdict");
  const trouble = h("p", { class: "trouble", role: "alert" }), body = h("div", {});
  main.append(h("p", {}, link("To the experiment", "#/chaos")), trouble, body);
  let drawn = "";
  follow(async () => {
    try {
      const { experiment: state } = await get("/ops/v1/chaos/faults", page.signal);
      if (!state) { trouble.textContent = "No experiment is loaded."; return; }
      const { experiment } = await get("/ops/v1/chaos/experiment", page.signal);
      trouble.textContent = "";
      const looks = JSON.stringify(experiment.verdict);
      if (looks === drawn) return;
      drawn = looks;
      page.title(`Verdict: ${experiment.title}`);
      put(body, experiment.verdict ? verdictParts(experiment)
        : h("p", { class: "quiet" }, "The verdict comes when its faults have happened, and what they met has ended."));
    } catch (error) { if (error.name !== "AbortError") trouble.textContent = error.message; }
  }, page.signal, 3000);
}

function verdictParts({ verdict, began_at }) {
  const began = Date.parse(began_at);
  const met = verdict.migrations.filter((move) => move.faults.length), others = verdict.migrations.filter((move) => !move.faults.length);
  const kinds = { held: "", broken: "bad", incomplete: "warn" };
  return [h("p", { class: `story ${kinds[verdict.conclusion]}` }, state(verdict.conclusion), ` ${CONCLUSIONS[verdict.conclusion]}`),
    ...String(verdict.description ?? "").split("\n\n").map((paragraph) => h("p", {}, paragraph)),
    facts([["took", span(verdict.elapsed_ms)], ["faults", String(verdict.injected.length)], ["operations", String(verdict.migrations.length)],
      ["servers in error", String(verdict.servers_in_error)], verdict.aborted ? ["gave up", verdict.aborted] : null]),
    section("What was expected", expectations(verdict)),
    verdict.violations.length ? section("Violations", h("ul", {}, verdict.violations.map((one) => h("li", {}, one.rule ? `${one.rule}: ${one.detail ?? ""}` : JSON.stringify(one))))) : null,
    verdict.unreachable.length ? section("Did not answer the audit", h("ul", {}, verdict.unreachable.map((part) => h("li", {}, part)))) : null,
    section("Its faults", faults(verdict)),
    met.length ? section("Operations that a fault met", met.map((move) => drawing(move, verdict, began))) : null,
    others.length ? section("Other operations", operations(others)) : null,
    h("details", {}, h("summary", {}, "All of it, as JSON"), h("pre", { tabindex: "0", "aria-label": "The verdict as JSON" }, JSON.stringify(verdict, null, 2)))];
}

function expectations(verdict) {
  const list = table("Expectations", ["what", "expected", "came", "held"], "The file expects nothing but the invariants.");
  list.show(verdict.expectations, (one) => one.what, (one) => [one.what, one.wanted, one.found, state(one.met ? "held" : "broken")]);
  return list.element;
}

function faults(verdict) {
  const list = table("Faults that happened", ["at", "what", "step", "operation", "server"], "None happened.");
  list.show(verdict.injected.map((fault, index) => ({ ...fault, index })), (fault) => fault.index, (fault) => [span(fault.at_ms), fault.failed ? `${fault.what} – not done: ${fault.failed}` : fault.what,
    fault.step ?? "–", fault.saga ? moveLink(fault.saga) : "–", fault.server ? serverLink(fault.server) : "–"]);
  return list.element;
}

/** An operation of the verdict, whose times are milliseconds after the beginning, as the timeline takes it. */
function drawing(move, verdict, began) {
  const at = (milliseconds) => (milliseconds === null ? null : new Date(began + milliseconds).toISOString());
  const steps = move.steps.map((step) => ({ ...step, begun_at: at(step.begun_ms), ended_at: at(step.ended_ms) }));
  const faults = move.faults.map((index) => ({ at: began + verdict.injected[index].at_ms, text: verdict.injected[index].what }));
  const board = timelineBoard(`Timeline of ${move.saga} ${move.uuid.slice(0, 8)}`);
  board.show({ ...move, steps, started_at: at(move.began_ms), updated_at: at(move.ended_ms) }, faults, null);
  return h("div", {}, h("h3", {}, move.saga.replaceAll("_", " "), " ", moveLink(move.uuid), " of ", serverLink(move.server), " ", state(move.state)),
    move.error ? h("p", {}, `It went back because ${sentence(move.error)}.`) : null,
    move.recovery_ms === null ? null : h("p", { class: "quiet" }, `From its first fault to its end: ${span(move.recovery_ms)}.`),
    board.element);
}

function operations(others) {
  const list = table("Operations that no fault met", ["at", "operation", "kind", "server", "end", ["took", "n"]]);
  list.show(others, (move) => move.uuid, (move) => [span(move.began_ms), moveLink(move.uuid), move.saga.replaceAll("_", " "), serverLink(move.server), state(move.state),
    span(move.ended_ms - move.began_ms)]);
  return list.element;
}
