// Drains: which there are, and one with its progress and its report.

import { get, nextOf, post, query } from "./api.js";
import { ago, ask, button, choice, facts, field, h, hostLink, id, moveLink, put, section, serverLink, state, table, tell } from "./dom.js";
import { follow } from "./live.js";

const about = (drain) => (drain.whole_cell ? `cell ${drain.cell}` : drain.hosts.join(", "));
const aim = (drain) => (drain.to_cell ? `cell ${drain.to_cell}` : drain.to_zone ? `zone ${drain.to_zone}` : `cell ${drain.cell}`);

export function list(main, page) {
  page.title("Drains");
  const drains = table("Drains, newest first", ["drain", "state", "of", "to", "servers", "began"], "No host or cell was drained.");
  main.append(h("p", { class: "quiet" }, "A drain begins at its host's page."), drains.element);
  follow(async () => {
    try {
      const read = await get("/ops/v1/drains?limit=100", page.signal);
      drains.show(read.drains, (drain) => drain.id, (drain) => [id(drain.id, `#/drains/${drain.id}`), state(drain.state), about(drain), aim(drain),
        counts(drain), ago(drain.created_at)]);
    } catch (error) { if (error.name !== "AbortError") drains.fail(error); }
  }, page.signal, 3000);
}

const counts = (drain) => Object.entries(drain.servers).map(([word, count]) => `${count} ${word.replaceAll("_", " ")}`).join(", ") || "none";
const ENDED = ["moved", "refused", "gone"];

