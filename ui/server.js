// The page of a server: what and where it is, what may be done with it, what is attached to it, what it writes, and what happened to it.

import { get } from "./api.js";
import { actions } from "./actions.js";
import { attachments } from "./attachments.js";
import { consoles } from "./console.js";
import { destinations } from "./destinations.js";
import { ago, button, facts, h, hostLink, moveLink, place, put, section, state, table } from "./dom.js";
import { holdings } from "./holdings.js";
import { follow } from "./live.js";
import { cellOf, groupLink, learn, projectName, userName } from "./names.js";
import { addressesOf } from "./servers.js";

export function view(main, page, uuid) {
  page.title(`Server ${uuid.slice(0, 8)}`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const about = h("div", {}), acts = h("div", { class: "acts" }), body = h("div", {});
  const path = `/compute/v2.1/servers/${encodeURIComponent(uuid)}`;
  const held = page.may("ops:servers") ? holdings(page, uuid) : null;
  const history = table("Where it was: its operations, newest first", ["operation", "state", "kind", "from", "to", "step", "began"], "No operation is kept.");
  const done = table("Actions", ["action", "by", "when", "request", "result", "events"], "No action is recorded.");
  const happened = h("div", {}, page.may("ops:migrations") ? section("Operations", history.element) : null, section("Actions and events", done.element));
  main.append(trouble, about, acts, body, held?.element ?? "", happened);
  const events = new Map(), images = new Map();
  let server = null, isGone = false;
  const quiet = (part) => part.catch((error) => { if (error.name !== "AbortError") return error; throw error; });

  const again = follow(async () => {
    const missing = await quiet(readServer());
    isGone = missing?.status === 404;
    // Nothing can be compared before the server has a place.
    const compared = held && !isGone && server?.status !== "BUILD" ? held.refresh() : null;
    const parts = [compared, page.may("ops:migrations") ? readHistory() : null, readActions()].filter(Boolean);
    const failed = [missing, ...await Promise.all(parts.map(quiet))].filter(Boolean);
    trouble.textContent = failed.length ? failed[0].message : "";
  }, page.signal, () => (isGone ? 60_000 : 2500), 700);

  async function readServer() {
    server = (await get(path, page.signal)).server;
    learn([server]);
    const image = server.image?.id;
    if (image && !images.has(image)) images.set(image, await imageName(image));
    page.title(server.name ?? uuid);
    put(about, facts(description(server, images.get(image))));
    put(acts, actions(server, page, again, healing()));
    // Attachments are asked for once the server is known to be there.
    if (!body.firstChild) body.append(...[attachments(page, path, () => server), consoles(page, path),
      page.may("ops:destinations") ? destinations(page, () => uuid) : null].flat().filter(Boolean));
  }

  async function imageName(image) {
    try { return (await get(`/image/v2/images?id=${image}`, page.signal)).images[0]?.name; } catch { return null; }
  }

  const healing = () => (page.may("ops:heal_allocations") && server.status !== "BUILD"
    ? button("What its ports lack", () => { location.hash = `#/healing?server=${encodeURIComponent(uuid)}`; }, { id: "heal" }) : null);

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
      if (error.name !== "AbortError") done.fail(error);
      throw error;
    }
    for (const action of listed) {
      if (events.get(action.request_id)?.updated === action.updated_at) continue;
      const { instanceAction } = await get(`${path}/os-instance-actions/${action.request_id}`, page.signal);
      events.set(action.request_id, { updated: action.updated_at, events: instanceAction.events ?? [] });
    }
    done.show(listed.map((action) => ({ ...action, events: events.get(action.request_id).events })), (action) => action.request_id, actionRow);
  }
}

/** What a server is and where. */
function description(server, image) {
  const host = server["OS-EXT-SRV-ATTR:host"], task = server["OS-EXT-STS:task_state"];
  return [["id", h("code", {}, server.id)], ["state", [state(server.status), task ? ` ${task}` : ""]],
    host === undefined ? null : ["host", host ? [cellOf(host), " / ", hostLink(host)] : "none"],
    ["zone", server["OS-EXT-AZ:availability_zone"] || "–"], ["flavor", flavorOf(server.flavor)],
    ["image", server.image?.id ? h("span", { title: server.image.id }, image ?? server.image.id.slice(0, 8)) : "none: it starts from a volume"],
    ["addresses", addressesOf(server).join(", ") || "–"], ["project", projectName(server.tenant_id)],
    server.key_name ? ["key", server.key_name] : null, server.locked ? ["locked", server.locked_reason || "yes"] : null,
    server.tags?.length ? ["tags", server.tags.join(", ")] : null,
    server.server_groups?.length && host !== undefined ? ["group", server.server_groups.map((group) => [groupLink(group), " "])] : null,
    ["made", ago(server.created)], server.fault ? ["fault", server.fault.message] : null];
}

const flavorOf = (flavor) => (flavor ? h("span", { title: `${flavor.vcpus} processors, ${flavor.ram} MiB, ${flavor.disk} GiB` }, flavor.original_name) : "–");

function actionRow(action) {
  return [action.action, userName(action.user_id), ago(action.start_time), h("code", { title: action.request_id }, action.request_id.slice(0, 12)), action.message ?? "",
    h("ul", { class: "plain" }, action.events.map((event) => h("li", {}, event.event, " ", event.result ?? "runs",
      event.host ? [" on ", hostLink(event.host)] : null, event.details ? `: ${event.details}` : "")))];
}
