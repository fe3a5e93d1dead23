// One host: its room, its servers, and what an operator may do with it.

import { change, get, post, query } from "./api.js";
import { age, ask, button, counted, facts, field, h, put, section, serverLink, state, table, tell } from "./dom.js";
import { follow } from "./live.js";

const NAMES = { VCPU: "processors", MEMORY_MB: "memory in MiB", DISK_GB: "disk in GiB" };

export function view(main, page, name) {
  page.title(`Host ${name}`);
  const trouble = h("p", { class: "trouble", role: "alert" });
  const about = h("div", {});
  const acts = h("div", { class: "buttons" });
  const report = h("p", { role: "status" });
  const servers = table("Servers on this host", ["server", "state", "task", "flavor"], "No server is on this host.");
  main.append(trouble, about, acts, report, section("Servers", servers.element));
  let service = null, present = [];

  const refresh = async () => {
    const { host } = await get(`/ops/v1/hosts/${encodeURIComponent(name)}`, page.signal).catch((error) => {
      throw error.status === 404 ? new Error(`There is no host ${name}.`) : error;
    });
    const [services, listed] = await Promise.allSettled([
      get(`/compute/v2.1/os-services${query({ host: name, binary: "nova-compute" })}`, page.signal),
      get(`/compute/v2.1/servers/detail${query({ all_tenants: 1, host: name, limit: 1000 })}`, page.signal),
    ]);
    service = services.value?.services?.[0] ?? null;
    put(about, facts([["cell", host.cell], ["zone", host.availability_zone], ["state", [state(host.state), standing(host)]],
      host.standing?.state === "silent" ? ["guests", "may run: wait until the host answers, or make sure that it is off and force it down"] : null,
      ["service", host.status ? [state(host.status), service?.disabled_reason ? ` ${service.disabled_reason}` : ""] : "unknown: its cell does not answer"],
      ["servers", host.servers === null ? "unknown" : String(host.servers)],
      ...Object.entries(host.room ?? {}).map(([kind, room]) => [NAMES[kind] ?? kind, meter(kind, room)])]));
    put(acts, buttons(host));
    present = listed.value?.servers ?? [];
    if (listed.status === "rejected") servers.fail(listed.reason);
    else servers.show(present, (server) => server.id, (server) => [serverLink(server.id, server.name), state(server.status),
      server["OS-EXT-STS:task_state"] ?? "–", server.flavor?.original_name ?? "–"]);
    trouble.textContent = "";
  };
  const safely = () => refresh().catch((error) => { if (error.name !== "AbortError") trouble.textContent = error.message; });
  const again = follow(safely, page.signal, 4000, 1500);

  async function act(what, work) {
    try {
      await work();
      tell(what);
    } catch (error) {
      tell(`${what} – refused: ${error.message}`, "trouble");
    }
    again();
  }
  const update = (fields) => change("PUT", `/compute/v2.1/os-services/${service.id}`, fields);

  function buttons(host) {
    const may = page.may("os_compute_api:os-services:update") && service;
    const made = [];
    if (may && host.status === "enabled") made.push(button("Disable", async () => {
      const answer = await ask(`Disable ${name}?`, "No new server is placed there. Its servers stay.", "Disable",
        field("Why", h("input", { name: "why", maxlength: 255 })));
      if (answer) act(`${name} is disabled`, () => update({ status: "disabled", ...(answer.why ? { disabled_reason: answer.why } : {}) }));
    }, { id: "disable" }));
    if (may && host.status === "disabled") made.push(button("Enable", () => act(`${name} is enabled`, () => update({ status: "enabled" })), { id: "enable" }));
    if (may && !host.forced_down) made.push(button("Force down", async () => {
      const text = "Promise only of a host that is off: its servers may be evacuated then, and would run twice if it were on.";
      if (await ask(`Force ${name} down?`, text, "Force down")) act(`${name} is forced down`, () => update({ forced_down: true }));
    }, { id: "force-down", class: "danger" }));
    if (may && host.forced_down) made.push(button("No longer forced down", () => act(`${name} is no longer forced down`, () => update({ forced_down: false })), { id: "force-up" }));
    if (page.may("os_compute_api:os-evacuate") && (host.forced_down || host.standing?.state === "off")) made.push(button("Evacuate", evacuate, { id: "evacuate" }));
    if (page.may("ops:drains") && host.status) made.push(button("Drain…", () => { location.hash = `#/drain?host=${encodeURIComponent(name)}`; }, { id: "drain" }));
    return made;
  }

  async function evacuate() {
    const count = present.length;
    if (!count) { report.textContent = "There is no server to evacuate."; return; }
    if (!(await ask(`Evacuate ${counted(count, "server")} of ${name}?`, "Each is started on another host of its cell. The host must be off.", "Evacuate"))) return;
    let accepted = 0;
    const refused = [];
    for (const server of present) {
      try { await post(`/compute/v2.1/servers/${server.id}/action`, { evacuate: {} }); accepted += 1; } catch (error) { refused.push(`${server.name}: ${error.message}`); }
      report.textContent = `${accepted} of ${count} evacuations accepted. ${refused.join("; ")}`;
    }
    again();
  }
}

/** Whether a host that takes no requests may run its guests. */
function standing(host) {
  if (host.discovered) return " discovered: takes no servers until it is enrolled";
  if (host.standing?.state === "silent") return [" silent for ", age(host.standing.since)];
  if (host.standing?.state === "off") return host.forced_down ? " off, forced down" : " off";
  return host.forced_down ? " forced down" : "";
}

function meter(kind, room) {
  return [h("meter", { min: 0, max: room.capacity, value: room.used, "aria-label": `${NAMES[kind] ?? kind} taken` }), ` ${room.used} of ${room.capacity} taken`];
}