export function one(main, page, uuid) {
  page.title(`Drain ${uuid.slice(0, 8)}`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const top = h("div", {}), acts = h("div", { class: "buttons" });
  const servers = table("Its servers", ["server", "state", "from", "to", "how", "move", ["tries", "n"], "why"], "None in this state.");
  let wanted = "", path = null, later = null;
  const states = h("span", {});
  const next = button("Next page", () => { path = later; again(); });
  const first = button("First page", () => { path = null; again(); });
  main.append(trouble, top, acts, section("Servers", h("div", { class: "filters" }, states), servers.element, h("p", { class: "buttons" }, first, next)));

  const again = follow(async () => {
    try {
      const drain = await get(`/ops/v1/drains/${encodeURIComponent(uuid)}`, page.signal);
      const read = await get(path ?? `/ops/v1/drains/${drain.id}/servers${query({ state: wanted, limit: 100 })}`, page.signal);
      later = nextOf(read.servers_links);
      next.hidden = !later;
      first.hidden = !path;
      trouble.textContent = "";
      render(drain);
      servers.show(read.servers, (server) => server.server, row);
    } catch (error) { if (error.name !== "AbortError") trouble.textContent = error.message; }
  }, page.signal, 1500);

  function render(drain) {
    const total = Object.values(drain.servers).reduce((sum, count) => sum + count, 0);
    const ended = Object.entries(drain.servers).filter(([word]) => ENDED.includes(word)).reduce((sum, [, count]) => sum + count, 0);
    put(top, facts([["state", state(drain.state)], ["of", drain.whole_cell ? about(drain) : drain.hosts.map((host) => [hostLink(host), " "])], ["to", aim(drain)],
      ["progress", [h("progress", { max: total || 1, value: drain.state === "done" ? total || 1 : ended, "aria-label": "Servers that are through" }), ` ${counts(drain)}`]],
      ["moves at once", String(drain.max_in_flight)], ["confirms cold moves", drain.confirm ? "yes" : "no"],
      ["hosts disabled", drain.hosts_disabled ? "yes" : "not yet"], ["began", ago(drain.created_at)], drain.reason ? ["why it waits", drain.reason] : null]));
    const made = [];
    if (drain.state === "running") made.push(button("Pause", () => act("pause"), { id: "pause" }));
    if (drain.state === "paused") made.push(button("Go on", () => act("resume"), { id: "resume" }));
    if (["running", "paused"].includes(drain.state)) made.push(button("Cancel…", async () => {
      if (await ask("Cancel the drain?", "No more moves begin. The hosts stay disabled, and moves in flight end.", "Cancel the drain")) act("cancel");
    }, { id: "cancel", class: "danger" }));
    put(acts, made);
    if (!states.firstChild && total) {
      const words = Object.keys(drain.servers).map((word) => [word, word.replaceAll("_", " ")]);
      states.append(field("State", choice([["", "all"], ...words], "", (value) => { wanted = value; path = null; again(); })));
    }
  }

  async function act(verb) {
    try { await post(`/ops/v1/drains/${encodeURIComponent(uuid)}/${verb}`, {}); } catch (error) { tell(error.message, "trouble"); }
    again();
  }
}

function row(server) {
  return [serverLink(server.server), state(server.state), hostLink(server.host), server.target ? hostLink(server.target) : "–", server.kind ?? "–",
    server.migration ? moveLink(server.migration) : "–", String(server.tries ?? 0), [server.reason ?? "", server.next_try_at ? [" next try ", ago(server.next_try_at)] : null]];
}

/** Asks how to drain a host or a whole cell, and begins it, or tells in `report` what it would do. */
export async function begin(what, home, report) {
  const name = what.host ?? `cell ${what.cell}`;
  let cells;
  try { cells = (await get("/ops/v1/cells?hosts=false")).cells; } catch (error) { tell(error.message, "trouble"); return; }
  const inside = what.host ? [["", `hosts of ${home}`]] : [];
  const others = [...inside, ...cells.filter((one) => one.host_counts.total && one.name !== home).map((one) => [one.name, `cell ${one.name}`])];
  const fields = [field("To", choice(others, others[0]?.[0], null, { name: "to_cell" })),
    field("Moves at once", h("input", { name: "max_in_flight", type: "number", min: 1, max: 64, value: "4" })),
    field("Confirm cold moves", h("input", { name: "confirm", type: "checkbox", value: "yes" })),
    field("Only say what it would do", h("input", { name: "dry_run", type: "checkbox", value: "yes" }))];
  const answer = await ask(`Drain ${name}`, "No new server starts there, and each server moves away: live if it runs and stays in its cell, else cold.", "Drain", ...fields);
  if (!answer) return;
  const wish = { ...what, max_in_flight: Number(answer.max_in_flight) || 4, confirm: answer.confirm === "yes", dry_run: answer.dry_run === "yes" };
  if (answer.to_cell) wish.to_cell = answer.to_cell;
  try {
    const told = await post("/ops/v1/drains", wish);
    if (!wish.dry_run) location.hash = `#/drains/${told.id}`;
    else report.replaceChildren(preview(told));
  } catch (error) { tell(error.message, "trouble"); }
}

function timeOf(time) {
  const kinds = time.measured.map((kind) => (kind.seconds_each === null ? `no ${kind.kind} move has ended` : `the last ${kind.moves} ${kind.kind} moves took ${kind.seconds_each} s each`));
  return time.seconds === null ? `How long the moves take is not measured yet: ${kinds.join(", and ")}.` : `The moves take about ${Math.ceil(time.seconds)} s: ${kinds.join(", and ")}.`;
}

function preview(told) {
  const plan = table("What the drain would do", ["server", "from", "how", "to", "why not"], "There is no server to move.");
  plan.show(told.servers, (server) => server.server, (server) => [serverLink(server.server, server.name), hostLink(server.host), server.kind ?? "–",
    server.target ? [`${server.cell} / `, hostLink(server.target)] : "–", server.reason ?? ""]);
  const hosts = table("The hosts after these moves", ["host", "cell", ["more servers", "n"], ["vCPUs", "n"], ["memory (MiB)", "n"], ["disk (GiB)", "n"]], "No host takes a server.");
  const used = (amount) => `${amount.after} of ${amount.total}`;
  hosts.show(told.targets, (target) => target.host, (target) => [hostLink(target.host), target.cell, String(target.moves), used(target.vcpus),
    used(target.memory_mb), used(target.disk_gb)]);
  return h("div", {}, plan.element, hosts.element, told.targets.length ? h("p", {}, timeOf(told.time)) : null);
}
