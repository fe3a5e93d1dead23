// Drains: which there are, and one with its progress and its report.

import { get, nextOf, post, query } from "./api.js";
import { ago, ask, button, choice, facts, field, h, hostLink, id, moveLink, put, section, serverLink, state, table, tell } from "./dom.js";
import { reasonList } from "./drainplan.js";
import { follow } from "./live.js";

const about = (drain) => (drain.whole_cell ? `cell ${drain.cell}` : drain.hosts.join(", "));
const aim = (drain) => (drain.to_cells ? `${drain.to_cells.length > 1 ? "cells" : "cell"} ${drain.to_cells.join(", ")}` : drain.to_zone ? `zone ${drain.to_zone}` : `cell ${drain.cell}`);

export function list(main, page) {
  page.title("Drains");
  const drains = table("Drains, newest first", ["drain", "state", "of", "to", "servers", "began"], "No host or cell was drained.");
  main.append(h("p", { class: "quiet" }, "A drain begins at the page of its host, or at its cell."), drains.element);
  follow(async () => {
    try {
      const read = await get("/ops/v1/drains?limit=100", page.signal);
      drains.show(read.drains, (drain) => drain.id, (drain) => [id(drain.id, `#/drains/${drain.id}`), standing(drain), about(drain), aim(drain),
        counts(drain), ago(drain.created_at)]);
    } catch (error) { if (error.name !== "AbortError") drains.fail(error); }
  }, page.signal, 3000);
}

const counts = (drain) => Object.entries(drain.servers).filter(([, count]) => count).map(([word, count]) => `${count} ${word.replaceAll("_", " ")}`).join(", ") || "none";

/** A drain's state. One that has ended and left servers behind is not done. */
const standing = (drain) => (drain.state === "done" && drain.stays ? state("stayed", `ended, ${drain.stays} stayed`) : state(drain.state));
const ENDED = ["moved", "refused", "gone"];

export function one(main, page, uuid) {
  page.title(`Drain ${uuid.slice(0, 8)}`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const top = h("div", {}), why = h("div", {}), acts = h("div", { class: "buttons" });
  const servers = table("Its servers", ["server", "state", "from", "to", "how", "move", ["tries", "n"], "why"], "None in this state.");
  let wanted = "", path = null, later = null;
  const states = h("span", {});
  const next = button("Next page", () => { path = later; again(); });
  const first = button("First page", () => { path = null; again(); });
  main.append(trouble, top, acts, why, section("Servers", h("div", { class: "filters" }, states), servers.element, h("p", { class: "buttons" }, first, next)));

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
    put(top, facts([["state", standing(drain)], ["of", drain.whole_cell ? about(drain) : drain.hosts.map((host) => [hostLink(host), " "])], ["to", aim(drain)],
      ["progress", [h("progress", { max: total || 1, value: drain.state === "done" ? total || 1 : ended, "aria-label": "Servers that are through" }), ` ${counts(drain)}`]],
      ["moves at once", String(drain.max_in_flight)], ["confirms cold moves", drain.confirm ? "yes" : "no"],
      ["hosts disabled", drain.hosts_disabled ? "yes" : "no"], ["began", ago(drain.created_at)], drain.reason ? ["why it waits", drain.reason] : null]));
    const made = [];
    if (drain.state === "running") made.push(button("Pause", () => act("pause"), { id: "pause" }));
    if (drain.state === "paused") made.push(button("Go on", () => act("resume"), { id: "resume" }));
    if (["running", "paused"].includes(drain.state)) made.push(button("Cancel…", async () => {
      if (await ask("Cancel the drain?", `No more moves begin. ${drain.hosts.length === 1 ? "The host stays" : "The hosts stay"} disabled, and moves in flight end.`, "Cancel the drain")) act("cancel");
    }, { id: "cancel", class: "danger" }));
    if (drain.hosts_disabled || ["running", "paused"].includes(drain.state)) made.push(button("Undo…", async () => {
      const hosts = drain.hosts.length === 1 ? "its host is" : "the hosts that it disabled are";
      const text = `Its moves in flight are cancelled, and ${hosts} enabled again. Servers that have moved stay where they are.`;
      if (await ask("Undo the drain?", text, "Undo the drain")) act("undo");
    }, { id: "undo", class: "danger" }));
    put(acts, made);
    put(why, groups(drain.reasons));
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

/** The reasons of servers that stay, or that wait for another try. */
function groups(reasons) {
  const of = (states) => reasonList((reasons ?? []).filter((one) => states.includes(one.state)));
  const [stay, wait] = [of(["refused"]), of(["pending"])];
  return [stay ? section("Why servers stay", stay) : null, wait ? section("Why servers wait for another try", wait) : null];
}

function row(server) {
  return [serverLink(server.server, server.name), state(server.state), hostLink(server.host), server.target ? hostLink(server.target) : "–", server.kind ?? "–",
    server.migration ? moveLink(server.migration) : "–", String(server.tries ?? 0), [server.reason ?? "", server.next_try_at ? [" next try ", ago(server.next_try_at)] : null]];
}
