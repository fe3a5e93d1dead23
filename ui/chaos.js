// Experiments on this service: load a file, watch its faults, read the verdict.

import { change, get, post } from "./api.js";
import { ago, ask, button, facts, field, h, id, moveLink, put, section, serverLink, span, state, table, tell } from "./dom.js";
import { follow } from "./live.js";

const name = (what) => (typeof what === "string" ? what : JSON.stringify(what));

export function view(main, page) {
  page.title("Chaos");
  const file = h("input", { type: "file", id: "file", accept: ".toml", onchange: async () => { if (file.files[0]) text.value = await file.files[0].text(); } });
  const text = h("textarea", { id: "experiment", rows: 12, spellcheck: "false" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const about = h("div", {}), acts = h("p", { class: "buttons" }), verdict = h("div", {});
  const injected = table("Faults of the experiment", ["at", "what", "server", "operation", "step", "failed"], "None has happened yet.");
  const faults = table("Single faults", ["fault", "what", "since", "state", ""], "None.");
  const actors = table("Actors", ["actor", "state", ["restarts", "n"], ["at work", "n"]]);
  main.append(section("Experiment", about, acts, injected.element, verdict),
    section("Load another", h("p", { class: "quiet" }, "A file as cellshift chaos load takes it. Its cells and users are left out: the service has its own."),
      field("File", file), field("Text of the file", text), trouble, h("p", { class: "buttons" }, button("Load", load, { class: "main", id: "load" }))),
    section("Single faults", faults.element), section("Actors", actors.element));

  const again = follow(async () => {
    const [experiment, single, tree] = await Promise.allSettled(["experiment", "faults", "actors"].map((part) => get(`/ops/v1/chaos/${part}`, page.signal)));
    render(experiment.value?.experiment, experiment.reason);
    if (single.value) faults.show(single.value.faults, (fault) => fault.id, (fault) => [id(fault.id), name(fault.what), ago(fault.at), fault.active ? state("running", "goes on") : state("over"),
      fault.active ? button("End", () => act(() => change("DELETE", `/ops/v1/chaos/faults/${fault.id}`))) : ""]);
    if (tree.value) actors.show(tree.value.actors, (actor) => actor.name, (actor) => [actor.name, !actor.alive ? state("down", "dead") : actor.paused ? state("paused") : state("up", "alive"),
      String(actor.restarts), actor.in_flight === null ? "–" : String(actor.in_flight)]);
  }, page.signal, 1500);

  function render(experiment, why) {
    if (!experiment) {
      put(about, h("p", { class: "quiet" }, why?.status === 404 || !why ? "No experiment is loaded." : why.message));
      put(acts);
      put(verdict);
      injected.show([], String, () => []);
      return;
    }
    put(about, facts([["title", experiment.title], ["state", state(experiment.state)], ["began", ago(experiment.began_at)],
      experiment.left_out.length ? ["left out", h("ul", { class: "plain" }, experiment.left_out.map((line) => h("li", {}, line)))] : null]));
    put(acts, experiment.state === "running" ? button("Stop its faults…", async () => {
      if (await ask("Stop the experiment?", "Its faults end at once.", "Stop")) act(() => change("DELETE", "/ops/v1/chaos/experiment"));
    }, { id: "stop", class: "danger" }) : null);
    const rows = experiment.injected.map((fault, index) => ({ ...fault, index }));
    injected.show(rows, (fault) => fault.index, (fault) => [span(fault.at_ms), fault.what, fault.server ? serverLink(fault.server) : "–",
      fault.saga ? moveLink(fault.saga) : "–", fault.step ?? "–", fault.failed ?? ""]);
    put(verdict, verdictOf(experiment.verdict));
  }

  async function load() {
    trouble.textContent = "";
    if (!text.value.trim()) { trouble.textContent = "Choose a file, or write its text."; return; }
    try {
      await post("/ops/v1/chaos/experiment", text.value, { "Content-Type": "application/toml" });
      tell("The experiment is loaded");
    } catch (error) { trouble.textContent = error.message; }
    again();
  }

  async function act(work) {
    try { await work(); } catch (error) { tell(error.message, "trouble"); }
    again();
  }
}

/** The verdict: its conclusion, and each part of it that has a name. */
function verdictOf(verdict) {
  if (!verdict) return h("p", { class: "quiet" }, "The verdict comes when its faults have happened, and what they met has ended.");
  const held = (verdict.expectations ?? []).map((one) => h("li", {}, state(one.held === false ? "broken" : "held"), ` ${one.what ?? one.name ?? ""}: wanted ${one.wanted ?? "–"}, found ${one.found ?? "–"}`));
  const whole = h("pre", { tabindex: "0", "aria-label": "The verdict as JSON" }, JSON.stringify(verdict, null, 2));
  return [facts([["verdict", state(verdict.conclusion)]]), held.length ? h("ul", { class: "plain" }, held) : null, h("details", {}, h("summary", {}, "All of it, as JSON"), whole)];
}
