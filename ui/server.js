// One server: where it is and was, who owns its guest, what it holds, what hosts say, and what happened to it.

import { get, post } from "./api.js";
import { ago, ask, button, choice, facts, field, h, hostLink, id, moveLink, place, put, section, state, table, tell } from "./dom.js";
import { follow } from "./live.js";

const POWER = { 0: "no state", 1: "running", 3: "paused", 4: "off", 7: "suspended" };
const amounts = (resources) => Object.entries(resources).map(([name, amount]) => `${amount} ${name}`).join(", ");

export function view(main, page, uuid) {
  page.title(`Server ${uuid.slice(0, 8)}`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const about = h("div", {}), acts = h("div", { class: "buttons" }), owner = h("div", {}), silent = h("p", { class: "trouble" });
  const held = table("Allocations", ["provider", "held by", "amounts"], "Nothing is held for it in placement.");
  const guests = table("Guests that hosts report", ["host", "guest", "power", "started in epoch", "obeyed fence", "disks", "volumes and ports"], "No host that was asked has a guest or disks of it.");
  const history = table("Where it was: its operations, newest first", ["operation", "state", "kind", "from", "to", "step", "began"], "No operation is kept.");
  const actions = table("Actions", ["action", "by", "when", "result", "events"], "No action is recorded.");
  main.append(trouble, about, acts);
  if (page.may("ops:servers")) main.append(section("What the audit compares", owner, silent, held.element, guests.element));
  if (page.may("ops:migrations")) main.append(section("Operations", history.element));
  main.append(section("Actions and events", actions.element));
  const events = new Map();
  const path = `/compute/v2.1/servers/${encodeURIComponent(uuid)}`;
  const quiet = (part) => part.catch((error) => { if (error.name !== "AbortError") return error; throw error; });

  const again = follow(async () => {
    const parts = [quiet(readServer())];
    if (page.may("ops:servers")) parts.push(quiet(readState()));
    if (page.may("ops:migrations")) parts.push(quiet(readHistory()));
    parts.push(quiet(readActions()));
    const failed = (await Promise.all(parts)).filter(Boolean);
    trouble.textContent = failed.length ? failed[0].message : "";
  }, page.signal, 2500, 700);

  async function readServer() {
    const { server } = await get(path, page.signal);
    page.title(server.name ?? uuid);
    put(about, facts([["id", h("code", {}, server.id)], ["state", [state(server.status), server["OS-EXT-STS:task_state"] ? ` ${server["OS-EXT-STS:task_state"]}` : ""]],
      server["OS-EXT-SRV-ATTR:host"] === undefined ? null : ["host", hostLink(server["OS-EXT-SRV-ATTR:host"])],
      ["zone", server["OS-EXT-AZ:availability_zone"] || "–"], ["flavor", server.flavor?.original_name], ["project", h("code", {}, server.tenant_id)],
      ["made", ago(server.created)], server.fault ? ["fault", server.fault.message] : null]));
    put(acts, buttons(server));
  }

  async function readState() {
    let read;
    try {
      read = await get(`/ops/v1/servers/${encodeURIComponent(uuid)}`, page.signal);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      for (const part of [held, guests]) part.fail(error);
      throw error;
    }
    const { record, ownership } = read;
    put(owner, facts([["record", record ? [`${record.cell} / `, hostLink(record.host), `, ${record.vm_state}`] : `not known: ${read.silence}`],
      ["owner of its guest", ownership?.host ? [`${ownership.cell} / `, hostLink(ownership.host)] : "nobody"],
      ["epoch and attempt", ownership ? `${ownership.epoch}, ${ownership.attempt}` : "–"],
      ["held by", read.held_by ? moveLink(read.held_by) : "no operation"]]));
    silent.textContent = read.silent_hosts.map((one) => `${one.host} does not answer: ${one.reason}.`).join(" ");
    held.show(read.allocations, (one) => `${one.consumer} ${one.provider}`, (one) => [one.name ? hostLink(one.name) : id(one.provider),
      one.kind === "server" ? "the server" : ["the move ", moveLink(one.consumer)], amounts(one.resources)]);
    guests.show(read.guests, (one) => one.host, (one) => [[`${one.cell} / `, hostLink(one.host)], one.defined ? "defined" : "kept disks only", POWER[one.power_state] ?? "?",
      String(one.started_epoch), `${one.fence.epoch}, ${one.fence.attempt}`, one.disks.join(", ") || "–", `${one.volumes.length} and ${one.ports.length}`]);
  }

  async function readHistory() {
    const read = await get(`/ops/v1/migrations?server=${encodeURIComponent(uuid)}&limit=50`, page.signal);
    history.show(read.migrations, (move) => move.uuid, (move) => [moveLink(move.uuid), state(move.state), move.saga.replaceAll("_", " "), place(move.source), place(move.target),
      move.step, ago(move.started_at)]);
  }

  async function readActions() {
    let listed;
    try {
      listed = (await get(`${path}/os-instance-actions`, page.signal)).instanceActions.slice(0, 30);
    } catch (error) {
      if (error.name !== "AbortError") actions.fail(error);
      throw error;
    }
    for (const action of listed) {
      const known = events.get(action.request_id);
      if (known?.updated === action.updated_at) continue;
      const { instanceAction } = await get(`${path}/os-instance-actions/${action.request_id}`, page.signal);
      events.set(action.request_id, { updated: action.updated_at, events: instanceAction.events ?? [] });
    }
    const rows = listed.map((action) => ({ ...action, events: events.get(action.request_id).events }));
    actions.show(rows, (action) => action.request_id, (action) => [action.action, h("code", { title: action.user_id ?? "" }, (action.user_id ?? "–").slice(0, 8)), ago(action.start_time),
      action.message ?? "", h("ul", { class: "plain" }, action.events.map((event) => h("li", {}, event.event, " ", event.result ?? "runs",
        event.host ? [" on ", hostLink(event.host)] : null, event.details ? `: ${event.details}` : "")))]);
  }

  function buttons(server) {
    const made = [];
    const act = async (name, body, text) => {
      try { await post(`${path}/action`, { [name]: body }); tell(text); } catch (error) { tell(error.message, "trouble"); }
      again();
    };
    if (server.status === "VERIFY_RESIZE" && page.may("os_compute_api:servers:confirm_resize")) {
      made.push(button("Confirm…", async () => {
        if (await ask("Confirm the move?", "What the source kept is removed.", "Confirm")) act("confirmResize", null, "The confirm is accepted");
      }, { id: "confirm" }), button("Revert…", async () => {
        if (await ask("Revert the move?", "What the guest wrote since is lost.", "Revert")) act("revertResize", null, "The revert is accepted");
      }, { id: "revert", class: "danger" }));
    }
    if (["ACTIVE", "SHUTOFF"].includes(server.status) && page.may("os_compute_api:os-migrate-server:migrate")) {
      made.push(button("Migrate…", async () => {
        const answer = await ask("Migrate the server?", "It is stopped meanwhile, and waits for a confirm afterwards.", "Migrate", field("To host (empty: the scheduler chooses)", h("input", { name: "host" })));
        if (answer) act("migrate", answer.host ? { host: answer.host } : null, "The migration is accepted");
      }, { id: "migrate" }), button("Resize…", resize, { id: "resize" }));
    }
    if (server.status === "ACTIVE" && page.may("os_compute_api:os-migrate-server:migrate")) {
      made.push(button("Live-migrate…", async () => {
        const answer = await ask("Migrate the running server?", null, "Live-migrate", field("To host (empty: the scheduler chooses)", h("input", { name: "host" })));
        if (answer) act("os-migrateLive", { host: answer.host || null, block_migration: "auto" }, "The live migration is accepted");
      }, { id: "live-migrate" }));
    }
    if (page.may("ops:heal_allocations") && server.status !== "BUILD") {
      made.push(button("What its ports lack", () => { location.hash = `#/healing?server=${encodeURIComponent(uuid)}`; }, { id: "heal" }));
    }
    return made;
  }

  async function resize() {
    let flavors;
    try { flavors = (await get("/compute/v2.1/flavors/detail", page.signal)).flavors; } catch (error) { tell(error.message, "trouble"); return; }
    const options = flavors.map((flavor) => [flavor.id, `${flavor.name}: ${flavor.vcpus} processors, ${flavor.ram} MiB`]);
    const answer = await ask("Resize the server?", "It waits for a confirm afterwards.", "Resize", field("Flavor", choice(options, options[0]?.[0], null, { name: "flavor" })));
    if (!answer) return;
    try { await post(`${path}/action`, { resize: { flavorRef: answer.flavor } }); tell("The resize is accepted"); } catch (error) { tell(error.message, "trouble"); }
    again();
  }
}
