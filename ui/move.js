// One operation: its acts and undos as a timeline that grows, what it copies, what it owes, and what an operator may do there.

import { change, get, post, query } from "./api.js";
import { destinations } from "./destinations.js";
import { age, ago, ask, button, bytes, facts, h, put, place, section, serverLink, span, state, table, tell } from "./dom.js";
import { faultWords } from "./faults.js";
import { follow, watch } from "./live.js";
import { story } from "./story.js";
import { KEY, timelineBoard, told } from "./timeline.js";

/** What the journal's column says. */
const ATTEMPT = "Attempt is the server's counter of effects: each act and undo gets the next number. Hosts and databases refuse a lower one than they have seen, so a late effect does nothing.";
/** How the sentence on top looks, by the operation's state. */
const STORIES = { unwound: "warn", unwinding: "warn", needs_operator: "bad" };

/** The time that is left of a copy, from how far it was at the last readings; null if that is not known. */
export function left(readings, total) {
  const [first, last] = [readings[0], readings.at(-1)];
  if (!first || last.done <= first.done) return null;
  return ((total - last.done) * (last.at - first.at)) / (last.done - first.done);
}

export function view(main, page, uuid) {
  page.title(`Operation ${uuid.slice(0, 8)}`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const why = h("p", { class: "story" }), about = h("div", {}), acts = h("div", { class: "buttons" }), drawing = timelineBoard("Timeline");
  const owed = table("What it owes", ["step", "side", "why", ["tries", "n"], "for", "operator"], "It owes nothing.");
  const tries = table("Tries of its steps", [["no.", "n"], "step", "side", ["attempt", "n"], "end", ["took", "n"], "error"], "No step has begun.");
  const key = h("p", { class: "key" }, KEY.map(([kind, text]) => h("span", {}, h("i", { class: kind }), text)));
  main.append(trouble, why, about, acts, section("Timeline", key, drawing.element), section("Debts", owed.element),
    section("Journal", h("p", { class: "quiet" }, ATTEMPT), tries.element));
  if (page.may("ops:destinations")) main.append(destinations(page, () => move.server));
  const readings = [];
  let move = null, server = null, live = null, faults = [], over = false;

  const refresh = async () => {
    move = await get(`/ops/v1/migrations/${encodeURIComponent(uuid)}`, page.signal);
    page.title(`${move.saga.replaceAll("_", " ")} of ${move.server_name ?? move.server.slice(0, 8)}`);
    over = !["running", "unwinding"].includes(move.state);
    await Promise.allSettled([readServer(), readFaults()]);
    render();
    trouble.textContent = "";
  };
  const again = follow(() => refresh().catch((error) => {
    if (error.name === "AbortError") return;
    trouble.textContent = error.status === 404 ? `There is no operation ${uuid}.` : error.message;
  }), page.signal, () => (over && !move?.debts.length ? 4000 : 800), 250);
  watch((changed) => { if (!changed || changed.uuid === uuid) again(); }, page.signal);

  async function readServer() {
    // A list has no error for a server that is gone.
    server = (await get(`/compute/v2.1/servers/detail${query({ all_tenants: 1, uuid: move.server })}`, page.signal)).servers[0] ?? null;
    live = null;
    if (move.saga === "live_migrate" && move.state === "running") {
      const running = (await get(`/compute/v2.1/servers/${move.server}/migrations`, page.signal)).migrations;
      live = running.find((one) => one.uuid === move.uuid) ?? running[0] ?? null;
    }
  }

  async function readFaults() {
    if (!page.session.chaos || !page.may("ops:chaos")) return;
    const single = await get("/ops/v1/chaos/faults", page.signal);
    const loaded = single.experiment ? await get("/ops/v1/chaos/experiment", page.signal) : null;
    faults = single.faults.map((fault) => ({ at: Date.parse(fault.at), text: faultWords(fault.what) }));
    const experiment = loaded?.experiment;
    for (const fault of experiment?.injected ?? []) {
      if (fault.saga && fault.saga !== move.uuid) continue;
      faults.push({ at: Date.parse(experiment.began_at) + fault.at_ms, text: `${fault.what}${fault.step ? ` at ${fault.step}` : ""}` });
    }
  }

  function render() {
    const now = over ? null : Date.now();
    put(why, story(move, server) ?? "");
    why.className = `story ${STORIES[move.state] ?? ""}`;
    put(about, facts([["id", h("code", {}, move.uuid)], ["state", [state(move.state), move.reason ? ` ${move.reason}` : ""]], ["kind", move.saga.replaceAll("_", " ")],
      ["server", [serverLink(move.server, move.server_name), server ? ` ${server.status}` : ""]],
      ["from", place(move.source)], ["to", place(move.target)], ["step", move.step],
      ["done", [h("progress", { max: 100, value: move.progress, "aria-label": "Steps that are done" }), ` ${move.progress} %`]],
      copied(), ["began", ago(move.started_at)],
      [over ? "took" : "runs for", span((now ?? Date.parse(move.updated_at)) - Date.parse(move.started_at))]]));
    put(acts, buttons());
    drawing.show(move, faults.filter(({ at }) => at >= Date.parse(move.started_at) - 1000 && at <= (now ?? Date.parse(move.updated_at))), now);
    owed.show(move.debts, (debt) => `${debt.step} ${debt.side}`, (debt) => [debt.step, debt.side, debt.reason, String(debt.tries), age(debt.since),
      debt.needs_operator ? state("needs_operator") : "not needed yet"]);
    tries.show(move.steps, (step) => step.seq, (step) => [String(step.seq), step.step, step.side, String(step.attempt), state(step.outcome ?? "running"),
      step.ended_at ? span(Date.parse(step.ended_at) - Date.parse(step.begun_at)) : "", h("span", { title: told(step) }, step.error ?? "")]);
  }

  function copied() {
    if (!move.copied) { readings.length = 0; return null; }
    const { done, total } = move.copied;
    if (readings.length && readings.at(-1).done > done) readings.length = 0;
    readings.push({ at: Date.now(), done });
    if (readings.length > 12) readings.shift();
    const time = left(readings, total);
    return ["copied", [h("progress", { max: total, value: done, "aria-label": "Bytes copied" }), ` ${bytes(done)} of ${bytes(total)}`,
      time === null ? "" : `, about ${span(time)} left`]];
  }

  function buttons() {
    const made = [];
    const action = (name, body, text) => act(text, () => post(`/compute/v2.1/servers/${move.server}/action`, { [name]: body }));
    if (server?.status === "VERIFY_RESIZE") {
      if (page.may("os_compute_api:servers:confirm_resize")) made.push(button("Confirm…", async () => {
        if (await ask("Confirm the move?", "What the source kept is removed. The move cannot be reverted then.", "Confirm")) action("confirmResize", null, "The confirm is accepted");
      }, { id: "confirm" }));
      if (page.may("os_compute_api:servers:revert_resize")) made.push(button("Revert…", async () => {
        if (await ask("Revert the move?", "The guest goes back to the disks that the source kept. What it wrote since is lost.", "Revert")) action("revertResize", null, "The revert is accepted");
      }, { id: "revert", class: "danger" }));
    }
    if (live) {
      const path = `/compute/v2.1/servers/${move.server}/migrations/${live.id}`;
      if (page.may("os_compute_api:servers:migrations:delete")) made.push(button("Abort…", async () => {
        if (await ask("Abort the live migration?", "The guest stays at the source.", "Abort")) act("The abort is accepted", () => change("DELETE", path));
      }, { id: "abort", class: "danger" }));
      if (page.may("os_compute_api:servers:migrations:force_complete")) made.push(button("Force to complete…", async () => {
        if (await ask("Force the live migration to complete?", "The guest stands still until the rest is copied.", "Force")) act("It is forced", () => post(`${path}/action`, { force_complete: null }));
      }, { id: "force" }));
    }
    if (move.debts.length && page.may("ops:debts")) made.push(button("Try the debts again now", () =>
      act("The debts are tried again", () => post(`/ops/v1/migrations/${move.uuid}/debts/retry`, {})), { id: "retry" }));
    return made;
  }

  async function act(what, work) {
    try { await work(); tell(what); } catch (error) { tell(error.message, "trouble"); }
    again();
  }
}
