// Experiments on this service: choose one that comes with the program or load a file, watch its faults, kill and pause actors.

import { change, get, post } from "./api.js";
import { actorTree } from "./actors.js";
import { ago, ask, button, choice, facts, field, h, id, link, moveLink, put, section, serverLink, span, state, table, tell } from "./dom.js";
import { faultWords } from "./faults.js";
import { follow } from "./live.js";

export function view(main, page) {
  page.title("Chaos");
  const about = h("div", {}), acts = h("p", { class: "buttons" }), verdict = h("div", {});
  const injected = table("Faults of the experiment", ["at", "what", "server", "operation", "step", "failed"], "None has happened yet.");
  const faults = table("Single faults", ["fault", "what", "since", "state", ""], "None.");
  const again = follow(refresh, page.signal, 1500);
  const actors = actorTree(again);
  main.append(section("Experiment", about, verdict, acts, injected.element), section("Begin an experiment", loader(page, again)),
    section("Actors", actors.element), section("Single faults", faults.element));

  async function refresh() {
    const [single, actorsOf] = await Promise.allSettled(["faults", "actors"].map((part) => get(`/ops/v1/chaos/${part}`, page.signal)));
    if (actorsOf.value) actors.show(actorsOf.value.actors);
    if (!single.value) { put(about, h("p", { class: "trouble" }, single.reason.message)); return; }
    faults.show(single.value.faults, (fault) => fault.id, (fault) => [id(fault.id), faultWords(fault.what), ago(fault.at), fault.active ? state("running", "goes on") : state("over"),
      fault.active ? button("End", () => act(() => change("DELETE", `/ops/v1/chaos/faults/${fault.id}`)), { "aria-label": `End ${faultWords(fault.what)}` }) : ""]);
    render(single.value.experiment ? (await get("/ops/v1/chaos/experiment", page.signal)).experiment : null);
  }

  function render(experiment) {
    if (!experiment) {
      put(about, h("p", { class: "quiet" }, "No experiment is loaded."));
      put(acts);
      put(verdict);
      injected.show([], String, () => []);
      return;
    }
    put(about, facts([["title", experiment.title], ["state", state(experiment.state)], ["began", ago(experiment.began_at)],
      experiment.verdict ? ["verdict", [state(experiment.verdict.conclusion), " ", link("Read it", "#/chaos/verdict")]] : null,
      experiment.left_out.length ? ["left out", h("ul", { class: "plain" }, experiment.left_out.map((line) => h("li", {}, line)))] : null]));
    put(acts, experiment.state === "running" ? button("Stop its faults…", async () => {
      if (await ask("Stop the experiment?", "Its faults end at once.", "Stop")) act(() => change("DELETE", "/ops/v1/chaos/experiment"));
    }, { id: "stop", class: "danger" }) : null);
    const rows = experiment.injected.map((fault, index) => ({ ...fault, index }));
    injected.show(rows, (fault) => fault.index, (fault) => [span(fault.at_ms), fault.what, fault.server ? serverLink(fault.server) : "–",
      fault.saga ? moveLink(fault.saga) : "–", fault.step ?? "–", fault.failed ?? ""]);
    put(verdict, experiment.verdict ? null : h("p", { class: "quiet" }, "The verdict comes when its faults have happened, and what they met has ended."));
  }

  async function act(work) {
    try { await work(); } catch (error) { tell(error.message, "trouble"); }
    again();
  }
}

/** The form that begins an experiment: one of those that come with the program, or another file. */
function loader(page, again) {
  const file = h("input", { type: "file", id: "file", accept: ".toml", onchange: async () => { if (file.files[0]) text.value = await file.files[0].text(); } });
  const text = h("textarea", { id: "experiment", rows: 12, spellcheck: "false" });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const menu = h("div", {}), description = h("div", {});

  async function shipped() {
    try {
      const { experiments } = await get("/ops/v1/chaos/experiments", page.signal);
      const choose = (name) => {
        const one = experiments.find((experiment) => experiment.name === name);
        text.value = one?.text ?? "";
        put(description, one ? one.description.split("\n\n").map((paragraph) => h("p", {}, paragraph)) : []);
      };
      put(menu, field("One that comes with the program", choice([["", "choose…"], ...experiments.map((one) => [one.name, one.title])], "", choose, { id: "shipped" })));
    } catch (error) { if (error.name !== "AbortError") trouble.textContent = error.message; }
  }

  async function load() {
    trouble.textContent = "";
    if (!text.value.trim()) { trouble.textContent = "Choose an experiment, or write its text."; return; }
    try {
      await post("/ops/v1/chaos/experiment", text.value, { "Content-Type": "application/toml" });
      tell("The experiment is loaded");
    } catch (error) { trouble.textContent = error.message; }
    again();
  }

  shipped();
  return [menu, description, h("p", { class: "quiet" }, "Its cells and users are left out: the service has its own. Faults at a step wait for a move that reaches it."),
    h("details", {}, h("summary", {}, "Its text, or another file"), field("File", file), field("Text of the file", text)), trouble,
    h("p", { class: "buttons" }, button("Begin", load, { class: "main", id: "load" }))];
}
