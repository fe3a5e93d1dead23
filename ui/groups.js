// Server groups: which there are, and one with its members, its moves to another host, and the buttons that begin and stop one.

import { get, post, query } from "./api.js";
import { ask, button, choice, counted, facts, field, h, hostLink, id, link, moveLink, place, put, section, serverLink, state, table, tell } from "./dom.js";
import { follow } from "./live.js";
import { projectName } from "./names.js";

const ROUTE = "/compute/v2.1/os-server-groups";
const PAGE = 100;

export function list(main, page) {
  page.title("Server groups");
  let offset = 0;
  const groups = table("Server groups", ["group", "policy", ["members", "n"], "project"], "There is no server group.");
  const next = button("Next page", () => { offset += PAGE; again(); });
  const first = button("First page", () => { offset = 0; again(); });
  main.append(h("p", { class: "quiet" }, "The members of an affinity group share a host, and leave it together."), groups.element,
    h("p", { class: "buttons" }, first, next));
  const again = follow(async () => {
    try {
      const read = (await get(`${ROUTE}${query({ all_projects: "True", limit: PAGE, offset: offset || "" })}`, page.signal)).server_groups;
      next.hidden = read.length < PAGE;
      first.hidden = offset === 0;
      groups.show(read, (group) => group.id, (group) => [link(group.name, `#/groups/${group.id}`, { title: group.id }), group.policy, String(group.members.length),
        projectName(group.project_id)]);
    } catch (error) { if (error.name !== "AbortError") groups.fail(error); }
  }, page.signal, 4000, null);
}

export function one(main, page, uuid) {
  page.title(`Server group ${uuid.slice(0, 8)}`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const about = h("div", {}), acts = h("div", { class: "buttons" }), latest = h("div", {});
  const members = table("Members on their way", ["server", "from", "move", "way back"], "No member moves.");
  const moves = table("Moves, newest first", ["move", "state", "to", ["members", "n"], "why it did not end there"], "The group has not moved.");
  main.append(trouble, about, acts, section("Newest move", latest, members.element), section("Moves", moves.element));
  const path = `/ops/v1/server-groups/${encodeURIComponent(uuid)}/moves`;
  let isOpen = false;

  const again = follow(async () => {
    try {
      const group = (await get(`${ROUTE}/${encodeURIComponent(uuid)}`, page.signal)).server_group;
      const listed = (await get(path, page.signal)).moves;
      trouble.textContent = "";
      isOpen = listed[0]?.open === true;
      page.title(`Server group ${group.name}`);
      put(about, facts([["id", h("code", {}, group.id)], ["policy", group.policy],
        ["members", group.members.length ? group.members.map((server) => [serverLink(server), " "]) : "none"]]));
      put(acts, group.policy === "affinity" && group.members.length && !isOpen ? button("Move…", begin, { id: "move-group", class: "main" }) : null,
        isOpen && ["reserving", "moving"].includes(listed[0].state) ? button("Stop…", stop, { id: "stop-group", class: "danger" }) : null);
      put(latest, listed[0] ? newest(listed[0]) : h("p", { class: "quiet" }, "None."));
      members.show(listed[0]?.members ?? [], (member) => member.server, (member) => [serverLink(member.server), place(member.from),
        member.operation ? moveLink(member.operation) : "not begun", member.way_back ? moveLink(member.way_back) : "–"]);
      moves.show(listed, (one) => one.id, (one) => [id(one.id), state(one.state), place(one.target), String(one.members.length), one.reason ?? ""]);
    } catch (error) {
      if (error.name !== "AbortError") trouble.textContent = error.status === 404 ? `There is no server group ${uuid}.` : error.message;
    }
  }, page.signal, () => (isOpen ? 1000 : 4000), 700);

  function newest(move) {
    return facts([["state", state(move.state)], ["to", place(move.target)],
      ["moves begun", [h("progress", { max: move.members.length || 1, value: begun(move), "aria-label": "Members whose move has begun" }),
        ` ${begun(move)} of ${move.members.length}`]],
      move.reason ? ["why", move.reason] : null]);
  }

  /** Asks where to, tells what would be done, and does it. */
  async function begin() {
    try {
      const wish = await destination();
      if (!wish) return;
      const { plan } = await post(path, { ...wish, dry_run: true });
      const who = table("What the move would do", ["server", "from", "how"]);
      who.show(plan.members, (member) => member.server, (member) => [serverLink(member.server), place({ cell: member.cell, host: member.from }), member.how]);
      const where = `To ${plan.target.host} in ${plan.target.cell}. If one cannot go, all come back.`;
      if (!(await ask(`Move ${counted(plan.members.length, "member")}?`, where, "Move", who.element))) return;
      await post(path, { host: plan.target.host });
      tell("The group moves");
    } catch (error) { tell(error.message, "trouble"); }
    again();
  }

  /** Brings the members back: those on their way turn around, and those that have arrived return. */
  async function stop() {
    if (!(await ask("Stop the move?", "Members on their way turn around, and members that have arrived come back.", "Stop"))) return;
    try {
      await post(`${path}/stop`, {});
      tell("The members come back");
    } catch (error) { tell(error.message, "trouble"); }
    again();
  }

  async function destination() {
    const cells = page.may("ops:cells") ? (await get("/ops/v1/cells?hosts=false", page.signal)).cells.filter((cell) => cell.host_counts.total) : [];
    const where = choice([["", "any cell"], ...cells.map((cell) => [cell.name, cell.name])], "", null, { name: "cell" });
    const answer = await ask("Where shall the group go?", "The best host that has room for all members is taken, unless you name one.", "Show the plan",
      field("To host (empty: the best one)", h("input", { name: "host" })), field("Of the cell", where));
    if (!answer) return null;
    return answer.host ? { host: answer.host } : answer.cell ? { cell: answer.cell } : {};
  }
}

const begun = (move) => move.members.filter((member) => member.operation).length;
