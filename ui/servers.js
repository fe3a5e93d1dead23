// The servers that the caller may see: an administrator those of all projects, a member those of the own.

import { get, nextOf, query } from "./api.js";
import { ago, button, choice, field, h, hostLink, serverLink, state, table } from "./dom.js";
import { follow } from "./live.js";

const STATES = ["", "ACTIVE", "SHUTOFF", "VERIFY_RESIZE", "RESIZE", "MIGRATING", "ERROR", "BUILD", "SHELVED_OFFLOADED"];

export function view(main, page) {
  page.title("Servers");
  const all = page.may("os_compute_api:servers:index:get_all_tenants");
  let status = "", path = null, later = null;
  const name = h("input", { id: "name-filter", type: "search", placeholder: "a part of it", onchange: () => { path = null; again(); } });
  const columns = ["server", "name", "state", "task", ...(all ? ["host", "project"] : []), "made"];
  const servers = table(all ? "Servers of all projects" : "Servers of your project", columns, "No server fits the filters.");
  const next = button("Next page", () => { path = later; again(); });
  const first = button("First page", () => { path = null; again(); });
  const trouble = h("p", { class: "trouble", role: "alert" });
  const open = h("form", { class: "inline", onsubmit: (event) => { event.preventDefault(); location.hash = `#/servers/${encodeURIComponent(event.target.elements.uuid.value.trim())}`; } },
    field("By id", h("input", { name: "uuid", type: "search", required: true })), h("button", { type: "submit" }, "Open"));
  main.append(h("div", { class: "filters" }, field("Name", name),
    field("State", choice(STATES.map((one) => [one, one ? one.toLowerCase().replaceAll("_", " ") : "all"]), "", (value) => { status = value; path = null; again(); })), open),
  trouble, servers.element, h("p", { class: "buttons" }, first, next));

  const again = follow(async () => {
    try {
      const read = await get(path ?? `/compute/v2.1/servers/detail${query({ all_tenants: all ? 1 : "", name: name.value.trim(), status, limit: 100 })}`, page.signal);
      later = nextOf(read.servers_links);
      next.hidden = !later;
      first.hidden = !path;
      trouble.textContent = "";
      servers.show(read.servers, (server) => server.id, (server) => [serverLink(server.id), server.name ?? "unknown: its cell does not answer", state(server.status),
        server["OS-EXT-STS:task_state"] ?? "–", ...(all ? [hostLink(server["OS-EXT-SRV-ATTR:host"]), h("code", { title: server.tenant_id }, server.tenant_id.slice(0, 8))] : []), ago(server.created)]);
    } catch (error) { if (error.name !== "AbortError") trouble.textContent = error.message; }
  }, page.signal, 4000, 1000);
}
